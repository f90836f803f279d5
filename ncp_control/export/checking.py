"""Whether an export acts as its agent: the same observations, step by step, and the greatest difference of actions."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
# What the exports for Python are: (observation (1, n), state (1, N), elapsed (1,)) -> (action, state).
Step = Callable[[Array, Array, Array], tuple[Array, Array]]

# Rounding to float32 moves an action by less than this share of its range, and wrong code moves it further.
LARGEST = 1e-3
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O2")


class ActedSteps(NamedTuple):
    """What an agent saw and did in its environment.

    :param observations: as the environment returned them, (T, n)
    :param elapsed: the time since the last observation, (T,)
    :param starts: whether an episode begins with the step, (T,)
    :param actions: what the agent did, (T, A), or (T,) for choices
    """

    observations: Array
    elapsed: Array
    starts: Array
    actions: Array


class Check(NamedTuple):
    """How an export was compared with its agent.

    :param how: what ran the export
    :param steps: how many steps were compared; 0 if nothing was
    :param difference: the greatest difference of an action; for choices, the number of steps with different ones
    :param refused: why nothing was compared; empty if it was
    :param flagged: in how many steps the agent's monitor raises a flag; None without a monitor
    """

    how: str
    steps: int = 0
    difference: float = 0.0
    refused: str = ""
    flagged: int | None = None


def act(agent: Any, env: Any, steps: int, seed: int = 0) -> ActedSteps:
    """Lets an agent act in its environment, one episode after the other.

    :param agent: a policy loaded from a file of `save_policy`
    :param env: its environment
    :param steps: how many steps
    :param seed: the seed of the first episode
    """
    rows: list[tuple[Array, float, bool, Array]] = []
    state, seen, fresh, episode = None, None, True, 0
    while len(rows) < steps:
        if fresh:
            seen, _ = env.reset(seed=seed + episode)
            state, episode = None, episode + 1
        batch = {key: value[None] for key, value in seen.items()} if isinstance(seen, dict) else np.asarray(seen)[None]
        action, state = agent.predict(batch, state, np.array([fresh]), deterministic=True)
        rows.append((*vector_and_time(seen), fresh, action[0]))
        seen, _, terminated, truncated, _ = env.step(action[0])
        fresh = bool(terminated or truncated)
    observations, elapsed, starts, actions = zip(*rows, strict=True)
    return ActedSteps(
        np.stack(observations).astype(np.float32),
        np.array(elapsed, dtype=np.float32),
        np.array(starts),
        np.stack(actions),
    )


def vector_and_time(seen: Any) -> tuple[Array, float]:
    """Returns an observation's vector and elapsed time, which is 1 if the environment does not give it."""
    if not isinstance(seen, dict):
        return np.asarray(seen), 1.0
    (vector,) = (np.asarray(value) for key, value in seen.items() if key != "elapsed")
    return vector, float(np.asarray(seen["elapsed"]).item())


def greatest_difference(acted: ActedSteps, actions: Array, low: Array, high: Array) -> float:
    """Returns the greatest difference of two rows of actions, or how many choices differ; refuses a wrong export.

    :param acted: what the agent did
    :param actions: what the export did, of the same shape as the agent's actions
    :param low: the least actions, (A,)
    :param high: the greatest actions, (A,)
    """
    if acted.actions.ndim == 1:
        different = int((acted.actions != actions).sum())
        if different > LARGEST * len(actions):
            raise ValueError(f"the export chooses differently from its agent in {different} of {len(actions)} steps")
        return float(different)
    apart = np.abs(acted.actions.astype(np.float64) - actions)
    if not (apart <= LARGEST * (high.astype(np.float64) - low)).all():
        raise ValueError(f"the export's actions differ from the agent's by up to {apart.max():.3g}")
    return float(apart.max())


def compare(kind: str, folder: Path, controller: Any, acted: ActedSteps | None) -> Check:
    """Compares the export in a folder with what its agent did.

    :param kind: "c", "onnx", "leapp" or "pt2"
    :param folder: the folder with the export
    :param controller: the agent as a `Controller`
    :param acted: what the agent saw and did; None if it did nothing
    """
    if acted is None:
        return Check("", refused="no steps were asked for")
    initial = controller.initial_state().numpy()
    if kind == "c":
        compiler = find_compiler()
        if compiler is None:
            return Check("", refused=f"this machine has no C compiler ({', '.join(COMPILERS)})")
        how, actions = f"{Path(compiler).name} {' '.join(FLAGS)}", play_c(folder, compiler, acted)
    elif kind == "leapp" and find_spec("leapp") is not None:
        how, actions = play_leapp(folder, acted)
    elif kind in ("onnx", "leapp"):
        if find_spec("onnxruntime") is None:
            return Check("", refused='onnxruntime is missing: pip install "ncp-control[export]"')
        how, actions = "onnxruntime", play(onnx_step(folder / "controller.onnx"), initial, acted)
    else:
        how, actions = "torch", play(program_step(folder / "controller.pt2"), initial, acted)
    low, high = controller.low.numpy(), controller.high.numpy()
    difference = greatest_difference(acted, actions, low, high)
    return Check(how, len(actions), difference, flagged=flagged_steps(controller, acted))


def play(step: Step, initial: Array, acted: ActedSteps) -> Array:
    """Returns the actions of an export for the observations that the agent saw."""
    actions, state = [], initial
    for seen, elapsed, fresh in zip(acted.observations, acted.elapsed, acted.starts, strict=True):
        action, state = step(seen[None], initial if fresh else state, elapsed[None])
        actions.append(action[0])
    return np.stack(actions)


def play_leapp(folder: Path, acted: ActedSteps) -> tuple[str, Array]:
    """Lets LEAPP's own runtime run a bundle, and returns its name and the actions for what the agent saw."""
    import leapp
    import torch

    runner, actions = leapp.InferenceManager(str(folder / "controller.yaml")), []
    for seen, elapsed, fresh in zip(acted.observations, acted.elapsed, acted.starts, strict=True):
        if fresh:
            runner.reset()
        values = {"observation": seen[None], "elapsed": elapsed[None]}
        given = {name: torch.from_numpy(values[name.split("/")[1]]) for name in runner.inputs}
        actions.append(runner.run_policy(given)["policy/action"].numpy()[0].copy())
    return f"LEAPP {version('leapp')}", np.stack(actions)


def flagged_steps(controller: Any, acted: ActedSteps) -> int | None:
    """Returns in how many of the agent's steps its monitor raises a flag; None without a monitor."""
    import torch

    if controller.watch is None:
        return None
    flags = []

    def step(*inputs: Array) -> tuple[Array, Array]:
        action, after, raised = controller(*map(torch.as_tensor, inputs))
        flags.append(int(raised))
        return action.numpy(), after.numpy()

    play(step, controller.initial_state().numpy(), acted)
    return sum(flag != 0 for flag in flags)


def program_step(path: Path) -> Step:
    """Returns the step of a `.pt2` file."""
    import torch

    module = torch.export.load(path).module()

    def step(observation: Array, state: Array, elapsed: Array) -> tuple[Array, Array]:
        results = module(*map(torch.as_tensor, (observation, state, elapsed)))
        return results[0].numpy(), results[1].numpy()

    return step


def onnx_step(path: Path) -> Step:
    """Returns the step of an `.onnx` file, run by onnxruntime in one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()][:2]  # without flags
    inputs = session.get_inputs()

    def step_of_one_robot(observation: Array, state: Array, elapsed: Array) -> tuple[Array, Array]:
        has_state = len(inputs) > 1
        shaped = (observation, state.reshape(inputs[1].shape) if has_state else state, elapsed)
        action, *after = session.run(names, {value.name: one for value, one in zip(inputs, shaped, strict=False)})
        return action, after[0].reshape(state.shape) if has_state else state

    if isinstance(inputs[0].shape[0], int):
        return step_of_one_robot

    def step(observation: Array, state: Array, elapsed: Array) -> tuple[Array, Array]:
        action, after = session.run(names, {"observation": observation, "state": state, "elapsed": elapsed})
        return action, after

    return step


def find_compiler() -> str | None:
    """Returns the C compiler of this machine; None without one."""
    return next((path for name in COMPILERS if (path := shutil.which(name))), None)


def play_c(folder: Path, compiler: str, acted: ActedSteps) -> Array:
    """Compiles `controller.c` and `main.c`, and returns the actions for the observations that the agent saw."""
    lines = []
    for seen, elapsed, fresh in zip(acted.observations, acted.elapsed, acted.starts, strict=True):
        if fresh:
            lines.append("reset")
        # Nine digits tell any two floats apart.
        lines.append(" ".join(f"{value:.9g}" for value in (*seen, elapsed)))
    with tempfile.TemporaryDirectory() as build:
        program = Path(build) / "controller"
        sources = [str(folder / name) for name in ("controller.c", "main.c")]
        run_tool([compiler, *FLAGS, "-o", str(program), *sources, "-lm"])
        printed = run_tool([str(program), "--elapsed"], "\n".join(lines) + "\n")
        # The recorded vectors compare the states, too, and not only what they lead to.
        run_tool([str(program), "--check", str(folder / "vectors.csv")])
    actions = np.array([[float(word) for word in line.split()] for line in printed.splitlines()])
    return actions.reshape(acted.actions.shape)


def run_tool(command: list[str], given: str = "") -> str:
    """Runs a program and returns what it printed; its failure is an error with its last words."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{Path(command[0]).name} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
