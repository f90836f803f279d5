"""Exported C in tests: controllers around bare cells, compiled into shared libraries that Python steps.

stepper = Stepper(texts_of(BareController(build("cfc-chain"))), tmp_path, double=True)
flags, action = stepper.step(observation, elapsed)
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import ncp_control as nc
from helpers.cells import build, representatives_of
from ncp_control.export.c.header import header_text
from ncp_control.export.c.source import source_text
from ncp_control.export.c.write import exact_form
from ncp_control.neurons.catalogue import NEURONS
from ncp_control.rl.controller import Controller, Watch
from ncp_control.rl.monitor import NOT_FINITE, Monitor

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wdouble-promotion")
CLEAN = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
# One of every kind, of every mode or solver, and of every odd shape; the slow tests go through all others.
BY_HAND = (
    "ltc-sparse", "ltc-gaps", "ltc-chain", "ltc-gap-only", "ltc-one", "ltc-euler", "ltc-rk4",
    "neural-ltc-relu", "neural-ltc-sigmoid", "ctrnn-rk4", "ctrnn-sparse", "neural-ode-euler", "neural-ode-sparse",
    "cfc-default", "cfc-no_gate", "cfc-pure", "cfc-backbone-no_gate", "dual-deep", "dual-dense", "dual-chain",
    "dual-bare", "ct-gru-scales", "lstm", "gru", "lagged-mlp",
)  # fmt: skip
# Those, and the representatives of neurons that have none among them.
QUICK = (*BY_HAND, *representatives_of({row.kind for row in NEURONS if row.code} - {type(build(n)) for n in BY_HAND}))
needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="this machine has no gcc")


class BareController(Controller):
    """A cell as a controller, with any layers behind it.

    :param cell: the cell; None for layers alone
    :param head: the layers
    :param sensors: how many observations, if there is no cell
    :param monitor: certified ranges
    :param settings: attributes of a `Controller` to set, such as squashes=True
    """

    def __init__(
        self,
        cell: nc.Cell | None,
        head: nn.Module | None = None,
        sensors: int = 0,
        monitor: Monitor | None = None,
        **settings: Any,
    ) -> None:
        nn.Module.__init__(self)
        self.rnn = None if cell is None else nc.RNN(cell, backend="reference")
        self.head = nn.Identity() if head is None else head
        self.normalize, self.extractor = nn.Identity(), nn.Identity()
        self.timed, self.reads_elapsed = True, False
        self.chooses, self.first, self.squashes = False, 0, False
        inputs = sensors or (cell.inputs if cell is not None else 0)
        features = inputs + bool(settings.get("reads_elapsed")) if cell is None else cell.outputs
        outputs = self.head(torch.zeros(1, features)).shape[1]
        self.register_buffer("low", torch.full((outputs,), -torch.inf))
        self.register_buffer("high", torch.full((outputs,), torch.inf))
        self.sensors = tuple(f"sensor{k}" for k in range(inputs))
        self.actions = tuple(f"action{k}" for k in range(outputs))
        self.watch = None if monitor is None else Watch(monitor)
        for name, value in settings.items():
            setattr(self, name, value)
        self.eval().requires_grad_(False)


def compiled(command: Sequence[str], folder: Path) -> None:
    """Runs a compiler, whose errors are the test's."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[:3000]}"


def written(texts: dict[str, str], folder: Path) -> Path:
    """Writes files into a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="ascii")
    return folder


class Stepper:
    """A compiled controller and its state.

    :param texts: the exported files
    :param folder: where to compile them
    :param double: in double, not in float
    :param flags: further flags of the compiler; the linker does not get them, because with -funsafe-math-optimizations
        it adds start-up code that switches denormal numbers off for the thread that loads the library
    """

    def __init__(self, texts: dict[str, str], folder: Path, double: bool, flags: Sequence[str] = ()) -> None:
        written(texts, folder)
        name = "double" if double else "float"
        precision = ["-DCONTROLLER_DOUBLE"] if double else []
        compiled(["gcc", *STRICT, "-O1", *flags, *precision, "-fPIC", "-c", "-o", f"{name}.o", "controller.c"], folder)
        compiled(["gcc", "-shared", "-o", f"{name}.so", f"{name}.o", "-lm"], folder)
        sizes = {
            key: int(line.split()[2])
            for line in texts["controller.h"].splitlines()
            if line.startswith("#define CONTROLLER_") and len(line.split()) > 2
            for key in [line.split()[1].removeprefix("CONTROLLER_")]
        }
        self.dtype = np.float64 if double else np.float32
        self.real = ctypes.c_double if double else ctypes.c_float
        self.states = sizes["STATE"]
        self.state = np.full(max(self.states, 1), 7, dtype=self.dtype)
        self.action = np.zeros(sizes["ACTIONS"], dtype=np.int32 if "CHOICES" in sizes else self.dtype)
        library = ctypes.CDLL(str(folder / f"{name}.so"))
        self._reset, self._step = library.controller_reset, library.controller_step
        self._reset.restype = None
        self.reset()

    def reset(self) -> None:
        """Puts the state where it is before an episode."""
        self._reset(self.state.ctypes.data_as(ctypes.c_void_p))

    def step(self, observation: Any, elapsed: float = 1.0) -> int:
        """Does a step and returns its flags; `state` and `action` have changed then."""
        seen = np.ascontiguousarray(observation, dtype=self.dtype)
        pointers = (self.state, seen, self.action)
        state, seen_at, action = (ctypes.c_void_p(array.ctypes.data) for array in pointers)
        return int(self._step(state, seen_at, self.real(elapsed), action))


class InPython:
    """A controller in float32 with the interface of a `Stepper`."""

    def __init__(self, controller: Controller) -> None:
        self.controller, self.states = controller, controller.state_size
        self.reset()

    def reset(self) -> None:
        """Puts the state where it is before an episode."""
        self.after, self.action = self.controller.initial_state(), np.zeros(len(self.controller.actions), np.float32)

    @property
    def state(self) -> Any:
        """The numbers of the state."""
        return self.after[0].numpy()

    def step(self, observation: Any, elapsed: float = 1.0) -> int:
        """Does a step and returns its flags, without a monitor 0. An action is NaN exactly where nothing changes."""
        seen = torch.as_tensor(observation, dtype=torch.float32)[None]
        action, self.after, *raised = self.controller(seen, self.after, torch.tensor([elapsed]))
        flags = int(raised[0]) if raised else 0
        assert bool(flags == NOT_FINITE) == bool(action.isnan().all()) == bool(action.isnan().any())
        if flags != NOT_FINITE:
            self.action = action[0].numpy()
        return flags


def exported(controller: Controller, folder: Path, double: bool, flags: Sequence[str] = ()) -> Stepper:
    """Returns a controller compiled from its C, without writing its program and its test vectors."""
    exact = exact_form(controller)
    texts = {"controller.h": header_text(exact, "", ""), "controller.c": source_text(exact, "", "")}
    return Stepper(texts, folder, double, flags)


def greatest_difference(controller: Controller, stepper: Stepper | InPython, steps: int = 50, seed: int = 0) -> float:
    """Returns how far the C comes away from the reference in float64, in any action or state of a run with a reset.

    A difference counts as a share of the size of the number where that is above 1. Elapsed times vary, and one is 0.
    """
    reference = exact_form(controller)
    generator = np.random.default_rng(seed)
    state, worst = reference.initial_state(), 0.0
    for step in range(steps):
        seen = generator.standard_normal(len(controller.sensors)).astype(np.float32).astype(np.float64)
        elapsed = 0.0 if step == steps // 2 else float(np.float32(generator.uniform(0.1, 1.5)))
        if step == steps // 3:
            stepper.reset()
            state = reference.initial_state()
        assert stepper.step(seen, elapsed) == 0
        action, state = reference(torch.as_tensor(seen)[None], state, elapsed)[:2]
        for found, wanted in ((stepper.action, action), (stepper.state[: stepper.states], state)):
            exact = wanted.flatten().numpy()
            apart = np.abs(found - exact) / np.maximum(1, np.abs(exact))
            worst = max(worst, float(apart.max(initial=0.0)))
    return worst
