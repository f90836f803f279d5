"""Prints what the GPU kernels ask of a multiprocessor: registers, spilled bytes and shared memory, without a GPU.

python scripts/gpu_registers.py [--cells LTC CfC] [--architectures 80 90]

Triton compiles each kernel for each architecture, and NVIDIA's assembler and `cuobjdump`, which come with Triton, say
what became of it. A spilled byte lies in memory, because the thread had no register left for it.

Below the table stands an estimate of the time that the small LTC takes at least, from the instructions in its loops.
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
from ncp_control.neurons import Cell
from ncp_control.ops.gpu import launch

SIZES = ((32, 6), (64, 8), (128, 16), (256, 32))  # neurons and outputs
INPUTS = 17  # the observations of the half-cheetah
ESTIMATED = "LTC, AutoNCP(32, 6)"
STEPS = 128
GIGAHERTZ = 1.98  # the highest clock of an H100 (SXM)
# Cycles for which an instruction of a warp keeps its part of the multiprocessor busy, by NVIDIA's tables of throughput.
ISSUE, SPECIAL = 1, 8
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


@dataclass
class Arguments:
    """Print registers, spills and shared memory of the GPU kernels, without a GPU."""

    cells: tuple[str, ...] = ("LTC", "NeuralLTC", "CfC", "DualLTC")
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
    :param binary: its binary code
    """

    name: str
    architecture: int
    warps: int
    registers: int
    spilled: int
    shared: int
    binary: bytes


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
        metadata, binary = kernel.metadata, kernel.asm["cubin"]
        used = (*resources(binary), metadata.shared)
        kernels.append(Kernel(self.__name__, metadata.target.arch, metadata.num_warps, *used, binary))
        return kernel

    AbsentGPU.architecture = architecture
    driver.set_active(AbsentGPU())
    with patch.object(JITFunction, "run", compile_only):
        states = launch.forward(*given)
        launch.backward(*given, states, states, (True, True))
    return kernels


def resources(binary: bytes) -> tuple[int, int]:
    """The registers and the spilled bytes of a thread, from a kernel's binary code: its stack holds nothing else."""
    said = told_by(["cuobjdump", "--dump-resource-usage"], binary)
    found = re.search(r"REG:(\d+) STACK:(\d+)", said)
    assert found is not None, said
    return int(found[1]), int(found[2])


def told_by(command: list[str], binary: bytes) -> str:
    """What one of NVIDIA's tools prints of a kernel's binary code."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(binary)
        words = [str(TOOLS / command[0]), *command[1:], str(path)]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def instructions_of_step(listing: str, unfolds: int) -> tuple[int, int]:
    """How many instructions a warp runs in one step of the sequence, and how many of them are special functions.

    The loops over solver steps hold no other loop; the shortest loop around all of them is that over steps.

    :param listing: what `nvdisasm -c` prints of a kernel
    """
    code, labels = [], {}
    for line in listing.splitlines():
        label = re.match(r"(\.L_\w+):", line)
        instruction = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?(\S.*);", line)
        if label:
            labels[label[1]] = len(code)
        elif instruction:
            code.append(instruction[1])
    jumps = [
        (labels[found[1]], k + 1) for k, words in enumerate(code) if (found := re.search(r"BRA.*\((\.L_\w+)\)", words))
    ]
    loops = [(start, end) for start, end in jumps if start < end - 1]
    inner = [loop for loop in loops if not any(a > loop[0] and b < loop[1] for a, b in loops)]
    around = [(a, b) for a, b in loops if all(a < start and end < b for start, end in inner)]
    begin, finish = min(around, key=lambda loop: loop[1] - loop[0])

    def count(kind: str) -> int:
        there = [words.startswith(kind) for words in code]
        return sum(there[begin:finish]) + (unfolds - 1) * sum(sum(there[start:end]) for start, end in inner)

    return count(""), count("MUFU")


def estimate(kernels: list[Kernel], unfolds: int) -> str:
    """Says how long a forward and a backward pass take at least, where no two programs share a multiprocessor."""
    said = []
    for kernel in kernels:
        every, special = instructions_of_step(told_by(["nvdisasm", "-c"], kernel.binary), unfolds)
        least = max(ISSUE * every, SPECIAL * special) * STEPS / GIGAHERTZ / 1e6
        said.append(f"{kernel.name} {every} instructions a step, {special} of them special functions: {least:.2f} ms")
    return (
        f"An estimate, which counts no wait: {STEPS} steps of up to 132 rows of {ESTIMATED} take an H100 at least as "
        f"long as their instructions: {'; '.join(said)}."
    )


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
    for kernels in circuits.get(ESTIMATED, []):
        if kernels[0].architecture == 90:
            print(f"\n{estimate(kernels, nc.LTC(INPUTS, 1).unfolds)}")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
