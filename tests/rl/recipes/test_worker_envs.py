"""Environments in worker processes give what they give in one process, and their faults become sentences."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from helpers.busy_environment import BUSY, FAULTY, Busy
from helpers.remembering_environment import REMEMBERING
from helpers.same_steps import assert_same
from ncp_control.rl.recipes.building import make_envs, make_side_by_side
from ncp_control.rl.recipes.recipe import Recipe
from ncp_control.rl.recipes.trial import random_actions, try_out
from ncp_control.rl.recipes.worker_envs import WorkerTraceback, WorkerVecEnv, shares
from ncp_envs import ObservationNoise

OVERWRITE: dict[str, Any] = {"RandomActionOverwrite": {"probability": 0.3}}
RECIPES = {
    "busy": Recipe(BUSY, "PPO", 9, env_kwargs={"steps": 7}),
    "body": Recipe("ncp/HalfCheetahNoVel-v0", "PPO", 9, env_kwargs={"max_episode_steps": 9}, normalize=True),
    "wrapped body": Recipe("Hopper-v5", "SAC", 9, env_wrapper=[OVERWRITE, {"ObservationNoise": {"std": 0.1}}]),
    "elapsed": Recipe(
        "ncp/PendulumNoVel-v0", "RecurrentPPO", 9, env_kwargs={"max_episode_steps": 9}, normalize=True,
        env_wrapper=[{"IrregularTime": {"frames": [1, 3]}}],
    ),
    "window": Recipe(
        "Pendulum-v1", "PPO", 9, env_kwargs={"max_episode_steps": 9}, env_wrapper=[{"History": {"window": 3}}],
    ),
    "masks": Recipe("StrictFive-v0", "RecurrentPPO", 9),
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import gymnasium as gym

    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the working folder
    gym.register("StrictFive-v0", entry_point="helpers.masked_environments:StrictFive")
    yield
    gym.registry.pop("StrictFive-v0")
    left = multiprocessing.active_children()
    for process in left:
        process.kill()
        process.join()
    assert not left


def without_times(infos: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The infos without the seconds that episodes took."""
    return [{**info, "episode": {**info["episode"], "t": 0.0}} if "episode" in info else info for info in infos]


def side_by_side(recipe: Recipe, count: int, workers: int) -> tuple[VecEnv, VecEnv]:
    return make_envs(recipe, count, True), make_envs(recipe, count, True, workers)


FAST = [("busy", 2), ("elapsed", 2), ("masks", 2)]
OTHERS = [("body", 2), ("wrapped body", 2), ("window", 2), ("busy", 1), ("busy", 3), ("busy", 9)]


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "workers"), [*FAST, *(pytest.param(*case, marks=pytest.mark.system) for case in OTHERS)]
)
def test_every_number_is_that_of_one_process(name: str, workers: int) -> None:
    recipe = RECIPES[name]
    one, several = side_by_side(recipe, 5, workers)
    assert isinstance(several.unwrapped, WorkerVecEnv)
    assert one.observation_space == several.observation_space
    assert one.action_space == several.action_space
    assert one.unwrapped.metadata == several.unwrapped.metadata
    ended = 0
    one.action_space.seed(1)
    for seed in (5, None):
        if seed is not None:
            assert one.seed(seed) == several.seed(seed)
        assert_same(one.reset(), several.reset())
        for _ in range(25):
            if name == "masks":
                assert_same(one.env_method("action_masks"), several.env_method("action_masks"))
            actions = random_actions(one)
            found, expected = several.step(actions), one.step(actions)
            assert_same(expected[:3], found[:3])
            assert_same(without_times(expected[3]), without_times(found[3]))
            assert_same(one.unwrapped.reset_infos, several.unwrapped.reset_infos)
            ended += int(found[2].sum())
    assert ended >= 5
    several.close()


def test_infos_of_every_kind_arrive() -> None:
    several = make_envs(RECIPES["busy"], 3, True, 2)
    several.seed(0)
    several.reset()
    kinds = set()
    for _ in range(40):
        seen, rewards, _, infos = several.step(np.zeros((3, 1), np.float32))
        for k, info in enumerate(infos):
            assert isinstance(info["pair"], tuple)
            if "terminal_observation" in info:
                kinds.add(info["TimeLimit.truncated"])
                assert_same(info["terminal_observation"], info["place"])
                assert_same(several.reset_infos[k]["began"], seen[k, 0])
                assert info["episode"]["l"] <= 7
        seen += 1.0  # what a step returned belongs to the caller
        rewards += 1.0
    assert kinds == {True, False}
    several.close()


def test_attributes_and_methods_reach_the_environments_that_are_meant() -> None:
    one, several = side_by_side(RECIPES["busy"], 5, 2)
    for envs in (one, several):
        envs.seed(2)
        envs.reset()
        envs.set_attr("mark", "all")
        envs.set_attr("mark", "some", indices=[3, 0])
    for indices in (None, 2, [4, 0, 3], [1, 1, -1], []):
        assert one.get_attr("mark", indices) == several.get_attr("mark", indices)
        assert_same(one.get_attr("place", indices), several.get_attr("place", indices))
        found = [envs.env_method("get_wrapper_attr", "count", indices=indices) for envs in (one, several)]
        assert found[0] == found[1]
        assert one.env_is_wrapped(TimeLimit, indices) == several.env_is_wrapped(TimeLimit, indices)
    assert [several.env_is_wrapped(kind) for kind in (Monitor, ObservationNoise)] == [[True] * 5, [False] * 5]
    assert (several.has_attr("place"), several.has_attr("action_masks")) == (True, False)
    assert several.get_attr("spec") == one.get_attr("spec")
    with pytest.raises(AttributeError, match="action_masks"):
        several.get_attr("action_masks")
    with pytest.raises(IndexError):
        several.get_attr("place", 5)
    with pytest.raises(ValueError, match=r"what get_attr returned cannot be sent from a worker process: .*pickle"):
        several.get_attr("lock")
    several.close()


def test_an_environment_that_cannot_be_pickled_is_made_where_it_is_stepped() -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(Busy())
    several = make_envs(RECIPES["busy"], 2, True, 2)
    try_out(several, RECIPES["busy"])
    several.close()


@pytest.mark.slow  # each process imports torch
def test_processes_that_import_everything_again_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    recipe = Recipe("ncp_envs:ncp/PendulumNoVel-v0", "PPO", 9)
    one, several = side_by_side(recipe, 2, 2)
    for envs in (one, several):
        envs.seed(1)
    assert_same(one.reset(), several.reset())
    assert_same(one.step(np.ones((2, 1), np.float32))[:3], several.step(np.ones((2, 1), np.float32))[:3])
    several.close()


@given(count=st.integers(1, 60), workers=st.integers(1, 70))
def test_every_environment_has_one_worker_and_all_have_alike(count: int, workers: int) -> None:
    found = shares(count, workers)
    assert [place for places in found for place in places] == list(range(count))
    assert len(found) == min(count, workers)
    assert max(map(len, found)) - min(map(len, found)) <= 1


FAULTS = {
    "raises": (ValueError, "one of the environments 2 to 4, in a worker process: ZeroDivisionError: the pendulum"),
    "leaves": (ChildProcessError, "the worker process with environments 2 to 4 ended with the exit code 3"),
    "dies": (ChildProcessError, "the worker process with environments 2 to 4 was ended by SIGKILL, perhaps because"),
    "odd info": (ValueError, "what its step returned cannot be sent from a worker process: .*pickle"),
    "foreign": (ValueError, "the environment draws random numbers from numpy.random, which worker processes do not"),
    "foreign space": (ValueError, "the environment draws random numbers from its action_space, which worker processes"),
}  # fmt: skip


@pytest.mark.parametrize(
    "fault", ["raises", *(pytest.param(fault, marks=pytest.mark.system) for fault in FAULTS if fault != "raises")]
)
def test_a_fault_in_a_worker_is_one_sentence(fault: str, capfd: pytest.CaptureFixture[str]) -> None:
    kind, sentence = FAULTS[fault]
    recipe = Recipe(FAULTY, "PPO", 9, env_kwargs={"at": 3})
    several = make_envs(recipe, 5, True, 2)
    several.env_method("set_wrapper_attr", "fault", fault, indices=3)
    several.seed(0)
    several.reset()
    for _ in range(2):
        several.step(np.zeros((5, 1), np.float32))
    with pytest.raises(kind, match=sentence) as caught:
        several.step(np.zeros((5, 1), np.float32))
    if fault == "raises":  # the cause shows where
        assert isinstance(caught.value.__cause__, WorkerTraceback)
        assert "busy_environment.py" in str(caught.value.__cause__)
        several.reset()  # the workers still answer
    if fault == "dies":
        with pytest.raises(ValueError, match="worker processes have not answered yet, because a step was interrupted"):
            several.reset()
    several.close()
    several.close()
    with pytest.raises(ValueError, match="worker processes are closed: make them again"):
        several.reset()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (Recipe("NoSuch-v0", "PPO", 9), "the environment 'NoSuch-v0' cannot be made"),
        (Recipe(BUSY, "DQN", 9), f"DQN does not give actions of .*, which {BUSY} needs"),
        (Recipe(BUSY, "PPO", 9, normalize={"norm_obs_keys": ["x"]}), "the recipe's normalize does not fit"),
    ],
)
def test_a_recipe_is_refused_with_the_same_sentence_and_leaves_no_process(recipe: Recipe, sentence: str) -> None:
    told = []
    for workers in (0, 2):
        with pytest.raises(ValueError, match=sentence) as refused:
            make_envs(recipe, 2, True, workers)
        told.append(str(refused.value))
    assert told[0] == told[1]
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=pytest.mark.system)])
def test_numbers_of_shared_generators_are_refused_before_a_run(workers: int) -> None:
    recipe = Recipe(REMEMBERING, "PPO", 9, env_kwargs={"remembers": "numbers"})
    try_out(make_envs(recipe, 3, False), recipe)
    several = make_envs(recipe, 3, False, workers)
    with pytest.raises(ValueError, match=r"draws random numbers from Python's module random, which worker processes"):
        try_out(several, recipe)
    several.close()


@pytest.mark.system
def test_a_worker_that_is_busy_is_ended() -> None:
    recipe = Recipe(BUSY, "PPO", 9, env_kwargs={"milliseconds": 1e6})
    several = WorkerVecEnv(partial(make_side_by_side, recipe), 2, 2)
    several.reset()
    several.step_async(np.zeros((2, 1), np.float32))
    several.close()
    assert not multiprocessing.active_children()


def test_more_workers_than_environments_are_not_started() -> None:
    several = make_envs(RECIPES["busy"], 2, True, 9)
    assert len(multiprocessing.active_children()) == 2
    several.close()
    assert isinstance(make_envs(RECIPES["busy"], 2, True), DummyVecEnv)
