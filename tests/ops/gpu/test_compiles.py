"""Triton's compiler and NVIDIA's assembler, which comes with it, take the kernels on a machine without a GPU.

What the kernels compute is tested in Triton's interpreter (test_agreement.py), which forgives what its compiler does
not: shapes and types that change in a loop, say.
"""

import subprocess
import sys

import pytest

pytest.importorskip("triton")

COMPILE = """
import sys
import torch
import triton.runtime.driver
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import JITFunction

import ncp_control as nc
from ncp_control.ops.gpu import launch


class Hopper(DriverBase):
    "Answers what the compiler asks about the device."

    def __init__(self):
        pass

    is_active = classmethod(lambda cls: True)

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self):
        return torch.device("cpu")

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def map_python_to_cpp_type(self, name):
        return name

    def get_benchmarker(self):
        return None


triton.runtime.driver.set_active(Hopper())
run = JITFunction.run


def compile_only(self, *arguments, grid, warmup, **options):
    kernel = run(self, *arguments, grid=grid, warmup=True, **options)
    print(self.__name__, kernel.metadata.target.arch, len(kernel.asm["cubin"]))
    return kernel


JITFunction.run = compile_only
plan = eval(sys.argv[3])
cell = getattr(nc, sys.argv[1])(5, plan).to(getattr(torch, sys.argv[2]))
program, B, T = cell.program(), 3, 2
inputs, state = torch.zeros(B, T, 5, dtype=cell.dtype), torch.zeros(B, cell.state_size, dtype=cell.dtype)
elapsed, flags = torch.ones(B, T, dtype=cell.dtype), torch.zeros(B, T, dtype=torch.bool)
states = launch.forward(program, inputs, state, elapsed, flags, flags)
launch.backward(program, inputs, state, elapsed, flags, flags, states, states, (True, True))
"""


@pytest.mark.system
@pytest.mark.parametrize(
    ("cell", "dtype", "plan"),
    [
        pytest.param("LTC", "float32", "nc.GapJunctions(nc.AutoNCP(12, 3), 2)", marks=pytest.mark.slow),
        pytest.param("NeuralLTC", "float64", "nc.AutoNCP(12, 3)", marks=pytest.mark.slow),
        pytest.param("CfC", "float32", "nc.AutoNCP(12, 3)", marks=pytest.mark.slow),
        ("CfC", "float32", "33"),
        pytest.param("CTRNN", "float32", "nc.AutoNCP(160, 3)", marks=pytest.mark.slow),
    ],
)
def test_the_kernels_compile_for_hopper(cell, dtype, plan, tmp_path, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, cell, dtype, plan],
        timeout=300,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines] == [["forward", "90"], ["backward", "90"]]
    assert all(int(line[2]) > 1000 for line in lines)
