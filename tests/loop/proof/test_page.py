"""Pictures of a proof show what was proved."""

import numpy as np
import pytest

from ncp_control.loop.proof.page import outline, phases
from ncp_control.loop.proof.proving import Forever
from ncp_envs.equations import BODIES


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("single-pendulum", [(0, 1)]), ("double-pendulum", [(0, 2), (1, 3)]), ("tora", [(0, 1), (2, 3)]),
        ("balanced-cart", [(0, 1), (2, 3)]), ("weak-pendulum", [(0, 1)]),
    ],
)  # fmt: skip
def test_a_number_is_drawn_against_its_speed(name: str, pairs: list[tuple[int, int]]) -> None:
    assert phases(BODIES[name]) == pairs


def test_the_outline_is_that_of_the_set() -> None:
    random = np.random.default_rng(5)
    generators, center = random.normal(size=(5, 8)), random.normal(size=5)
    found = outline(Forever(tuple(center), tuple(map(tuple, generators)), 1, 1, (), ()), (0, 3))
    turn = np.linspace(0, 2 * np.pi, 100)
    around = np.stack([np.cos(turn), np.sin(turn)])
    reach = np.abs(around.T @ generators[[0, 3]]).sum(axis=1) + around.T @ center[[0, 3]]
    np.testing.assert_allclose((around.T @ found).max(axis=1), reach, rtol=1e-9)
