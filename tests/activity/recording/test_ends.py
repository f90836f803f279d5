"""Recordings that go on where another one ended."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO

import ncp_control as nc
from helpers.command_line import ROOT, refused_after_progress
from helpers.pendulum_agents import PLAN, pendulum, pendulum_agent
from ncp_control.activity import Activity, record
from ncp_control.activity.recording.ends import LoopEnd, end_of, memory_of, set_back
from ncp_control.cli import main
from ncp_control.rl import NCPExtractor, RecurrentSAC, save_policy
from ncp_envs import History, RandomActionOverwrite

RUNNER = str(ROOT / "checkpoints" / "halfcheetah-positions-sparse.safetensors")


def running() -> Any:
    return gym.make("ncp_envs:ncp/HalfCheetahNoVel-v0")


def recorded(actor: Any, env: Any, path: Path, steps: int, after: Any = None) -> Activity:
    return record(actor, env, path, steps, seed=2, after=after, progress=False)


@pytest.mark.parametrize("where", ["cheetah", "pendulum", "sac"])
def test_two_recordings_are_one_longer_one(where: str, tmp_path: Path) -> None:
    if where == "cheetah":
        actor, make = nc.load(RUNNER), running
    elif where == "pendulum":
        actor, make = pendulum_agent(), pendulum
    else:
        actor, make = RecurrentSAC("NCPPolicy", pendulum(), policy_kwargs={"wiring": PLAN}, buffer_size=100), pendulum
    whole = recorded(actor, make(), tmp_path / "whole.npz", 60)
    first = recorded(actor, make(), tmp_path / "first.npz", 25)
    then = recorded(actor, make(), tmp_path / "then.npz", 35, after=Activity.load(tmp_path / "first.npz"))
    for name in ("observations", "neurons", "currents", "outputs"):
        np.testing.assert_array_equal(getattr(whole, name), np.concatenate([getattr(first, name), getattr(then, name)]))
    np.testing.assert_array_equal(whole.extras["rewards"][25:], then.extras["rewards"])
    assert then.about["after"] == 25
    assert then.about["seeds"] == [2]
    assert not then.episode_starts.any()
    last, end = end_of(whole), end_of(then)
    assert end.steps == last.steps == 60
    np.testing.assert_array_equal(end.body, last.body)
    np.testing.assert_array_equal(end.observation, last.observation)


def test_the_limit_of_an_episode_counts_what_was_before(tmp_path: Path) -> None:
    agent = pendulum_agent()
    first = recorded(agent, pendulum(), tmp_path / "first.npz", 190)
    then = recorded(agent, pendulum(), tmp_path / "then.npz", 20, after=first)
    assert np.flatnonzero(then.episode_starts).tolist() == [10]
    assert then.about["seeds"] == [2, 3]
    assert end_of(then).steps == 10


def test_random_actions_are_drawn_anew(tmp_path: Path) -> None:
    agent = pendulum_agent()
    first = recorded(agent, RandomActionOverwrite(pendulum(), 0.5), tmp_path / "first.npz", 20)
    then = recorded(agent, RandomActionOverwrite(pendulum(), 0.5), tmp_path / "then.npz", 20, after=first)
    assert then.extras["is_random"].any()


def test_what_cannot_be_continued_is_refused(tmp_path: Path) -> None:
    agent = pendulum_agent()
    over = recorded(agent, pendulum(), tmp_path / "over.npz", 200)
    with pytest.raises(ValueError, match="cannot be continued: its last episode was over"):
        recorded(agent, pendulum(), tmp_path / "then.npz", 5, after=over)
    windows = History(pendulum(), 4)
    actor = PPO("MultiInputPolicy", windows, policy_kwargs={
        "features_extractor_class": NCPExtractor, "features_extractor_kwargs": {"wiring": PLAN}})  # fmt: skip
    short = recorded(actor, windows, tmp_path / "windows.npz", 5)
    with pytest.raises(ValueError, match="the state of its body or of its agent's memory is not known"):
        end_of(short)
    end = LoopEnd(np.zeros(2), np.zeros(8), None, 0)
    with pytest.raises(ValueError, match="made in another environment"):
        set_back(running(), end, 0)
    with pytest.raises(ValueError, match="the state of PendulumEnv cannot be set"):
        set_back(windows, end, 0)
    assert not (tmp_path / "then.npz").exists()


def test_the_memory_of_neurons() -> None:
    neurons = np.arange(12.0)
    actor, critic = memory_of(pendulum_agent().policy, neurons) or ()
    assert actor.shape == critic.shape
    assert actor[0, 0, :12].tolist() == neurons.tolist()
    assert not critic.any()
    assert memory_of(None, np.zeros(0)) is None
    (alone,) = memory_of(object(), neurons) or ()
    assert alone.shape == (1, 1, 12)


def test_the_command_goes_on_and_refuses_another_agent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, then = str(tmp_path / "first.npz"), str(tmp_path / "then.npz")
    assert main(["record", RUNNER, "--steps", "10", "--random", "0", "--out", first]) == 0
    assert main(["record", RUNNER, "--steps", "10", "--random", "0", "--after", first, "--out", then]) == 0
    assert "10 steps of 1 episode, " in capfd.readouterr().out
    save_policy(pendulum_agent(), tmp_path / "other.safetensors", {"env": "ncp/PendulumNoVel-v0"})
    other = str(tmp_path / "other.safetensors")
    assert "was recorded with another agent" in refused_after_progress(capfd, "record", other, "--after", first)
    assert "continues another recording" in refused_after_progress(capfd, "audit", RUNNER, "--within", then)
