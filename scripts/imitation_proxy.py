"""Compare how fast circuits learn to imitate a teacher, in a minute each: a cheap stand-in for learning from rewards.

The teacher of the half-cheetah acts with noise of up to 0.4 and 5 % random actions in 72 episodes. Each circuit learns
to tell its actions from the eight positions alone: Adam with one cycle of its learning rate, 32 windows of 64 steps a
batch, of which the first 8 do not count. The last 8 episodes are kept for validation. Errors are mean squares.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import ncp_envs
from ncp_control.base.progress import tracked
from ncp_control.rl import load_policy
from ncp_control.rl.policies.circuit import Circuit
from ncp_control.wiring.plan_text import parse_plan

EPISODES, STEPS, KEPT = 72, 1000, 8
WINDOWS, LENGTH, WARM_UP = 32, 64, 8
ONWARD = "AutoNCP(48, 16)"
MORE = "AutoNCP(48, 16, sparsity=0.1)"
WITHIN = (
    "NCP(16, 16, 16, sensory_fanout=16, inter_fanout=16, recurrent_command=256, motor_fanin=16, recurrent_inter=256)"
)
SHORT: dict[str, Any] = {"time_constants": (0.2, 1.0)}
SIGNED: dict[str, Any] = {"activation": "tanh", "signed": True}
ROWS: list[tuple[str, str, str, dict[str, Any], float]] = [
    ("LSTM", "15", "lstm", {}, 3e-2),
    ("CfC", ONWARD, "cfc", {}, 1e-2),
    ("LTC", ONWARD, "ltc", {}, 4e-2),
    ("NeuralLTC", MORE, "neuralltc", SHORT, 3e-2),
    ("NeuralLTC, tanh", MORE, "neuralltc", {**SHORT, "activation": "tanh"}, 3e-2),
    ("NeuralLTC, signed", MORE, "neuralltc", {**SHORT, **SIGNED}, 3e-2),
    ("NeuralLTC, signed, synapses within layers", WITHIN, "neuralltc", {**SHORT, **SIGNED}, 3e-2),
    ("the same, calibrated", WITHIN, "neuralltc", {**SIGNED, "init": "calibrated"}, 3e-2),
    ("the same, 3 solver steps", WITHIN, "neuralltc", {**SIGNED, "init": "calibrated", "unfolds": 3}, 3e-2),
]


@dataclass
class Arguments:
    """Compare circuits by imitation.

    Example: python scripts/imitation_proxy.py --batches 500
    """

    teacher: Path = Path("checkpoints/halfcheetah-teacher.safetensors")
    """The teacher."""

    batches: int = 2000
    """Batches of training."""

    seed: int = 0
    """Everything random follows from it."""


def demonstrate(teacher: Path, seed: int) -> tuple[Tensor, Tensor]:
    """Returns the standardised positions (B, T, 8) and the teacher's actions (B, T, 6)."""
    import gymnasium as gym

    policy, generator = load_policy(teacher), np.random.default_rng(seed)
    with ncp_envs.without_mass_warning():
        envs = ncp_envs.MujocoVectorEnv([lambda: gym.make("HalfCheetah-v5", disable_env_checker=True)] * EPISODES)
    observed = envs.reset(seed=seed)[0]
    size = generator.uniform(0, 0.4, (EPISODES, 1))
    seen: list[NDArray[Any]] = []
    acted: list[NDArray[Any]] = []
    for _ in range(STEPS):
        actions = policy.predict(observed, deterministic=True)[0]
        seen.append(observed[:, :8])
        acted.append(actions)
        done = np.clip(actions + size * generator.standard_normal(actions.shape), -1, 1)
        at_random = generator.random(EPISODES) < 0.05
        done[at_random] = generator.uniform(-1, 1, (int(at_random.sum()), 6))
        observed = envs.step(done)[0]
    positions, labels = (torch.tensor(np.stack(rows, axis=1), dtype=torch.float32) for rows in (seen, acted))
    training = positions[:-KEPT]
    return (positions - training.mean((0, 1))) / training.std((0, 1)), labels


def imitate(circuit: Circuit, rate: float, data: tuple[Tensor, Tensor], batches: int, tracker: Any) -> list[float]:
    """Trains a circuit and a linear head; returns the validation errors after an eighth, a half and all batches."""
    positions, actions = data
    head = nn.Linear(circuit.output_size, actions.shape[-1])
    parameters = [*circuit.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=batches)

    def error(rows: Tensor, steps: Tensor) -> Tensor:
        outputs = head(circuit.run(positions[rows, steps], None, None)[0])
        errors: Tensor = outputs - actions[rows, steps]
        return errors[:, WARM_UP:].square().mean()

    found = []
    for batch in range(1, batches + 1):
        rows = torch.randint(EPISODES - KEPT, (WINDOWS, 1))
        loss = error(rows, torch.randint(STEPS - LENGTH, (WINDOWS, 1)) + torch.arange(LENGTH))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if batch in (batches // 8, batches // 2, batches):
            with torch.no_grad():
                found.append(float(error(torch.arange(EPISODES - KEPT, EPISODES)[:, None], torch.arange(STEPS))))
        tracker.advance()
    return found


def main() -> None:
    """Trains all circuits and prints the table."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    data = demonstrate(arguments.teacher, arguments.seed)
    points = [f"{arguments.batches // part} batches" for part in (8, 2, 1)]
    table = Table("circuit", "wiring", "parameters", "rate", *points, "seconds")
    with tracked("imitating", len(ROWS) * arguments.batches) as tracker:
        for name, wiring, cell, settings, rate in ROWS:
            torch.manual_seed(arguments.seed)
            plan = int(wiring) if wiring.isdigit() else parse_plan(wiring)
            circuit = Circuit(data[0].shape[-1], plan, cell, settings)
            began = time.perf_counter()
            errors = imitate(circuit, rate, data, arguments.batches, tracker)
            count = sum(parameter.numel() for parameter in circuit.parameters())
            shown = "NCP" if wiring == WITHIN else wiring
            took = f"{time.perf_counter() - began:.0f}"
            table.add_row(name, shown, f"{count:,}", f"{rate:g}", *(f"{value:.4f}" for value in errors), took)
    Console().print(table)


if __name__ == "__main__":
    main()
