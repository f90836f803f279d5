"""Signed, immutable graphs over sensory inputs and inter, command and motor neurons, and the plans that draw them.

A plan (`NCP`, `AutoNCP`, `FullyConnected`, `Random`, `GapJunctions`) says what to draw, and `plan.build(inputs)` draws
a `Wiring` from the plan's own seed. `Wiring.from_edges` makes a circuit that is written down neuron by neuron, and
`tap_withdrawal` returns one that a worm has::

    wiring = AutoNCP(40, 16, seed=1).build(8)
    print(wiring)
    same = Wiring.from_json(wiring.to_json())
"""

from ncp_control.wiring.edges import Edges, WiringError
from ncp_control.wiring.graph import Wiring
from ncp_control.wiring.ncp import NCP, AutoNCP
from ncp_control.wiring.plan import FullyConnected, GapJunctions, Plan, Random
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
