"""The plan that adds gap junctions to another plan's wiring."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ncp_control.wiring.edges import WiringError, whole
from ncp_control.wiring.graph import Wiring
from ncp_control.wiring.plan import Plan, assign


@dataclass(frozen=True)
class GapJunctions(Plan):
    """The wiring of another plan, with gap junctions added between random pairs of neurons that have none yet.

    Only an `LTC` has currents through gap junctions; the other cells use the synapses alone. Nest plans to add gap
    junctions in several layers: GapJunctions(GapJunctions(plan, 4, "command"), 2, "motor").

    :param plan: the other plan
    :param count: how many gap junctions to add
    :param within: the layer in which both neurons lie, such as "command"; None for any two neurons
    :param seed: seed of the gap junctions
    """

    plan: Plan
    count: int
    within: str | None = None
    seed: int = 0
    units: int = field(init=False, repr=False, compare=False)
    outputs: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.plan, Plan):
            raise WiringError(f"GapJunctions takes a plan such as AutoNCP(40, 16) first, got {self.plan!r}")
        assign(
            self,
            count=whole(self.count, "the count of gap junctions"),
            seed=whole(self.seed, "seed"),
            units=self.plan.units,
            outputs=self.plan.outputs,
        )

    def build(self, inputs: int) -> Wiring:
        """Returns the wiring for that many inputs; refuses more gap junctions than there are free pairs of neurons."""
        wiring = self.plan.build(inputs)
        if self.within is not None and self.within not in list(wiring.layers):
            raise WiringError(f"there is no layer {self.within!r} to join; the layers are {', '.join(wiring.layers)}")
        part = slice(0, wiring.units) if self.within is None else wiring.layers[self.within]
        free = np.zeros((wiring.units, wiring.units), dtype=bool)
        free[part, part] = True
        free = np.triu(free, k=1)
        free[wiring.gap_junctions[:, 0], wiring.gap_junctions[:, 1]] = False
        pairs = np.argwhere(free)
        if self.count > len(pairs):
            raise WiringError(
                f"{self.count} gap junctions do not fit: {self.within or 'the wiring'} has {part.stop - part.start} "
                f"neurons and {len(pairs)} pairs of them still to join"
            )
        drawn = np.random.default_rng(self.seed).choice(len(pairs), size=self.count, replace=False)
        return Wiring(
            wiring.inputs,
            wiring.layer_sizes,
            wiring.sensory,
            wiring.synapses,
            np.concatenate([wiring.gap_junctions, pairs[drawn]]),
            wiring.input_names,
            wiring.neuron_names,
        )
