"""The teacher sees of the student's simulator what its own environment would have shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest

import ncp_envs
from ncp_control.data.episodes import copy_of
from ncp_control.distil.environments import recipe_of_teacher
from ncp_control.distil.views import TeacherView

Wrap = Callable[[Any], Any]
SEEDS = (3, None, 5)  # of the episodes; without a seed, every random stream goes on
STUDENTS: dict[str, Wrap] = {
    "plain": lambda env: env,
    "noise": lambda env: ncp_envs.ObservationNoise(env, std=0.3),
    "dropout": lambda env: ncp_envs.ObservationDropout(env, probability=0.5, fill="last"),
    "delay": lambda env: ncp_envs.ActionDelay(env, steps=3),
    "irregular": lambda env: ncp_envs.IrregularTime(env, frames=(1, 4), observe_elapsed="apart"),
    "overwrite": lambda env: ncp_envs.RandomActionOverwrite(env, probability=0.4),
    "all": lambda env: ncp_envs.IrregularTime(
        ncp_envs.RandomActionOverwrite(ncp_envs.ActionDelay(ncp_envs.ObservationNoise(env, std=0.3), steps=2), 0.3),
        frames=3,
    ),
}
TEACHERS: dict[str, Wrap] = {
    "plain": lambda env: env,
    "history": lambda env: ncp_envs.History(env, window=4),
    "previous": lambda env: ncp_envs.PreviousAction(env, reward=True),
    "overwrite": lambda env: ncp_envs.PreviousAction(ncp_envs.RandomActionOverwrite(env, probability=0.4)),
    "noise": lambda env: ncp_envs.ObservationNoise(env, std=0.1),
}
# The actions that were executed are known, so a comparison overwrites none of them again.
OWN = {**TEACHERS, "overwrite": lambda env: ncp_envs.PreviousAction(env)}
CHEETAH = ("ncp/HalfCheetahNoVel-v0", "HalfCheetah-v5")
CASES = [
    *((*CHEETAH, student, "plain") for student in STUDENTS),
    *((*CHEETAH, "irregular", teacher) for teacher in TEACHERS if teacher != "plain"),
    *(("ncp/PendulumNoVel-v0", "Pendulum-v1", student, "previous") for student in ("overwrite", "all")),
    ("ncp/CartPoleNoVel-v0", "CartPole-v1", "overwrite", "history"),
    ("ncp/HopperNoVel-v0", "Hopper-v5", "delay", "previous"),
    ("ncp/PendulumNoVel-v0", "ncp/PendulumNoVel-v0", "noise", "history"),
]


def make(env_id: str, wrap: Wrap) -> Any:
    with ncp_envs.without_mass_warning():
        return wrap(gym.make(env_id))


def record(simulator: Any) -> list[Any]:
    """Returns a list that keeps every action that a simulator executes."""
    executed: list[Any] = []
    step = simulator.step

    def recorded(action: Any) -> Any:
        executed.append(copy_of(action)[()])
        return step(action)

    simulator.step = recorded
    return executed


def episode(env: Any, seed: int | None, actions: Any, steps: int = 25) -> Any:
    """Plays an episode, and yields after its reset and each of its steps what it returned."""
    yield env.reset(seed=seed)
    for _ in range(steps):
        found = env.step(actions.sample())
        yield found
        if found[2] or found[3]:
            break


def assert_equal(one: Any, other: Any) -> None:
    if isinstance(other, dict):
        assert one.keys() == other.keys()
        for key in other:
            assert_equal(one[key], other[key])
    else:
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("student_id", "teacher_id", "student", "teacher"), CASES)
def test_the_teacher_sees_what_its_own_environment_shows_after_the_same_executed_actions(
    student_id: str, teacher_id: str, student: str, teacher: str
) -> None:
    env, own = make(student_id, STUDENTS[student]), make(teacher_id, OWN[teacher])
    view = TeacherView(env, make(teacher_id, TEACHERS[teacher]))
    executed = record(env.unwrapped)
    env.action_space.seed(0)
    assert view.observation_space == own.observation_space
    compared = 0
    for seed in SEEDS:
        seen = own.reset(seed=seed)[0]
        for _ in episode(env, seed, env.action_space):
            while executed:
                seen = own.step(executed.pop(0))[0]
            assert_equal(view.observation, seen)
            compared += 1
    assert compared > 10 * len(SEEDS)


@pytest.mark.parametrize("student", ["noise", "irregular", "all"])
def test_the_student_sees_the_same_with_a_teacher_and_without(student: str) -> None:
    alone, watched = (make("ncp/PendulumNoVel-v0", STUDENTS[student]) for _ in range(2))
    TeacherView(watched, make("Pendulum-v1", TEACHERS["history"]))
    alone.action_space.seed(0)
    watched.action_space.seed(0)
    for seed in SEEDS:
        pairs = zip(episode(alone, seed, alone.action_space), episode(watched, seed, watched.action_space), strict=True)
        for one, other in pairs:
            assert_equal(other[0], one[0])
            assert one[1:-1] == other[1:-1]


def test_a_teacher_without_an_environment_sees_all_that_the_simulator_shows() -> None:
    env, own = make("ncp/PendulumNoVel-v0", STUDENTS["noise"]), make("Pendulum-v1", TEACHERS["plain"])
    view = TeacherView(env)
    assert view.observation_space == own.observation_space
    own.reset(seed=1)
    env.reset(seed=1)
    env.action_space.seed(0)
    for _ in range(5):
        action = env.action_space.sample()
        env.step(action)
        assert_equal(view.observation, own.step(action)[0])


def test_what_a_student_does_to_its_observation_does_not_reach_the_teacher() -> None:
    class Spoil(gym.ObservationWrapper[Any, Any, Any]):
        def observation(self, observation: Any) -> Any:
            observation[:] = 9
            return observation

    env = Spoil(gym.make("Pendulum-v1"))
    view = TeacherView(env, gym.make("Pendulum-v1"))
    env.reset(seed=0)
    assert np.abs(view.observation[:2]).max() <= 1
    env.step(np.zeros(1, np.float32))
    assert np.abs(view.observation[:2]).max() <= 1


def test_a_teacher_may_have_a_shorter_time_limit() -> None:
    env = gym.make("ncp/PendulumNoVel-v0")
    view = TeacherView(env, gym.make("Pendulum-v1", max_episode_steps=3))
    env.reset(seed=0)
    seen = []
    for _ in range(8):
        env.step(np.ones(1, np.float32))
        seen.append(view.observation.tolist())
    assert len({tuple(one) for one in seen}) == 8


def test_the_teachers_noise_follows_from_the_seed() -> None:
    class Own(gym.ObservationWrapper[Any, Any, Any]):
        def observation(self, observation: Any) -> Any:
            return observation + self.np_random.normal(size=3)

    seen = []
    for _ in range(2):
        env = gym.make("ncp/PendulumNoVel-v0")
        view = TeacherView(env, Own(gym.make("Pendulum-v1")))
        env.reset(seed=4)
        seen.append(view.observation)
    assert_equal(*seen)


@pytest.mark.parametrize(
    ("student", "teacher", "sentence"),
    [
        (
            lambda: gym.make("ncp/PendulumNoVel-v0"),
            lambda: gym.make("CartPole-v1"),
            "the student's environment is a PendulumEnv and the teacher's a CartPoleEnv",
        ),
        (
            lambda: make(CHEETAH[0], STUDENTS["plain"]),
            lambda: gym.make("HalfCheetah-v5", exclude_current_positions_from_observation=False),
            r"the student's HalfCheetah has the observation space Box.*make both with the same options",
        ),
        (
            lambda: gym.make("Pendulum-v1").unwrapped,
            lambda: gym.make("Pendulum-v1"),
            "has no wrapper around its simulator: make it with gymnasium.make",
        ),
        (
            lambda: gym.make("Pendulum-v1"),
            lambda: gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), -1, 1),
            r"the student's actions are Box\(-2.*put the same wrappers that change actions around both, or none",
        ),
        (
            lambda: gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), -1, 1),
            lambda: gym.make("Pendulum-v1"),
            r"the student's actions are Box\(-1.*the teacher's Box\(-2",
        ),
    ],
    ids=["simulator", "options", "bare", "rescaled teacher", "rescaled student"],
)
def test_environments_that_do_not_fit_together_are_refused(
    student: Callable[[], Any], teacher: Callable[[], Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        TeacherView(student(), teacher())


def test_a_teacher_behind_a_wrapper_that_clips_actions_is_accepted() -> None:
    view = TeacherView(gym.make("Pendulum-v1"), gym.wrappers.ClipAction(gym.make("Pendulum-v1")))
    assert view.observation_space == gym.make("Pendulum-v1").observation_space


def test_a_teacher_whose_environment_repeats_actions_is_refused() -> None:
    env = gym.make("ncp/PendulumNoVel-v0")
    TeacherView(env, ncp_envs.IrregularTime(gym.make("Pendulum-v1"), frames=(3, 3), observe_elapsed=True))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"took 3 steps at once.*without a wrapper that repeats actions"):
        env.step(np.zeros(1, np.float32))


@pytest.mark.parametrize(
    ("wrapper", "wanted"),
    [
        ({"ObservationNoise": {"std": [0.1, 0.2], "clean": True}}, {"ObservationNoise": {"std": 0.0, "clean": True}}),
        ({"ObservationDropout": {"probability": 0.1, "whole": True}},
         {"ObservationDropout": {"probability": 0.0, "whole": True}}),
        ({"ChangedBody": {"mass": [0.5, 2.0], "told": True}}, {"ChangedBody": {"mass": [0.5, 2.0], "told": True}}),
        ("PreviousAction", "PreviousAction"),
    ],
)  # fmt: skip
def test_a_teacher_is_asked_without_the_noise_of_its_training(wrapper: Any, wanted: Any) -> None:
    class Taught:
        note: ClassVar[dict[str, Any]] = {"env": "HalfCheetah-v5", "env_wrapper": [wrapper]}

    known = recipe_of_teacher(Taught())
    assert known is not None
    assert known.wrappers == [wanted]
