"""Which neurons matter: the return with each of them silenced."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.activity.recording.record import changed, circuit_of
from ncp_control.storage.atomic_writes import write_atomically
from ncp_control.support.progress import tracked


@dataclass(frozen=True)
class Ablation:
    """What is left of the return without a neuron.

    :param name: of the neuron
    :param layer: it is in
    :param returns: of episodes with the same seeds as the whole circuit's
    """

    name: str
    layer: str
    returns: list[float]

    @property
    def mean(self) -> float:
        """Of the returns."""
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
    """Lets an agent act with one neuron after the other held at a value.

    :param actor: a policy of `load_policy`, or a model of Stable-Baselines3 whose policy has a circuit
    :param make_env: makes an environment, as the agent was trained in
    :param neurons: their names; all of them by default
    :param value: at which a neuron is held; 0 is where every state starts
    :param episodes: for each neuron, with the same seeds
    :param out: a CSV file, written anew after every neuron, so that it holds what is known whenever this ends
    :return: the returns of the whole circuit, and an `Ablation` for each neuron, the one that matters most first
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
            with changed(circuit, {name: value}, ()):
                returns = evaluate(actor, make_env, episodes, seed).returns
            found.append(Ablation(name, layers[name], list(returns)))
            found.sort(key=lambda one: one.mean)
            if out is not None:
                write_ablations(whole, found, Path(out))
            tracker.advance(1, episodes, f"without {name} {np.mean(returns):,.1f}")
    return list(whole), found


def write_ablations(whole: list[float], found: list[Ablation], path: Path) -> None:
    """A CSV file: the whole circuit first, then each neuron."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["neuron", "layer", "mean_return", *(f"return_{k}" for k in range(len(whole)))])
    writer.writerow(["", "whole circuit", float(np.mean(whole)), *whole])
    for one in found:
        writer.writerow([one.name, one.layer, one.mean, *one.returns])
    write_atomically(path, file.getvalue().encode())
