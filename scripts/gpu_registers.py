"""Prints what the GPU kernels ask of a multiprocessor: registers, spilled bytes and shared memory, without a GPU.

python scripts/gpu_registers.py [--cells LTC CfC] [--architectures 80 90]

Triton compiles each kernel for each architecture, and NVIDIA's assembler and `cuobjdump`, which come with Triton, say
what became of it. A spilled byte lies in memory, because the thread had no register left for it.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
import triton
import tyro
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import JITFunction, driver

import ncp_control as nc
from ncp_control.cells import Cell
from ncp_control.ops.gpu import launch

SIZES = ((32, 6), (64, 8), (128, 16), (256, 32))  # neurons and outputs
INPUTS = 17  # the observations of the half-cheetah
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


@dataclass
class Arguments:
    """Print registers, spills and shared memory of the GPU kernels, without a GPU."""

    cells: tuple[str, ...] = ("LTC", "NeuralLTC", "CfC")
    """Names of cells."""

    architectures: tuple[int, ...] = (80, 90)
    """Architectures: 80 is that of an A100, 90 that of an H100."""


class Kernel(NamedTuple):
    """A compiled kernel.

    :param name: forward or backward
    :param architecture: such as 90
    :param warps: warps of a Triton program
    :param registers: registers of a thread
    :param spilled: bytes of a thread that lie in memory
    :param shared: bytes of shared memory of a Triton program
    """

    name: str
    architecture: int
    warps: int
    registers: int
    spilled: int
    shared: int


class AbsentGPU(DriverBase):  # type: ignore[misc]
    """Answers what Triton's compiler asks about a GPU that is not there."""

    architecture = 90

    def __init__(self) -> None:
        pass

    is_active = classmethod(lambda cls: True)

    def get_current_target(self) -> GPUTarget:
        """What to compile for."""
        return GPUTarget("cuda", self.architecture, 32)

    def get_current_device(self) -> int:
        """The number under which Triton keeps what it has compiled: a GPU for each architecture."""
        return self.architecture

    def get_current_stream(self, device: int) -> int:
        """Nothing is launched in it."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Where the tensors are."""
        return torch.device("cpu")

    def map_python_to_cpp_type(self, name: str) -> str:
        """The name of a type in a launcher, which is not made."""
        return name

    def get_benchmarker(self) -> None:
        """Nothing is timed."""


def compile_kernels(cell: Cell, architecture: int) -> list[Kernel]:
    """Compiles the forward and the backward kernel of a cell, with flags, irregular time and all gradients."""
    program, batch, time = cell.program(), 2, 3
    assert program is not None
    inputs, state = (torch.zeros(batch, *size, dtype=cell.dtype) for size in ((time, cell.inputs), (cell.state_size,)))
    elapsed, flags = torch.ones(batch, time, dtype=cell.dtype), torch.zeros(batch, time, dtype=torch.bool)
    given = (program, inputs, state, elapsed, flags, flags)
    kernels: list[Kernel] = []
    run = JITFunction.run

    def compile_only(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = run(self, *arguments, grid=grid, warmup=True, **options)
        registers, spilled = resources(kernel.asm["cubin"])
        metadata = kernel.metadata
        kernels.append(
            Kernel(self.__name__, metadata.target.arch, metadata.num_warps, registers, spilled, metadata.shared)
        )
        return kernel

    AbsentGPU.architecture = architecture
    driver.set_active(AbsentGPU())
    with patch.object(JITFunction, "run", compile_only):
        states = launch.forward(*given)
        launch.backward(*given, states, states, (True, True))
    return kernels


def resources(binary: bytes) -> tuple[int, int]:
    """The registers and the spilled bytes of a thread, from a kernel's binary code: its stack holds nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(binary)
        command = [str(TOOLS / "cuobjdump"), "--dump-resource-usage", str(path)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", said)
    assert found is not None, said
    return int(found[1]), int(found[2])


def table(circuits: dict[str, list[list[Kernel]]]) -> str:
    """A table in Markdown, from the kernels of each circuit for each architecture."""
    first = next(iter(circuits.values()))
    named = [f"sm_{kernels[0].architecture}: registers, spilled, shared" for kernels in first]
    lines = [" | ".join(("| circuit", "pass", "warps", *named)) + " |", "|---" * (3 + len(named)) + "|"]
    for circuit, compiled in circuits.items():
        for kernels in zip(*compiled, strict=True):
            used = [f"{kernel.registers}, {kernel.spilled} B, {kernel.shared} B" for kernel in kernels]
            lines.append(" | ".join((f"| {circuit}", kernels[0].name, str(kernels[0].warps), *used)) + " |")
    return "\n".join(lines)


def main(arguments: Arguments) -> None:
    """Compiles all kernels and prints the table."""
    circuits = {}
    for name in arguments.cells:
        for units, outputs in SIZES:
            cell = nc.make_cell(name.lower(), INPUTS, nc.AutoNCP(units, outputs))
            compiled = [compile_kernels(cell, architecture) for architecture in arguments.architectures]
            circuits[f"{name}, AutoNCP({units}, {outputs})"] = compiled
    print(table(circuits))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
