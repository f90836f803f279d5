"""A training in one process says when worker processes would make it much faster, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO

from helpers import busy_environment
from helpers.busy_environment import BUSY
from helpers.small_recipes import QUIET, RECIPES, recipe_file
from ncp_control.cli import main
from ncp_control.rl import vec_advice
from ncp_control.rl.recipes.building import make_envs, make_model
from ncp_control.rl.recipes.recipe import Recipe, load_recipe
from ncp_control.rl.training import train
from ncp_control.rl.vec_advice import MESSAGE, VecAdvice, gain, seconds_to_pickle

SMALL: dict[str, Any] = {"n_steps": 64, "batch_size": 64, "n_epochs": 1}


class Clock:
    """Stands for Python's clocks, and goes on only by what a step, an update or a reading is said to take.

    :param reading: seconds that a reading of the time takes
    """

    def __init__(self, reading: float = 0.0) -> None:
        self.reading, self.passed, self.computed = reading, 0.0, 0.0

    def spend(self, seconds: float, computing: float = 1.0) -> None:
        """Lets time pass, a share of which this process computes."""
        self.passed += seconds
        self.computed += seconds * computing

    def perf_counter(self) -> float:
        self.spend(self.reading)
        return self.passed

    def process_time(self) -> float:
        return self.computed

    def thread_time(self) -> float:
        """Is read again and again by a step that computes."""
        self.spend(5e-6)
        return self.computed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of the environments and of the measurement."""
    found = Clock()
    for module in (vec_advice, busy_environment):
        monkeypatch.setattr(module, "time", found)
    return found


def busy(milliseconds: float, n_envs: int = 4) -> Recipe:
    return Recipe(
        BUSY, "PPO", 1000, n_envs, env_kwargs={"milliseconds": milliseconds}, policy="MlpPolicy",
        policy_kwargs={"net_arch": [4]}, settings=SMALL,
    )  # fmt: skip


def advised(
    recipe: Recipe, cores: int, clock: Clock, capfd: pytest.CaptureFixture[str], update: float, computing: float = 1.0
) -> str:
    """What a measurement of a training with so many cores says.

    :param update: the seconds of the networks' update after each round
    :param computing: the share of them in which this process has a core
    """
    envs = make_envs(recipe, recipe.n_envs, training=True)
    model: Any = make_model(recipe, envs, seed=0, device="cpu")
    advice, own = VecAdvice(cores), envs.unwrapped.step_wait
    for _ in range(30):
        advice.begin_round(model)
        if advice._is_done:
            break
        model.learn(recipe.n_envs * recipe.settings["n_steps"], reset_num_timesteps=False)
        clock.spend(update, computing)
    assert advice._is_done
    assert envs.unwrapped.step_wait == own  # nothing is measured any longer
    advice.begin_round(model)
    envs.close()
    return capfd.readouterr().err


@pytest.mark.system
def test_slow_environments_are_worth_worker_processes(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    # A round is 64 steps of 4 x 2 ms, and a tenth of a second: 8 ms and 1.6 ms a step, and 2 + 1.6 + 4 x .2 ms apart.
    assert advised(busy(2.0), 4, clock, capfd, update=0.1) == (
        "stepping the environments takes 84 % of the time: --vec processes would be about 2.2 times as fast "
        "on these 4 cores\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "cores", "update", "computing"),
    [
        (busy(0.02), 8, 0.001, 1.0),  # a step takes less than a message
        (busy(2.0), 1, 0.1, 1.0),
        (busy(2.0, n_envs=1), 8, 0.1, 1.0),
        (busy(2.0), 4, 5.0, 1.0),  # the updates take most of the time
        (busy(2.0), 4, 0.1, 0.1),  # other programs have the cores
    ],
    ids=["quick", "one core", "one environment", "long updates", "other programs"],
)
def test_others_are_not(
    recipe: Recipe,
    cores: int,
    update: float,
    computing: float,
    clock: Clock,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vec_advice, "LEAST_SECONDS", 0.01)
    assert advised(recipe, cores, clock, capfd, update, computing) == ""


@pytest.mark.slow
def test_a_measurement_is_long_enough_in_steps_and_in_seconds(clock: Clock) -> None:
    for milliseconds, rounds in ((2.0, 4), (0.2, 19)):
        recipe = busy(milliseconds)
        envs = make_envs(recipe, recipe.n_envs, training=True)
        model: Any = make_model(recipe, envs, seed=0, device="cpu")
        advice, taken = VecAdvice(4), 0
        advice.begin_round(model)
        while not advice._is_done:
            model.learn(recipe.n_envs * recipe.settings["n_steps"], reset_num_timesteps=False)
            clock.spend(1e-3)
            advice.begin_round(model)
            taken += 1
        assert taken == rounds  # 256 of at least 200 steps, and at least a second of 64 x 4 x .2 ms and a little more
        envs.close()


def test_the_gain_is_that_of_the_busiest_worker() -> None:
    assert gain(1.0, 0.0, 8, 4, -4 * MESSAGE) == 4.0
    assert gain(1.0, 0.0, 5, 4, -4 * MESSAGE) == 2.5  # one of the workers has two environments
    assert gain(1.0, 1.0, 8, 4, -4 * MESSAGE) == 2 / 1.25
    assert gain(MESSAGE, 0.0, 2, 2, 0.0) == 1 / 2.5
    assert gain(0.01, 0.0, 8, 8, 1.0) < 0.01


def test_what_cannot_be_sent_is_not_advised(clock: Clock) -> None:
    clock.reading = 1.0
    assert seconds_to_pickle({"a": lambda: 0}) is None
    assert seconds_to_pickle([b"", 3.0]) == 2.0  # packed and unpacked, and the copies through a pipe


def test_time_in_a_pause_does_not_count(clock: Clock) -> None:
    advice = VecAdvice(2)
    with advice.paused():
        clock.spend(3.0, computing=0.5)
    assert np.array_equal(advice._began, [3.0, 1.5])


@pytest.mark.slow
def test_the_command_says_it_once_and_other_choices_nothing(
    tmp_path: Path, clock: Clock, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    update = PPO.train

    def timed(model: PPO) -> None:
        update(model)
        clock.spend(0.01)

    monkeypatch.setattr(PPO, "train", timed)
    monkeypatch.setattr(vec_advice, "core_count", lambda: 2)
    text = (
        f"env: {BUSY}\nenv_kwargs: {{milliseconds: 2}}\nalgo: PPO\nn_timesteps: 960\nn_envs: 4\npolicy: MlpPolicy\n"
        "policy_kwargs: {net_arch: [4]}\nn_steps: 20\nbatch_size: 80\nn_epochs: 1\n"
    )
    words = ["train", str(recipe_file(tmp_path, text)), "--eval-episodes", "1", "--eval-every", "1000"]
    assert main([*words, "--out", str(tmp_path / "one")]) == 0
    assert capfd.readouterr().err.count("--vec processes would be about 1.7 times as fast on these 2 cores") == 1
    assert main([*words, "--out", str(tmp_path / "several"), "--vec", "processes=2"]) == 0
    assert "times as fast" not in capfd.readouterr().err


@pytest.mark.system
def test_a_measured_training_is_the_same(tmp_path: Path, clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    clock.reading = 0.01  # so that the measurement comes to its end
    recipe = load_recipe(recipe_file(tmp_path, RECIPES["ppo"]))
    found = [train(recipe, tmp_path / f"run{advise}", advise=advise, **QUIET).curve for advise in (True, False)]
    assert found[0] == found[1]
    assert capfd.readouterr().err == ""
