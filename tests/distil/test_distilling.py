"""`distil`: a circuit learns what a teacher knows, a stopped run continues exactly, and the result is an agent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from helpers.distilling import turning
from ncp_control.base.tensors import CheckpointError, read_tensors, write_tensors
from ncp_control.distil import DistilSettings, PruneSettings, distil, distilling, loop
from ncp_control.distil.lessons import EVALUATIONS, share_of
from ncp_control.distil.loop import DistilLoop
from ncp_control.rl import evaluate, load_policy
from ncp_control.rl.evaluation import EpisodeReturns
from ncp_control.rl.recipes.building import make_env
from ncp_control.runs.run import BEST, LAST, STATE, seed_of
from ncp_control.wiring import AutoNCP

ENV = "ncp/PendulumNoVel-v0"
TEACHER = Path(__file__).resolve().parents[2] / "checkpoints" / "halfcheetah-teacher.safetensors"
SMALL = DistilSettings(
    steps=2400, iterations=2, demonstrations=0.5, batches=4, batch=8, length=32, envs=2, eval_episodes=2
)
QUIET: Any = {"progress": False, "wiring": "AutoNCP(8, 3)", "settings": SMALL}
FEW: Any = {"progress": False, "wiring": "FullyConnected(8, 3)", "settings": replace(SMALL, synapses=30)}


def swing_up(observations: Any) -> Any:
    """A teacher of the pendulum: pumps energy into it, and holds it when it stands."""
    cosine, sine, speed = observations.T
    lacking = 5 * (1 - cosine) - speed**2 / 6
    pumping = np.sign(speed) * np.clip(2 * lacking, -2, 2)
    holding = np.clip(-12 * np.arctan2(sine, cosine) - 3 * speed, -2, 2)
    return np.where(cosine > 0.85, holding, pumping)[:, None].astype(np.float32)


def rows_of(out: Path) -> list[list[str]]:
    """Returns the curve without its last column, the seconds."""
    return [line.split(",")[:-1] for line in (out / "curve.csv").read_text().splitlines()]


def test_a_run_has_policies_a_curve_and_a_record(tmp_path: Path) -> None:
    found = distil(turning, ENV, out=tmp_path / "run", **QUIET)
    steps = [row[0] for row in rows_of(tmp_path / "run")]
    assert steps == ["steps", "1200", "1800", "2400"]
    assert found.steps == 2400
    assert len(found.rows) == 3
    assert len(found.returns) == len(found.teacher_returns) == 20
    note = load_policy(tmp_path / "run" / BEST).note
    assert note["env"] == ENV
    assert note["algo"] == "RecurrentPPO"
    assert note["return"] == pytest.approx(np.mean(found.returns))
    assert note["teacher_return"] == pytest.approx(np.mean(found.teacher_returns))
    assert note["share"] == pytest.approx(found.share)
    assert note["teacher"]["name"].endswith(":turning")


@pytest.mark.system
def test_the_agent_in_the_file_is_the_student_that_was_evaluated(tmp_path: Path) -> None:
    found = distil(turning, ENV, out=tmp_path / "run", **QUIET)
    agent = load_policy(tmp_path / "run" / BEST)
    best = max(range(3), key=lambda k: found.rows[k].mean)
    returns = evaluate(agent, lambda: make_env(ENV), 2, seed_of(seed_of(0, EVALUATIONS), best)).returns
    assert np.mean(returns) == pytest.approx(found.rows[best].mean, rel=1e-6)


@pytest.mark.system
@pytest.mark.parametrize("cell", ["dualltc", "cfc", "neuralltc"])
def test_a_student_with_few_synapses_is_an_agent_that_has_no_others(cell: str, tmp_path: Path) -> None:
    found = distil(turning, ENV, cell=cell, out=tmp_path / "run", **FEW)
    best = max(range(3), key=lambda k: found.rows[k].mean)
    for name, row in ((BEST, found.rows[best]), (LAST, found.rows[-1])):
        agent = load_policy(tmp_path / "run" / name)
        wiring = agent.policy.lstm_actor.cell.wiring
        assert 20 < len(wiring.sensory) + len(wiring.synapses) <= 30
        returns = evaluate(agent, lambda: make_env(ENV), 2, seed_of(seed_of(0, EVALUATIONS), found.rows.index(row)))
        assert np.mean(returns.returns) == pytest.approx(row.mean, rel=1e-4)
    policy = found.agent.policy
    trained = [*policy.lstm_actor.parameters(), *policy.action_net.parameters()]
    assert found.parameters == sum(one.numel() for one in trained)


@pytest.mark.slow
def test_one_seed_gives_one_student_and_another_seed_another(tmp_path: Path) -> None:
    runs = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        distil(turning, ENV, out=tmp_path / name, seed=seed, **QUIET)
        runs[name] = load_file(tmp_path / name / LAST)
    assert all(torch.equal(value, runs["b"][key]) for key, value in runs["a"].items())
    assert not all(torch.equal(value, runs["c"][key]) for key, value in runs["a"].items())


@pytest.mark.system
@pytest.mark.parametrize(
    ("done", "optimizer"), [(1, "adam"), (1, "muon"), pytest.param(2, "adam", marks=pytest.mark.slow)]
)
def test_a_stopped_run_continues_to_the_same_student(
    done: int, optimizer: str, tmp_path: Path, monkeypatch: Any
) -> None:
    arguments = {**QUIET, "settings": replace(SMALL, optimizer=optimizer)}
    check_that_a_stopped_run_continues(done, arguments, tmp_path, monkeypatch)


@pytest.mark.system
@pytest.mark.parametrize(("cell", "done"), [("dualltc", 1), ("cfc", 2)])
def test_a_stopped_run_continues_with_the_same_few_synapses(
    cell: str, done: int, tmp_path: Path, monkeypatch: Any
) -> None:
    check_that_a_stopped_run_continues(done, {**FEW, "cell": cell}, tmp_path, monkeypatch)


def check_that_a_stopped_run_continues(done: int, arguments: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Stops a run after so many iterations and resumes it: its files must be those of one that was not stopped."""
    distil(turning, ENV, out=tmp_path / "whole", **arguments)
    iterate = DistilLoop.iterate

    def stopping(loop: DistilLoop, iteration: int) -> None:
        if iteration == done:
            raise KeyboardInterrupt
        iterate(loop, iteration)

    monkeypatch.setattr(DistilLoop, "iterate", stopping)
    with pytest.raises(KeyboardInterrupt):
        distil(turning, ENV, out=tmp_path / "cut", **arguments)
    monkeypatch.setattr(DistilLoop, "iterate", iterate)
    distil(turning, ENV, out=tmp_path / "cut", resume=True, **arguments)
    assert rows_of(tmp_path / "whole") == rows_of(tmp_path / "cut")
    for name in (STATE, BEST, LAST):
        ours, theirs = (load_file(tmp_path / run / name) for run in ("whole", "cut"))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(value, theirs[key]) for key, value in ours.items()), name


@pytest.mark.system
def test_a_finished_run_that_is_resumed_gives_the_same_result(tmp_path: Path) -> None:
    first = distil(turning, ENV, out=tmp_path / "run", **QUIET)
    again = distil(turning, ENV, out=tmp_path / "run", resume=True, **QUIET)
    assert first.returns == again.returns
    assert first.agent.sha256 != ""
    assert len(again.rows) == 3


def test_an_interrupted_run_has_the_best_student_with_its_own_return(tmp_path: Path, monkeypatch: Any) -> None:
    returns = iter([[3.0], [5.0], [4.0]])
    monkeypatch.setattr(loop, "evaluate", lambda *arguments: EpisodeReturns(next(returns), [200]))

    def interrupt(done: DistilLoop) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(distilling, "last_evaluation", interrupt)
    with pytest.raises(KeyboardInterrupt):
        distil(turning, ENV, out=tmp_path / "run", **QUIET)
    notes = [load_policy(tmp_path / "run" / name).note for name in (BEST, LAST)]
    assert [(note["return"], note["steps"]) for note in notes] == [(5.0, 1800), (4.0, 2400)]


def test_the_progress_of_a_resumed_run_begins_where_it_stopped(
    tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    iterate = DistilLoop.iterate

    def stopping(loop: DistilLoop, iteration: int) -> None:
        if iteration == 1:
            raise KeyboardInterrupt
        iterate(loop, iteration)

    monkeypatch.setattr(DistilLoop, "iterate", stopping)
    for resume in (False, True):
        with pytest.raises(KeyboardInterrupt):
            distil(turning, ENV, out=tmp_path / "run", resume=resume, **QUIET | {"progress": True})
        assert capsys.readouterr().err.startswith("distilling: 1200 of 2400")


@pytest.mark.system
def test_the_seconds_of_a_resumed_run_go_on_from_those_before(tmp_path: Path) -> None:
    distil(turning, ENV, out=tmp_path / "run", **QUIET)
    path = tmp_path / "run" / STATE
    metadata, tensors = read_tensors(path, loop.FORMAT, loop.VERSION, loop.DESCRIBED, "distil")
    state = json.dumps({**json.loads(metadata["state"]), "seconds": 1e6})
    write_tensors(path, loop.FORMAT, loop.VERSION, {"state": state}, tensors)
    assert distil(turning, ENV, out=tmp_path / "run", resume=True, **QUIET).seconds > 1e6


@pytest.mark.system
def test_without_a_folder_the_agent_stays(tmp_path: Path) -> None:
    found = distil(turning, ENV, **QUIET)
    action, state = found.agent.predict(np.zeros(2, dtype=np.float32))
    assert action.shape == (1,)
    assert state is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wiring", "cell", "neurons"), [(None, "ltc", 48), (None, "lstm", 48), (12, "cfc", 12), (AutoNCP(9, 3), "ctrnn", 9)]
)
def test_circuits_of_every_kind_are_students(wiring: Any, cell: str, neurons: int) -> None:
    settings = replace(SMALL, batches=1)
    found = distil(turning, ENV, wiring, cell, settings=settings, progress=False)
    assert found.agent.policy.lstm_actor.cell.wiring.units == neurons


@pytest.mark.system
def test_choices_are_learnt_from_a_teacher_of_choices() -> None:
    def balance(observations: Any) -> Any:
        return (observations[:, 2] + 0.5 * observations[:, 3] + 0.1 * observations[:, 1] > 0).astype(np.int64)

    settings = DistilSettings(
        steps=6400, demonstrations=0.75, iterations=2, handover=2, batches=100, length=32, eval_episodes=4, envs=4
    )
    found = distil(balance, "CartPole-v1", "AutoNCP(12, 4)", "cfc", settings=settings, progress=False)
    assert np.mean(found.teacher_returns) == 500
    assert found.share > 0.7  # over ten seeds 0.93 with a spread of 0.05; random actions have 0.04


@pytest.mark.slow
def test_a_circuit_learns_to_swing_a_pendulum_up_without_seeing_its_velocity() -> None:
    settings = DistilSettings(steps=20_000, batches=150)
    found = distil(swing_up, ENV, "AutoNCP(48, 16)", "cfc", settings=settings, progress=False)
    assert np.mean(found.teacher_returns) > -250
    assert np.mean(found.returns) > -350  # a pendulum that hangs has -1200


def test_a_teacher_of_other_observations_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    teacher = load_policy(TEACHER)
    with pytest.raises(ValueError, match="the student's environment is a PendulumEnv and the teacher's a HalfCheetah"):
        distil(teacher, ENV, out=tmp_path / "run", **QUIET)
    assert not (tmp_path / "run").exists()


def test_a_teacher_whose_actions_do_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the teacher gave actions of shape \(1, 2\) for 1 observations at step 0"):
        distil(turning, "CartPole-v1", out=tmp_path / "run", **QUIET)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("cell", "synapses", "pruning", "sentence"),
    [
        ("dualltc", 30, PruneSettings(), "with few synapses is not pruned too: leave out synapses or pruning"),
        ("ltc", 30, None, "an absent synapse of LTC has no gradient"),
        ("lstm", 30, None, "a circuit of LSTM is always fully connected"),
        ("cfc", 7, None, "this wiring has 8 neurons and 80 synapses, .* between 8, .* and 80, got 7"),
        ("cfc", 81, None, "this wiring has 8 neurons and 80 synapses, .* between 8, .* and 80, got 81"),
    ],
)
def test_few_synapses_that_cannot_be_are_refused_before_anything_is_written(
    cell: str, synapses: int, pruning: Any, sentence: str, tmp_path: Path
) -> None:
    given = {**FEW, "wiring": 8, "settings": replace(SMALL, synapses=synapses)}
    with pytest.raises(ValueError, match=sentence):
        distil(turning, ENV, cell=cell, pruning=pruning, out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_a_teacher_whose_episodes_are_longer_than_the_first_steps_is_refused(tmp_path: Path) -> None:
    settings = DistilSettings(steps=300, demonstrations=0.5, iterations=1, batches=1, length=8, warm_up=2)
    with pytest.raises(ValueError, match="no episode of the teacher ended within the first 150 steps"):
        distil(turning, ENV, out=tmp_path / "run", settings=settings, progress=False)


@pytest.mark.system
def test_a_run_with_other_settings_is_not_resumed(tmp_path: Path) -> None:
    distil(turning, ENV, out=tmp_path / "run", **QUIET)
    with pytest.raises(FileExistsError, match="holds a run already"):
        distil(turning, ENV, out=tmp_path / "run", **QUIET)
    with pytest.raises(ValueError, match="another seed"):
        distil(turning, ENV, out=tmp_path / "run", resume=True, seed=1, **QUIET)


@pytest.mark.system
def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    distil(turning, ENV, out=tmp_path / "run", **QUIET)
    path = tmp_path / "run" / STATE
    content = bytearray(path.read_bytes())
    content[-40] ^= 255
    path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match=r"state\.safetensors"):
        distil(turning, ENV, out=tmp_path / "run", resume=True, **QUIET)


@pytest.mark.parametrize(
    ("found", "teachers", "share"), [(90.0, 100.0, 0.9), (-160.0, -150.0, 1 - 1 / 15), (110.0, 100.0, 1.1), (0, -10, 2)]
)
def test_a_share_is_one_minus_the_loss(found: float, teachers: float, share: float) -> None:
    assert share_of(found, teachers) == pytest.approx(share)


@pytest.mark.slow
def test_a_student_that_does_badly_takes_over_in_twice_as_many_iterations() -> None:
    for teacher, well, parts in ((swing_up, 1.0, [1, 0.5, 0.5, 0, 0, 0]), (turning, 0.0, [1, 0.5, 0, 0, 0, 0])):
        settings = replace(SMALL, steps=6000, iterations=5, handover=2, handover_at=well, batches=1, learning_rate=1e-6)
        found = distil(teacher, ENV, progress=False, wiring="AutoNCP(8, 3)", settings=settings)
        assert [row.teachers_part for row in found.rows] == parts
