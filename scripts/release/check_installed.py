"""Checks an installed ncp-control: a plain program that needs no sources and no test runner.

It names the version and where it was found, sees to it that the compiled scan was found and is the best one that this
processor can run, and compares each level's outputs and gradients with the reference in plain torch, for every cell
that has kernels. With --save the reference's numbers are written, and with --compare they are compared with those that
another machine wrote.

Example: python -I scripts/release/check_installed.py --version 0.2.0 --machine x86_64 --save numbers.safetensors
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import ncp_control as nc
from ncp_control.neurons import CTGRU, CTRNN, GRU, LSTM, NeuralLTC, NeuralODE
from ncp_control.ops.cpu import library

INPUTS, STEPS, BATCH = 5, 7, 19  # an odd batch, so that lanes stay empty at every level
PLAN = nc.AutoNCP(21, 4, seed=3)
CELLS: dict[str, Callable[[], nc.Cell]] = {
    "LTC": lambda: nc.LTC(INPUTS, PLAN),
    "LTC, Euler": lambda: nc.LTC(INPUTS, PLAN, solver="euler"),
    "NeuralLTC": lambda: NeuralLTC(INPUTS, PLAN),
    "CfC": lambda: nc.CfC(INPUTS, PLAN),
    "DualLTC": lambda: nc.DualLTC(INPUTS, PLAN),
    "CTRNN": lambda: CTRNN(INPUTS, PLAN),
    "NeuralODE": lambda: NeuralODE(INPUTS, PLAN, solver="rk4"),
    "CTGRU": lambda: CTGRU(INPUTS, 21),
    "LSTM": lambda: LSTM(INPUTS, 21),
    "GRU": lambda: GRU(INPUTS, 21),
}
# The largest difference from the reference, as a share of the largest number of each kind (states, each gradient).
ALLOWED = {torch.float32: 2e-5, torch.float64: 1e-11}
# Two machines draw and round a cell's first weights a little differently.
ACROSS_MACHINES = 1e-5


def numbers(name: str, dtype: torch.dtype, backend: str) -> dict[str, Tensor]:
    """Returns the states of a small run, and every gradient of a weighted sum of them."""
    draw = np.random.default_rng(7)  # numpy's stream is the same on every machine
    torch.manual_seed(0)
    cell = CELLS[name]().to(dtype)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.mul_(torch.from_numpy(1 + 0.1 * draw.standard_normal(parameter.shape)))
    rnn = nc.RNN(cell, backend)
    inputs = torch.from_numpy(draw.standard_normal((BATCH, STEPS, INPUTS))).to(dtype).requires_grad_()
    elapsed = torch.from_numpy(0.1 + draw.random((BATCH, STEPS))).to(dtype)
    reset = torch.from_numpy(draw.random((BATCH, STEPS)) < 0.2)
    _, _, states = rnn(inputs, elapsed=elapsed, reset=reset, states=True)
    (states * torch.from_numpy(draw.standard_normal(states.shape)).to(dtype)).sum().backward()
    parameters = dict(cell.named_parameters())
    gradients = {f"d {key}": value.grad for key, value in {"inputs": inputs, **parameters}.items()}
    return {"states": states.detach()} | {
        key: value for key, value in gradients.items() if value is not None and value.numel()
    }


def key(name: str, dtype: torch.dtype) -> str:
    """Returns the name of a run."""
    return f"{name}, {dtype}"


def difference(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Returns the largest difference as a share of the largest expected number; NaN if there is one."""
    if found.keys() != expected.keys():
        raise SystemExit(f"other numbers than expected: {sorted(found.keys() ^ expected.keys())}")
    shares = [
        ((found[key] - one).abs().max() / one.abs().max().clamp_min(1e-3)).item() for key, one in expected.items()
    ]
    return float(np.max(shares))


def compare_levels(expected: dict[str, dict[str, Tensor]], levels: list[str]) -> bool:
    """Compares each level of the compiled scan with the reference, prints it, and says whether all is well."""
    good = True
    for level in levels:
        os.environ[library.CHOICE] = level
        library.load.cache_clear()
        worst = dict.fromkeys(ALLOWED, 0.0)
        for name, dtype in product(CELLS, ALLOWED):
            worst[dtype] = float(
                np.max([worst[dtype], difference(numbers(name, dtype, "cpu"), expected[key(name, dtype)])])
            )
        for dtype, found in worst.items():
            print(f"{level}, {dtype}: differs from the reference by {found:.1e}; allowed are {ALLOWED[dtype]:.0e}")
            good = good and found <= ALLOWED[dtype]
    return good


def compare_machines(expected: dict[str, dict[str, Tensor]], path: Path) -> bool:
    """Compares the reference's numbers with another machine's, prints the difference, and says whether all is well."""
    ours, theirs = flat(expected), load_file(path)
    worst = float(np.max([difference({"": ours[name]}, {"": one}) for name, one in theirs.items()]))
    print(f"the other machine's reference differs by {worst:.1e}; allowed are {ACROSS_MACHINES:.0e}")
    return ours.keys() == theirs.keys() and worst <= ACROSS_MACHINES


def flat(expected: dict[str, dict[str, Tensor]]) -> dict[str, Tensor]:
    """Returns all numbers under one name each."""
    return {f"{run}, {name}": value for run, found in expected.items() for name, value in found.items()}


def main() -> int:
    """Returns 0 where everything is as it should be, and 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default=nc.__version__, help="the version that must be installed")
    parser.add_argument("--machine", default=platform.machine(), help="the machine that must be this one")
    parser.add_argument("--save", type=Path, help="write the reference's numbers to this file")
    parser.add_argument("--compare", type=Path, help="compare them with those in this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"ncp-control {nc.__version__} in {Path(nc.__file__).parent}, Python {platform.python_version()}", end=", ")
    print(f"{platform.machine()}, torch {torch.__version__}, numpy {np.__version__}")
    if nc.__version__ != arguments.version or platform.machine() != arguments.machine:
        print(f"wanted were version {arguments.version} and machine {arguments.machine}", file=sys.stderr)
        return 1
    loaded, reason = library.load()
    print(reason)
    levels = list(library.supported_levels())
    if loaded is None or loaded.level != levels[0]:
        print(f"this processor can run {', '.join(levels)}, and the first of them was not loaded", file=sys.stderr)
        return 1
    expected = {key(name, dtype): numbers(name, dtype, "reference") for name, dtype in product(CELLS, ALLOWED)}
    if arguments.save is not None:
        save_file({name: value.contiguous() for name, value in flat(expected).items()}, arguments.save)
    good = compare_levels(expected, levels)
    if arguments.compare is not None:
        good = compare_machines(expected, arguments.compare) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
