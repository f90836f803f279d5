"""Teach one circuit to run half-cheetahs of many shapes, and probe what its neurons hold about the body.

    python scripts/many_bodies.py --out runs/bodies

Three students of one teacher, which is told its body: one sees a single body, one sees many, and one sees many and is
told the factors of each. All run the same bodies, which none has seen. Prints their returns in Markdown and how much of
each factor a linear probe reads from the neurons. A stopped run goes on with the same command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from numpy.typing import NDArray

from ncp_control.base.machine import use_threads
from ncp_control.distil import DistilSettings, distil
from ncp_control.rl import LoadedPolicy, evaluate, load_policy
from ncp_control.rl.recipes.env_making import make_env

ENV = "ncp/HalfCheetahNoVel-v0"
RANDOM = {"RandomActionOverwrite": {"probability": 0.05}}  # of the training
FACTORS: dict[str, Any] = {"mass": [0.5, 2.0], "gear": [0.7, 1.4], "friction": [0.4, 2.0], "limbs": [0.9, 1.1]}
PLAIN: list[Any] = ["PreviousAction"]
CHANGED: list[Any] = [{"ChangedBody": FACTORS}, "PreviousAction"]
TOLD: list[Any] = [{"ChangedBody": {**FACTORS, "told": True}}, "PreviousAction"]
STUDENTS = {"one body": (PLAIN, CHANGED), "many bodies": (CHANGED, CHANGED), "many bodies, told": (TOLD, TOLD)}
BESIDE = 16  # bodies that are probed side by side
RIDGE = 1e-2  # the weight of the probe's squared coefficients
Array = NDArray[np.float64]


@dataclass
class Arguments:
    """Teach one circuit to run many bodies."""

    teacher: Path = Path("checkpoints/halfcheetah-robust-teacher.safetensors")
    """The teacher's file."""

    steps: int = 120_000
    """Environment steps of each distillation."""

    bodies: int = 100
    """Bodies on which each student is evaluated."""

    probed: int = 320
    """Bodies on which the neurons are probed: the probe learns from four fifths of them."""

    within: tuple[int, int] = (20, 200)
    """The steps of an episode over which the probe takes the mean of each neuron."""

    seed: int = 0
    """Of the distillations."""

    out: Path = Path("runs/bodies")
    """The folder of the runs."""


def returned(agent: LoadedPolicy, make: Callable[[], gym.Env[Any, Any]], arguments: Arguments) -> Array:
    """Returns the return of an agent on each body."""
    return np.array(evaluate(agent, make, arguments.bodies, seed=1000).returns)


def lived(agent: LoadedPolicy, make: Callable[[], gym.Env[Any, Any]], arguments: Arguments) -> tuple[Array, ...]:
    """Returns the means of an agent's sensors (B, I) and neurons (B, N), and the logarithms of the factors (B, 4)."""
    first, last = arguments.within
    envs, rows = [make() for _ in range(BESIDE)], []
    for begin in range(0, arguments.probed, BESIDE):
        starts = [env.reset(seed=2000 + begin + k) for k, env in enumerate(envs)]
        seen, state = np.stack([observation for observation, _ in starts]), None
        sums = [0.0, 0.0]
        for step in range(last):
            actions, state = agent.predict(seen, state)
            if step >= first:
                sums = [sums[0] + seen, sums[1] + state[0].reshape(BESIDE, -1)]
            seen = np.stack([env.step(action)[0] for env, action in zip(envs, actions, strict=True)])
        factors = np.log([info["body_factors"] for _, info in starts])
        rows.append([*(one / (last - first) for one in sums), factors])
    return tuple(np.concatenate(column) for column in zip(*rows, strict=True))


def explained(features: Array, factors: Array) -> Array:
    """Returns the share of each factor's variance that a linear probe explains on bodies that are new to it."""
    trained = len(features) * 4 // 5
    scaled = (features - features[:trained].mean(0)) / (features[:trained].std(0) + 1e-9)
    inputs, middle = scaled[:trained], factors[:trained].mean(0)
    square = inputs.T @ inputs + RIDGE * trained * np.eye(inputs.shape[1])
    missed = factors - middle - scaled @ np.linalg.solve(square, inputs.T @ (factors[:trained] - middle))
    return 1 - (missed[trained:] ** 2).mean(0) / factors[trained:].var(0)


def main() -> None:
    """Teaches the students, and prints their returns and what was probed."""
    arguments = tyro.cli(Arguments)
    use_threads(1)
    teacher = load_policy(arguments.teacher)
    told = [*TOLD, {"ObservationNoise": {"std": 0.0, "clean": True}}]
    returns = {"the teacher itself, told": returned(teacher, lambda: make_env(teacher.note["env"], told), arguments)}
    probes: dict[str, Array] = {}
    for name, (trained, run) in STUDENTS.items():
        agent = distil(
            teacher, ENV, env_wrapper=[RANDOM, *trained], seed=arguments.seed, resume=True,
            settings=DistilSettings(steps=arguments.steps), out=arguments.out / name.replace(",", "").replace(" ", "-"),
        ).agent  # fmt: skip
        make = partial(make_env, ENV, run)
        returns[name] = returned(agent, make, arguments)
        if run is CHANGED:
            seen, neurons, factors = lived(agent, make, arguments)
            probes |= {f"{name}: neurons": explained(neurons, factors), f"{name}: sensors": explained(seen, factors)}
    one = returns["one body"]
    print("| student of | return on bodies never seen | lowest | over that of one body | better on |")
    print("|---|---|---|---|---|")
    for name, own in returns.items():
        spread, over, better = np.std(own, ddof=1), np.mean(own) / np.mean(one), np.mean(own > one)
        print(f"| {name} | {np.mean(own):,.0f} ± {spread:,.0f} | {own.min():,.0f} | {over:.2f} | {better:.0%} |")
    print(f"\n| probe | {' | '.join(FACTORS)} |\n|---|---|---|---|---|")
    for name, shares in probes.items():
        print(f"| {name} | {' | '.join(f'{share:.2f}' for share in shares)} |")


if __name__ == "__main__":
    main()
