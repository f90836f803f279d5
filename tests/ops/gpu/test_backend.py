"""When the GPU backend runs a scan, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch

import ncp_control as nc
from helpers.cells import build
from ncp_control.ops import fallback
from ncp_control.ops.cpu import backend as cpu
from ncp_control.ops.gpu import backend, launch
from ncp_control.ops.problem import make_problem

pytest.importorskip("triton")


def test_an_explicit_request_that_cannot_run_says_why(monkeypatch):
    inputs = torch.randn(2, 3, 3)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="backend 'gpu' cannot run this scan: torch finds no CUDA device"):
        nc.scan(build("ltc-gaps-quick"), inputs, backend="gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(RuntimeError, match="the inputs are on cpu, not on a CUDA device"):
        nc.scan(build("ltc-gaps-quick"), inputs, backend="gpu")
    monkeypatch.setattr(backend, "triton_version", lambda: (3, 3))
    with pytest.raises(RuntimeError, match=r"Triton 3\.3 is too old: the kernels need 3\.4"):
        nc.scan(build("ltc-gaps-quick"), inputs, backend="gpu")
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(RuntimeError, match="Triton is not installed"):
        nc.scan(build("ltc-gaps-quick"), inputs, backend="gpu")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (lambda: nc.LTC(3, 4, solver="rk4"), "LTC with these settings has no compiled form"),
        (lambda: nc.NeuralODE(3, 4, solver="rk4"), "NeuralODE with these settings has no compiled form"),
        (lambda: nc.CTGRU(3, 4), "CTGRU with these settings has no compiled form"),
        (lambda: nc.LSTM(3, 4), "LSTM with these settings has no compiled form"),
        (lambda: build("ltc-gaps-quick").bfloat16(), r"float32 and float64, not for torch\.bfloat16"),
        (lambda: nc.LTC(3, nc.Random(260, 1, sparsity=0.99)), "260 neurons are too many"),
        (lambda: nc.LTC(3, 100), "10300 synapses are too many"),
    ],
)
def test_a_cell_that_cannot_run_says_why(cell, message, interpreted):
    cell = cell()
    with pytest.raises(RuntimeError, match=f"backend 'gpu' cannot run this scan: .*{message}"):
        nc.scan(cell, torch.randn(1, 1, 3), backend="gpu")
    assert nc.scan(cell, torch.randn(1, 1, 3)).shape == (1, 1, cell.state_size)


def test_a_cell_on_another_device_says_so(interpreted):
    problem = make_problem(build("ltc-gaps-quick"), torch.randn(1, 1, 3))
    elsewhere = tuple(index.to("meta") for index in problem.program.indexes)
    problem.program = problem.program._replace(indexes=elsewhere)
    why = "the cell is on meta and the inputs are on cpu: move one with .to(device)"
    assert backend.supports(problem) == (False, why)


@pytest.mark.skipif(not cpu.available()[0], reason=cpu.available()[1])
def test_auto_leaves_cpu_tensors_to_the_cpu_even_when_the_interpreter_is_on(interpreted, monkeypatch):
    inputs = torch.randn(1, 2, 3)
    assert nc.explain_backends(build("ltc-gaps-quick"), inputs)["gpu"] == (
        True,
        "Triton's interpreter: correct, but slow",
    )
    monkeypatch.setattr(launch, "forward", lambda *_: pytest.fail("auto took the interpreter"))
    nc.scan(build("ltc-gaps-quick"), inputs)


@pytest.mark.gpu
def test_auto_takes_the_gpu_for_cuda_tensors(monkeypatch):
    called = []
    forward = launch.forward
    monkeypatch.setattr(launch, "forward", lambda *given: called.append(True) or forward(*given))
    nc.scan(build("ltc-gaps-quick").cuda(), torch.randn(1, 2, 3).cuda())
    assert called


WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None
import torch, ncp_control as nc
cell, inputs = nc.LTC(3, 4), torch.randn(2, 3, 3)
assert nc.explain_backends(cell, inputs)["gpu"][0] is False
assert "Triton is not installed" in nc.explain_backends(cell, inputs)["gpu"][1]
nc.scan(cell, inputs).sum().backward()
assert "ncp_control.ops.gpu.shared" not in sys.modules
"""


@pytest.mark.system
def test_the_package_works_without_triton():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRITON],
        env=environment,
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


WITHOUT_COMPILER = """
import json, sys, types, warnings
import torch
torch.cuda.is_available = lambda: True  # there is no GPU, but there is Triton, which believes it
torch.cuda.get_device_name = lambda index: "a GPU"
torch.cuda.device_count = lambda: 1
import ncp_control as nc
from helpers.cells import build
from ncp_control.cli import doctor
from ncp_control.ops import fallback
from ncp_control.ops.gpu import backend

nc.scan(build("ltc-gaps-quick"), torch.randn(1, 2, 3))
nc.scan(build("lstm"), torch.randn(1, 2, 3))
assert "triton" not in sys.modules, "scans on the CPU do not wait for a GPU's compiler"
able, reason = backend.available()
assert doctor.examine_backends()["gpu"] == {"ok": able, "reason": reason}
backend.supports = lambda problem: (able, reason)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        fallback.warn_of_reference(types.SimpleNamespace(inputs=types.SimpleNamespace(device=torch.device("cuda"))))
print(json.dumps([able, reason, [str(each.message) for each in caught]]))
"""


def test_where_triton_finds_no_c_compiler_it_is_said_once(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX", "TRITON_INTERPRET")}
    environment |= {"PATH": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path), "TRITON_LIBCUDA_PATH": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", WITHOUT_COMPILER]
    done = subprocess.run(command, env=environment, timeout=120, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    able, reason, (warned,) = json.loads(done.stdout)
    assert not able
    assert "Triton cannot compile kernels here: Failed to find C compiler" in reason
    assert reason in warned


class Recorder:
    """Stands for a kernel, and keeps the options of its launches."""

    def __init__(self) -> None:
        self.options: list[dict[str, object]] = []

    def __getitem__(self, grid: object) -> Recorder:
        return self

    def __call__(self, *arguments: object, **options: object) -> None:
        self.options.append(options)


@pytest.mark.parametrize("hip", [None, "6.4"])
def test_the_limit_of_registers_is_told_to_nvidias_compiler_alone(hip, monkeypatch):
    kernel = Recorder()
    kernels = SimpleNamespace(PARAMETERS=lambda *given: given, forward=kernel, backward=kernel, scratch_vectors=len)
    monkeypatch.setattr(launch, "kernels_of", lambda kind: kernels)
    monkeypatch.setattr(torch.version, "hip", hip)
    cell, inputs, flags = build("ltc-gaps"), torch.zeros(2, 3, 3), torch.zeros(2, 3, dtype=torch.bool)
    given = (cell.program(), inputs, torch.zeros(2, cell.state_size), torch.ones(2, 3), flags, flags)
    states = launch.forward(*given)
    launch.backward(*given, states, states, (True, True))
    assert [options.get("maxnreg") for options in kernel.options] == ([128, 168] if hip is None else [None, None])


def test_on_a_gpu_the_slow_way_is_told_once_with_its_reason(monkeypatch):
    problem = SimpleNamespace(inputs=SimpleNamespace(device=torch.device("cuda")))
    monkeypatch.setattr(backend, "supports", lambda problem: (False, "LSTM with these settings has no compiled form"))
    fallback._warn_once.cache_clear()
    with pytest.warns(fallback.SlowScanWarning, match="often 5 to 80 times slower .*: LSTM with these settings has no"):
        fallback.warn_of_reference(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fallback.warn_of_reference(problem)
