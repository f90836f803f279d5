"""What all plans have in common. `plan.build(inputs)` draws with a generator of its own: the same wiring every time."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ncp_control.wiring.edges import WiringError, is_whole, whole
from ncp_control.wiring.graph import Wiring


class Plan(ABC):
    """A frozen description of a random wiring.

    Every synapse excites (+1) or inhibits (-1) with equal chance. Equal plans always draw equal wirings. NumPy's global
    generator is neither read nor advanced.

    :ivar units: number of neurons
    :ivar outputs: number of motor neurons among them, which are the last ones
    """

    units: int
    outputs: int

    @abstractmethod
    def build(self, inputs: int) -> Wiring:
        """Returns the wiring for that many inputs."""


def assign(plan: Plan, **values: object) -> None:
    """Sets attributes of a plan that is frozen, while it is made."""
    for name, value in values.items():
        object.__setattr__(plan, name, value)


def assign_sizes(plan: Plan, units: int, outputs: int | None, seed: int) -> None:
    """Checks and sets the units, outputs and seed of a plan; outputs of None makes all neurons motor neurons."""
    units = whole(units, "units", least=1)
    outputs = units if outputs is None else whole(outputs, "outputs", least=1)
    if outputs > units:
        raise WiringError(f"{units} neurons cannot have {outputs} motor neurons among them; take at least {outputs}")
    assign(plan, units=units, outputs=outputs, seed=whole(seed, "seed"))


def inter_and_motor(units: int, outputs: int) -> tuple[tuple[str, int], ...]:
    """Returns the layers of a plan without command neurons: all neurons that are not motor are inter neurons."""
    return (("motor", units),) if outputs == units else (("inter", units - outputs), ("motor", outputs))


def checked_sparsity(sparsity: object) -> float:
    """Returns the share of synapses left out as a float, and refuses one that is not from 0 to 1."""
    if (is_whole(sparsity) or isinstance(sparsity, (float, np.floating))) and 0 <= sparsity <= 1:
        return float(sparsity)
    raise WiringError(f"sparsity is the share of synapses left out, a number from 0 to 1, got {sparsity!r}")
