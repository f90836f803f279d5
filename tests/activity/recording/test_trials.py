"""What an environment tells of its trials is in the recording."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import gymnasium as gym
from gymnasium.wrappers import TimeLimit

import ncp_control as nc
from helpers.trial_environment import CueTrials
from ncp_control.activity import Activity, record
from ncp_control.activity.recording import agents, environment
from ncp_control.rl import RecurrentPPO


def recorded(path: Path, steps: int = 50) -> Activity:
    kwargs = dict(wiring=nc.AutoNCP(9, 3, seed=1), cell="cfc")
    model = RecurrentPPO("NCPPolicy", CueTrials(), seed=0, device="cpu", policy_kwargs=kwargs)
    return record(model, TimeLimit(CueTrials(), 22), path, steps, progress=False)


def test_the_ends_of_trials_the_right_actions_and_the_performance_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "CHUNK", 7)
    found = recorded(tmp_path / "run.npz")
    ends, right, share = (found.extras[name] for name in ("new_trial", "gt", "performance"))
    assert ends.dtype == bool
    assert np.flatnonzero(ends).tolist() == [3, 7, 11, 15, 19, 25, 29, 33, 37, 41, 47]
    assert (right[~ends] == 0).all()
    assert set(right[ends]) == {1.0, 2.0}
    assert np.isnan(share[~ends]).all()
    np.testing.assert_array_equal(share[ends], found.extras["actions"][ends, 0] == right[ends])
    cued = found.observations[np.flatnonzero(ends) - 3]
    np.testing.assert_array_equal(np.where(cued[:, 1] > 0, 1, 2), right[ends])


def test_names_come_from_the_spaces(tmp_path: Path) -> None:
    about = recorded(tmp_path / "run.npz", 4).about
    assert about["observation_names"] == ["go", "cue 0", "cue 1"]
    assert about["choice_names"] == ["wait", "side 0", "side 1"]


def test_a_step_of_neurogym_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.seconds_per_step(CueTrials()) == 0.02
    monkeypatch.setattr(CueTrials, "__module__", "neurogym.core")
    assert environment.seconds_per_step(CueTrials()) == pytest.approx(2e-5)


def test_an_environment_without_trials_adds_nothing(tmp_path: Path) -> None:
    kwargs = dict(wiring=nc.AutoNCP(9, 3, seed=1), cell="cfc")
    model = RecurrentPPO("NCPPolicy", "CartPole-v1", seed=0, device="cpu", policy_kwargs=kwargs)
    found = record(model, gym.make("CartPole-v1"), tmp_path / "run.npz", 5, progress=False)
    assert {"new_trial", "gt", "performance"}.isdisjoint(found.extras)
    assert "choice_names" not in found.about
