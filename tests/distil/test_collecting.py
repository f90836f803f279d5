"""Collecting demonstrations: who acts, what is kept, and when the teacher takes over."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ncp_envs
from helpers.distilling import CHOICES, Rail, away, back, collector_of, constant, pendulum, timed_pendulum, turning
from helpers.memory_tasks import Steps, joined
from ncp_control.distil.demonstrations import ALONE
from ncp_control.distil.views import TeacherView

LENGTHS = [(5, -3, 8), (7,), (1, 2)]


def steps_envs(space: Any = None, as_dict: bool = False) -> list[Any]:
    return [Steps(number, lengths, space, as_dict) for number, lengths in enumerate(LENGTHS)]


def watched_pendulums(count: int) -> tuple[list[Any], list[Any]]:
    envs = [pendulum() for _ in range(count)]
    return envs, [TeacherView(env, gym.make("Pendulum-v1")) for env in envs]


def where(demonstrations: Any) -> Any:
    """Returns (environment, episode, step) of demonstrations in `Steps`."""
    seen = demonstrations.observations
    return joined(seen.get(ALONE, seen)).astype(int)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("steps", [0, 1, 7, 100, 2001])
def test_exactly_so_many_steps_are_taken_and_reported(share: float, count: int, steps: int) -> None:
    envs, reports = [Rail(13) for _ in range(count)], []
    found = collector_of(envs, back, away).collect(0, share, steps=steps, report=reports.append)
    assert sum(len(one) for env in envs for one in env.executed) == steps
    assert len(found.demonstrations) == steps
    assert sum(reports) == steps
    assert found.demonstrations.own.tolist() == [share == 1] * steps
    assert found.lost == 0


@pytest.mark.parametrize("episodes", [0, 1, 2, 3, 5, 11])
@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize("space", [None, CHOICES], ids=["box", "choices"])
def test_exactly_so_many_whole_episodes_are_played(episodes: int, as_dict: bool, space: Any) -> None:
    def policy(seen: Any) -> Any:
        step = joined(seen)[:, 2]
        return 5 + step.astype(int) % 3 if space is CHOICES else np.stack([step, -step], axis=1) / 8

    reports: list[int] = []
    collector = collector_of(steps_envs(space, as_dict), policy, policy)
    found = collector.collect(0, 1.0, episodes=episodes, report=reports.append)
    assert len(found.rewards) == len(found.returns) == episodes
    for rewards, total in zip(found.rewards, found.returns, strict=True):
        assert rewards.tolist() == list(range(1, len(rewards) + 1))
        assert total == len(rewards) * (len(rewards) + 1) / 2
    assert int(found.demonstrations.starts.sum()) == episodes
    assert sum(reports) == len(found.demonstrations) == sum(map(len, found.rewards))
    if episodes:
        rows = where(found.demonstrations)
        begins = found.demonstrations.starts.nonzero()[0]
        for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
            number, episode = rows[begin, :2]
            length = abs(LENGTHS[number][episode % len(LENGTHS[number])])
            assert rows[begin:end].tolist() == [[number, episode, step] for step in range(length)]
        found_labels = found.demonstrations.labels
        assert found_labels.tolist() == (5 + rows[:, 2] % 3 if space is CHOICES else policy(rows).clip(-1, 1)).tolist()
    assert not found.lost


def test_the_seed_decides_everything_random() -> None:
    def collect(seed: int, share: float) -> Any:
        envs, views = watched_pendulums(2)
        collector = collector_of(envs, turning, constant(0.5), views=views)
        return collector.collect(seed, share, 0.4, steps=90).demonstrations.arrays()

    for share in (1.0, 0.5):
        first, again, other = collect(3, share), collect(3, share), collect(4, share)
        assert all(np.array_equal(first[name], again[name]) for name in first)
        assert not np.array_equal(first["labels"], other["labels"])
        assert not np.array_equal(first["observations."], other["observations."])


@pytest.mark.parametrize("share", [1.0, 0.0])
def test_labels_are_the_teachers_actions_for_what_the_student_cannot_see(share: float) -> None:
    envs, views = watched_pendulums(3)
    found = collector_of(envs, turning, constant(1.0), views=views).collect(0, share, 0.4, steps=150).demonstrations
    cosine, sine = found.observations[ALONE].astype(np.float64).T
    # Pendulum-v1 moves by its new velocity for 0.05 s, so two of the student's observations tell it.
    turned = np.angle(np.exp(1j * np.diff(np.arctan2(sine, cosine))))
    later = ~found.starts[1:]
    np.testing.assert_allclose(found.labels[1:, 0][later], np.clip(turned / 0.05 / 4, -2, 2)[later], atol=1e-4)
    assert np.abs(found.labels[1:]).max() > 0.2


def test_labels_are_the_teachers_actions_for_dictionaries_too() -> None:
    def teacher(seen: Any) -> Any:
        return seen["observations"][:, :1] * seen["elapsed"]

    def student(seen: Any) -> Any:
        return -seen["observations"][:, 1:]

    found = collector_of([timed_pendulum() for _ in range(2)], teacher, student).collect(0, 0.5, steps=60)
    wanted = np.clip(teacher(found.demonstrations.observations), -2, 2)
    np.testing.assert_array_equal(found.demonstrations.labels, wanted)
    assert set(np.unique(found.demonstrations.observations["elapsed"])) == {0.5, 1.0, 1.5}


@pytest.mark.system
def test_noise_has_the_asked_size_and_leaves_labels_alone() -> None:
    envs = [Rail(50) for _ in range(8)]
    found = collector_of(envs, constant(0.0), constant(0.0)).collect(0, 1.0, 0.4, steps=20_000)
    executed = np.array([one for env in envs for one in env.executed if len(one) == 50])
    assert not found.demonstrations.labels.any()
    assert np.abs(executed).max() <= 1
    # Each episode's own standard deviation is uniform from 0 to 0.4 of half the range, which is 1.
    assert np.sqrt((executed**2).mean()) == pytest.approx(0.4 / np.sqrt(3), rel=0.08)
    deviations = executed.std(axis=1)
    assert deviations.min() < 0.02
    assert 0.35 < deviations.max() < 0.55
    assert abs(executed.mean()) < 0.01


def test_noise_never_exceeds_the_bounds() -> None:
    env = Rail(50)
    collector_of([env], constant(1.0), constant(0.0)).collect(0, 1.0, 5.0, steps=1000)
    executed = np.concatenate(env.executed)
    assert executed.max() == 1
    assert executed.min() == -1


def test_choices_are_not_disturbed() -> None:
    class Chosen(Steps):
        def step(self, action: Any) -> Any:
            chosen.append(int(action))
            return super().step(action)

    chosen: list[int] = []
    collector_of([Chosen(0, (9,), CHOICES)], lambda seen: np.full(len(seen), 6), away).collect(0, 1.0, 1.0, steps=40)
    assert chosen == [6] * 40


@pytest.mark.system
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_the_teacher_takes_the_asked_part_of_the_actions(share: float) -> None:
    envs = [Rail(50) for _ in range(8)]
    found = collector_of(envs, constant(0.5), constant(-0.5)).collect(0, share, 0.9, steps=20_000)
    executed = np.array([one for env in envs for one in env.executed if len(one) == 50])
    assert set(np.unique(executed)) <= {-0.5, 0.5}
    parts = (executed > 0).mean(axis=1)
    # Each episode's own probability is uniform from 0 to the share.
    assert parts.mean() == pytest.approx(share / 2, abs=0.03)
    assert np.percentile(parts, 5) < 0.05 * share + 0.03
    assert np.percentile(parts, 95) == pytest.approx(0.95 * share, abs=0.11)
    assert (found.demonstrations.labels == 0.5).all()


def test_the_floor_is_the_least_that_the_teacher_had_over_so_many_steps() -> None:
    collector = collector_of([Rail()], back, away, patience=3)
    collector.set_floor([np.array([0.0, 9, 9, 9]), np.array([9.0, 1, 2, 3, 9]), np.array([-100.0, 0])])
    assert collector.floor == 2
    collector.set_floor([np.array([-100.0, 0])])
    assert collector.floor == -np.inf
    collector.set_floor([])
    assert collector.floor == -np.inf


@pytest.mark.slow
@given(patience=st.integers(1, 100), reward=st.floats(-1000, 1000))
def test_a_student_that_earns_what_the_teacher_earns_never_does_badly(patience: int, reward: float) -> None:
    class Paid(Rail):
        def step(self, action: Any) -> Any:
            seen, _, *rest = super().step(action)
            return seen, reward, *rest

    env = Paid()
    collector = collector_of([env], back, away, patience)
    collector.set_floor([np.full(patience + 7, reward)])
    collector.collect(0, 0.0, steps=3 * patience)
    assert env.executed == [[1.0] * (3 * patience)]


def with_floor(env: Rail, student: Any = away) -> Any:
    """Makes a collector on the rail with a patience of 5 steps, in which at least 2.5 must end on the rail.

    A student that moves to the right is on the rail for 4 steps, so the teacher takes over after 7.
    """
    collector = collector_of([env], back, student, patience=5)
    collector.floor = 0.5
    return collector


def test_a_teacher_that_recovers_hands_back_and_all_steps_are_kept() -> None:
    env = Rail(29)
    found = with_floor(env).collect(0, 0.0, episodes=1)
    right, left = [1.0], [-1.0]
    # The teacher takes over at 1.75 and is back at 0.5 after five steps; the student then falls off in five more.
    assert env.executed == [right * 7 + left * 5 + right * 5 + left * 5 + right * 5 + left * 2]
    assert found.lost == 0
    assert len(found.rewards[0]) == 29
    assert len(found.demonstrations) == 27  # whether the last handover helps was still open
    assert found.demonstrations.labels[:, 0].tolist()[:8] == [0.0, *left * 7]


def test_an_episode_that_the_teacher_does_not_recover_ends_and_is_kept_until_the_handover() -> None:
    env, reports = Rail(returns=False), []
    found = with_floor(env).collect(0, 0.0, steps=30, report=reports.append)
    assert env.executed == [[1.0] * 7 + [-1.0] * 5] * 2 + [[1.0] * 6]
    assert found.lost == 2
    assert [one.tolist() for one in found.rewards] == [[1.0] * 4 + [0.0] * 8] * 2
    assert found.returns == [4.0, 4.0]
    assert found.demonstrations.starts.nonzero()[0].tolist() == [0, 7, 14]
    assert len(found.demonstrations) == 20
    assert found.demonstrations.observations[ALONE][:7, 0].tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25, 1.25]
    assert sum(reports) == 30


def test_an_episode_that_ends_after_the_handover_is_not_lost_but_kept_until_there() -> None:
    found = with_floor(Rail(9, returns=False)).collect(0, 0.0, episodes=2)
    assert found.lost == 0
    assert [len(one) for one in found.rewards] == [9, 9]
    assert found.demonstrations.starts.nonzero()[0].tolist() == [0, 7]
    assert len(found.demonstrations) == 14


def test_lost_episodes_count_among_the_episodes() -> None:
    env = Rail(returns=False)
    found = with_floor(env).collect(0, 0.0, episodes=3)
    assert len(env.executed) == len(found.rewards) == found.lost == 3


def test_without_a_floor_nobody_takes_over() -> None:
    env = Rail(40, returns=False)
    found = collector_of([env], back, away).collect(0, 0.0, episodes=1)
    assert env.executed == [[1.0] * 40]
    assert len(found.demonstrations) == 40


def test_a_student_that_stays_on_the_rail_keeps_its_actions() -> None:
    env = Rail(60, returns=False)
    collector = collector_of([env], back, constant(0.0), patience=5)
    collector.set_floor(collector.collect(0, 1.0, episodes=2).rewards)
    assert collector.floor == 1
    found = collector.collect(0, 0.0, episodes=1)
    assert env.executed[-1] == [0.0] * 60
    assert not found.lost


def test_a_new_episode_begins_with_a_new_memory_of_both() -> None:
    class Counting:
        """Counts the steps of each episode in its state."""

        def predict(self, seen: Any, state: Any, episode_start: Any, deterministic: bool) -> tuple[Any, Any]:
            count = np.zeros(len(episode_start)) if state is None else state
            count = np.where(episode_start, 0, count) + 1
            asked.append((joined(seen)[:, 2], count))
            return np.zeros((len(count), 2), np.float32), count

    asked: list[Any] = []
    collector_of(steps_envs(), Counting(), Counting()).collect(0, 0.5, steps=60)
    assert len(asked) == 40
    for step, count in asked:
        assert (count == step + 1).all()


@pytest.mark.parametrize("late", [0, 1, 3])
def test_an_action_that_comes_late_is_what_the_teacher_does_by_then(late: int) -> None:
    envs = [ncp_envs.ActionDelay(Rail(12), late) for _ in range(2)]
    found = collector_of(envs, back, lambda seen: np.full_like(seen, 0.1)).collect(0, 0.0, episodes=4).demonstrations
    seen, starts = found.observations[ALONE], np.flatnonzero(found.starts)
    assert np.diff(np.append(starts, len(found))).tolist() == [12 - late] * 4
    for start in starts:
        own, labels = seen[start : start + 12 - late], found.labels[start : start + 12 - late]
        np.testing.assert_allclose(labels[: len(own) - late], back(own)[late:], atol=1e-6)
        assert labels.min() < 0, "the rail's end is far, and its middle is asked for"


def test_the_teachers_own_actions_are_not_late() -> None:
    env = ncp_envs.ActionDelay(Rail(12), (2, 3))
    collector = collector_of([env], back, away)
    collector.collect(0, 1.0, episodes=1)
    assert env.unwrapped.executed[0][0] == 0.0
    found = collector.collect(0, 1.0, episodes=2, disturbance=0.4).demonstrations
    assert len(found) == 24
    assert all(any(executed[:2]) for executed in env.unwrapped.executed[1:])
    collector.collect(0, 0.0, episodes=1)
    assert not any(env.unwrapped.executed[-1][:2])
