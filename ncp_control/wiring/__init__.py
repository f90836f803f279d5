"""Signed, immutable graphs over sensory inputs and inter, command and motor neurons, and the plans that draw them.

A plan (`NCP`, `AutoNCP`, `FullyConnected`, `Random`, `GapJunctions`) says what to draw; `plan.build(inputs)` draws it
from the plan's own seed and gives a `Wiring`. `Wiring.from_edges` writes a circuit down neuron by neuron;
`tap_withdrawal` is one that a worm has.

    wiring = AutoNCP(40, 16, seed=1).build(8)
    print(wiring)
    same = Wiring.from_json(wiring.to_json())
"""

from ncp_control.wiring.edges import Edges, WiringError
from ncp_control.wiring.graph import Wiring
from ncp_control.wiring.plans import NCP, AutoNCP, FullyConnected, GapJunctions, Plan, Random
from ncp_control.wiring.worm import tap_withdrawal

__all__ = [
    "NCP",
    "AutoNCP",
    "Edges",
    "FullyConnected",
    "GapJunctions",
    "Plan",
    "Random",
    "Wiring",
    "WiringError",
    "tap_withdrawal",
]
