"""Behaviour cloning: recorded episodes alone teach a circuit, and random actions among them are not imitated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from helpers.collecting import short
from helpers.distilling import numbered, pendulum, student_of, turning
from ncp_control.base.tensors import read_tensors, write_tensors
from ncp_control.data import Rollout, Rollouts, collect
from ncp_control.distil import DistilSettings, Recorded, distil
from ncp_control.distil.learning import LabelledWindows, first_steps, train
from ncp_control.distil.loop import DistilLoop
from ncp_control.rl import load_policy
from ncp_control.runs.run import BEST, LAST, STATE

ENV = "ncp/PendulumNoVel-v0"
SMALL = DistilSettings(iterations=2, batches=4, batch=8, length=16, eval_episodes=2)
QUIET: Any = {"progress": False, "wiring": "AutoNCP(8, 3)", "settings": SMALL}
FEW: Any = {"wiring": 8, "cell": "dualltc", "settings": replace(SMALL, synapses=30)}


def recorded(share: float = 0.3, rollouts: int = 4, policy: Any = turning) -> Recorded:
    """Records a policy of the pendulum, some of whose actions are random."""
    found = collect(policy, short(steps=30), rollouts, share, progress=False)
    return Recorded(found, {"id": "Pendulum-v1", "max_episode_steps": 30}, "swings")


def with_random_actions(given: Recorded, value: float) -> Recorded:
    """Replaces the random actions of recorded episodes."""
    changed = []
    for one in given.rollouts:
        assert one.actions is not None
        assert one.is_random is not None
        changed.append(replace(one, actions=np.where(one.is_random[:, None], np.float32(value), one.actions)))
    return replace(given, rollouts=replace(given.rollouts, rollouts=tuple(changed)))


def tensors_of(out: Path, name: str = LAST) -> dict[str, torch.Tensor]:
    return load_file(out / name)


def are_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[key]) for key, value in one.items())


def rows_of(out: Path) -> list[list[str]]:
    """Returns the curve without its last column, the seconds."""
    return [line.split(",")[:-1] for line in (out / "curve.csv").read_text().splitlines()]


@pytest.mark.system
def test_a_run_has_an_agent_a_curve_and_a_record_that_say_behaviour_cloning(tmp_path: Path) -> None:
    given = recorded()
    found = distil(given, ENV, out=tmp_path / "run", **QUIET)
    assert found.steps == 120
    assert [row.steps for row in found.rows] == [120] * 3
    assert found.teacher_returns == pytest.approx([one.total_reward for one in given.rollouts])
    assert len(found.returns) == 20
    note = load_policy(tmp_path / "run" / BEST).note
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert note["method"] == record["method"] == "behaviour cloning"
    assert note["teacher"] == record["teacher"] == given.about()
    assert note["teacher_return"] == pytest.approx(np.mean(found.teacher_returns))
    assert note["curve"] == [[4 * k, row.mean] for k, row in enumerate(found.rows, 1)]
    assert note["env_kwargs"] == {"max_episode_steps": 30}
    action, _ = found.agent.predict(np.zeros(2, dtype=np.float32))
    assert action.shape == (1,)


def test_a_student_with_few_synapses_learns_from_recorded_episodes_too(tmp_path: Path) -> None:
    found = distil(recorded(), ENV, out=tmp_path / "run", **{**QUIET, **FEW})
    for name in (BEST, LAST):
        wiring = load_policy(tmp_path / "run" / name).policy.lstm_actor.cell.wiring
        assert 20 < len(wiring.sensory) + len(wiring.synapses) <= 30
    assert found.agent.note["method"] == "behaviour cloning"


@pytest.mark.system
def test_the_student_does_not_depend_on_the_random_actions(tmp_path: Path) -> None:
    given = recorded()
    assert 0.1 < given.random_share < 0.5
    for name, value in (("a", -2.0), ("b", 1.5)):
        distil(with_random_actions(given, value), ENV, out=tmp_path / name, **QUIET)
    assert are_equal(tensors_of(tmp_path / "a"), tensors_of(tmp_path / "b"))
    assert not are_equal(tensors_of(tmp_path / "a", STATE), tensors_of(tmp_path / "b", STATE))
    free = replace(given.rollouts, rollouts=tuple(replace(one, is_random=None) for one in given.rollouts))
    distil(replace(given, rollouts=free), ENV, out=tmp_path / "c", **QUIET)
    assert not are_equal(tensors_of(tmp_path / "a"), tensors_of(tmp_path / "c"))


@pytest.mark.system
def test_one_seed_gives_one_student_and_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        distil(recorded(), ENV, out=tmp_path / name, seed=seed, **QUIET)
    assert are_equal(tensors_of(tmp_path / "a"), tensors_of(tmp_path / "b"))
    assert not are_equal(tensors_of(tmp_path / "a"), tensors_of(tmp_path / "c"))


@pytest.mark.parametrize(("done", "changes"), [(1, {}), (2, {}), (1, FEW)], ids=["1", "2", "few-synapses"])
def test_a_stopped_run_continues_to_the_same_student(done: int, changes: Any, tmp_path: Path, monkeypatch: Any) -> None:
    given, disturbed = recorded(), {**QUIET, **changes, "env_wrapper": [{"ObservationNoise": {"std": 0.1}}]}
    distil(given, ENV, out=tmp_path / "whole", **disturbed)
    evaluate = DistilLoop.evaluate

    def stopping(loop: DistilLoop, iteration: int, *rest: Any) -> None:
        if iteration == done:
            raise KeyboardInterrupt
        evaluate(loop, iteration, *rest)

    monkeypatch.setattr(DistilLoop, "evaluate", stopping)
    with pytest.raises(KeyboardInterrupt):
        distil(given, ENV, out=tmp_path / "cut", **disturbed)
    monkeypatch.setattr(DistilLoop, "evaluate", evaluate)
    distil(given, ENV, out=tmp_path / "cut", resume=True, **disturbed)
    assert rows_of(tmp_path / "whole") == rows_of(tmp_path / "cut")
    for name in (STATE, BEST, LAST):
        assert are_equal(tensors_of(tmp_path / "whole", name), tensors_of(tmp_path / "cut", name)), name


def test_a_run_is_not_resumed_with_other_data(tmp_path: Path) -> None:
    distil(recorded(), ENV, out=tmp_path / "run", **QUIET)
    with pytest.raises(ValueError, match="another teacher"):
        distil(recorded(0.2), ENV, out=tmp_path / "run", resume=True, **QUIET)


@pytest.mark.system
def test_a_state_from_before_some_steps_did_not_count_is_read(tmp_path: Path) -> None:
    settings = replace(SMALL, steps=800, demonstrations=0.5, iterations=1, envs=2)
    given: Any = {"env_kwargs": {"max_episode_steps": 30}, "settings": settings, "progress": False, "wiring": 6}
    first = distil(turning, ENV, out=tmp_path / "run", **given)
    path = tmp_path / "run" / STATE
    metadata, tensors = read_tensors(path, "ncp_control.distil", 1, ("state",), "ncp-control distil")
    state = json.loads(metadata["state"])
    arrays = state["demonstrations"]["dict"]
    state["demonstrations"]["dict"] = [entry for entry in arrays if entry[0] != "counts"]
    assert len(state["demonstrations"]["dict"]) == len(arrays) - 1
    write_tensors(path, "ncp_control.distil", 1, {"state": json.dumps(state)}, tensors)
    again = distil(turning, ENV, out=tmp_path / "run", resume=True, **given)
    assert again.returns == first.returns


def test_the_limit_of_steps_takes_whole_episodes_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    found = distil(recorded(), ENV, **{**QUIET, "settings": replace(SMALL, steps=75)})
    assert found.steps == 60
    assert len(found.teacher_returns) == 2
    assert found.agent.note["teacher"]["episodes"] == 2
    assert "2 of the 4 episodes of swings are used: --steps 120 takes all of them" in capsys.readouterr().err


def test_a_single_recorded_episode_teaches_too() -> None:
    found = distil(recorded(rollouts=1), ENV, **QUIET)
    assert len(found.teacher_returns) == 1
    assert found.agent.note["teacher_std"] == 0


@pytest.mark.system
def test_a_circuit_learns_the_choices_that_were_recorded() -> None:
    def balance(observations: Any) -> Any:
        return (observations[:, 2] + 0.5 * observations[:, 3] + 0.1 * observations[:, 1] > 0).astype(np.int64)

    given = Recorded(collect(balance, "CartPole-v1", 8, 0.2, progress=False), {"id": "CartPole-v1"})
    settings = DistilSettings(iterations=1, batches=80, length=32, eval_episodes=2)
    found = distil(given, "CartPole-v1", "AutoNCP(12, 4)", "cfc", settings=settings, progress=False)
    assert np.mean(found.returns) > 300  # over ten seeds 490 with a spread of 13; random actions have 20


@pytest.mark.parametrize(
    "name", ["demonstrations", "disturbance", "handover", "handover_at", "teacher_share", "patience"]
)
def test_settings_of_a_teacher_that_acts_are_refused(name: str, tmp_path: Path) -> None:
    odd: Any = {name: 3 if name in ("handover", "patience") else 0.1}
    with pytest.raises(ValueError, match=f"learns from swings alone, where --{name} would mean nothing: leave it out"):
        distil(recorded(), ENV, out=tmp_path / "run", **{**QUIET, "settings": replace(SMALL, **odd)})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("share", "settings", "sentence"),
    [
        (0.0, {"length": 121}, r"too few steps that were chosen by its policy \(windows of 121 steps need as many dem"),
        (1.0, {}, "no window of 16 steps has one after the 8 steps of its warm-up that counts.*or record more"),
    ],
)
def test_data_from_which_nothing_can_be_learnt_are_refused_before_anything_is_written(
    share: float, settings: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=sentence):
        distil(recorded(share), ENV, out=tmp_path / "run", **{**QUIET, "settings": replace(SMALL, **settings)})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("env", "more", "sentence"),
    [
        (
            "CartPole-v1",
            {"env_kwargs": {}},
            "swings does not fit the student's environment, CartPole-v1: the stud",
        ),
        (ENV, {"env_wrapper": ["RandomActionOverwrite"]}, "its wrapper RandomActionOverwrite changes actions"),
        (ENV, {"teacher_env": "ncp/PendulumNoVel-v0"}, r"swings has observations of shape \(3,\), and ncp/PendulumNoV"),
        (ENV, {"teacher_env": "Nothing-v0"}, "there is no environment 'Nothing-v0'"),
    ],
)
def test_environments_that_do_not_fit_are_refused_before_anything_is_written(
    env: str, more: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=sentence):
        distil(recorded(), env, out=tmp_path / "run", **QUIET, **more)
    assert not (tmp_path / "run").exists()


def test_labels_that_do_not_count_change_neither_loss_nor_gradients() -> None:
    settings = DistilSettings(batches=3, batch=6, length=8, warm_up=3, learning_rate=0.01)
    weights, losses = [], []
    for value, counts in ((0.0, False), (1.5, False), (1.5, True)):
        student, given = student_of(pendulum, seed=0), numbered([20, 20], [True, True])
        given.labels = np.random.default_rng(1).uniform(-1, 1, size=(40, 1)).astype(np.float32)
        given.labels[12:20] = value
        given.counts[12:20] = counts
        windows = LabelledWindows(student, given, 8, 3)
        optimizer = torch.optim.Adam(student.parameters)
        losses.append(train(student, windows, settings, optimizer, 0, torch.Generator().manual_seed(0))[0])
        weights.append(torch.nn.utils.parameters_to_vector(student.parameters))
    assert losses[0] == losses[1] != losses[2]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("warm_up", [0, 3])
def test_windows_in_which_no_step_counts_are_not_drawn(warm_up: int) -> None:
    given = numbered([10, 20], [True, True])
    given.counts[4:22] = False
    found = first_steps(given, 5, warm_up).tolist()
    assert found == [k for k in range(26) if given.counts[k + warm_up : k + 5].any()]
    assert 0 < len(found) < 26
    windows = LabelledWindows(student_of(pendulum), given, 5, warm_up)
    batch = windows.batch(300, 100, 100, torch.Generator().manual_seed(0))
    assert set(batch[3][:, 0, 0].int().tolist()) <= set(found)
    assert batch[4][:, warm_up:].any(dim=1).all()


@pytest.mark.system
def test_a_rollout_is_enough_to_make_recorded_episodes_of_ones_own_arrays() -> None:
    rng = np.random.default_rng(0)
    rollout = Rollout(rng.normal(size=(41, 3)), rng.uniform(-2, 2, size=(40, 1)), rewards=rng.normal(size=40))
    found = distil(Recorded(Rollouts((rollout,))), ENV, teacher_env="Pendulum-v1", **QUIET)
    assert found.steps == 40
    assert found.teacher_returns == pytest.approx([rollout.total_reward])
