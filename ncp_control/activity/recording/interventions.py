"""Changing a circuit for a while: neurons held, synapses cut; and the return that is left without each neuron."""

from __future__ import annotations

import copy
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.base.files import write_atomically
from ncp_control.base.progress import tracked
from ncp_control.base.text import csv_cell
from ncp_control.neurons import Cell, Held, without_synapses
from ncp_control.rnn import RNN
from ncp_control.wiring import Wiring


def circuit_of(policy: Any) -> Any:
    """Returns the circuit that chooses the policy's actions."""
    from ncp_control.rl.policies.circuit import actor_circuit

    circuit = actor_circuit(policy)
    if circuit is None:
        raise ValueError(
            f"{type(policy).__name__} has no circuit to record: train with NCPPolicy, or with NCPExtractor over History"
        )
    return circuit


@contextmanager
def intervened(circuit: Any, hold: Mapping[str, float], cut: Iterable[str]) -> Iterator[list[str]]:
    """Holds neurons and cuts synapses while the block runs, and gives both in words.

    :param circuit: from `circuit_of`
    :param hold: neurons, by name, and the values at which they are held
    :param cut: synapses, written `source->target`
    """
    cuts = list(cut)
    wiring: Wiring = circuit.rnn.wiring
    values = {wiring.neuron(name): value for name, value in hold.items()}
    synapses, sensory = find_synapses(wiring, cuts)
    whole = circuit.rnn.cell
    try:
        cell = whole
        if cuts:
            cell = without_synapses(cell, synapses, sensory)
        if values:
            cell = Held(copy.deepcopy(cell), values)
        circuit.rnn.cell = cell
        yield [f"{name}={value:g}" for name, value in hold.items()] + cuts
    finally:
        circuit.rnn.cell = whole


def cell_without_holds(rnn: RNN) -> Cell:
    """Returns the network's cell, without the `Held` that may be around it."""
    return rnn.cell.cell if isinstance(rnn.cell, Held) else rnn.cell


def find_synapses(wiring: Wiring, written: Iterable[str]) -> tuple[list[int], list[int]]:
    """Finds synapses that are written `source->target`.

    :param wiring: the circuit's
    :param written: the synapses
    :return: the numbers of those between neurons, and the numbers of the sensory ones
    """
    between_neurons: list[int] = []
    from_inputs: list[int] = []
    for text in written:
        source, arrow, target = (part.strip() for part in text.partition("->"))
        if not arrow:
            raise ValueError(f"a synapse is written source->target, such as inter0->command1, not {text!r}")
        end = wiring.neuron(target)
        is_sensory = source in wiring.input_names and source not in wiring.neuron_names
        start = wiring.input_names.index(source) if is_sensory else wiring.neuron(source)
        edges = wiring.sensory if is_sensory else wiring.synapses
        pairs = list(zip([int(k) for k in edges.source], [int(k) for k in edges.target], strict=True))
        if (start, end) not in pairs:
            reached = [wiring.neuron_names[number] for begin, number in pairs if begin == start]
            raise ValueError(
                f"there is no synapse from {source} to {target}: {source} has synapses to "
                f"{', '.join(reached) or 'no neuron'}"
            )
        (from_inputs if is_sensory else between_neurons).append(pairs.index((start, end)))
    return between_neurons, from_inputs


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
        wiring.neuron(name)  # refuses an unknown name before the first episode
    ablations: list[Ablation] = []
    with tracked("silencing", len(names) + 1, unit="episodes", shown=progress) as tracker:
        whole = evaluate(actor, make_env, episodes, seed).returns
        tracker.advance(1, episodes, f"whole circuit {np.mean(whole):,.1f}")
        for name in names:
            with intervened(circuit, {name: value}, ()):
                returns = evaluate(actor, make_env, episodes, seed).returns
            ablations.append(Ablation(name, layers[name], list(returns)))
            ablations.sort(key=lambda ablation: ablation.mean)
            if out is not None:
                write_ablations(whole, ablations, Path(out))
            tracker.advance(1, episodes, f"without {name} {np.mean(returns):,.1f}")
    return list(whole), ablations


def write_ablations(whole: list[float], ablations: list[Ablation], path: Path) -> None:
    """Writes a CSV file with the whole circuit first and then each neuron."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["neuron", "layer", "mean_return", *(f"return_{k}" for k in range(len(whole)))])
    writer.writerow(["", "whole circuit", float(np.mean(whole)), *whole])
    for ablation in ablations:
        writer.writerow([csv_cell(ablation.name), ablation.layer, ablation.mean, *ablation.returns])
    write_atomically(path, file.getvalue().encode())
