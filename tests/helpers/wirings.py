"""Wirings and plans that several test files use, and helpers that check them."""

import numpy as np
import pytest

from ncp_control.wiring import NCP, AutoNCP, Edges, FullyConnected, GapJunctions, Random, Wiring, WiringError

SMALL_NCP = NCP(5, 4, 3, sensory_fanout=2, inter_fanout=2, recurrent_command=5, motor_fanin=2, seed=4)


DEEP_NCP = NCP(
    (7, 5),
    4,
    2,
    sensory_fanout=3,
    inter_fanout=(2, 1),
    recurrent_command=3,
    motor_fanin=2,
    recurrent_inter=6,
    seed=4,
)


PLANS = [
    FullyConnected(9, 4, seed=4),
    Random(12, 4, sparsity=0.7, seed=4),
    SMALL_NCP,
    DEEP_NCP,
    AutoNCP(30, 8, seed=4),
    GapJunctions(AutoNCP(30, 8, seed=4), 5, within="command", seed=4),
]


def dense(edges: Edges, sources: int, targets: int) -> np.ndarray:
    matrix = np.zeros((sources, targets), dtype=bool)
    for source, target, _ in edges:
        matrix[source, target] = True
    return matrix


def ways(wiring: Wiring) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each neuron whether an input reaches it and whether it reaches a motor neuron.

    Both follow from powers of the adjacency matrix.
    """
    step = np.eye(wiring.units, dtype=bool) | dense(wiring.synapses, wiring.units, wiring.units)
    for a, b in wiring.gap_junctions:
        step[a, b] = step[b, a] = True
    walk = step
    for _ in range(wiring.units):
        walk = walk @ step
    return dense(wiring.sensory, wiring.inputs, wiring.units).any(axis=0) @ walk, walk[:, -wiring.outputs :].any(axis=1)


def touch_circuit() -> Wiring:
    """A tap-withdrawal circuit of C. elegans after Wicks, Roehrig and Rankin (1996), not exactly theirs."""
    return Wiring.from_edges(
        ["PLM", "ALM", "AVM", "PVD"],
        inter=["AVD", "PVC", "DVA"],
        command=["AVA", "AVB"],
        motor=["REV", "FWD"],
        sensory=[
            ("PLM", "PVC"),
            ("PLM", "DVA"),
            ("PLM", "AVD", -1),
            ("PLM", "AVA", -1),
            ("ALM", "AVD"),
            ("ALM", "PVC", -1),
            ("AVM", "AVD"),
            ("AVM", "PVC", -1),
            ("AVM", "AVB", -1),
            ("PVD", "AVA"),
            ("PVD", "PVC"),
        ],
        synapses=[
            ("AVD", "AVA"),
            ("AVD", "AVB", -1),
            ("PVC", "AVB"),
            ("PVC", "AVA", -1),
            ("DVA", "AVB"),
            ("DVA", "PVC"),
            ("AVA", "AVB", -1),
            ("AVB", "AVA", -1),
            ("AVA", "REV"),
            ("AVB", "FWD"),
        ],
        gap_junctions=[("PVC", "DVA"), ("AVB", "DVA"), ("AVD", "AVA")],
    )


def refused(make, *fragments: str) -> None:
    with pytest.raises(WiringError) as caught:
        make()
    message = str(caught.value)
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message, message
