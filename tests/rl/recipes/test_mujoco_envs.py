"""Bodies that are stepped together train as those in Stable-Baselines3's `DummyVecEnv` do."""

import copy
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

pytest.importorskip("mujoco")
pytest.importorskip("stable_baselines3")

from gymnasium.wrappers import TimeAwareObservation, TimeLimit
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers.same_steps import assert_same
from ncp_control.data.episodes import stepper_of
from ncp_control.data.finite import CheckFinite
from ncp_control.rl.recipes import mujoco_envs
from ncp_control.rl.recipes.building import make_env, make_envs, make_model
from ncp_control.rl.recipes.mujoco_envs import BodyVecEnv, monitored
from ncp_control.rl.recipes.recipe import load_recipe
from ncp_envs import ActionDelay, ChangedBody, ObservationNoise, PreviousAction


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the working folder


def made(task: str, wrappers: Sequence[Any] = (), count: int = 3) -> list[gym.Env[Any, Any]]:
    return [make_env(task, list(wrappers), {"max_episode_steps": 12}) for _ in range(count)]


def without_times(infos: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The infos without the seconds that episodes took."""
    return [{**info, "episode": {**info["episode"], "t": 0.0}} if "episode" in info else info for info in infos]


TASKS = ["Hopper-v5", "ncp/AntNoVel-v0", "InvertedPendulum-v5", "ncp/HalfCheetahNoVel-v0"]
RANDOM = {"RandomActionOverwrite": {"probability": 0.3}}
DISTURBED: list[list[Any]] = [
    [{"ObservationNoise": {"std": 0.1, "clean": True}}],
    [{"ObservationDropout": {"probability": 0.3, "fill": "last"}}],
    [{"ActionDelay": {"steps": 2}}],
    [{"ActionDelay": {"steps": [0, 2], "told": True}}, {"PreviousAction": {"reward": True}}],
    [{"Pushes": {"strength": 1.0, "every": 5}}],
    [{"ActionChangeCost": {"weight": 0.1}}],
    [{"ChangedBody": {"mass": [0.5, 2.0], "gear": [0.7, 1.4], "limbs": [0.9, 1.1], "told": True}}],
    [
        {"ChangedBody": {"mass": [0.5, 2.0], "friction": [0.4, 2.0]}},
        RANDOM, {"Pushes": {"strength": 1.0}}, {"ActionChangeCost": {"weight": 0.1}},
        {"ActionDelay": {"steps": [0, 1]}}, {"ActionDelay": {"steps": 1}}, "PreviousAction",
        {"ObservationNoise": {"std": 0.1}}, {"ObservationDropout": {"probability": 0.3}}, RANDOM,
    ],
]  # fmt: skip


@pytest.mark.parametrize(
    ("task", "wrappers"), [*((task, []) for task in TASKS), *(("HalfCheetah-v5", one) for one in DISTURBED)]
)
def test_every_step_equals_that_of_a_dummy_vector(task: str, wrappers: list[Any]) -> None:
    ours = monitored(made(task, wrappers))
    theirs = DummyVecEnv([lambda env=env: Monitor(env) for env in made(task, wrappers)])  # type: ignore[misc]
    assert isinstance(ours, BodyVecEnv)
    random, ended = np.random.default_rng(1), 0
    low, high = ours.action_space.low, ours.action_space.high  # type: ignore[attr-defined]
    for seed in (5, None):
        if seed is not None:
            assert ours.seed(seed) == theirs.seed(seed)
        assert_same(ours.reset(), theirs.reset())
        for _ in range(30):
            actions = np.stack([random.uniform(low, high) for _ in range(3)]).astype(np.float32)
            found, expected = ours.step(actions), theirs.step(actions)
            assert_same(found[:3], expected[:3])
            assert_same(without_times(found[3]), without_times(expected[3]))
            assert_same(ours.reset_infos, theirs.reset_infos)
            ended += int(found[2].sum())
    assert ended >= 12
    for what in (Monitor, CheckFinite, TimeLimit, ObservationNoise, TimeAwareObservation):
        assert ours.env_is_wrapped(what) == theirs.env_is_wrapped(what)
    assert ours.get_attr("frame_skip") == theirs.get_attr("frame_skip")
    assert ours.get_attr("spec") == theirs.get_attr("spec")
    assert ours.env_method("get_episode_lengths") == theirs.env_method("get_episode_lengths")
    assert_same(ours.env_method("state_vector"), theirs.env_method("state_vector"))


def test_what_a_step_returned_stays_as_it_was() -> None:
    envs = monitored(made("Hopper-v5"))
    envs.reset()
    random, kept = np.random.default_rng(0), []
    for _ in range(14):
        result = envs.step(random.uniform(-1, 1, (3, 3)).astype(np.float32))
        kept.append((result, copy.deepcopy(result)))
    for result, as_it_was in kept:
        assert_same(result, as_it_was)
    assert any("terminal_observation" in info for (*_, infos), _ in kept for info in infos)


def test_environments_with_other_wrappers_are_stepped_one_by_one() -> None:
    envs = monitored([TimeAwareObservation(env) for env in made("Hopper-v5")])
    assert type(envs) is DummyVecEnv
    envs.reset()
    envs.step(np.zeros((3, 3), np.float32))


@pytest.mark.parametrize(
    ("wrapper", "other"),
    [
        (partial(ObservationNoise, std=0.1), partial(ObservationNoise, std=0.1, clean=True)),
        (partial(ActionDelay, steps=1), partial(ActionDelay, steps=1, told=True)),
        (PreviousAction, partial(PreviousAction, reward=True)),
        (partial(ChangedBody, mass=2.0), partial(ChangedBody, mass=2.0, told=True)),
    ],
)
def test_environments_that_show_different_things_are_not_stepped_together(wrapper: Any, other: Any) -> None:
    one, two = made("Hopper-v5", count=2)
    assert stepper_of([wrapper(one), other(two)]) is None
    assert stepper_of([wrapper(one), wrapper(two)]) is not None


TRAINED = {
    "PPO": {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "n_envs": 3, "normalize": True, "n_timesteps": 300},
    "SAC": {"learning_starts": 40, "batch_size": 16, "n_envs": 2, "buffer_size": 300, "n_timesteps": 160},
}


@pytest.mark.parametrize("algo", TRAINED)
def test_a_training_is_the_same(algo: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "own.yml").write_text(
        f"env: Hopper-v5\nalgo: {algo}\npolicy: MlpPolicy\npolicy_kwargs:\n  net_arch: [16]\n"
    )
    recipe = load_recipe(tmp_path / "own.yml", TRAINED[algo])

    def trained() -> Any:
        model = make_model(recipe, make_envs(recipe, recipe.n_envs, training=True), 3, "cpu")
        return model.learn(recipe.n_timesteps)

    ours = trained()
    monkeypatch.setattr(mujoco_envs, "stepper_of", lambda envs: None)
    theirs = trained()
    assert [type(one.get_env().unwrapped) for one in (ours, theirs)] == [BodyVecEnv, DummyVecEnv]
    for (name, one), other in zip(ours.policy.state_dict().items(), theirs.policy.state_dict().values(), strict=True):
        assert torch.equal(one, other), name
    assert ours.num_timesteps == theirs.num_timesteps
    lengths = [[(episode["r"], episode["l"]) for episode in model.ep_info_buffer] for model in (ours, theirs)]
    assert lengths[0] == lengths[1]
    assert len(lengths[0]) > 3
