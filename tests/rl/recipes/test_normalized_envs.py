"""The environments of recipes are normalised as by Stable-Baselines3's `VecNormalize`."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from helpers.same_steps import assert_same
from ncp_control.rl.recipes.normalized_envs import NormalizedVecEnv


class Noise(gym.Env[Any, Any]):
    """Random observations and rewards; episodes of seven steps end at a time limit."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, space: gym.Space[Any]) -> None:
        self.observation_space = space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observed(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._observed(), float(self.np_random.normal(3.0)), False, self.steps == 7, {}

    def _observed(self) -> Any:
        def drawn(space: Any) -> Any:
            return space.dtype.type(self.np_random.normal(2.0, 5.0, space.shape))

        space = self.observation_space
        return {key: drawn(one) for key, one in space.items()} if isinstance(space, gym.spaces.Dict) else drawn(space)


def box(*shape: int, dtype: Any = np.float64) -> gym.spaces.Box:
    return gym.spaces.Box(-100, 100, shape, dtype)


BOTH = gym.spaces.Dict({"where": box(3), "when": box(1, dtype=np.float32), "which": box(2)})
CHOICE = gym.spaces.Dict({"where": box(3), "choice": gym.spaces.Discrete(100)})
CASES: list[tuple[gym.Space[Any], dict[str, Any]]] = [
    (box(4), {}),
    (box(2, 3, dtype=np.float32), {"clip_obs": 1.0, "clip_reward": 0.5, "epsilon": 1e-2, "gamma": 0.9}),
    (box(4, dtype=np.int64), {}),
    (box(4), {"norm_obs": False}),
    (box(4), {"norm_reward": False, "training": False}),
    (BOTH, {}),
    (BOTH, {"norm_obs_keys": ["which", "when"]}),
    (CHOICE, {"norm_obs_keys": ["where"]}),
]


def made(kind: type[VecNormalize], space: Any, settings: dict[str, Any], count: int = 3) -> VecNormalize:
    envs = kind(DummyVecEnv([lambda: Noise(space)] * count), **copy.deepcopy(settings))
    envs.seed(0)
    return envs


def statistics(envs: VecNormalize) -> list[Any]:
    found: Any = getattr(envs, "obs_rms", None)
    every = [*(found.values() if isinstance(found, dict) else [found]), envs.ret_rms]
    return [(one.mean, one.var, one.count) for one in every if one is not None]


@pytest.mark.parametrize(("space", "settings"), CASES)
@pytest.mark.parametrize("count", [1, 3, 9])
def test_every_step_is_that_of_vec_normalize(space: Any, settings: dict[str, Any], count: int) -> None:
    ours, theirs = (made(kind, space, settings, count) for kind in (NormalizedVecEnv, VecNormalize))
    assert_same(ours.reset(), theirs.reset())
    for _ in range(20):
        assert_same(ours.step(np.zeros(count, int)), theirs.step(np.zeros(count, int)))
        assert_same(ours.get_original_obs(), theirs.get_original_obs())
        assert_same(ours.get_original_reward(), theirs.get_original_reward())
        assert_same(statistics(ours), statistics(theirs))


def test_what_it_shows_is_the_reader_s_own() -> None:
    envs = made(NormalizedVecEnv, BOTH, {"norm_obs_keys": ["which"]})
    shown: Any = envs.reset()
    before = envs.get_original_obs()
    for values in shown.values():
        values[:] = 7
    assert_same(envs.get_original_obs(), before)


def test_its_file_is_that_of_a_vec_normalize(tmp_path: Path) -> None:
    ours, theirs = (made(kind, box(4), {}) for kind in (NormalizedVecEnv, VecNormalize))
    for envs in (ours, theirs):
        envs.reset()
        envs.step(np.zeros(3, int))
        envs.save(str(tmp_path / type(envs).__name__))
    assert b"ncp_control" not in pickle.dumps(ours).replace(__name__.encode(), b"")
    venv = DummyVecEnv([lambda: Noise(box(4))])
    for name in ("NormalizedVecEnv", "VecNormalize"):
        for kind in (NormalizedVecEnv, VecNormalize):
            loaded = kind.load(str(tmp_path / name), venv)
            assert type(loaded) is VecNormalize
            assert_same(statistics(loaded), statistics(ours))
