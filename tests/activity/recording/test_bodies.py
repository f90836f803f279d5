"""Recording a body keeps where it is, and changes nothing about the episode."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")
mujoco = pytest.importorskip("mujoco")

from helpers.pendulum_agents import pendulum_agent  # noqa: E402
from ncp_control.activity import Activity, record  # noqa: E402
from ncp_envs.body import Body, poses_of  # noqa: E402

STEPS = 25
TASKS = ("ncp/HalfCheetahNoVel-v0", "ncp/HopperNoVel-v0", "ncp/Walker2dNoPos-v0", "ncp/SwimmerNoVel-v0",
         "ncp/AntNoVel-v0", "ncp/InvertedDoublePendulumNoVel-v0", "InvertedPendulum-v5", "Reacher-v5")  # fmt: skip


class Diary(gym.Wrapper):  # type: ignore[type-arg, misc]
    """Writes down the simulator's positions at every observation, and every reward."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.positions: list[Any] = []
        self.rewards: list[float] = []
        self.actions: list[Any] = []

    def reset(self, **options: Any) -> Any:
        found = self.env.reset(**options)
        self.positions.append(self.env.unwrapped.data.qpos.copy())
        return found

    def step(self, action: Any) -> Any:
        found = self.env.step(action)
        self.actions.append(np.array(action))
        self.rewards.append(float(found[1]))
        self.positions.append(self.env.unwrapped.data.qpos.copy())
        return found


@pytest.mark.parametrize("task", TASKS)
def test_a_recorded_episode_is_the_one_that_would_have_been(task: str, tmp_path: Path) -> None:
    env = Diary(gym.make(f"ncp_envs:{task}"))
    found = record(pendulum_agent(env=env), env, tmp_path / "run.npz", STEPS, progress=False)
    again, positions, rewards = gym.make(f"ncp_envs:{task}"), [], []
    seeds = iter(found.about["seeds"])
    for action, starts in zip(env.actions, found.episode_starts, strict=True):
        if starts:
            again.reset(seed=next(seeds))
        positions.append(again.unwrapped.data.qpos.copy())
        rewards.append(float(again.step(action)[1]))
    assert rewards == env.rewards
    poses = poses_of(again.unwrapped.model, np.stack(positions))
    body = Body(again.unwrapped.model)
    np.testing.assert_allclose(found.get("body_places"), body.places(*poses), atol=1e-6)
    np.testing.assert_allclose(found.get("body_ends"), body.capsules(*poses).ends, atol=1e-6)
    np.testing.assert_array_equal(found.get("body_shapes"), body.shapes.astype(np.float32))
    np.testing.assert_array_equal(found.get("body_radii"), body.radii.astype(np.float32))
    assert found.about["body"] == {"seen_from": body.seen_from, "flat": body.is_flat, "ground": body.ground}


def test_actions_have_the_names_of_the_joints_that_they_move(tmp_path: Path) -> None:
    for task, names in (
        ("ncp/Walker2dNoVel-v0", ["thigh", "leg", "foot", "left thigh", "left leg", "left foot"]),
        ("ncp/HalfCheetahNoVel-v0", ["bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"]),
        ("ncp/SwimmerNoVel-v0", ["motor 1", "motor 2"]),
    ):
        env = gym.make(f"ncp_envs:{task}")
        found = record(pendulum_agent(env=env), env, tmp_path / "run.npz", 2, progress=False)
        assert found.about["action_names"] == names


def test_an_environment_without_a_body_is_recorded_without_one(tmp_path: Path) -> None:
    env = gym.make("ncp_envs:ncp/PendulumNoVel-v0")
    found = record(pendulum_agent(env=env), env, tmp_path / "run.npz", 5, progress=False)
    assert found.about["body"] is None
    assert not [name for name in found.extras if name.startswith("body")]
    assert Activity.load(tmp_path / "run.npz").steps == 5
