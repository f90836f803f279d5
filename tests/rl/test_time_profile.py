"""Where the time of a training goes: each part gets what it took, and the training is the same as without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from ncp_control.cli import main
from ncp_control.rl import TimeProfile, time_profile
from ncp_control.rl.time_profile import PARTS


class Clock:
    """Its time passes where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time_profile, "perf_counter", made)
    return made


class SlowEnv(gym.Wrapper):  # type: ignore[type-arg]
    """Its steps take a second each."""

    def __init__(self, env: Any, clock: Clock) -> None:
        super().__init__(env)
        self.clock = clock

    def step(self, action: Any) -> Any:
        self.clock.now += 1
        return self.env.step(action)


class SlowCallback(BaseCallback):
    """The end of a rollout takes it fifty seconds."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.clock.now += 50


def made(kind: Any, clock: Clock) -> BaseAlgorithm:
    """Returns a model whose rollouts take three seconds besides their steps, and whose updates take seven."""

    class Slow(kind):  # type: ignore[misc]
        def collect_rollouts(self, *args: Any, **kwargs: Any) -> Any:
            clock.now += 3
            return super().collect_rollouts(*args, **kwargs)

        def train(self, *args: Any, **kwargs: Any) -> None:
            clock.now += 7
            super().train(*args, **kwargs)

    env = SlowEnv(gym.make("Pendulum-v1"), clock)
    settings = {"n_steps": 32, "batch_size": 32, "n_epochs": 1} if kind is PPO else {"learning_starts": 40}
    model: BaseAlgorithm = Slow("MlpPolicy", env, seed=0, device="cpu", **settings)
    return model


@pytest.mark.parametrize(("kind", "rollouts", "updates"), [(PPO, 2, 2), (SAC, 64, 24)])
def test_each_part_gets_its_time_and_the_training_is_the_same(
    kind: Any, rollouts: int, updates: int, clock: Clock
) -> None:
    profiled, profile = made(kind, clock), TimeProfile()
    profiled.learn(64, callback=[SlowCallback(clock), profile])
    assert profile.seconds == {
        "environments": 64, "acting": 3 * rollouts, "updates": 7 * updates, "evaluations": 50 * rollouts, "rest": 0,
    }  # fmt: skip
    assert sum(profile.seconds.values()) == clock.now
    plain = made(kind, clock).learn(64)
    for one, other in zip(profiled.policy.parameters(), plain.policy.parameters(), strict=True):
        assert torch.equal(one, other)


def test_nothing_stays_behind_and_a_second_training_adds_to_the_first(clock: Clock) -> None:
    model, profile = made(PPO, clock), TimeProfile()
    model.learn(32, callback=profile)
    assert not {"collect_rollouts", "train"} & set(vars(model))
    assert "step" not in vars(model.get_env())
    assert profile.seconds["environments"] == 32
    model.learn(32, callback=profile)
    assert profile.seconds["environments"] == 64


def test_a_training_goes_on_after_it_was_broken_off(clock: Clock) -> None:
    class BrokenOff(Exception):
        pass

    class Breaks(SlowCallback):
        def _on_rollout_end(self) -> None:
            raise BrokenOff

    model, profile = made(PPO, clock), TimeProfile()
    with pytest.raises(BrokenOff):
        model.learn(32, callback=[profile, Breaks(clock)])
    assert profile.seconds["environments"] == 32
    model.learn(32, callback=profile)
    assert profile.seconds["environments"] == 64
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
