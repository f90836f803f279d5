"""Which neurons matter: an agent's return while each of them is silenced."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.activity.recording.interventions import circuit_of, intervened
from ncp_control.base.files import write_atomically
from ncp_control.base.progress import tracked
from ncp_control.base.text import csv_cell


@dataclass(frozen=True)
class Ablation:
    """The returns that are left while one neuron is held.

    :param name: the neuron's name
    :param layer: the neuron's layer
    :param returns: one for each episode; the episodes have the same seeds as those of the whole circuit
    """

    name: str
    layer: str
    returns: list[float]

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(np.mean(self.returns))


def ablate(
    actor: Any,
    make_env: Callable[[], Any],
    neurons: Iterable[str] | None = None,
    *,
    value: float = 0.0,
    episodes: int = 3,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> tuple[list[float], list[Ablation]]:
    """Lets an agent act while one neuron after the other is held at a value.

    :param actor: a policy from `load_policy`, or a model of Stable-Baselines3 whose policy has a circuit
    :param make_env: makes an environment like the one that the agent was trained in
    :param neurons: the neurons' names; all neurons by default
    :param value: the value at which each neuron is held; every state starts at 0
    :param episodes: how many episodes for each neuron; every neuron has the same seeds
    :param seed: seed of the first episode
    :param out: a CSV file that is rewritten after every neuron, so that an interrupted run leaves its results
    :param progress: show a progress bar
    :return: the returns of the whole circuit, and an `Ablation` for each neuron, the most important neuron first
    """
    from ncp_control.rl import evaluate

    circuit = circuit_of(getattr(actor, "policy", actor))
    wiring = circuit.rnn.wiring
    names = list(wiring.neuron_names) if neurons is None else list(neurons)
    layers = {
        name: layer for layer, part in wiring.layers.items() for name in wiring.neuron_names[part.start : part.stop]
    }
    for name in names:
        wiring.neuron(name)
    found: list[Ablation] = []
    with tracked("silencing", len(names) + 1, unit="episodes", shown=progress) as tracker:
        whole = evaluate(actor, make_env, episodes, seed).returns
        tracker.advance(1, episodes, f"whole circuit {np.mean(whole):,.1f}")
        for name in names:
            with intervened(circuit, {name: value}, ()):
                returns = evaluate(actor, make_env, episodes, seed).returns
            found.append(Ablation(name, layers[name], list(returns)))
            found.sort(key=lambda one: one.mean)
            if out is not None:
                write_ablations(whole, found, Path(out))
            tracker.advance(1, episodes, f"without {name} {np.mean(returns):,.1f}")
    return list(whole), found


def write_ablations(whole: list[float], found: list[Ablation], path: Path) -> None:
    """Writes a CSV file with the whole circuit first and then each neuron."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["neuron", "layer", "mean_return", *(f"return_{k}" for k in range(len(whole)))])
    writer.writerow(["", "whole circuit", float(np.mean(whole)), *whole])
    for one in found:
        writer.writerow([csv_cell(one.name), one.layer, one.mean, *one.returns])
    write_atomically(path, file.getvalue().encode())
