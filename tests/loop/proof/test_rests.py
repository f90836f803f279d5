"""Bodies that start anywhere come to rests, and each is proved."""

from pathlib import Path

import numpy as np
import pytest

from ncp_control.base.sections import text_of
from ncp_control.loop.proof import prove, with_rests
from ncp_control.loop.proof.printed import sections_of
from ncp_control.loop.proof.proving import Prover
from ncp_control.loop.proof.rests import proved_rest
from ncp_control.rl import load_policy
from ncp_envs.equations import BODIES

AGENT = load_policy(Path(__file__).parents[2] / "golden" / "single-pendulum.safetensors")


def test_all_bodies_come_to_one_rest_that_is_proved() -> None:
    proof = with_rests(AGENT, prove(AGENT, "single-pendulum", forever=False, progress=False), 200, progress=False)
    (rest,) = proof.rests
    assert rest.share == 1
    at = np.array([rest.at])
    np.testing.assert_allclose(Prover(AGENT, BODIES["single-pendulum"], 0.0).simulated(at), at, atol=1e-6)
    assert rest.within is not None
    assert 0 < rest.within < 0.01
    assert "of 200 bodies, 100 % come to rest at angle 0.4" in text_of(sections_of(proof), 1000)
    with pytest.raises(ValueError, match="to find rests takes bodies, got 0"):
        with_rests(AGENT, proof, 0)


def test_where_there_is_no_rest_none_is_proved() -> None:
    prover = Prover(AGENT, BODIES["single-pendulum"], 0.0)
    points = np.zeros((1, 10))
    for _ in range(1000):
        points = prover.simulated(points)
    (rest,) = points
    within = proved_rest(prover, rest)
    assert within is not None
    away = np.where(np.arange(len(rest)) == 0, 10 * within, 0.0)
    found = proved_rest(prover, rest + away)
    assert found is None or found >= 9 * within
