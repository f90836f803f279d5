"""Where the time of a training goes: each part gets what it took, and the training is the same as without."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from ncp_control.cli import main
from ncp_control.rl import TimeProfile
from ncp_control.rl.time_profile import PARTS

NAP = 0.002


class SlowEnv(gym.Wrapper):  # type: ignore[type-arg]
    """Its steps take two milliseconds."""

    def step(self, action: Any) -> Any:
        time.sleep(NAP)
        return self.env.step(action)


class SlowCallback(BaseCallback):
    """The end of a rollout takes it fifty steps of `SlowEnv`."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        time.sleep(50 * NAP)


def made(kind: Any) -> BaseAlgorithm:
    env = SlowEnv(gym.make("Pendulum-v1"))
    settings = {"n_steps": 32, "batch_size": 32, "n_epochs": 1} if kind is PPO else {"learning_starts": 40}
    model: BaseAlgorithm = kind("MlpPolicy", env, seed=0, device="cpu", **settings)
    return model


@pytest.mark.parametrize("kind", [PPO, SAC])
def test_each_part_gets_its_time_and_the_training_is_the_same(kind: Any) -> None:
    profiled, profile = made(kind), TimeProfile()
    rollouts = 2 if kind is PPO else 64
    start = time.perf_counter()
    profiled.learn(64, callback=[profile, *([SlowCallback()] if kind is PPO else [])])
    took = time.perf_counter() - start
    plain = made(kind).learn(64)
    seconds = profile.seconds
    assert list(seconds) == list(PARTS)
    assert seconds["environments"] >= 64 * NAP
    assert seconds["updates"] > 0
    assert seconds["acting"] > 0
    assert sum(seconds.values()) <= took
    if kind is PPO:
        assert seconds["evaluations"] >= rollouts * 50 * NAP
        assert seconds["environments"] + seconds["acting"] < took - rollouts * 50 * NAP
    for one, other in zip(profiled.policy.parameters(), plain.policy.parameters(), strict=True):
        assert torch.equal(one, other)


def test_nothing_stays_behind_and_a_second_training_adds_to_the_first() -> None:
    model, profile = made(PPO), TimeProfile()
    model.learn(32, callback=profile)
    assert not {"collect_rollouts", "train"} & set(vars(model))
    assert "step" not in vars(model.get_env())
    before = profile.seconds["environments"]
    model.learn(32, callback=profile)
    assert profile.seconds["environments"] >= before + 32 * NAP


def test_a_training_goes_on_after_it_was_broken_off() -> None:
    class BrokenOff(Exception):
        pass

    class Breaks(SlowCallback):
        def _on_rollout_end(self) -> None:
            raise BrokenOff

    model, profile = made(PPO), TimeProfile()
    with pytest.raises(BrokenOff):
        model.learn(32, callback=[profile, Breaks()])
    before = dict(profile.seconds)
    start = time.perf_counter()
    model.learn(32, callback=profile)
    took = time.perf_counter() - start
    assert 32 * NAP <= profile.seconds["environments"] - before["environments"] < took
    assert "step" not in vars(model.get_env())


def test_the_words_have_the_share_of_each_part() -> None:
    profile = TimeProfile()
    assert str(profile) == "environments 0 %, acting 0 %, updates 0 %, evaluations 0 %, rest 0 %"
    profile.seconds |= {"environments": 6.0, "acting": 1.0, "updates": 3.0}
    assert str(profile) == "environments 60 %, acting 10 %, updates 30 %, evaluations 0 %, rest 0 %"
    legend = profile.draw().legends[0]
    assert [text.get_text() for text in legend.get_texts()][:2] == ["environments 6.0 s, 60 %", "acting 1.0 s, 10 %"]


def test_train_says_where_the_time_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "--profile", "--env", "Pendulum-v1", "--steps", "64", "--eval-episodes", "1"]
    words += ["--set", "n_envs=1", "n_steps=32", "batch_size=32", "n_epochs=1", "--out"]
    assert main([*words, str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "\ntime: environments " in said
    assert f", in {tmp_path / 'run' / 'profile.svg'}\n" in said
    assert (tmp_path / "run" / "profile.svg").read_text().startswith("<?xml")
    assert main([*words, str(tmp_path / "other"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["time"]) == list(PARTS)
    assert found["time"]["evaluations"] > 0
