"""The partially observed tasks: what they hide, what they keep of their base, and that checkers accept them."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from ncp_envs import observation_names  # noqa: E402
from ncp_envs.partial import register_partial  # noqa: E402

TASKS = {
    "HalfCheetahNoVel-v0": ("HalfCheetah-v5", [0, 1, 2, 3, 4, 5, 6, 7]),
    "HalfCheetahNoPos-v0": ("HalfCheetah-v5", [8, 9, 10, 11, 12, 13, 14, 15, 16]),
    "HopperNoVel-v0": ("Hopper-v5", [0, 1, 2, 3, 4]),
    "HopperNoPos-v0": ("Hopper-v5", [5, 6, 7, 8, 9, 10]),
    "Walker2dNoVel-v0": ("Walker2d-v5", [0, 1, 2, 3, 4, 5, 6, 7]),
    "Walker2dNoPos-v0": ("Walker2d-v5", [8, 9, 10, 11, 12, 13, 14, 15, 16]),
    "AntNoVel-v0": ("Ant-v5", list(range(13))),
    "AntNoPos-v0": ("Ant-v5", list(range(13, 27))),
    "SwimmerNoVel-v0": ("Swimmer-v5", [0, 1, 2]),
    "InvertedDoublePendulumNoVel-v0": ("InvertedDoublePendulum-v5", [0, 1, 2, 3, 4]),
    "CartPoleNoVel-v0": ("CartPole-v1", [0, 2]),
    "PendulumNoVel-v0": ("Pendulum-v1", [0, 1]),
    "MountainCarContinuousNoVel-v0": ("MountainCarContinuous-v0", [0]),
}
BODIES = ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Swimmer", "InvertedDoublePendulum")


@pytest.fixture(params=TASKS)
def task(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param.startswith(BODIES):
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
    if task.startswith(BODIES):
        assert make(task, reset_noise_scale=0.25).unwrapped._reset_noise_scale == 0.25


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


@pytest.mark.parametrize("body", ["HalfCheetah", "Hopper", "Walker2d", "Ant"])
def test_positions_and_velocities_are_those_of_the_simulator(body: str) -> None:
    pytest.importorskip("mujoco")
    positions, velocities = make(f"{body}NoVel-v0"), make(f"{body}NoPos-v0")
    seen, moves = play(positions, 5)[-1][0], play(velocities, 5)[-1][0]
    data = positions.unwrapped.data
    np.testing.assert_array_equal(seen, data.qpos[-len(seen) :])
    assert len(data.qpos) - len(seen) == (2 if body == "Ant" else 1)  # where it is on the ground is not observed
    np.testing.assert_array_equal(moves, data.qvel if body in ("HalfCheetah", "Ant") else data.qvel.clip(-10, 10))


def test_the_kept_entries_follow_the_options_of_the_environment() -> None:
    pytest.importorskip("mujoco")
    for body, positions in (("Hopper", 6), ("Walker2d", 9), ("Ant", 15), ("Swimmer", 5)):
        env = make(f"{body}NoVel-v0", exclude_current_positions_from_observation=False)
        (observation, *_) = play(env, 3)[-1]
        np.testing.assert_array_equal(observation, env.unwrapped.data.qpos)
        assert observation.shape == (positions,)
    for options in ({}, {"include_cfrc_ext_in_observation": False}):
        env = make("AntNoPos-v0", exclude_current_positions_from_observation=False, **options)
        np.testing.assert_array_equal(play(env, 3)[-1][0], env.unwrapped.data.qvel)


def test_the_kept_entries_follow_a_model_file_of_ones_own(tmp_path: Path) -> None:
    """A hopper with one joint less has one position and one velocity less."""
    pytest.importorskip("mujoco")
    own = tmp_path / "hopper.xml"
    whole = Path(make("HopperNoVel-v0").unwrapped.fullpath).read_text()
    lines = [line for line in whole.splitlines() if "foot_joint" not in line]
    assert len(lines) == len(whole.splitlines()) - 2
    own.write_text("\n".join(lines))
    assert make("HopperNoPos-v0", xml_file=str(own)).observation_space.shape == (5,)
    names = observation_names(make("HopperNoVel-v0", xml_file=str(own)))
    assert names == ["torso height", "torso angle", "thigh angle", "leg angle"]


def test_registering_twice_changes_nothing() -> None:
    before = {name: gym.registry[name] for name in gym.registry if name.startswith("ncp/") and "No" in name}
    assert set(before) == {f"ncp/{name}" for name in TASKS}
    register_partial()
    assert all(gym.registry[name] is spec for name, spec in before.items())


def test_bodies_are_stepped_together_in_a_vector_made_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    from helpers.same_steps import assert_same
    from ncp_envs import MujocoVectorEnv

    for name in (task for task in TASKS if task.startswith(BODIES)):
        entry, plain = (
            gym.make_vec(f"ncp_envs:ncp/{name}", 2, mode, reset_noise_scale=0.02, max_episode_steps=4)
            for mode in ("vector_entry_point", "sync")
        )
        assert isinstance(entry, MujocoVectorEnv)
        assert entry.spec is not None
        assert entry.spec.id == f"ncp/{name}"
        assert entry.single_observation_space == plain.single_observation_space
        assert_same(entry.reset(seed=1), plain.reset(seed=1))
        plain.action_space.seed(1)
        for _ in range(7):
            action = plain.action_space.sample()
            assert_same(entry.step(action), plain.step(action))


def test_options_of_a_vector_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"autoreset_mode": "SameStep", "copy": False, "render_mode": "rgb_array"}
    envs: Any = gym.make_vec("ncp/HopperNoVel-v0", 3, disable_env_checker=True, **options)
    assert (envs.num_envs, envs.copy, envs.render_mode) == (3, False, "rgb_array")
    assert envs.metadata["autoreset_mode"].value == "SameStep"
    assert envs.envs[0].spec.max_episode_steps == 1000
    again = gym.make_vec(envs.spec)
    assert (again.num_envs, again.render_mode) == (3, "rgb_array")
    with pytest.raises(ValueError, match="cannot step these environments: it is rendered while it runs"):
        gym.make_vec("ncp/HopperNoVel-v0", 2, render_mode="human")


def test_frames_of_a_body_are_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    assert type(make("HopperNoVel-v0", render_mode="rgb_array_list")).__name__ == "RenderCollection"


@pytest.mark.parametrize(
    "code",
    [
        'from ncp_control.rl import RecurrentPPO; RecurrentPPO("NCPPolicy", "{env}")',
        'from ncp_control.rl import SAC; SAC("MlpPolicy", "{env}", buffer_size=10)',
        'import gymnasium; from ncp_control.rl import NCPExtractor; gymnasium.make("{env}")',
        'from ncp_control.data import collect; collect("random", "{env}", rollouts=1, progress=False)',
        'import gymnasium; from ncp_control.distil import distil; gymnasium.make("{env}")',
        'import gymnasium; from ncp_control.rl import train; gymnasium.make("{env}")',
        'import gymnasium; gymnasium.make("ncp_envs:{env}")',
    ],
)
def test_they_are_registered_wherever_an_id_is_taken(code: str) -> None:
    pytest.importorskip("sb3_contrib")
    done = subprocess.run(
        [sys.executable, "-c", code.format(env="ncp/PendulumNoVel-v0")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_they_know_nothing_of_the_controllers() -> None:
    code = "import sys, ncp_envs; assert not any(name.startswith('ncp_control') for name in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
