"""Certificates of made-up numbers, for what prints and draws them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ncp_control.audit.certificate import (
    Attack,
    Certificate,
    CertifiedAction,
    CertifiedNeuron,
    CertifiedSynapse,
    Forgetting,
    Path,
    Range,
)
from ncp_control.wiring import AutoNCP, Wiring

SENSORS = ("cart position", "cart velocity", "pole angle", "pole angular velocity")
ACTIONS = ("push", "turn")


def certificate_of(
    wiring: Wiring | None = None,
    sensors: tuple[str, ...] = SENSORS,
    actions: tuple[str, ...] = ACTIONS,
    attacked: bool = True,
    **changes: Any,
) -> Certificate:
    """Returns a certificate of a circuit, by default of one of 12 neurons.

    :param wiring: the circuit's
    :param sensors: a name for each of its inputs
    :param actions: the actions' names
    :param attacked: whether it was attacked, which held
    :param changes: fields that replace the made-up ones
    """
    wiring = AutoNCP(12, 2, seed=1).build(len(sensors)) if wiring is None else wiring
    rng = np.random.default_rng(0)
    layers = {k: name for name, where in wiring.layers.items() for k in range(where.start, where.stop)}
    names = wiring.neuron_names
    neurons = tuple(
        CertifiedNeuron(
            names[k], layers[k], ranged(rng, attacked), Range(0.25 * (k + 1), 0.5 * (k + 1)),
            None if k == 0 else 10 * k, 0.0 if k == 1 else 0.01 * k,
            "dead" if k == 1 else "saturated" if k == 2 else "active",
            0.002 * k if attacked and k < 6 else None,
        )
        for k in range(wiring.units)
    )  # fmt: skip
    sensory, inner, gaps = wiring.sensory, wiring.synapses, wiring.gap_junctions
    ends = [(sensors[s], names[t], "sensory", p) for s, t, p in sensory]
    ends += [(names[s], names[t], "synapse", p) for s, t, p in inner]
    ends += [(names[a], names[b], "gap junction", 0) for a, b in gaps]
    signs = {1: "+", -1: "-", 0: "?"}
    conditions = ("active", "active", "closed", "open", "dead")
    synapses = tuple(
        CertifiedSynapse(
            source,
            target,
            kind,
            signs[int(polarity)],
            conditions[k % 5],
            0.0 if k % 5 == 4 else k / 500,
            k / 2000 if attacked and k % 5 == 0 else None,
        )
        for k, (source, target, kind, polarity) in enumerate(ends)
    )
    found = Certificate(
        agent="cartpole", sha256="0123456789abcdef" * 4, cell="LTC (fused, 3 unfolds)",
        counts={"observations": len(sensors), "actions": len(actions), "neurons": wiring.units,
                "sensory": len(sensory), "synapses": len(inner), "gap_junctions": len(gaps)},
        box="3 standard deviations around the mean of the training",
        sensors=sensors, observations=tuple(Range(-1.5, 2.5 + k) for k in range(len(sensors))), elapsed=(1.0, 1.0),
        error=0.01, error_units=(0.5,) * len(sensors), epsilon=0.01, neurons=neurons,
        states=tuple(one.state for one in neurons), synapses=synapses,
        actions=tuple(
            CertifiedAction(name, ranged(rng, attacked), Range(-1.25, 1.75), True, 0.0125, 0.0375, None,
                            0.0118 if attacked else None, 0.0321 if attacked else None)
            for name in actions
        ),
        paths=tuple(Path(sensor, action, "+-?"[(i + j) % 3], 1 + i, 5) for i, sensor in enumerate(sensors[:-1])
                    for j, action in enumerate(actions)),
        forgetting=Forgetting(True, "every cycle passes on less than all of a difference.", 34, 0.91,
                              (((names[0], names[3]), 0.875),), 12 if attacked else None),
        notes=("The time constant of inter0 is not proved, because its cell has none.",), seconds=0.25,
        attack=Attack(10_000, (), 1.5, 3.25, 4_000) if attacked else None,
    )  # fmt: skip
    return replace(found, **changes)


def ranged(rng: np.random.Generator, attacked: bool) -> Range:
    """Returns a made-up range around 0, of which an attack has found a part."""
    low, high = -float(rng.uniform(0.4, 0.9)), float(rng.uniform(0.4, 0.9))
    return Range(low, high, *((low * 0.8, high * 0.7) if attacked else ()))


def feed_forward() -> Certificate:
    """Returns a certificate of an agent without a memory."""
    whole = certificate_of()
    counts = {"observations": len(SENSORS), "actions": len(ACTIONS)}
    return replace(
        whole, cell="none", counts=counts, neurons=(), states=(), synapses=(),
        forgetting=None, notes=(), attack=None,
    )  # fmt: skip
