"""`MujocoVectorEnv` returns what Gymnasium's `SyncVectorEnv` returns, bit for bit, and refuses what it cannot step."""

import copy
import pickle
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

from gymnasium.envs.mujoco.hopper_v5 import HopperEnv  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402
from gymnasium.wrappers import TimeAwareObservation  # noqa: E402

import ncp_envs  # noqa: E402
from helpers.same_steps import assert_same  # noqa: E402
from ncp_envs import (  # noqa: E402
    ActionChangeCost,
    ActionDelay,
    ChangedBody,
    MujocoVectorEnv,
    ObservationDropout,
    ObservationNoise,
    PreviousAction,
    Pushes,
    RandomActionOverwrite,
    VectorRandomActionOverwrite,
    mujoco_bodies,
)
from ncp_envs.mujoco_bodies import MujocoStepper, obstacle  # noqa: E402

TASKS = [
    "HalfCheetah-v5",
    "Hopper-v5",
    "Walker2d-v5",
    "Swimmer-v5",
    "Ant-v5",
    "InvertedPendulum-v5",
    "InvertedDoublePendulum-v5",
    "ncp/HalfCheetahNoVel-v0",
]
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("HalfCheetah-v5", {"forward_reward_weight": 2.5, "ctrl_cost_weight": 1, "frame_skip": 3}),
    ("HalfCheetah-v5", {"exclude_current_positions_from_observation": False, "reset_noise_scale": 0.5}),
    ("Hopper-v5", {"terminate_when_unhealthy": False, "healthy_reward": 2}),
    ("Hopper-v5", {"healthy_state_range": (-3.0, 3.0), "healthy_z_range": (0.5, 2.0)}),
    ("Hopper-v5", {"exclude_current_positions_from_observation": False, "frame_skip": 2, "reset_noise_scale": 0.1}),
    ("Walker2d-v5", {"terminate_when_unhealthy": False, "healthy_angle_range": (-0.2, 0.2)}),
    ("Walker2d-v5", {"exclude_current_positions_from_observation": False, "healthy_reward": np.float32(0.3)}),
    ("Swimmer-v5", {"exclude_current_positions_from_observation": False, "ctrl_cost_weight": 0.1}),
    ("Ant-v5", {"include_cfrc_ext_in_observation": False, "terminate_when_unhealthy": False}),
    ("Ant-v5", {"contact_cost_weight": 0.1, "contact_force_range": (-0.3, 0.2), "healthy_reward": 1}),
    ("Ant-v5", {"exclude_current_positions_from_observation": False, "main_body": 2, "reset_noise_scale": 0.5}),
    ("InvertedPendulum-v5", {"frame_skip": 4, "reset_noise_scale": 0.1}),
    ("InvertedDoublePendulum-v5", {"healthy_reward": 3, "reset_noise_scale": 0.3}),
]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the working folder


def maker(task: str, limit: int = 23, **options: Any) -> Callable[[], Any]:
    return lambda: gym.make(task, max_episode_steps=limit, disable_env_checker=True, **options)


def both(task: str, count: int, options: dict[str, Any] | None = None, **arguments: Any) -> tuple[Any, Any]:
    """Gymnasium's vector environment and ours."""
    made = [maker(task, **options or {})] * count
    with ncp_envs.without_mass_warning():
        return SyncVectorEnv(made, **arguments), MujocoVectorEnv(made, **arguments)


def actions_of(envs: Any, dtype: Any, steps: int = 50) -> list[Any]:
    """Random actions in all layouts of memory, with NaN in some."""
    random = np.random.default_rng(0)
    space = envs.action_space
    found = [random.uniform(space.low * 1.5, space.high * 1.5).astype(dtype) for _ in range(steps)]
    found[5][-1, 0] = found[-5][0, -1] = np.nan
    return [np.asfortranarray(actions) if k % 3 else actions for k, actions in enumerate(found)]


def play(theirs: Any, ours: Any, actions: list[Any]) -> int:
    """Compares every step, and returns how many episodes ended."""
    over = 0
    for action in actions:
        expected, found = theirs.step(action), ours.step(action)
        assert_same(expected, found)
        ended = expected[2] | expected[3]
        over += int(ended.sum())
        if ended.any() and theirs.metadata["autoreset_mode"] == AutoresetMode.DISABLED:
            assert_same(*(envs.reset(options={"reset_mask": ended.copy()}) for envs in (theirs, ours)))
    for one, other in zip(theirs.envs, ours.envs, strict=True):
        for name in ("qpos", "qvel", "qacc_warmstart", "cfrc_ext", "time"):
            assert_same(*(getattr(env.unwrapped.data, name) for env in (one, other)))
    return over


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("task", TASKS)
def test_it_equals_gymnasiums_in_each_autoreset_mode(task: str, mode: AutoresetMode) -> None:
    theirs, ours = both(task, 3, autoreset_mode=mode)
    for dtype in (np.float32, np.float64):
        assert_same(theirs.reset(seed=3), ours.reset(seed=3))
        assert play(theirs, ours, actions_of(theirs, dtype)) >= 6


@pytest.mark.parametrize(("task", "options"), SETTINGS, ids=lambda value: value if isinstance(value, str) else "")
def test_it_equals_gymnasiums_with_the_options_of_each_task(task: str, options: dict[str, Any]) -> None:
    theirs, ours = both(task, 5, options, autoreset_mode="SameStep")
    assert_same(theirs.reset(seed=[4, 4, 0, 1, 2]), ours.reset(seed=[4, 4, 0, 1, 2]))
    play(theirs, ours, actions_of(theirs, np.float32, 45))


def disturbed(task: str) -> Callable[[], Any]:
    """A body under every disturbance that leaves the dtype of actions alone."""

    def make() -> Any:
        body = ChangedBody(maker(task)(), mass=(0.5, 2.0), limbs=(0.9, 1.1), told=True)
        env = PreviousAction(ActionChangeCost(Pushes(body, strength=1.0), 0.1), reward=True)
        return ObservationDropout(ObservationNoise(env, 0.1), 0.3, fill="last")

    return make


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_it_equals_gymnasiums_under_disturbances(mode: AutoresetMode) -> None:
    make = disturbed("Hopper-v5")
    theirs, ours = (kind([make] * 3, autoreset_mode=mode) for kind in (SyncVectorEnv, MujocoVectorEnv))
    for dtype in (np.float32, np.float64):
        assert_same(theirs.reset(seed=3), ours.reset(seed=3))
        assert play(theirs, ours, actions_of(theirs, dtype)) >= 6


@pytest.mark.parametrize("task", ["Ant-v5", "Hopper-v5"])
def test_one_environment_is_enough(task: str) -> None:
    theirs, ours = both(task, 1)
    assert_same(theirs.reset(seed=7), ours.reset(seed=7))
    assert play(theirs, ours, actions_of(theirs, np.float32)) >= 2


def test_all_or_some_environments_are_reset_at_any_time() -> None:
    theirs, ours = both("Hopper-v5", 4)
    mask = np.array([False, True, True, False])
    actions = actions_of(theirs, np.float32)
    assert_same(theirs.reset(seed=0), ours.reset(seed=0))
    play(theirs, ours, actions[:7])
    for seed, options in (
        (None, {"reset_mask": mask}),
        ([1, 2, 3, 4], None),
        (5, {"reset_mask": mask}),
        (6, {"any": 1}),
    ):
        results = [envs.reset(seed=seed, options=None if options is None else dict(options)) for envs in (theirs, ours)]
        assert_same(*results)
        play(theirs, ours, actions[7:30])


def test_without_copies_each_step_writes_into_one_array() -> None:
    theirs, ours = both("Hopper-v5", 3, copy=False)
    first, _ = ours.reset(seed=0)
    theirs.reset(seed=0)
    for action in actions_of(theirs, np.float32, 30):
        assert ours.step(action)[0] is first
        np.testing.assert_array_equal(theirs.step(action)[0], first)


def test_a_final_observation_is_not_changed_by_later_steps() -> None:
    _, ours = both("Hopper-v5", 3, autoreset_mode="SameStep", copy=False)
    ours.reset(seed=0)
    finals = [infos for action in actions_of(ours, np.float32, 23) if "final_obs" in (infos := ours.step(action)[4])]
    before = [[None if seen is None else seen.copy() for seen in infos["final_obs"]] for infos in finals]
    for action in actions_of(ours, np.float32, 23):
        ours.step(action)
    assert_same([list(infos["final_obs"]) for infos in finals], before)


def test_bodies_may_differ_in_their_models() -> None:
    theirs, ours = both("Hopper-v5", 3)
    for envs in (theirs, ours):
        for place, env in enumerate(envs.envs):
            env.unwrapped.model.opt.gravity[2] = -4.0 * (place + 1)
        envs.reset(seed=1)
    play(theirs, ours, actions_of(theirs, np.float32, 30))


def test_an_attribute_that_is_set_counts_from_then_on() -> None:
    theirs, ours = both("HalfCheetah-v5", 2)
    actions = actions_of(theirs, np.float32, 12)
    for envs in (theirs, ours):
        envs.reset(seed=1)
        envs.set_attr("_ctrl_cost_weight", 7.0)
    play(theirs, ours, actions)
    with pytest.raises(ValueError, match="environment 1 has another ctrl_cost_weight than the first one"):
        ours.set_attr("_ctrl_cost_weight", [7.0, 8.0])


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda envs: pickle.loads(pickle.dumps(envs))], ids=["copy", "pickle"]
)
def test_a_copy_has_bodies_of_its_own_as_gymnasiums_copies_do(copied: Callable[[Any], Any]) -> None:
    make = partial(gym.make, "Hopper-v5", max_episode_steps=23, disable_env_checker=True)
    theirs, ours = SyncVectorEnv([make] * 2), MujocoVectorEnv([make] * 2)
    actions = actions_of(ours, np.float32)[10:40]
    assert_same(theirs.reset(seed=0), ours.reset(seed=0))
    play(theirs, ours, actions[:3])
    theirs_too, ours_too = copied(theirs), copied(ours)
    play(theirs_too, ours_too, actions[3:6])  # Gymnasium makes the body of a copy anew
    assert_same(theirs_too.reset(seed=1), ours_too.reset(seed=1))
    assert play(theirs_too, ours_too, actions[6:])
    play(theirs, ours, actions[3:6])


def test_overwritten_actions_stay_outside() -> None:
    make = maker("ncp/HalfCheetahNoVel-v0")
    inside = SyncVectorEnv([lambda: RandomActionOverwrite(make(), 0.4)] * 3)
    outside = VectorRandomActionOverwrite(MujocoVectorEnv([make] * 3), 0.4)
    assert_same(inside.reset(seed=5), outside.reset(seed=5))
    for action in actions_of(inside, np.float32):
        assert_same(inside.step(action), outside.step(action))


def test_rows_are_what_the_steps_of_single_environments_return() -> None:
    """With random actions of another dtype than the agent's among them."""
    singles, bodies = ([RandomActionOverwrite(maker("Walker2d-v5")(), 0.5) for _ in range(5)] for _ in range(2))
    stepper = MujocoStepper(bodies)
    random = np.random.default_rng(1)
    for seed, (one, other) in enumerate(zip(singles, bodies, strict=True)):
        assert_same(one.reset(seed=seed), other.reset(seed=seed))
    for dtype in (np.float32, np.float64):
        for places in ([0, 1, 2, 3, 4], [3], [4, 1]):
            actions = random.uniform(-1, 1, (len(places), 6)).astype(dtype)
            expected = [singles[place].step(action) for place, action in zip(places, actions, strict=True)]
            found = stepper.step(places, actions).rows()
            assert [row[1:4] for row in found] == [row[1:4] for row in expected]
            for one, other in zip(expected, found, strict=True):
                np.testing.assert_array_equal(one[0], other[0])
                assert one[4].keys() == other[4].keys()
                assert all(np.array_equal(one[4][key], other[4][key]) for key in one[4])


class OtherReward(HopperEnv):
    """A hopper with a reward of its own."""

    def _get_rew(self, x_velocity: float, action: Any) -> Any:
        return 1.0, {}


class Same(HopperEnv):
    """A hopper that overrides nothing of a step."""

    def reset_model(self) -> Any:
        return super().reset_model()


REFUSED: list[tuple[str, Any]] = [
    ("it has the wrapper TimeAwareObservation", lambda: TimeAwareObservation(maker("Hopper-v5")())),
    (
        "PassiveEnvChecker, which looks at single steps: make it with disable_env_checker=True",
        lambda: gym.make("Hopper-v5"),
    ),
    (
        "RandomActionOverwrite: put VectorRandomActionOverwrite around the vector environment",
        lambda: RandomActionOverwrite(maker("Hopper-v5")()),
    ),
    (
        "ActionDelay: put VectorActionDelay around the vector environment",
        lambda: ActionDelay(maker("Hopper-v5")(), 1),
    ),
    (
        "PendulumEnv of gymnasium.envs.classic_control.pendulum is none of AntEnv, HalfCheetahEnv",
        maker("Pendulum-v1"),
    ),
    ("half_cheetah_v4 is none of AntEnv, HalfCheetahEnv", maker("HalfCheetah-v4")),
    ("ReacherEnv of gymnasium.envs.mujoco.reacher_v5 is none of", maker("Reacher-v5")),
    ("OtherReward has a _get_rew of its own", OtherReward),
]


@pytest.mark.parametrize(("words", "make"), REFUSED, ids=[words for words, _ in REFUSED])
def test_what_it_cannot_step_is_refused_with_the_reason(words: str, make: Any) -> None:
    with pytest.raises(ValueError, match=words):
        MujocoVectorEnv([make] * 2)
    if not words.startswith(("RandomActionOverwrite", "ActionDelay")):
        assert re.search(words, str(obstacle(make())))


def test_a_method_set_on_one_environment_is_an_obstacle() -> None:
    env = maker("Hopper-v5")()
    assert obstacle(env) is None
    env.unwrapped.control_cost = lambda action: 0.0
    assert obstacle(env) == "HopperEnv has a control_cost of its own"


def test_environments_that_differ_are_refused() -> None:
    one = maker("Hopper-v5")
    with pytest.raises(ValueError, match="environment 1 has another forward_reward_weight than the first one"):
        MujocoVectorEnv([one, maker("Hopper-v5", forward_reward_weight=2.0)])
    shared = one()
    with pytest.raises(ValueError, match="two of the environments are one and the same"):
        MujocoVectorEnv([lambda: shared] * 2)
    with pytest.raises(ValueError, match="the environments have different wrappers"):
        MujocoVectorEnv([one, Same])


def test_a_subclass_that_changes_no_step_is_stepped() -> None:
    assert obstacle(Same()) is None
    theirs, ours = SyncVectorEnv([Same] * 2), MujocoVectorEnv([Same] * 2)
    assert_same(theirs.reset(seed=0), ours.reset(seed=0))
    play(theirs, ours, actions_of(theirs, np.float32, 20))


def test_a_gymnasium_that_computes_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def reward(self: Any, x_velocity: float, action: Any) -> Any:
        return HopperEnv.__wrapped__(self, x_velocity, action)[0] + 1e-12, {}  # type: ignore[attr-defined]

    monkeypatch.setattr(mujoco_bodies, "_found", {})
    monkeypatch.setattr(HopperEnv, "__wrapped__", HopperEnv._get_rew, raising=False)
    monkeypatch.setattr(HopperEnv, "_get_rew", reward)
    assert obstacle(maker("Hopper-v5")()) == "this version of Gymnasium steps a HopperEnv in another way"


def test_a_step_before_the_first_reset_and_after_the_end_is_refused() -> None:
    _, ours = both("Hopper-v5", 2, {"limit": 3}, autoreset_mode="Disabled")
    ours.action_space.seed(0)
    with pytest.raises(gym.error.ResetNeeded):
        ours.step(ours.action_space.sample())
    ours.reset(seed=0)
    for _ in range(3):
        ours.step(ours.action_space.sample())
    with pytest.raises(ValueError, match=r"the episodes of the environments \[0, 1\] have ended"):
        ours.step(ours.action_space.sample())
    with pytest.raises(ValueError, match=r"actions must have shape \(2, 3\), not \(3, 3\)"):
        ours.step(np.zeros((3, 3)))
