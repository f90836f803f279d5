"""A student sees of recorded episodes what it would have seen live, and what cannot be replayed is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from helpers.collecting import short
from ncp_control.data import Rollout, Rollouts, collect
from ncp_control.data.episodes import copy_of
from ncp_control.distil.demonstrations import ALONE
from ncp_control.distil.environments import EnvRecipe
from ncp_control.distil.recorded import Recorded
from ncp_control.distil.replaying import replay

CHEETAH, SHORT = "HalfCheetah-v5", {"max_episode_steps": 30}
# Student and recorded environment, with the wrappers of each.
PAIRS: dict[str, tuple[str, Sequence[Any], str, Sequence[Any]]] = {
    "positions": ("ncp/HalfCheetahNoVel-v0", [], CHEETAH, []),
    "velocities": ("ncp/HalfCheetahNoPos-v0", [], CHEETAH, []),
    "noise": ("ncp/HalfCheetahNoVel-v0", [{"ObservationNoise": {"std": 0.3}}], CHEETAH, []),
    "dropout": ("ncp/HalfCheetahNoVel-v0", [{"ObservationDropout": {"probability": 0.4, "fill": "last"}}], CHEETAH, []),
    "previous": ("ncp/HalfCheetahNoVel-v0", [{"PreviousAction": {"reward": True}}], CHEETAH, []),
    "all": (
        "ncp/PendulumNoVel-v0",
        [{"ObservationNoise": {"std": 0.3}}, "PreviousAction", {"ObservationDropout": {"probability": 0.5}}],
        "Pendulum-v1",
        [],
    ),
    "history": ("ncp/PendulumNoVel-v0", [{"History": {"window": 4}}], "Pendulum-v1", []),
    "choices": ("ncp/CartPoleNoVel-v0", ["PreviousAction"], "CartPole-v1", []),
    "the same": (CHEETAH, [], CHEETAH, []),
    "as little": ("ncp/HalfCheetahNoVel-v0", ["PreviousAction"], "ncp/HalfCheetahNoVel-v0", []),
    "as noisy": (
        "Pendulum-v1",
        [{"ObservationNoise": {"std": 0.3}}, "PreviousAction"],
        "Pendulum-v1",
        [{"ObservationNoise": {"std": 0.3}}],
    ),
    "as irregular": (
        "Pendulum-v1",
        [{"IrregularTime": {"frames": 3, "observe_elapsed": True}}, {"ObservationNoise": {"std": 0.3}}],
        "Pendulum-v1",
        [{"IrregularTime": {"frames": 3, "observe_elapsed": True}}],
    ),
}


def recorded_in(known: EnvRecipe, rollouts: int = 3, share: float = 0.3) -> Recorded:
    """Records random episodes in an environment, some of whose actions count as random."""
    with known.make() as env:
        spec = env.spec
    assert spec is not None
    found = collect("random", spec, rollouts=rollouts, random_action_fraction=share, group=2, progress=False)
    return Recorded(found, {"id": known.env}, "the data")


@pytest.mark.parametrize("name", PAIRS)
def test_a_student_sees_what_it_would_have_seen_live_with_the_same_seeds_and_actions(name: str) -> None:
    env, wrappers, origin, around = PAIRS[name]
    student, known = EnvRecipe(env, wrappers, SHORT), EnvRecipe(origin, around, SHORT)
    recorded = recorded_in(known)
    found = replay(recorded, student, known, 0).demonstrations
    live = student.make()
    row = 0
    for rollout in recorded.rollouts:
        assert found.starts[row]
        seen: Any = copy_of(live.reset(seed=rollout.seed)[0])
        assert rollout.actions is not None
        for action in rollout.actions:
            for key, values in found.observations.items():
                shown = seen if key == ALONE else seen[key]
                assert values.dtype == shown.dtype
                np.testing.assert_array_equal(values[row], shown)
            np.testing.assert_array_equal(found.labels[row], action)
            assert action in live.action_space
            seen, _, terminated, truncated, _ = live.step(action)
            row += 1
        assert terminated or truncated
        assert terminated == rollout.terminated
    assert row == len(found)
    live.close()


def test_random_steps_are_in_the_stream_and_do_not_count() -> None:
    known = EnvRecipe("Pendulum-v1", (), SHORT)
    recorded = recorded_in(known)
    found = replay(recorded, EnvRecipe("ncp/PendulumNoVel-v0", (), SHORT), known, 0)
    is_random = np.concatenate([one.is_random for one in recorded.rollouts])
    assert 0 < is_random.sum() < len(is_random) == 90
    np.testing.assert_array_equal(found.demonstrations.counts, ~is_random)
    assert found.demonstrations.own.all()
    assert found.returns == pytest.approx([one.total_reward for one in recorded.rollouts])


def test_a_shorter_time_limit_of_the_student_ends_episodes_and_their_returns() -> None:
    known = EnvRecipe("Pendulum-v1", (), SHORT)
    recorded = recorded_in(known)
    found = replay(recorded, EnvRecipe("Pendulum-v1", (), {"max_episode_steps": 12}), known, 0)
    assert found.demonstrations.starts.nonzero()[0].tolist() == [0, 12, 24]
    assert found.returns == pytest.approx([float(np.sum(one.rewards[:12])) for one in recorded.rollouts])


def test_episodes_without_a_seed_have_the_noise_of_the_runs_seed() -> None:
    known, student = EnvRecipe("Pendulum-v1"), EnvRecipe("Pendulum-v1", [{"ObservationNoise": {"std": 0.3}}])
    rollouts = recorded_in(EnvRecipe("Pendulum-v1", (), SHORT)).rollouts
    recorded = Recorded(replace(rollouts, rollouts=tuple(replace(one, seed=None) for one in rollouts)))
    seen = [replay(recorded, student, known, seed).demonstrations.observations[ALONE] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])
    noise = seen[0] - np.concatenate([one.observations[:-1] for one in rollouts])
    assert not np.array_equal(noise[:30], noise[30:60])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_observations_have_the_type_of_the_environment_and_actions_its_bounds(dtype: Any) -> None:
    seen, actions = np.ones((6, 3), dtype), np.linspace(-4, 4, 5, dtype=dtype)[:, None]
    recorded = Recorded(Rollouts((Rollout(seen, actions, rewards=np.ones(5)),)))
    found = replay(recorded, EnvRecipe("Pendulum-v1", ["PreviousAction"]), EnvRecipe("Pendulum-v1"), 0)
    assert found.demonstrations.observations[ALONE].dtype == np.float32
    assert found.demonstrations.labels[:, 0].tolist() == [-2, -2, 0, 2, 2]
    assert found.demonstrations.observations[ALONE][:, 3].tolist() == [0, -2, -2, 0, 2]
    assert found.demonstrations.labels.dtype == np.float32


@pytest.mark.parametrize(
    ("student", "known", "sentence"),
    [
        (
            EnvRecipe(CHEETAH),
            EnvRecipe("ncp/HalfCheetahNoVel-v0"),
            "the data does not fit the student's environment, HalfCheetah-v5: what was recorded is what "
            "ncp/HalfCheetahNoVel-v0 shows through KeepObservations, from which nobody can tell what HalfCheetah-v5",
        ),
        (EnvRecipe("ncp/HalfCheetahNoPos-v0"), EnvRecipe("ncp/HalfCheetahNoVel-v0"), "through KeepObservations"),
        (
            EnvRecipe("Pendulum-v1", [{"ObservationNoise": {"std": 0.2}}]),
            EnvRecipe("Pendulum-v1", [{"ObservationNoise": {"std": 0.1}}]),
            "through ObservationNoise",
        ),
        (EnvRecipe("Pendulum-v1"), EnvRecipe("CartPole-v1"), "the student's environment is a PendulumEnv and the"),
        (
            EnvRecipe("Pendulum-v1", ["RandomActionOverwrite"]),
            EnvRecipe("Pendulum-v1"),
            "its wrapper RandomActionOverwrite changes actions, and the recorded ones were executed as they are: leave",
        ),
        (EnvRecipe("Pendulum-v1", [{"ActionDelay": {"steps": 1}}]), EnvRecipe("Pendulum-v1"), "ActionDelay changes"),
        (
            EnvRecipe("Pendulum-v1", [{"ActionDelay": {"steps": 1}}]),
            EnvRecipe("Pendulum-v1", [{"ActionDelay": {"steps": 1}}]),
            "it was recorded behind ActionDelay, so its actions are the executed ones and not those that were chosen",
        ),
        (
            EnvRecipe("Pendulum-v1", [{"IrregularTime": {"frames": 3}}]),
            EnvRecipe("Pendulum-v1"),
            "its wrapper IrregularTime repeats actions",
        ),
    ],
)
def test_environments_in_which_the_recordings_mean_nothing_are_refused(
    student: EnvRecipe, known: EnvRecipe, sentence: str
) -> None:
    recorded = recorded_in(EnvRecipe(known.env, known.wrappers, SHORT), rollouts=1)
    with pytest.raises(ValueError, match=sentence):
        replay(recorded, student, known, 0)


class Doubled(gym.ActionWrapper[Any, Any, Any]):
    """Makes actions twice as large."""

    def action(self, action: Any) -> Any:
        return 2 * action


class Repeated(gym.Wrapper[Any, Any, Any, Any]):
    """Takes every action twice."""

    def step(self, action: Any) -> Any:
        self.env.step(action)
        return self.env.step(action)


class Idle(gym.Wrapper[Any, Any, Any, Any]):
    """Executes nothing."""

    def step(self, action: Any) -> Any:
        return np.zeros(3, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize(("kind", "what"), [(Doubled, "changes"), (Repeated, "repeats"), (Idle, "leaves actions out")])
def test_wrappers_of_others_that_change_what_is_executed_are_found_and_refused(kind: Any, what: str) -> None:
    name = f"wrapped/Pendulum{kind.__name__}-v0"
    base = gym.spec("Pendulum-v1").entry_point
    gym.register(name, entry_point=lambda: kind(gym.make("Pendulum-v1")), max_episode_steps=20)
    assert base is not None
    recorded = recorded_in(EnvRecipe("Pendulum-v1", (), SHORT), rollouts=1)
    try:
        with pytest.raises(ValueError, match=f"a wrapper of the student's environment {what}"):
            replay(recorded, EnvRecipe(name), EnvRecipe("Pendulum-v1"), 0)
    finally:
        del gym.registry[name]


@pytest.mark.parametrize(
    ("observations", "actions", "env", "sentence"),
    [
        (
            np.ones((4, 2)),
            np.ones((3, 1)),
            "Pendulum-v1",
            r"data has observations of shape \(2,\), and Pendulum",
        ),
        (
            np.ones((4, 3)),
            np.ones((3, 2)),
            "Pendulum-v1",
            r"e 7 of data has actions of shape \(2,\) and float64",
        ),
        (np.ones((4, 4)), np.array([0, 2, 1]), "CartPole-v1", r"from 0 to 2, and those of CartPole-v1 are Discrete\(2"),
        (np.ones((4, 4)), np.array([0.0, 1, 1]), "CartPole-v1", r"shape \(\) and float64"),
        (np.ones((4, 4)), np.array([[0], [1], [1]]), "CartPole-v1", r"shape \(1,\) and int64"),
    ],
)
def test_recordings_of_another_environment_than_the_named_one_are_refused(
    observations: Any, actions: Any, env: str, sentence: str
) -> None:
    rollout = Rollout(observations, actions, rewards=np.ones(3), name="episode 7")
    with pytest.raises(ValueError, match=f"{sentence}.*--teacher-env ID"):
        replay(Recorded(Rollouts((rollout,)), name="data"), EnvRecipe(env), EnvRecipe(env), 0)


def test_a_rollout_of_the_collecting_command_is_replayed_as_it_is() -> None:
    recorded = Recorded(collect("random", short(CHEETAH, 20), rollouts=2, progress=False), {"id": CHEETAH})
    found = replay(recorded, EnvRecipe(CHEETAH), EnvRecipe(CHEETAH), 0).demonstrations
    seen = np.concatenate([one.observations[:-1] for one in recorded.rollouts])
    np.testing.assert_array_equal(found.observations[ALONE], seen)


def test_episodes_with_a_seed_of_their_own_have_its_noise_whatever_the_runs_seed_is() -> None:
    known, student = EnvRecipe("Pendulum-v1"), EnvRecipe("Pendulum-v1", [{"ObservationNoise": {"std": 0.3}}])
    recorded = recorded_in(EnvRecipe("Pendulum-v1", (), SHORT), rollouts=2)
    one, other = (replay(recorded, student, known, seed).demonstrations.observations[ALONE] for seed in (1, 2))
    np.testing.assert_array_equal(one, other)
