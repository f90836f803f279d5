"""Environments without an end get one, and those with trials say so."""

from typing import Any

import gymnasium as gym
import pytest

from helpers.trial_environment import CueTrials, EndlessCart, NamedBox
from ncp_control.data import env_specs
from ncp_control.data.env_specs import MOST_STEPS, TRIAL_STEPS, make, spec_of
from ncp_control.rl.recipes.env_making import make_env
from ncp_envs import observation_names
from ncp_envs.names import named_entries

CUE, CART = "helpers.trial_environment:CueTrials", "helpers.trial_environment:EndlessCart"


def length_of(env: gym.Env[Any, Any]) -> int:
    env.reset(seed=0)
    action, steps, ended = env.action_space.sample(), 0, False
    while not ended:
        _, _, terminated, truncated, _ = env.step(action)
        steps, ended = steps + 1, terminated or truncated
    return steps


def test_episodes_of_trials_are_cut_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(env_specs, "_said", set())
    assert length_of(make_env(CUE)) == length_of(make_env(CUE)) == length_of(make(spec_of(CUE))) == TRIAL_STEPS
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "CueTrials has trials but no end: an episode is 1,000 steps" in said[0]
    assert "--set env_kwargs.max_episode_steps=N" in said[0]


def test_another_environment_without_a_limit_is_cut_later() -> None:
    assert length_of(make_env(CART)) == MOST_STEPS


def test_a_limit_of_ones_own_is_kept() -> None:
    assert length_of(make_env(CUE, (), {"max_episode_steps": 30})) == 30
    assert make_env(CUE, (), {"max_episode_steps": -1}).spec.max_episode_steps is None  # type: ignore[union-attr]
    assert make_env("Pendulum-v1").spec.max_episode_steps == 200  # type: ignore[union-attr]


def test_a_seed_reaches_an_environment_that_only_seed_seeds() -> None:
    def sides(seed: int) -> list[int]:
        env = make_env(CUE)
        env.reset(seed=seed)
        return [env.step(0)[4]["gt"] for _ in range(80)]

    assert sides(3) == sides(3) != sides(4)


def test_observations_are_named_by_their_space() -> None:
    assert observation_names(CueTrials()) == ["go", "cue 0", "cue 1"]
    assert observation_names(make_env(CUE)) == ["go", "cue 0", "cue 1"]
    assert observation_names(EndlessCart()) == ["observation 0"]


@pytest.mark.parametrize("name", [None, "texts", {"go": 0}, {"go": 0, "cue": [0, 1]}, {"go": 0, "cue": [1, 5]}])
def test_names_that_do_not_name_every_entry_once_are_not_used(name: Any) -> None:
    assert named_entries(NamedBox(-1.0, 1.0, (3,), name), 3) == []
