"""The partially observed tasks: what they hide, what they keep of their base, and that checkers accept them."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from ncp_envs.partial import register_partial  # noqa: E402

TASKS = {
    "HalfCheetahNoVel-v0": ("HalfCheetah-v5", [0, 1, 2, 3, 4, 5, 6, 7]),
    "HalfCheetahNoPos-v0": ("HalfCheetah-v5", [8, 9, 10, 11, 12, 13, 14, 15, 16]),
    "CartPoleNoVel-v0": ("CartPole-v1", [0, 2]),
    "PendulumNoVel-v0": ("Pendulum-v1", [0, 1]),
    "MountainCarContinuousNoVel-v0": ("MountainCarContinuous-v0", [0]),
}


@pytest.fixture(params=TASKS)
def task(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param.startswith("HalfCheetah"):
        pytest.importorskip("mujoco")
        monkeypatch.chdir(tmp_path)  # making the base, MuJoCo writes its log into the working folder
    return str(request.param)


def make(task: str, **options: Any) -> Any:
    return gym.make(f"ncp_envs:ncp/{task}", **options)


def play(env: Any, steps: int = 20) -> list[tuple[Any, ...]]:
    """Observation, reward and ends of an episode with one fixed sequence of actions."""
    env.action_space.seed(1)
    observation, _ = env.reset(seed=2)
    seen: list[tuple[Any, ...]] = [(observation, 0.0, False, False)]
    for _ in range(steps):
        seen.append(env.step(env.action_space.sample())[:4])
    return seen


def test_a_task_is_its_base_with_fewer_observations(task: str) -> None:
    base, kept = TASKS[task]
    whole, part = play(gym.make(base)), play(make(task))
    for (full, *rest), (observation, *same) in zip(whole, part, strict=True):
        assert observation.dtype == full.dtype
        np.testing.assert_array_equal(observation, full[kept])
        assert same == rest


def test_the_space_is_the_kept_part_of_the_space(task: str) -> None:
    base, kept = TASKS[task]
    full, space = gym.make(base).observation_space, make(task).observation_space
    assert isinstance(space, gym.spaces.Box)
    assert space == gym.spaces.Box(full.low[kept], full.high[kept], dtype=full.dtype)
    assert all(observation in space for observation, *_ in play(make(task)))


def test_limits_and_thresholds_are_those_of_the_base(task: str) -> None:
    spec, base = make(task).spec, gym.spec(TASKS[task][0])
    assert (spec.max_episode_steps, spec.reward_threshold) == (base.max_episode_steps, base.reward_threshold)
    assert play(make(task, max_episode_steps=5), 5)[-1][3] is True


def test_gymnasium_accepts_them(task: str) -> None:
    with warnings.catch_warnings():
        # The checker prefers unwrapped environments and bounded spaces; the base environments have neither.
        warnings.filterwarnings("ignore", module="gymnasium")
        check_env(make(task), skip_render_check=True)


def test_stable_baselines_accepts_them(task: str) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(make(task))


def test_options_reach_the_base_environment(task: str) -> None:
    assert make(task, render_mode="rgb_array").render_mode == "rgb_array"
    if task.startswith("HalfCheetah"):
        assert make(task, forward_reward_weight=2.5).unwrapped._forward_reward_weight == 2.5


def test_a_spec_makes_the_same_environment_again(task: str) -> None:
    spec = make(task).spec
    again = gym.make(type(spec).from_json(spec.to_json()))
    assert again.observation_space == make(task).observation_space
    for (first, *_), (second, *_) in zip(play(make(task)), play(again), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_vector_environment_is_made_by_id() -> None:
    envs = gym.make_vec("ncp_envs:ncp/CartPoleNoVel-v0", num_envs=3)
    observations, _ = envs.reset(seed=0)
    assert observations.shape == (3, 2)


def test_an_option_that_moves_the_observations_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    for name in ("HalfCheetahNoVel-v0", "HalfCheetahNoPos-v0"):
        with pytest.raises(ValueError, match="17 entries, but this environment has 18"):
            make(name, exclude_current_positions_from_observation=False)


def test_positions_and_velocities_are_the_whole_observation() -> None:
    pytest.importorskip("mujoco")
    positions, velocities = make("HalfCheetahNoVel-v0"), make("HalfCheetahNoPos-v0")
    played = zip(play(positions), play(velocities), strict=True)
    *_, whole = (np.concatenate([first, second]) for (first, *_), (second, *_) in played)
    body = positions.unwrapped.data
    np.testing.assert_array_equal(whole, np.concatenate([body.qpos[1:], body.qvel]))


def test_registering_twice_changes_nothing() -> None:
    before = {name: gym.registry[name] for name in gym.registry if name.startswith("ncp/")}
    assert len(before) == len(TASKS)
    register_partial()
    assert all(gym.registry[name] is spec for name, spec in before.items())
