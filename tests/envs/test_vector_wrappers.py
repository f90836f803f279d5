"""The vector form of a wrapper does to each environment what the single form does, in each autoreset mode."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

gym = pytest.importorskip("gymnasium")

from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv  # noqa: E402

import ncp_envs  # noqa: E402
from helpers.episode_counter import EpisodeCounter  # noqa: E402

FORMS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "overwrite": (ncp_envs.RandomActionOverwrite, ncp_envs.VectorRandomActionOverwrite, {"probability": 0.4}),
    "noise": (ncp_envs.ObservationNoise, ncp_envs.VectorObservationNoise, {"std": (0.0, 0.1, 1.0)}),
    "dropout": (ncp_envs.ObservationDropout, ncp_envs.VectorObservationDropout, {"probability": 0.4, "fill": -1.0}),
    "gap": (
        ncp_envs.ObservationDropout,
        ncp_envs.VectorObservationDropout,
        {"probability": 0.6, "fill": "last", "whole": True},
    ),
    "delay": (ncp_envs.ActionDelay, ncp_envs.VectorActionDelay, {"steps": 2, "first": [0.5]}),
    "delays": (ncp_envs.ActionDelay, ncp_envs.VectorActionDelay, {"steps": (0, 3)}),
    "history": (ncp_envs.History, ncp_envs.VectorHistory, {"window": 3}),
    "kept": (ncp_envs.KeepObservations, ncp_envs.VectorKeepObservations, {"indices": (2, 0)}),
}
LENGTHS = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), min_size=1, max_size=3)


def assert_same(first: Any, second: Any) -> None:
    assert type(first) is type(second)
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, tuple) or (isinstance(first, np.ndarray) and first.dtype == object):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_array_equal(first, second, strict=isinstance(first, np.ndarray))


def both(name: str, lengths: list[list[int]], mode: AutoresetMode, vector: Any = SyncVectorEnv) -> tuple[Any, Any]:
    single, many, options = FORMS[name]
    makers = [partial(EpisodeCounter, own) for own in lengths]
    inside = SyncVectorEnv([lambda make=make: single(make(), **options) for make in makers], autoreset_mode=mode)
    return inside, many(vector(makers, autoreset_mode=mode), **options)


def test_every_vector_wrapper_is_tested() -> None:
    public = {name for name in ncp_envs.__all__ if name.startswith("Vector")}
    assert {many.__name__ for _, many, _ in FORMS.values()} == public


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("mode", list(AutoresetMode))
@given(lengths=LENGTHS, seed=st.integers(0, 100))
@settings(max_examples=25)
def test_a_vector_wrapper_equals_a_wrapper_around_each_environment(
    name: str, mode: AutoresetMode, lengths: list[list[int]], seed: int
) -> None:
    inside, around = both(name, lengths, mode)
    assert around.observation_space == inside.observation_space
    assert around.single_observation_space == inside.single_observation_space
    assert_same(around.reset(seed=seed), inside.reset(seed=seed))
    actions = np.random.default_rng(seed).uniform(-1, 1, (20, len(lengths), 1)).astype(np.float32)
    for action in actions:
        *seen, infos = around.step(action)
        *expected, others = inside.step(action)
        assert_same(tuple(seen), tuple(expected))
        assert_same(infos, others)
        ended = seen[2] | seen[3]
        if mode == AutoresetMode.DISABLED and ended.any():
            assert_same(
                around.reset(options={"reset_mask": ended.copy()}), inside.reset(options={"reset_mask": ended.copy()})
            )


class Talkative(EpisodeCounter):
    """Reports many kinds of entries, some of them at some steps only, and some that the wrappers report too."""

    def __init__(self, lengths: Any = (3, 1, 4)) -> None:
        super().__init__(lengths)
        self.action_space = gym.spaces.Discrete(3, start=5)

    def reset(self, **arguments: Any) -> Any:
        observation, _ = super().reset(**arguments)
        return observation, {"begins": True, "nested": {"episode": self._episode}}

    def step(self, action: Any) -> Any:
        assert action in self.action_space
        *result, _ = super().step([action])
        info: dict[str, Any] = {"step": self._step, "text": f"step {self._step}", "nested": {"row": np.arange(2)}}
        if self._step % 2:
            info |= {"executed_action": np.int64(0), "clean_observation": result[0] + 1, "dropped": result[0] > 2}
        return *result, info


WORLDS: dict[str, Any] = {
    "talkative": Talkative,
    "CartPole": partial(gym.make, "CartPole-v1", max_episode_steps=15),
    "Pendulum": partial(gym.make, "Pendulum-v1", max_episode_steps=5),
}


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", FORMS)
def test_every_form_in_every_mode_gives_the_same_numbers_infos_and_spaces(
    name: str, world: str, mode: AutoresetMode, number: int
) -> None:
    single, many, options = FORMS[name]
    make = WORLDS[world]
    one = make()
    one.action_space.seed(1)
    options = {key: value for key, value in options.items() if key != "std"}
    options |= {"std": 0.3} if name == "noise" else {}
    options |= {"first": one.action_space.sample()} if name == "delay" else {}
    inside = SyncVectorEnv([lambda: single(make(), **options)] * number, autoreset_mode=mode)
    around = many(SyncVectorEnv([make] * number, autoreset_mode=mode), **options)
    for space in ("observation_space", "single_observation_space", "action_space", "single_action_space"):
        assert getattr(around, space) == getattr(inside, space)
    assert_same(around.reset(seed=123), inside.reset(seed=123))
    around.action_space.seed(0)
    endings = 0
    for _ in range(50):
        action = around.action_space.sample()
        result = around.step(action)
        assert result[0] in around.observation_space
        assert_same(result, inside.step(action))
        ended = result[2] | result[3]
        endings += ended.sum()
        if mode == AutoresetMode.DISABLED and ended.any():
            resets = [envs.reset(options={"reset_mask": ended.copy()}) for envs in (around, inside)]
            assert_same(*resets)
    assert endings > 1


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_stacked_vector_wrappers_equal_stacked_wrappers(mode: AutoresetMode) -> None:
    def stack(env: Any, number: int) -> Any:
        for name, more in (("overwrite", {}), ("delay", {"first": 6}), ("dropout", {}), ("noise", {"std": 0.1})):
            single, many, options = FORMS[name]
            env = (single if number == 1 else many)(env, **{**options, **more})
        return env

    inside = SyncVectorEnv([lambda: stack(Talkative(), 1)] * 3, autoreset_mode=mode)
    around = stack(SyncVectorEnv([Talkative] * 3, autoreset_mode=mode), 3)
    assert_same(around.reset(seed=1), inside.reset(seed=1))
    for _ in range(20):
        result = around.step(np.array([5, 6, 7]))
        assert_same(result, inside.step(np.array([5, 6, 7])))
        ended = result[2] | result[3]
        if mode == AutoresetMode.DISABLED and ended.any():
            resets = [envs.reset(options={"reset_mask": ended.copy()}) for envs in (around, inside)]
            assert_same(*resets)


@pytest.mark.parametrize("name", FORMS)
def test_seeds_may_be_a_list_and_a_reset_without_a_seed_continues(name: str) -> None:
    inside, around = both(name, [[4], [3], [5]], AutoresetMode.NEXT_STEP)
    actions = np.linspace(-1, 1, 30, dtype=np.float32).reshape(10, 3, 1)
    for seed in ([7, None, 2], None, 3):
        if seed == [7, None, 2]:  # an environment without a seed begins at random
            inside.reset(seed=1)
            around.reset(seed=1)
        assert_same(around.reset(seed=seed), inside.reset(seed=seed))
        for action in actions:
            assert_same(around.step(action), inside.step(action))


@pytest.mark.parametrize("name", FORMS)
def test_a_manual_reset_replaces_the_automatic_one(name: str) -> None:
    inside, around = both(name, [[2], [5]], AutoresetMode.NEXT_STEP)
    actions = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2, 1)
    for seed in (1, 2, 3):
        assert_same(around.reset(seed=seed), inside.reset(seed=seed))
        for action in actions[: 2 * seed]:  # after two steps the first environment's episode has just ended
            assert_same(around.step(action), inside.step(action))


def test_environments_that_share_a_seed_draw_different_numbers() -> None:
    envs = ncp_envs.VectorObservationNoise(SyncVectorEnv([EpisodeCounter] * 3), 1.0, seed=5)
    observations, _ = envs.reset()
    assert len(np.unique(observations[:, 1])) == 3
    alone = ncp_envs.ObservationNoise(EpisodeCounter(), 1.0, seed=6)
    np.testing.assert_array_equal(observations[1], alone.reset()[0])


def test_no_action_is_executed_in_a_step_that_resets() -> None:
    envs = ncp_envs.VectorRandomActionOverwrite(SyncVectorEnv([EpisodeCounter, partial(EpisodeCounter, (2,))]), 1.0)
    envs.reset(seed=0)
    masks = [envs.step(np.zeros((2, 1)))[-1]["_executed_action"].tolist() for _ in range(4)]
    assert masks == [[True, True], [True, True], [True, False], [True, True]]


def test_an_actions_entries_are_in_the_final_info_where_the_next_episode_begins_in_the_same_step() -> None:
    makers = [partial(EpisodeCounter, (2,)), partial(EpisodeCounter, (3,))]
    envs = ncp_envs.VectorActionDelay(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP), 1, first=[0.5])
    envs.reset(seed=0)
    envs.step(np.full((2, 1), 0.25, np.float32))
    infos = envs.step(np.full((2, 1), -1, np.float32))[-1]
    assert infos["_executed_action"].tolist() == [False, True]
    assert infos["final_info"]["_executed_action"].tolist() == [True, False]
    assert infos["final_info"]["executed_action"].tolist() == [[0.25], [0]]


def test_environments_in_other_processes() -> None:
    inside, around = both("noise", [[4], [3]], AutoresetMode.SAME_STEP, vector=AsyncVectorEnv)
    assert_same(around.reset(seed=4), inside.reset(seed=4))
    for _ in range(8):
        *seen, infos = around.step(np.zeros((2, 1), dtype=np.float32))
        *expected, others = inside.step(np.zeros((2, 1), dtype=np.float32))
        assert_same(tuple(seen), tuple(expected))
        assert_same(infos, others)
    around.close()


def test_vector_wrappers_work_around_gymnasiums_own_vector_environment() -> None:
    envs = gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point")
    envs = ncp_envs.VectorRandomActionOverwrite(ncp_envs.VectorActionDelay(envs, 1, first=1), 0.5)
    envs = ncp_envs.VectorHistory(ncp_envs.VectorObservationNoise(envs, 0.1), 4)
    observations, _ = envs.reset(seed=0)
    for _ in range(40):
        observations, _, _, _, infos = envs.step(np.zeros(3, dtype=np.int64))
        assert observations in envs.observation_space
    assert infos["executed_action"].shape == (3,)


def test_vector_forms_refuse_what_the_single_forms_refuse() -> None:
    envs = SyncVectorEnv([EpisodeCounter])
    with pytest.raises(ValueError, match="between 0 and 1"):
        ncp_envs.VectorRandomActionOverwrite(envs, 2.0)
    with pytest.raises(ValueError, match="at least 1"):
        ncp_envs.VectorHistory(envs, 0)
    with pytest.raises(ValueError, match=r"got shape \(2,\)"):
        ncp_envs.VectorObservationNoise(envs, (1.0, 2.0))
