"""A student that learns with few synapses: while it learns, the weakest go, and others grow where they would help."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, isinf, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ncp_control.distil.smaller import check_prunable, places_of, smaller_wiring, spread, strengths
from ncp_control.distil.student import Student, smaller_student
from ncp_control.neurons.parameters import leads_back
from ncp_control.wiring import Wiring

EXCHANGES = 6  # of synapses in each iteration, all in its first half: a student acts with synapses that it is used to
STIRRED = 0.3  # the share of the synapses that the first exchange moves; it falls along a cosine
SETTLED = 0.75  # the share of all batches after which no synapse moves any more
REMEMBERED = 0.9  # what the running mean of the gradients keeps of itself in each batch


class Rewiring:
    """Keeps a number of a circuit's synapses, and chooses again and again which ones (Evci and others, 2020: RigL).

    The circuit keeps the parameters of all synapses that its wiring allows; those that are not there have the weight
    zero. Six times in the first half of each iteration a share of the synapses that are there goes, those with the
    smallest weights, and as many others come, with the weight zero, those with the largest mean gradients. A neuron
    keeps the strongest of its synapses from inputs and from earlier layers, so that inputs reach all neurons. Synapses
    into neurons that reach no motor neuron go first.

    :param student: the student, whose weights of absent synapses become zero
    :param synapses: how many synapses there are, sensory ones included
    :param generator: chooses the first ones
    """

    def __init__(self, student: Student, synapses: int, generator: torch.Generator) -> None:
        cell: Any = student.circuit.cell
        check_growable(cell)
        self.student, self.synapses, self.wiring = student, synapses, cell.wiring
        self.weights = strengths(cell)
        self.places = [torch.tensor(places, dtype=torch.int64) for places in places_of(cell)]
        self.counts = [len(places) for places in self.places]
        self.gradients = [weight.new_zeros(len(rows_of(weight)), count) for weight, count in self.pairs()]
        sensory, others = self.wiring.sensory, self.wiring.synapses
        self.target = np.concatenate([sensory.target, others.target])
        self.source = np.concatenate([sensory.source - self.wiring.inputs, others.source])  # below 0: an input
        self.onward = leads_onward(self.wiring, self.source, self.target)
        check_count(synapses, self.wiring)
        self.present = self.strongest(torch.rand(len(self.target), generator=generator).numpy())
        absent = torch.tensor(np.flatnonzero(~self.present))
        more = absent[torch.randperm(len(absent), generator=generator)[: synapses - int(self.present.sum())]]
        self.present[more.numpy()] = True
        self.clear()
        student.trained = [parameter.detach().clone() for parameter in student.parameters]

    def pairs(self) -> list[tuple[Tensor, int]]:
        """Returns the weights of the sensory synapses and of the others, each with the number of synapses."""
        return list(zip(self.weights, self.counts, strict=True))

    def strongest(self, strength: np.ndarray) -> np.ndarray:
        """Returns for each neuron the strongest of its synapses from inputs and earlier layers, (S + E,) bool.

        :param strength: of all synapses, (S + E,); absent ones may have -1
        """
        found = np.zeros(len(self.target), dtype=bool)
        order = np.flatnonzero(self.onward)[np.argsort(strength[self.onward], kind="stable")]
        last = {int(self.target[k]): int(k) for k in order}  # the last one of a target stays
        found[list(last.values())] = True
        return found

    @torch.no_grad()
    def keep_to_present(self) -> None:
        """Adds the gradients of a batch to their running mean, and sets those of absent synapses to zero."""
        for weight, places, mean, present in zip(self.weights, self.places, self.gradients, self.split(), strict=True):
            gradient = weight.grad
            assert gradient is not None
            rows = rows_of(gradient)
            mean.lerp_(rows[:, places], 1 - REMEMBERED)
            rows[:, places[~present]] = 0  # the momentum of an optimizer must not move what is absent

    def after_step(self, done: int, batches: int, all_batches: int) -> None:
        """Exchanges synapses if it is time, and sets the weights of absent ones to zero.

        :param done: the batches so far
        :param batches: those of an iteration
        :param all_batches: those of the whole distillation
        """
        share = done / (SETTLED * all_batches)
        before, now = (2 * EXCHANGES * k // batches for k in ((done - 1) % batches, (done - 1) % batches + 1))
        if before < now and (now <= EXCHANGES or before == 0) and share < 1:
            self.exchange(STIRRED * (0.5 + 0.5 * cos(pi * share)))
        self.clear()

    @torch.no_grad()
    def exchange(self, share: float) -> None:
        """Lets the weakest share of the synapses go, and others grow.

        :param share: of the synapses
        """
        sizes = [
            rows_of(weight)[:, places].norm(dim=0) for weight, places in zip(self.weights, self.places, strict=True)
        ]
        strength = np.where(self.present, torch.cat(sizes).double().numpy(), -1.0)
        fixed = self.strongest(strength)
        strength[self.present & ~self.reaching()[self.target]] = 0.0  # what no motor neuron hears is the weakest of all
        strength[fixed] = np.inf
        absent = len(self.present) - self.synapses  # no more can grow
        stays = min(self.synapses, max(int(fixed.sum()), round((1 - share) * self.synapses), self.synapses - absent))
        present = np.zeros_like(self.present)
        present[np.argsort(-strength, kind="stable")[:stays]] = True
        # As in RigL, the synapses with the largest gradients come.
        pull = torch.cat([mean.norm(dim=0) for mean in self.gradients]).double().numpy()
        pull[self.present] = -1.0  # what has gone now does not come back at once
        present[np.argsort(-pull, kind="stable")[: self.synapses - stays]] = True
        self.present = present

    def reaching(self) -> np.ndarray:
        """Returns which neurons reach a motor neuron, (N,) bool."""
        among = self.present & (self.source >= 0)
        motor = np.arange(self.wiring.motor.start, self.wiring.motor.stop)
        return spread(motor, self.target[among], self.source[among], self.wiring.units)

    @torch.no_grad()
    def clear(self) -> None:
        """Sets the weights of absent synapses to zero."""
        for weight, places, present in zip(self.weights, self.places, self.split(), strict=True):
            rows_of(weight)[:, places[~present]] = 0

    def split(self) -> list[Tensor]:
        """Returns which sensory synapses are there, and which of the others."""
        return list(torch.tensor(self.present).split(self.counts))

    def sparse_student(self, make_model: Callable[[Wiring], Any]) -> Student:
        """Returns a student whose wiring has the present synapses alone, and which acts as the student does now.

        :param make_model: makes an untrained model with another wiring, in the student's environment
        """
        there = [
            (rows_of(weight)[:, places] != 0).any(dim=0).numpy()
            for weight, places in zip(self.weights, self.places, strict=True)
        ]
        wiring, neurons = smaller_wiring(self.wiring, there[0], there[1])
        return smaller_student(self.student, make_model(wiring), neurons)

    def state(self) -> dict[str, Any]:
        """Returns what has to be remembered besides the weights."""
        return {"present": torch.tensor(self.present), "gradients": self.gradients}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continues from what `state` returned."""
        found = [state["present"], *state["gradients"]]
        if [value.shape for value in found] != [self.present.shape, *(mean.shape for mean in self.gradients)]:
            raise ValueError("its synapses are not those of the student")
        self.present, self.gradients = state["present"].numpy(), state["gradients"]


def rows_of(weight: Tensor) -> Tensor:
    """Returns a view of weights, (how many a synapse has, synapses)."""
    return weight if weight.dim() == 2 else weight[None]


def leads_onward(wiring: Wiring, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Returns which synapses lead on from inputs and earlier layers, (S + E,) bool.

    If some neurons have none of these, it is those to a neuron that is more steps away from the inputs.

    :param source: where each synapse begins; below 0: an input
    :param target: where each synapse ends
    """
    onward = np.append(np.ones(len(wiring.sensory), dtype=bool), ~leads_back(wiring).numpy())
    if len(np.unique(target[onward])) == wiring.units:
        return onward
    steps = np.append(np.full(wiring.units, wiring.units + 1), 0)  # from the inputs, which are last
    source = np.maximum(source, -1)
    for _ in range(wiring.units):
        np.minimum.at(steps, target, steps[source] + 1)
    found: np.ndarray = steps[source] < steps[target]
    return found


def check_growable(cell: Any) -> None:
    """Refuses a cell whose absent synapses have no gradient by which they could grow."""
    check_prunable(cell)
    if isinf(cell.absent):
        raise ValueError(
            f"an absent synapse of {type(cell).__name__} has no gradient, so none can grow: choose another cell, such "
            "as dualltc, neuralltc or cfc, or leave synapses out and use --prune"
        )


def check_count(synapses: int, wiring: Wiring) -> None:
    """Refuses a number of synapses that a wiring cannot have, or with which some neurons would hear nothing."""
    possible = wiring.existing_synapses
    if not wiring.units <= synapses <= possible:
        raise ValueError(
            f"this wiring has {wiring.units} neurons and {possible} synapses, so the number of synapses lies between "
            f"{wiring.units}, one into each neuron, and {possible}, got {synapses}"
        )
