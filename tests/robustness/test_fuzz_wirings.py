"""Mutated descriptions of wirings and plans: each is refused with WiringError or gives something whole."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random

import ncp_control as nc
from helpers.mutations import altered, damaged, json_text
from ncp_control.wiring.plan_text import parse_plan


def test_a_mutated_wiring(times: int) -> None:
    texts = [
        wiring.to_json()
        for wiring in (
            nc.AutoNCP(7, 2).build(3),
            nc.GapJunctions(nc.AutoNCP(7, 2), 2).build(3),
            nc.Random(5, 2).build(2),
            nc.Wiring.from_edges(
                ["touch"], inter=["AVD"], motor=["REV"], sensory=[(0, 0)], synapses=[(0, 1), (0, 0, -1)]
            ),
        )
    ]
    found = {"refused": 0, "read": 0}
    for seed in range(2500 * times):
        random = Random(seed)
        text = random.choice(texts)
        if random.random() < 0.6:
            text = json_text(altered(json.loads(text), random), random)
        else:
            text = damaged(text.encode(), random, random.choice(texts).encode()).decode("utf-8", "replace")
        try:
            wiring = nc.Wiring.from_json(text)
        except nc.WiringError:
            found["refused"] += 1
        else:
            assert nc.Wiring.from_json(wiring.to_json()) == wiring
            assert wiring.summary()
            found["read"] += 1
    assert min(found.values()) > 0


def test_a_mutated_plan(times: int) -> None:
    plans = [b"AutoNCP(40, 16, seed=1)", b"GapJunctions(NCP((6, 4), 3, 2, sensory_fanout=2), 4)", b"Random(9, 2, 0.5)"]
    plans += [
        b"AutoNCP(" + b"-" * 900 + b"1)",
        b"AutoNCP(" + b"(" * 300 + b"1",
        b"().__class__.__bases__",
        b"open('x', 'w')",
    ]
    for seed in range(600 * times):
        random = Random(seed)
        text = damaged(random.choice(plans), random, random.choice(plans)).decode("utf-8", "replace")
        with suppress(nc.WiringError):
            assert isinstance(parse_plan(text).units, int)
