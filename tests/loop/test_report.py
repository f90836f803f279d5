"""What agents and their bodies settle to, and how that is told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ncp_control as nc
from helpers.small_agents import small_agent
from ncp_control.base.pages import figure_bytes
from ncp_control.base.sections import text_of
from ncp_control.loop import LoopReport, analyse, write_dynamics
from ncp_control.loop.attractors import SettledRun, grouped
from ncp_control.loop.closed import ClosedLoop
from ncp_control.loop.cycles import around
from ncp_control.loop.exponents import MeanInterval
from ncp_control.loop.figures import figures_of
from ncp_control.loop.printed import sections_of
from ncp_control.loop.report import CALM, CHAOS, CYCLE, ENDED, OPEN, REST, STEADY, kind_of

pytest.importorskip("matplotlib")

CHECKPOINTS = Path(__file__).resolve().parents[2] / "checkpoints"


def agent_of(name: str) -> Any:
    return nc.load(CHECKPOINTS / f"{name}.safetensors")


@pytest.fixture(scope="module")
def swimmer() -> LoopReport:
    return analyse(agent_of("swimmer-teacher"), gym.make("Swimmer-v5"), 2, 2, 900, 60, seconds=0.04, progress=False)


def run_of(means: Any, spread: float, ended: int | None = None) -> SettledRun:
    random = np.random.default_rng(0)
    seen = np.asarray(means) + spread * random.normal(size=(200, len(means)))
    return SettledRun(False, [], seen, np.ones(200), ended)


def test_runs_that_settle_alike_are_one_group() -> None:
    runs = [run_of([0, 1], 0.5), run_of([0, 1.1], 0.5), run_of([4, 1], 0.5), run_of([0, 1], 1e-9), run_of([0, 1], 1, 7)]
    assert grouped(runs)[0] == [0, 1]
    lead = [runs[2], runs[0]._replace(thrown=True), runs[1]._replace(thrown=True)]
    assert grouped(lead) == [[0], [1, 2]]  # where an episode leads comes first
    assert sorted(map(sorted, grouped(runs))) == [[0, 1], [2], [3], [4]]
    assert grouped([run_of([0], 0.0), run_of([0], 0.0), run_of([5], 0.0)]) == [[0, 1], [2]]


def test_the_kinds_of_attractors() -> None:
    assert kind_of(MeanInterval(0.3, 0.28, 0.32)) == CHAOS
    assert kind_of(MeanInterval(0.002, 0.001, 0.003)) == STEADY
    assert kind_of(MeanInterval(-0.1, -0.2, -0.01)) == CALM
    assert kind_of(MeanInterval(0.1, -0.1, 0.3)) == OPEN
    assert [kind_of(MeanInterval(*3 * (mean,))) for mean in (0.1, -0.1, 0.01)] == [CHAOS, CALM, OPEN]


def test_the_swimmer_settles_to_a_cycle(swimmer: LoopReport) -> None:
    first = swimmer.attractors[0]
    assert (first.kind, first.starts) == (CYCLE, 2)
    assert first.cycle is not None
    assert first.cycle.period == 31
    assert first.cycle.residual < 1e-10
    assert first.largest is not None
    assert first.largest.mean == pytest.approx(np.log(abs(first.cycle.multipliers[0])) / 31)


def test_multipliers_are_those_of_a_simulated_push() -> None:
    report = analyse(agent_of("swimmer-teacher"), gym.make("Swimmer-v5"), 1, 0, 900, 60, progress=False)
    cycle = report.attractors[0].cycle
    assert cycle is not None
    loop = ClosedLoop(agent_of("swimmer-teacher"), gym.make("Swimmer-v5"))
    values, vectors = np.linalg.eig(around(loop, cycle.states[0], cycle.period)[1])
    for k in np.argsort(-np.abs(values))[:2]:
        assert values[k].imag == 0
        push = 1e-5 * vectors[:, k].real
        origin, away = cycle.states[0], loop.deviated(cycle.states[0], push)
        for _ in range(cycle.period):
            origin, away = loop.step(origin).state, loop.step(away).state
        after = loop.deviation(away, origin)
        assert after @ push / (push @ push) == pytest.approx(values[k].real, rel=0.01)


def test_a_half_cheetah_on_its_back_comes_to_rest() -> None:
    env = gym.make("ncp_envs:ncp/HalfCheetahNoVel-v0")
    report = analyse(agent_of("halfcheetah-positions-sparse"), env, 1, 10, 600, 60, progress=False)
    running, *others = report.attractors
    assert (running.kind, running.starts) == (CHAOS, 1)
    assert running.largest is not None
    assert 0.2 < running.largest.mean < 0.5
    assert running.carried is not None
    assert running.carried.shape == (50, 8)
    # where a thrown body lands is chance, and half of all poses lead onto the back
    assert any(one.kind in (REST, CYCLE) and one.reward < 0 for one in others)


def test_episodes_that_end_are_told_apart() -> None:
    report = analyse(agent_of("hopper-teacher"), gym.make("Hopper-v5"), 0, 4, 100, 50, progress=False)
    first = report.attractors[0]
    assert (first.kind, first.thrown) == (ENDED, len(first.ends))
    assert "the episode ends, after" in text_of(sections_of(report))


def test_choices_have_no_exponents(tmp_path: Path) -> None:
    report = analyse(small_agent("choices", tmp_path), gym.make("CartPole-v1"), 3, 0, 100, 50, progress=False)
    assert all(not one.exponents for one in report.attractors)
    json.loads(report.to_json())


def test_the_report_as_json_and_as_text(swimmer: LoopReport) -> None:
    values = json.loads(swimmer.to_json())
    assert values["attractors"][0]["period"] == 31
    assert len(values["attractors"][0]["multipliers"]) == 10
    assert values["size"] == {"body": 8, "neurons": 0, "actions": 2}
    text = " ".join(text_of(sections_of(swimmer), 80).split())
    assert "a cycle of 31 steps, 1.24 s. A small difference is multiplied by 0.55 in each round" in text
    assert "2 of 2" in text


def test_the_page_holds_its_pictures_and_asks_for_nothing(swimmer: LoopReport, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_dynamics(replace(swimmer, agent="</title><script>alert(1)</script>"), page, {"A": "lab.html#seed=0"})
    text = page.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert text.count('src="data:image/svg+xml;base64,') == 4
    assert '<a href="lab.html#seed=0">A</a>' in text
    assert "Multipliers" in text


def test_equal_figures_are_equal_files(swimmer: LoopReport) -> None:
    first, again = ([figure_bytes(figure, "svg", 100) for figure in figures_of(swimmer).values()] for _ in range(2))
    assert first == again


def test_wrong_numbers_are_refused() -> None:
    agent, env = agent_of("swimmer-teacher"), gym.make("Swimmer-v5")
    with pytest.raises(ValueError, match="at least one start, got 0"):
        analyse(agent, env, 0, 0)
    with pytest.raises(ValueError, match="100 steps to settle and 50 to be measured, got 10"):
        analyse(agent, env, steps=10)
