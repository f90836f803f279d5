"""Groups of rollouts in one process: progress is reported as it is made."""

from pathlib import Path

import gymnasium as gym
import pytest

from ncp_control.data import Rollouts
from ncp_control.data.batch_policies import RandomPolicy
from ncp_control.data.collection import CollectionPlan, count_finished
from ncp_control.data.groups import collect_groups


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_every_rollout_and_every_step_is_reported(env: str, tmp_path: Path) -> None:
    spec = gym.spec(env)
    plan = CollectionPlan(spec.to_json(), 5, 0.0, 1, 3, "random", None, True)
    policy, counts = RandomPolicy(spec.make().action_space), list[tuple[int, int]]()
    collect_groups(plan.groups(), plan, policy, tmp_path, lambda *found: counts.append(found))
    assert count_finished(tmp_path) == sum(rollouts for rollouts, _ in counts) == 5
    lengths = [rollout.steps for rollout in Rollouts.load(tmp_path)]
    assert sum(steps for _, steps in counts) == sum(lengths)
    assert max(steps for _, steps in counts) < 200  # an episode of the pendulum is reported several times
