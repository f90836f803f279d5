"""Triton's compiler and NVIDIA's assembler, which comes with it, take the kernels on a machine without a GPU.

What the kernels compute is tested in Triton's interpreter (test_agreement.py), which forgives what its compiler does
not: shapes and types that change in a loop, say.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers.cells import compiled
from ncp_control.ops.gpu import launch

pytest.importorskip("triton")

SCRIPTS = Path(__file__).parents[3] / "scripts"
COMPILE = """
import json, sys
import torch
import ncp_control as nc
from gpu_registers import compile_kernels
from helpers.cells import ZOO, build

kernels = {}
for name, dtype, architecture in json.loads(sys.argv[1]):
    cell = build(name) if name in ZOO else eval(name)
    for kernel in compile_kernels(cell.to(getattr(torch, dtype)), architecture):
        kernels[f"{name}, {dtype}, {kernel.name}, sm_{kernel.architecture}"] = kernel._asdict()
print(json.dumps(kernels, default=len))
"""
# A circuit of each kind, in both types and for both architectures; all others are in the slow tier.
QUICK = (
    ("ltc-gaps", "float32", 90),
    ("neural-ltc-signed", "float64", 80),
    ("cfc-default", "float32", 80),
    ("dual", "float32", 90),
)


def compile_all(cells: Sequence[tuple[str, str, int]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles cells in a process of its own, because Triton is told only once which device there is."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SCRIPTS), *sys.path]))
    command = [sys.executable, "-c", COMPILE, json.dumps(cells)]
    done = subprocess.run(command, timeout=900, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kernels: dict[str, dict[str, Any]] = json.loads(done.stdout)
    assert len(kernels) == 2 * len(cells)
    for name, kernel in kernels.items():
        assert 16 <= kernel["registers"] <= 255, (name, kernel)


@pytest.mark.system
def test_kernels_of_every_kind_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_all(QUICK, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("architecture", [80, 90])
def test_every_cell_compiles(dtype: str, architecture: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = [f"nc.CfC(5, {units})" for units in (5, 33, 40, 66, 80)]
    large = ["nc.LTC(5, nc.GapJunctions(nc.AutoNCP(12, 3), 2))", "nc.CTRNN(5, nc.AutoNCP(160, 3))"]
    names = [*compiled(launch.kinds(), wide=False), *dense, *large]
    compile_all([(name, dtype, architecture) for name in names], tmp_path, monkeypatch)
