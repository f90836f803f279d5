"""Episodes of MuJoCo bodies, stepped together, are those of environments that step one by one.

They are equal to the last bit on every processor: both call the same simulator, and the same loops of NumPy for the
rewards. The package tries that before it steps bodies together (`_agree` in `ncp_envs.mujoco_bodies`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("mujoco")

from helpers.collecting import same, short
from helpers.same_steps import assert_same
from ncp_control.data import Rollouts, collect, episodes, groups
from ncp_control.data.env_specs import make
from ncp_control.rl import evaluate
from ncp_control.rl.recipes.env_making import make_env

TASKS = ["Hopper-v5", "Ant-v5", "InvertedPendulum-v5", "ncp_envs:ncp/HalfCheetahNoVel-v0"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the working folder


class Waving:
    """A policy whose actions depend on all it saw, in a dtype of its own."""

    def __init__(self, actions: int, dtype: Any) -> None:
        self.actions, self.dtype = actions, dtype

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool) -> tuple[Any, Any]:
        before = np.zeros(len(observation)) if state is None else state[0]
        now = before + np.sin(np.sum(np.array(observation), axis=1))
        return np.sin(now[:, None] + np.arange(self.actions)).astype(self.dtype), (now,)


def singly(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, each environment steps on its own, and no environment is used twice."""
    monkeypatch.setattr(episodes, "stepper_of", lambda envs: None)
    monkeypatch.setattr(groups, "stepper_of", lambda envs: None)


def stepped_together(task: str) -> bool:
    envs = [make(gym.spec(task.rpartition(":")[2])) for _ in range(2)]
    return episodes.stepper_of(envs) is not None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("task", TASKS)
def test_a_collection_is_that_of_single_steps(task: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = short(task, 30)
    policy = Waving(spec.make().action_space.shape[0], dtype)  # type: ignore[index]

    def collected() -> Rollouts:
        return collect(policy, spec, 7, random_action_fraction=0.3, seed=2, group=3, progress=False, bursts=0.1)

    ours = collected()
    assert stepped_together(task)
    singly(monkeypatch)
    theirs = collected()
    assert same(ours, theirs)
    for one, other in zip(ours, theirs, strict=True):
        for key in ("observations", "actions", "rewards", "is_random"):
            assert getattr(one, key).dtype == getattr(other, key).dtype
        assert one.terminated == other.terminated
    assert len({rollout.steps for rollout in ours}) > 1 or "Cheetah" in task or "Ant" in task


def test_the_dtype_of_actions_is_that_of_single_steps_when_most_are_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rollouts then hold only the random actions' own dtype, and some also the policy's."""
    spec, policy = short("Hopper-v5", 3), Waving(3, np.float64)

    def kinds() -> list[Any]:
        found = collect(policy, spec, 8, random_action_fraction=0.7, seed=1, progress=False)
        return [rollout.actions.dtype for rollout in found if rollout.actions is not None]

    ours = kinds()
    singly(monkeypatch)
    assert ours == kinds()
    assert len(set(ours)) == 2


@pytest.mark.parametrize("task", TASKS)
def test_an_evaluation_is_that_of_single_steps(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ncp_envs import ActionDelay, ObservationNoise, RandomActionOverwrite

    spec = short(task, 25)
    policy = Waving(spec.make().action_space.shape[0], np.float32)  # type: ignore[index]
    made: list[Callable[[], Any]] = [
        lambda: make(spec), lambda: RandomActionOverwrite(make(spec), 0.3),
        lambda: ObservationNoise(ActionDelay(make(spec), (0, 2), told=True), 0.1),
    ]  # fmt: skip
    ours = [evaluate(policy, one, episodes=18, seed=4) for one in made]
    singly(monkeypatch)
    assert ours == [evaluate(policy, one, episodes=18, seed=4) for one in made]
    assert len(set(ours[0].returns)) > 1 or task == "InvertedPendulum-v5"


def test_a_body_remembers_nothing_of_other_episodes() -> None:
    """So that a collection uses an environment again."""
    everything: list[Any] = [
        {"Pushes": {"strength": 1.0}}, {"ActionChangeCost": {"weight": 0.1}},
        {"ActionDelay": {"steps": [0, 2], "told": True}}, "PreviousAction", {"ObservationNoise": {"std": 0.1}},
        {"ObservationDropout": {"probability": 0.3, "fill": "last"}},
    ]  # fmt: skip
    for task, wrappers in [*((task, []) for task in TASKS), ("HalfCheetah-v5", everything)]:
        again, fresh = (make_env(task.rpartition(":")[2], wrappers) for _ in range(2))
        random = np.random.default_rng(0)
        actions = [random.uniform(-1, 1, again.action_space.shape).astype(np.float32) for _ in range(40)]
        for seed in (5, 6, None):
            again.reset(seed=seed)
            for action in actions:
                again.step(action * 0.9)
        seen, expected = again.reset(seed=3)[0], fresh.reset(seed=3)[0]
        np.testing.assert_array_equal(seen, expected)
        for action in actions:
            found, wanted = again.step(action), fresh.step(action)
            assert_same(found, wanted)


def test_bodies_are_made_once_for_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def counted(plan: Any, one: Any = groups.made) -> Any:
        nonlocal made
        made += 1
        return one(plan)

    monkeypatch.setattr(groups, "made", counted)
    collect("random", short("Hopper-v5", 5), 7, group=3, progress=False)
    assert made == 3
    collect("random", short("Pendulum-v1", 5), 7, group=3, progress=False)
    assert made == 3 + 7


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_refused_as_in_single_steps(bad: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def errors() -> list[str]:
        envs = [make(gym.spec("HalfCheetah-v5")) for _ in range(3)]
        for seed, env in enumerate(envs):
            env.reset(seed=seed)
        stepper = episodes.stepper_of(envs)
        step, of = (episodes.one_by_one, envs) if stepper is None else (episodes.step_together, stepper)
        step(of, (0, 1, 2), np.zeros((3, 6), np.float32))
        found = []
        for name, value in (("_forward_reward_weight", bad), ("_ctrl_cost_weight", 0.1)):
            for env in envs:
                setattr(env.unwrapped, name, value)
            if name == "_ctrl_cost_weight":
                envs[1].unwrapped.data.qvel[3] = bad  # type: ignore[attr-defined]
            with pytest.raises(ValueError, match="gave the") as raised:
                step(of, (0, 1, 2), np.zeros((3, 6), np.float32))
            found.append(str(raised.value))
        return found

    ours = errors()
    singly(monkeypatch)
    assert ours == errors()
    assert "gave the reward" in ours[0]
