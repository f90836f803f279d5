"""How long does one step of an agent take: as exported C, as ONNX, in torch, and in ncps?

One core, one robot, one observation after the other. All contestants take turns in one process, and medians of several
runs are compared. Before anything is timed, the C is compared with the agent.

The C is called from a loop in C (`benchmark_export.c`); the others are called from Python, as their users call them.
Beside it are two loops over as many sigmoids as the circuit has, with the same compiler flags and nothing around them:
one with the exp of the C library, and one with an exp of its own that a compiler can compute for several numbers at
once. `--episodes` instead compares the return of the C, called through ctypes, with that of the agent.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ncp_control.cli import trained_in
from ncp_control.export import export_c, export_onnx
from ncp_control.export.checking import ActedSteps, act, find_compiler, onnx_step
from ncp_control.neurons import LTC
from ncp_control.rl import Controller, evaluate, load_policy

HERE = Path(__file__).parent
FLAGS = {"-O2": ("-O2",), "-O3 -march=native": ("-O3", "-march=native")}
FLOATS = ctypes.POINTER(ctypes.c_float)
Array = NDArray[np.float32]


@dataclass
class Arguments:
    """Time one step of an exported agent against torch, onnxruntime and ncps.

    Example: python scripts/benchmark_export.py checkpoints/halfcheetah.safetensors
    """

    checkpoints: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT ...")] = (
        Path("checkpoints/halfcheetah.safetensors"),
        Path("checkpoints/halfcheetah-positions.safetensors"),
    )
    """The .safetensors files of policies."""

    repeats: int = 15
    """Timed runs of every contestant; the median counts."""

    steps: int = 2000
    """Steps in a timed run of the C; the others take a tenth."""

    episodes: int = 0
    """Instead of timing, run so many episodes with the C and with the agent, and compare their returns."""

    json: Path | None = None
    """Also write every number here."""


class Compiled:
    """An exported controller and the loops of `benchmark_export.c` as one shared library.

    :param folder: holds `controller.c`
    :param flags: the compiler's flags
    """

    def __init__(self, folder: Path, flags: tuple[str, ...]) -> None:
        compiler = find_compiler()
        if compiler is None:
            raise SystemExit("this machine has no C compiler")
        library = folder / f"controller{''.join(flags)}.so"
        sources = [str(folder / "controller.c"), str(HERE / "benchmark_export.c")]
        command = [compiler, "-std=c99", *flags, "-fPIC", "-shared", "-I", str(folder), "-o", str(library)]
        subprocess.run([*command, *sources, "-lm"], check=True)
        self.calls = ctypes.CDLL(str(library))
        self.calls.time_controller.restype = self.calls.time_sigmoids.restype = ctypes.c_double
        self.calls.controller_step.argtypes = [FLOATS, FLOATS, ctypes.c_float, FLOATS]

    def time_controller(self, steps: int, observations: Array, actions: int) -> float:
        """Returns the microseconds of a step."""
        action = np.zeros(actions, np.float32)
        return float(self.calls.time_controller(steps, pointer(observations), len(observations), pointer(action)))

    def time_sigmoids(self, steps: int, cell: LTC, lanes: bool) -> float:
        """Returns the microseconds of as many sigmoids as a step of the cell has."""
        sensory, synapses = len(cell.sensory_mu), len(cell.mu)
        arrays = np.stack([
            np.random.default_rng(0).normal(size=sensory + synapses),
            torch.cat([cell.sensory_sigma, cell.sigma]).detach().numpy(),
            torch.cat([cell.sensory_sigma * cell.sensory_mu, cell.sigma * cell.mu]).detach().numpy(),
            torch.cat([cell.sensory_w, cell.w]).detach().numpy(),
        ]).astype(np.float32)  # fmt: skip
        result = ctypes.c_float()
        sizes = sensory, synapses, cell.unfolds, int(lanes)
        return float(self.calls.time_sigmoids(steps, *sizes, pointer(arrays), ctypes.byref(result)))

    def play(self, observations: Array, starts: Any, states: int, actions: int) -> Array:
        """Returns the actions for observations, with a reset where an episode starts."""
        state, found = np.zeros(max(states, 1), np.float32), np.zeros((len(observations), actions), np.float32)
        for seen, fresh, action in zip(np.ascontiguousarray(observations, np.float32), starts, found, strict=True):
            if fresh:
                self.calls.controller_reset(pointer(state))
            self.calls.controller_step(pointer(state), pointer(seen), 1, pointer(action))
        return found


class Acting:
    """The C as a policy with the `predict` of Stable-Baselines3, one state for each environment.

    :param compiled: the C
    :param controller: the agent as a `Controller`, for its sizes
    """

    def __init__(self, compiled: Compiled, agent: Any, controller: Controller) -> None:
        self.compiled, self.states, self.actions = compiled, controller.state_size, len(controller.actions)
        self.observation_space, self.action_space = agent.observation_space, agent.action_space

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """Returns the actions for a batch of observations, and the states after them."""
        rows = np.ascontiguousarray(observation, np.float32)
        states = np.zeros((len(rows), self.states), np.float32) if state is None else state[0].copy()
        if episode_start is not None:
            states[np.asarray(episode_start, bool)] = 0
        actions = np.zeros((len(rows), self.actions), np.float32)
        for row, one, action in zip(rows, states, actions, strict=True):
            self.compiled.calls.controller_step(pointer(one), pointer(row), 1, pointer(action))
        return actions, (states,)


def pointer(values: Array) -> Any:
    """Returns an array's first number as C sees it."""
    return values.ctypes.data_as(FLOATS)


def torch_step(controller: Controller, observation: Array) -> Callable[[], Any]:
    """Returns one step of the controller in torch, which goes on from the state before."""
    seen, elapsed = torch.as_tensor(observation[None]), torch.ones(1)
    held = [controller.initial_state()]

    def step() -> None:
        with torch.inference_mode():
            _, held[0] = controller(seen, held[0], elapsed)

    return step


def ncps_step(cell: LTC) -> Callable[[], Any] | None:
    """Returns one step of an LTC of ncps with as many inputs, neurons, motor neurons and unfolds."""
    try:
        import ncps.torch
        import ncps.wirings
    except ImportError:
        return None
    wiring = ncps.wirings.AutoNCP(cell.units, cell.outputs)
    model = ncps.torch.LTC(cell.inputs, wiring, ode_unfolds=cell.unfolds)
    seen, held = torch.zeros(1, 1, cell.inputs), [torch.zeros(1, cell.units)]

    def step() -> None:
        with torch.inference_mode():
            _, held[0] = model(seen, held[0])

    return step


def timed(step: Callable[[], Any], steps: int) -> float:
    """Returns the microseconds of a step."""
    step()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return 1e6 * (time.perf_counter() - start) / steps


def contestants(agent: Any, folder: Path, acted: ActedSteps, steps: int) -> dict[str, Callable[[], float]]:
    """Returns what is timed: each call returns microseconds a step."""
    controller, observations = Controller(agent), np.ascontiguousarray(acted.observations)
    cell = None if controller.rnn is None else controller.rnn.cell
    found: dict[str, Callable[[], float]] = {}
    exported = export_c(agent, folder / "c")
    for name, flags in FLAGS.items():
        compiled = Compiled(exported, flags)
        played = compiled.play(observations, acted.starts, controller.state_size, len(controller.actions))
        apart = np.abs(played - acted.actions).max()
        if apart > 1e-3:
            raise SystemExit(f"the C with {name} differs from the agent by {apart}: there is nothing to time")
        found[f"C, {name}"] = partial(compiled.time_controller, steps, observations, len(controller.actions))
        if isinstance(cell, LTC):
            for words, lanes in (("exp of the C library", False), ("exp in lanes", True)):
                found[f"sigmoids, {words}, {name}"] = partial(compiled.time_sigmoids, steps, cell, lanes)
    few = max(1, steps // 10)
    session = onnx_step(export_onnx(agent, folder / "onnx") / "controller.onnx")
    given = observations[:1], controller.initial_state().numpy(), np.ones(1, np.float32)
    others = {
        "Controller in torch": torch_step(controller, observations[0]),
        "onnxruntime": lambda: session(*given),
        "LTC of ncps in torch": ncps_step(cell) if isinstance(cell, LTC) else None,
    }
    for name, step in others.items():
        if step is not None:
            found[name] = partial(timed, step, few)
    return found


def measure(checkpoint: Path, repeats: int, steps: int) -> dict[str, float]:
    """Returns the median microseconds of a step of every contestant."""
    agent = load_policy(checkpoint)
    env = made(checkpoint, agent)
    acted = act(agent, env, 200)
    env.close()
    with tempfile.TemporaryDirectory() as place:
        runs = contestants(agent, Path(place), acted, steps)
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(repeats):
            for name, run in runs.items():
                times[name].append(run())
    return {name: statistics.median(values) for name, values in times.items()}


def made(checkpoint: Path, agent: Any) -> Any:
    """Makes the environment of an agent."""
    return trained_in.make(trained_in.env_name(checkpoint, agent.note, None), agent.note)


def compare_returns(checkpoint: Path, episodes: int) -> dict[str, Any]:
    """Returns the mean return and its spread of the agent and of its C over the same episodes."""
    agent = load_policy(checkpoint)
    with tempfile.TemporaryDirectory() as place:
        acting = Acting(Compiled(export_c(agent, Path(place) / "c"), FLAGS["-O2"]), agent, Controller(agent))
        found = {
            name: evaluate(policy, lambda: made(checkpoint, agent), episodes).returns
            for name, policy in (("agent", agent), ("C", acting))
        }
    return {
        name: {"mean": float(np.mean(one)), "std": float(np.std(one)), "returns": one} for name, one in found.items()
    }


def show(checkpoint: Path, times: dict[str, float], console: Console) -> None:
    """Prints the table of one agent."""
    first = times["C, -O2"]
    table = Table("one step", "microseconds", "times C, -O2", title=checkpoint.name, title_justify="left")
    for name, value in times.items():
        table.add_row(name, f"{value:.1f}", f"{value / first:.2f}")
    console.print(table)


def main() -> None:
    """Times every agent, or compares the returns."""
    arguments, console = tyro.cli(Arguments), Console(width=None if sys.stdout.isatty() else 120)
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for checkpoint in arguments.checkpoints:
        if arguments.episodes:
            returns = compare_returns(checkpoint, arguments.episodes)
            found[checkpoint.name] = returns
            words = [f"{name} {one['mean']:,.1f} +- {one['std']:,.1f}" for name, one in returns.items()]
            console.print(f"{checkpoint.name}, return over {arguments.episodes} episodes: {', '.join(words)}")
        else:
            found[checkpoint.name] = measure(checkpoint, arguments.repeats, arguments.steps)
            show(checkpoint, found[checkpoint.name], console)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
