"""A training in one process says when worker processes would make it much faster, and only then."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from helpers.busy_environment import BUSY
from helpers.small_recipes import QUIET, RECIPES, recipe_file
from ncp_control.cli import main
from ncp_control.rl.recipes.building import make_envs, make_model
from ncp_control.rl.recipes.recipe import Recipe, load_recipe
from ncp_control.rl.training import train
from ncp_control.rl.vec_advice import MESSAGE, VecAdvice, gain, seconds_to_pickle
from ncp_control.support.processes import core_count

SMALL: dict[str, Any] = {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
ADVICE = re.compile(
    r"stepping the environments takes (\d+) % of the time: --vec processes(=\d)? would be about (\d\.\d) times as fast "
    r"on these (\d+) cores\n"
)


def busy(milliseconds: float, n_envs: int = 4, **settings: Any) -> Recipe:
    return Recipe(
        BUSY, "PPO", 1000, n_envs, env_kwargs={"milliseconds": milliseconds}, policy="MlpPolicy",
        policy_kwargs={"net_arch": [4]}, settings={**SMALL, **settings},
    )  # fmt: skip


def advised(recipe: Recipe, cores: int, capfd: pytest.CaptureFixture[str], rounds: int = 60) -> str:
    """What a measurement of a training with so many cores says."""
    envs = make_envs(recipe, recipe.n_envs, training=True)
    model: Any = make_model(recipe, envs, seed=0, device="cpu")
    advice, own = VecAdvice(cores), envs.unwrapped.step_wait
    for _ in range(rounds):
        advice.begin_round(model)
        if advice._is_done:
            break
        model.learn(recipe.n_envs * recipe.settings["n_steps"], reset_num_timesteps=False)
    assert advice._is_done
    assert envs.unwrapped.step_wait == own  # nothing is measured any longer
    advice.begin_round(model)
    envs.close()
    return capfd.readouterr().err


def test_slow_environments_are_worth_worker_processes(capfd: pytest.CaptureFixture[str]) -> None:
    found = ADVICE.fullmatch(advised(busy(2.0), 4, capfd))
    assert found
    share, _, times, cores = found.groups()
    assert 50 < int(share) <= 100
    assert 1.3 <= float(times) <= 4.0
    assert cores == "4"


@pytest.mark.parametrize(
    ("recipe", "cores"),
    [
        (busy(0.0), 8),  # a step takes less than a message
        (busy(2.0), 1),
        (busy(2.0, n_envs=1), 8),
        (busy(0.3, n_epochs=100), 4),  # the updates take most of the time
    ],
    ids=["quick", "one core", "one environment", "many updates"],
)
def test_others_are_not(recipe: Recipe, cores: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert advised(recipe, cores, capfd) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["halfcheetah-novel", "halfcheetah-mlp", "ant-teacher", "tmaze"])
def test_the_shipped_recipes_are_not(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    recipe = load_recipe(name)
    recipe.settings.setdefault("n_steps", 1)
    if recipe.is_off_policy:
        recipe.settings |= {"n_steps": 1, "learning_starts": 0}
    assert advised(recipe, 8, capfd, 3000) == ""


def test_the_gain_is_that_of_the_busiest_worker() -> None:
    assert gain(1.0, 0.0, 8, 4, -4 * MESSAGE) == 4.0
    assert gain(1.0, 0.0, 5, 4, -4 * MESSAGE) == 2.5  # one of the workers has two environments
    assert gain(1.0, 1.0, 8, 4, -4 * MESSAGE) == 2 / 1.25
    assert gain(MESSAGE, 0.0, 2, 2, 0.0) == 1 / 2.5
    assert gain(0.01, 0.0, 8, 8, 1.0) < 0.01


def test_what_cannot_be_sent_is_not_advised() -> None:
    assert seconds_to_pickle({"a": lambda: 0}) is None
    small, large = seconds_to_pickle(b""), seconds_to_pickle([[k] for k in range(100_000)])
    assert small is not None
    assert large is not None
    assert 0 < small < large


def test_time_in_a_pause_does_not_count() -> None:
    advice = VecAdvice(2)
    with advice.paused():
        sum(range(1000))
    assert advice._began[0] > 0


@pytest.mark.skipif(core_count() < 2, reason="one core")
def test_the_command_says_it_once_and_other_choices_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = (
        f"env: {BUSY}\nenv_kwargs: {{milliseconds: 2}}\nalgo: PPO\nn_timesteps: 960\nn_envs: 4\npolicy: MlpPolicy\n"
        "policy_kwargs: {net_arch: [4]}\nn_steps: 20\nbatch_size: 80\nn_epochs: 1\n"
    )
    words = ["train", str(recipe_file(tmp_path, text)), "--eval-episodes", "1", "--eval-every", "1000"]
    assert main([*words, "--out", str(tmp_path / "one")]) == 0
    assert len(ADVICE.findall(capfd.readouterr().err)) == 1
    assert main([*words, "--out", str(tmp_path / "several"), "--vec", "processes"]) == 0
    assert not ADVICE.search(capfd.readouterr().err)


def test_a_measured_training_is_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recipe = load_recipe(recipe_file(tmp_path, RECIPES["ppo"]))
    found = [train(recipe, tmp_path / f"run{advise}", advise=advise, **QUIET).curve for advise in (True, False)]
    assert found[0] == found[1]
    assert capfd.readouterr().err == ""
