"""Sets that move with a body contain every body that began in them."""

import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ncp_control.base.intervals import Interval
from ncp_control.loop.proof.loop import PIECES, ProvedLoop, beyond_slopes
from ncp_control.loop.proof.sets import Sets
from ncp_envs.equations import BODIES


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("width", [0.02, 0.3])
def test_bodies_stay_in_the_sets_that_move_with_them(name: str, width: float) -> None:
    body, random = BODIES[name], np.random.default_rng(3)
    m, count = len(body.names), len(body.names) + body.actions
    loop = ProvedLoop(cast("Any", SimpleNamespace(size=0)), body, np.zeros(len(body.seen)))
    center = np.concatenate([random.uniform(body.low, body.high, (3, m)), random.uniform(-1, 1, (3, count - m))], 1)
    generators = width * random.normal(size=(3, count, 7)) / 7
    sets = Sets(center, generators)
    h = body.period / loop.parts
    found, _, enclosed = loop.flown(sets, h)
    assert enclosed.all()
    e = random.uniform(-1, 1, size=(3, 400, 7))
    e[:, ::2] = np.sign(e[:, ::2])
    start = center[:, None] + e @ generators.swapaxes(1, 2)
    numbers = tuple(np.moveaxis(start, 2, 0))
    after = dataclasses.replace(body, period=h).moved(numbers[:m], numbers[m:])
    linear = found.center[:, None] + e @ found.generators[:, :, :7].swapaxes(1, 2)
    off = np.abs(np.stack(after, axis=2) - linear[:, :, :m]).max(axis=1)
    room = np.abs(found.generators[:, :m, 7:]).sum(axis=2)
    assert (off <= room + 1e-12).all()
    assert (room <= 15 * off + 1e-4).all()


def test_a_square_bends_to_one_side() -> None:
    # x^2 + 3 x y around a center, with x within 2 and y within 1 of it
    bends = np.tile(np.array([[2.0, 3.0], [3.0, 0.0]]), (PIECES, 1, 1))
    found = beyond_slopes(Interval(bends, bends), np.array([[2.0, 1.0]]))
    np.testing.assert_allclose([found.low[0, 0], found.high[0, 0]], [-6, 4 + 6], rtol=1e-9)
