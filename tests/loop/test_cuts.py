"""How the closed loop goes on without one synapse."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ncp_control as nc
from helpers.small_agents import small_agent
from ncp_control.base.sections import text_of
from ncp_control.loop import LoopReport, analyse
from ncp_control.loop.closed import ClosedLoop
from ncp_control.loop.cuts import STEPS, Onward, synapses_of, without_each
from ncp_control.loop.printed import FEW, cuts
from ncp_control.neurons import without_synapses

UPRIGHT = Path(__file__).parents[1] / "golden" / "single-pendulum.safetensors"


@pytest.fixture(scope="module")
def report() -> LoopReport:
    env: Any = gym.make("ncp_envs:ncp/SinglePendulum-v0")
    return analyse(nc.load(UPRIGHT), env, 1, 0, 100, 50, synapses=True, progress=False)


def test_the_whole_circuit_comes_first_and_has_the_exponent_of_its_rest(report: LoopReport) -> None:
    whole, *others = report.cuts
    assert (whole.synapse, len(others)) == ("", 8 + 64)
    assert report.attractors[0].largest is not None
    assert whole.exponent == pytest.approx(report.attractors[0].largest.mean, abs=0.02)
    assert others[0].synapse == "input0->motor0"
    assert others[8].synapse == "motor0->motor0"
    # Without some of them it loses its place, and without others next to nothing changes.
    assert min(one.reward for one in others) < -1
    assert sum(one.reward > -0.01 for one in others) > 20


def test_the_table_names_those_that_move_a_figure_most(report: LoopReport) -> None:
    ended = replace(report, cuts=(*report.cuts, Onward("a->b", math.nan, math.nan)))
    text = text_of(cuts(ended), 200).splitlines()
    assert text[1].split() == ["whole", "circuit", "0.000", f"{report.cuts[0].exponent:+.3f}"]
    assert text[2].split() == ["a->b", "reward", "the", "episode", "ends", "the", "episode", "ends"]
    worst = min(report.cuts, key=lambda one: one.reward)
    assert text[3].split() == [worst.synapse, "reward", f"{worst.reward:.3f}", f"{worst.exponent:+.3f}"]
    assert [line.split()[1] for line in text[2 : 2 + 2 * FEW]] == FEW * ["reward"] + FEW * ["exponent"]
    assert json.loads(ended.to_json())["cuts"][-1] == {"synapse": "a->b", "reward": None, "exponent": None}
    assert cuts(replace(report, cuts=())) == []


def test_a_cut_is_that_of_a_circuit_without_the_synapse_and_is_undone(tmp_path: Path) -> None:
    loop = ClosedLoop(small_agent("circuit", tmp_path), gym.make("Pendulum-v1"))
    rnn, state = loop.controller.rnn, loop.start(0)
    assert rnn is not None
    before = loop.step(state).state.neurons
    found = without_each(loop, state, synapses_of(loop))
    np.testing.assert_array_equal(loop.step(state).state.neurons, before)
    sensory = len(rnn.wiring.sensory)
    for number, cell in (
        (0, without_synapses(rnn.cell, [], [0])),
        (sensory + 3, without_synapses(rnn.cell, [3])),
    ):
        whole, rnn.cell = rnn.cell, cell
        run, rewards = state, []
        for _ in range(STEPS):
            step = loop.step(run)
            run = step.state
            rewards.append(step.reward)
        rnn.cell = whole
        assert found[1 + number].synapse == synapses_of(loop)[number]
        assert found[1 + number].reward == pytest.approx(np.mean(rewards[STEPS // 2 :]), abs=1e-3)


@pytest.mark.parametrize(("kind", "name"), [("plain", "Pendulum-v1"), ("choices", "CartPole-v1")])
def test_an_agent_without_synapses_or_numbers_is_refused(kind: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="to cut synapses takes an agent with a circuit whose actions are numbers"):
        analyse(small_agent(kind, tmp_path), gym.make(name), 1, 0, 100, 50, synapses=True, progress=False)
