"""Noise, dropout, irregular time and windows: what is observed, what the info reports, and where an episode begins."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

gym = pytest.importorskip("gymnasium")

from helpers.episode_counter import EpisodeCounter  # noqa: E402
from ncp_envs import History, IrregularTime, ObservationDropout, ObservationNoise  # noqa: E402

ACTION = np.zeros(1, dtype=np.float32)


def observe(env: Any, seed: int, steps: int) -> tuple[Any, list[dict[str, Any]]]:
    """The observations of an episode, stacked, and the infos."""
    observation, info = env.reset(seed=seed)
    seen, infos = [observation], [info]
    for _ in range(steps):
        observation, *_, info = env.step(ACTION)
        seen.append(observation)
        infos.append(info)
    return np.stack(seen), infos


def clean(steps: int) -> Any:
    return np.stack([np.zeros(steps + 1), np.arange(steps + 1), np.zeros(steps + 1)], axis=1)


def test_noise_has_the_given_standard_deviation() -> None:
    env = ObservationNoise(EpisodeCounter((10**6,)), std=(0.0, 0.5, 2.0))
    seen, infos = observe(env, 1, 2000)
    np.testing.assert_array_equal([info["clean_observation"] for info in infos], clean(2000))
    noise = seen - clean(2000)
    assert seen.dtype == np.float32
    assert (noise[:, 0] == 0).all()
    np.testing.assert_allclose(noise[:, 1:].std(axis=0), [0.5, 2.0], rtol=0.1)
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.2)
    assert abs(np.corrcoef(noise[:-1, 1], noise[1:, 1])[0, 1]) < 0.1
    assert abs(np.corrcoef(noise[:, 1], noise[:, 2])[0, 1]) < 0.1


def test_entries_with_noise_have_no_bounds() -> None:
    space = ObservationNoise(EpisodeCounter(), std=(0.0, 0.5, 2.0)).observation_space
    np.testing.assert_array_equal(space.low, [-1, -np.inf, -np.inf])
    np.testing.assert_array_equal(space.high, [np.float32(1e6), np.inf, np.inf])


@pytest.mark.parametrize("fill", [0.0, -5.0])
def test_dropped_entries_have_the_fill_value_and_the_others_are_unchanged(fill: float) -> None:
    env = ObservationDropout(EpisodeCounter((10**6,)), 0.25, fill=fill)
    seen, infos = observe(env, 2, 2000)
    dropped = np.stack([info["dropped"] for info in infos])
    np.testing.assert_array_equal(seen, np.where(dropped, fill, clean(2000)))
    np.testing.assert_allclose(dropped.mean(axis=0), 0.25, atol=0.05)
    assert len(np.unique(dropped, axis=0)) == 8  # each entry by itself
    assert all(observation in env.observation_space for observation in seen)


def test_all_entries_of_an_observation_are_dropped_or_none() -> None:
    seen, infos = observe(ObservationDropout(EpisodeCounter((10**6,)), 0.25, fill=-1, whole=True), 3, 1000)
    dropped = np.stack([info["dropped"] for info in infos])
    assert len(np.unique(dropped, axis=0)) == 2
    assert abs(dropped.mean() - 0.25) < 0.06
    np.testing.assert_array_equal(seen, np.where(dropped, -1, clean(1000)))


def test_a_dropped_entry_may_keep_its_last_value() -> None:
    env = ObservationDropout(EpisodeCounter((10**6,)), 0.5, fill="last")
    seen, infos = observe(env, 4, 200)
    expected = np.zeros(3)
    for shown, info, true in zip(seen, infos, clean(200), strict=True):
        expected = np.where(info["dropped"], expected, true)
        np.testing.assert_array_equal(shown, expected)


def test_a_dropped_entry_keeps_no_value_of_another_episode() -> None:
    env = ObservationDropout(EpisodeCounter((5,)), 1.0, fill="last")
    env.env.reset(seed=0)
    for _ in range(3):
        observation, _ = env.reset()
        np.testing.assert_array_equal(observation, 0)  # the environment itself observes its episode: 1, 2, 3


def test_an_action_is_repeated_for_the_reported_time() -> None:
    env = IrregularTime(EpisodeCounter((10**6,)), (2, 5))
    assert env.reset(seed=5)[1]["elapsed"] == 1.0
    before, counts = 0, []
    for _ in range(300):
        observation, reward, *_, info = env.step(ACTION)
        step = int(observation[1])
        counts.append(step - before)
        assert info["elapsed"] == counts[-1]
        assert reward == sum(range(before + 1, step + 1))
        before = step
    assert set(counts) == {2, 3, 4, 5}
    assert np.bincount(counts)[2:].min() > 40


def test_one_number_of_frames_is_the_largest_and_the_smallest_is_one() -> None:
    _, infos = observe(IrregularTime(EpisodeCounter((10**6,)), 3), 6, 100)
    assert {info["elapsed"] for info in infos} == {1.0, 2.0, 3.0}


@given(length=st.integers(1, 20), high=st.integers(1, 9), seed=st.integers(0, 1000))
def test_the_end_of_an_episode_ends_the_repetition(length: int, high: int, seed: int) -> None:
    env = IrregularTime(EpisodeCounter((length,)), high)
    env.reset(seed=seed)
    passed, total, ended = 0.0, 0.0, False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(ACTION)
        passed += info["elapsed"]
        total += reward
        ended = terminated or truncated
        assert observation[1] == passed
    assert passed == length
    assert total == length * (length + 1) / 2


def test_a_time_limit_inside_counts_the_environments_steps() -> None:
    env = IrregularTime(gym.make("Pendulum-v1", max_episode_steps=20), (3, 3))
    env.reset(seed=0)
    seen = [env.step(np.zeros(1)) for _ in range(7)]
    assert [truncated for *_, truncated, _ in seen] == [False] * 6 + [True]
    assert [info["elapsed"] for *_, info in seen] == [3.0] * 6 + [2.0]


@pytest.mark.parametrize(("nominal", "low", "high"), [(1.0, 1.0, 6.0), (3.0, 1 / 3, 2.0), (10.0, 0.1, 1.0)])
def test_the_unit_of_the_elapsed_time_can_be_chosen(nominal: float, low: float, high: float) -> None:
    env = IrregularTime(EpisodeCounter((10, 9)), 6, observe_elapsed=True, nominal=nominal)
    space = env.observation_space
    assert (space.low[-1], space.high[-1]) == (np.float32(low), np.float32(high))
    for episode in range(6):
        observation, info = env.reset(seed=0 if episode == 0 else None)
        assert observation[-1] == info["elapsed"] == 1.0
        ended = False
        while not ended:
            before = observation[1]
            observation, _, terminated, truncated, info = env.step(ACTION)
            assert observation in space
            assert observation[-1] == np.float32(info["elapsed"])
            assert info["elapsed"] == pytest.approx((observation[1] - before) / nominal)
            ended = terminated or truncated


@given(window=st.integers(1, 6), lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_a_window_holds_the_last_observations_of_this_episode(window: int, lengths: list[int]) -> None:
    env = History(EpisodeCounter(lengths), window)
    for episode in range(len(lengths) + 2):
        shown, _ = env.reset(seed=0 if episode == 0 else None)
        for step in range(lengths[episode % len(lengths)] + 1):
            if step > 0:
                shown, *_ = env.step(ACTION)
            assert shown in env.observation_space
            real = min(window, step + 1)
            expected = np.zeros((window, 3))
            expected[window - real :, 0] = episode
            expected[window - real :, 1] = range(step + 1 - real, step + 1)
            np.testing.assert_array_equal(shown["observations"], expected)
            # Only the padding and the episode's first observation have the flag 1.
            began = step < window
            assert shown["starts"].tolist() == [1] * (window - real + began) + [0] * (real - began)


def test_a_scan_with_resets_forgets_the_padding() -> None:
    """A recurrent network computes the same from a padded window as from the episode so far."""
    env = History(EpisodeCounter(), 5)
    shown, _ = env.reset(seed=0)
    for step in range(4):
        state = 123.0
        for row, start in zip(shown["observations"], shown["starts"], strict=True):
            state = (0.0 if start else 0.5 * state) + float(row[1]) + 1.0
        alone = 0.0
        for count in range(step + 1):
            alone = 0.5 * alone + count + 1.0
        assert state == alone
        shown, *_ = env.step(ACTION)


def test_the_bounds_include_the_padding() -> None:
    class Positive(EpisodeCounter):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = gym.spaces.Box(2.0, 3.0, (3,), np.float32)

    space = History(Positive(), 2).observation_space["observations"]
    assert (space.low.min(), space.high.max(), space.shape) == (0.0, 3.0, (2, 3))
