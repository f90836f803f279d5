"""Overwritten and delayed actions: the info reports the action that the environment executed."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

gym = pytest.importorskip("gymnasium")

from helpers.episode_counter import EpisodeCounter  # noqa: E402
from ncp_envs import (  # noqa: E402
    ActionBursts,
    ActionDelay,
    IrregularTime,
    RandomActionOverwrite,
    observation_names,
)
from ncp_envs.delay import steps_late  # noqa: E402

MINE = np.array([0.123], dtype=np.float32)


def flags_of(env: Any, seed: int | None, actions: Any, steps: int = 200) -> list[bool]:
    env.reset(seed=seed)
    return [env.step(actions(step))[-1]["is_random"] for step in range(steps)]


def test_the_flags_mark_exactly_the_overwritten_steps() -> None:
    env = RandomActionOverwrite(EpisodeCounter(), 0.3)
    env.reset(seed=1)
    seen = [env.step(MINE) for _ in range(500)]
    executed = np.array([observation[2] for observation, *_ in seen])
    flags = np.array([info["is_random"] for *_, info in seen])
    np.testing.assert_array_equal(executed, [info["executed_action"][0] for *_, info in seen])
    np.testing.assert_array_equal(executed != MINE[0], flags)
    assert 0 < flags.sum() < 500
    assert (np.abs(executed) <= 1).all()


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.9])
def test_the_share_of_overwrites_is_the_probability(probability: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    env, steps = RandomActionOverwrite(EpisodeCounter((10**6,)), probability), 4000
    flags = flags_of(env, 2, lambda step: MINE, steps)
    low, high = stats.binom.interval(0.999, steps, probability)
    assert low <= sum(flags) <= high


def test_random_actions_are_uniform() -> None:
    stats = pytest.importorskip("scipy.stats")
    env = RandomActionOverwrite(EpisodeCounter((10**6,)), 1.0)
    env.reset(seed=3)
    drawn = [float(env.step(MINE)[-1]["executed_action"][0]) for _ in range(2000)]
    assert stats.kstest(drawn, stats.uniform(-1, 2).cdf).pvalue > 0.001


@pytest.mark.parametrize(("probability", "flag"), [(0.0, False), (1.0, True)])
def test_probabilities_0_and_1_overwrite_never_and_always(probability: float, flag: bool) -> None:
    assert set(flags_of(RandomActionOverwrite(EpisodeCounter(), probability), 4, lambda step: MINE)) == {flag}


def test_flags_depend_neither_on_actions_nor_on_their_space_nor_on_the_spaces_seed() -> None:
    expected = flags_of(RandomActionOverwrite(EpisodeCounter(), 0.2), 5, lambda step: MINE)
    assert flags_of(RandomActionOverwrite(EpisodeCounter(), 0.2), 5, lambda step: MINE * (step % 3)) == expected

    class Wide(EpisodeCounter):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = gym.spaces.Box(-1.0, 1.0, (7,), np.float32)

    class Discrete(EpisodeCounter):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = gym.spaces.Discrete(3)

        def step(self, action: Any) -> Any:
            return super().step([action])

    assert flags_of(RandomActionOverwrite(Wide(), 0.2), 5, lambda step: np.zeros(7)) == expected
    assert flags_of(RandomActionOverwrite(Discrete(), 0.2), 5, lambda step: 1) == expected
    env = RandomActionOverwrite(EpisodeCounter(), 0.2)
    env.action_space.seed(5)
    assert flags_of(env, 5, lambda step: env.action_space.sample()) == expected
    assert flags_of(env, 6, lambda step: MINE) != expected


def test_sampling_from_the_environments_space_changes_no_overwrite() -> None:
    def executed(samples: int) -> list[float]:
        env = RandomActionOverwrite(EpisodeCounter(), 0.5)
        env.reset(seed=6)
        env.action_space.seed(6)
        values = []
        for _ in range(50):
            for _ in range(samples):
                env.action_space.sample()
            values.append(float(env.step(MINE)[-1]["executed_action"][0]))
        return values

    assert executed(0) == executed(3)


def test_discrete_actions_are_overwritten_too() -> None:
    env = RandomActionOverwrite(gym.make("CartPole-v1"), 1.0)
    env.reset(seed=7)
    infos = []
    for _ in range(30):
        *_, terminated, _, info = env.step(0)
        infos.append(info)
        if terminated:
            env.reset()
    assert {int(info["executed_action"]) for info in infos} == {0, 1}
    assert all(info["executed_action"] in env.action_space for info in infos)


def test_spaces_without_a_uniform_distribution_are_refused() -> None:
    class Boundless(EpisodeCounter):
        def __init__(self, space: Any) -> None:
            super().__init__()
            self.action_space = space

    with pytest.raises(ValueError, match="without bounds"):
        RandomActionOverwrite(Boundless(gym.spaces.Box(-np.inf, np.inf, (1,))))
    with pytest.raises(TypeError, match="a Box or a discrete space"):
        RandomActionOverwrite(Boundless(gym.spaces.Tuple([])))


@given(
    steps=st.integers(0, 6),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    first=st.none() | st.floats(-1, 1, width=32),
)
def test_the_action_executed_is_the_one_given_before(steps: int, lengths: list[int], first: float | None) -> None:
    env = ActionDelay(EpisodeCounter(lengths), steps, None if first is None else [first])
    for episode in range(len(lengths) + 1):
        env.reset(seed=0 if episode == 0 else None)
        given: list[float] = [first or 0.0] * steps
        ended = False
        while not ended:
            given.append(len(given) / 128)
            action = np.array(given[-1:], dtype=np.float32)
            observation, _, terminated, truncated, info = env.step(action)
            action[:] = 1.0  # an agent may reuse its array
            assert info["executed_action"].tolist() == [observation[2]] == [given[len(given) - 1 - steps]]
            ended = terminated or truncated


def test_every_episode_draws_its_own_delay_and_an_option_names_it() -> None:
    env = ActionDelay(ActionDelay(EpisodeCounter((10**6,)), 1), (0, 2), told=True)
    counts = [0, 0, 0]
    for episode in range(300):
        seen, _ = env.reset(seed=3 if episode == 0 else None)
        assert steps_late(env) == seen[-1]
        for k in range(1, 5):
            seen, _, _, _, info = env.step(np.full(1, k / 8, np.float32))
            assert info["executed_action"] == max(0, k - steps_late(env)) / 8
        counts[int(seen[-1]) - 1] += 1
    assert min(counts) > 70
    assert env.reset(options={"delay": 0})[0][-1] == 0
    assert observation_names(env)[-1] == "steps late"


def test_a_discrete_delay_needs_a_first_action() -> None:
    with pytest.raises(ValueError, match="no action of Discrete"):
        ActionDelay(gym.make("CartPole-v1"), 1)
    env = ActionDelay(gym.make("CartPole-v1"), 2, first=1)
    env.reset(seed=0)
    assert [int(env.step(0)[-1]["executed_action"]) for _ in range(4)] == [1, 1, 0, 0]


def test_the_outer_wrapper_acts_first() -> None:
    """The reported action is the one that the environment executed, whichever wrapper is outside."""
    late = RandomActionOverwrite(ActionDelay(EpisodeCounter(), 1), 1.0)  # first drawn, then delayed
    late.reset(seed=8)
    drawn = [late.step(MINE) for _ in range(5)]
    now = ActionDelay(RandomActionOverwrite(EpisodeCounter(), 1.0), 1)  # first delayed, then overwritten
    now.reset(seed=8)
    direct = [now.step(MINE) for _ in range(5)]
    for seen in (drawn, direct):
        assert [info["executed_action"][0] for *_, info in seen] == [observation[2] for observation, *_ in seen]
        assert all(info["is_random"] for *_, info in seen)
    assert drawn[0][0][2] == 0
    assert [step[0][2] for step in drawn[1:]] == [step[0][2] for step in direct[:-1]]


def test_an_overwrite_lasts_as_long_as_a_repeated_action() -> None:
    env = IrregularTime(EpisodeCounter(), (3, 3))
    once = RandomActionOverwrite(env, 1.0)
    once.reset(seed=9)
    observation, *_, info = once.step(MINE)
    assert observation.tolist() == [0, 3, info["executed_action"][0]]


def bursts_of(env: Any, seed: int, steps: int = 400) -> tuple[list[float], list[float], list[bool]]:
    """The actions that were given, those that were executed, and their flags."""
    env.reset(seed=seed)
    given = [0.1 + 0.001 * step for step in range(steps)]
    infos = [env.step(np.array([action]))[-1] for action in given]
    return given, [float(info["executed_action"][0]) for info in infos], [bool(info["is_random"]) for info in infos]


def runs_of(flags: list[bool]) -> list[tuple[int, int]]:
    """The first and the last step of each stretch of flags that are set."""
    edges = np.flatnonzero(np.diff([False, *flags, False]))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def test_a_burst_repeats_an_earlier_moment_or_holds_random_actions() -> None:
    given, executed, flags = bursts_of(ActionBursts(EpisodeCounter((10**6,)), 0.02, 4, 6), 0, 3000)
    runs = runs_of(flags)
    assert all(executed[step] == given[step] for step, flag in enumerate(flags) if not flag)
    single = [run for run in runs if run[1] - run[0] <= 6]  # two bursts may follow one another
    assert len(single) > 20
    assert {last - first for first, last in single} == {4, 5, 6}
    repeated, lengths = 0, set()
    for first, last in single:
        steps = np.diff(executed[first:last])
        if np.allclose(steps, 0.001, atol=1e-9):
            repeated += 1
            assert executed[first] < given[first]
        else:
            changes = np.flatnonzero(steps)
            lengths.update(np.diff(changes).tolist())
            assert all(-1 <= action <= 1 for action in executed[first:last])
    assert 0.25 < repeated / len(single) < 0.75
    assert {1, 2} <= lengths <= {1, 2, 3, 4, 5}


def test_bursts_follow_from_the_seed_and_begin_anew_with_each_episode() -> None:
    env = ActionBursts(EpisodeCounter((10**6,)), 0.1)
    first = bursts_of(env, 3)
    assert bursts_of(env, 3) == first
    assert bursts_of(ActionBursts(EpisodeCounter((10**6,)), 0.1), 3) == first
    assert bursts_of(env, 4) != first
    assert not any(bursts_of(ActionBursts(EpisodeCounter(), 0.0), 3)[2])
    assert all(bursts_of(ActionBursts(EpisodeCounter((10**6,)), 1.0), 3)[2])


@pytest.mark.parametrize(("shortest", "longest"), [(0, 5), (6, 5)])
def test_a_burst_has_a_length(shortest: int, longest: int) -> None:
    with pytest.raises(ValueError, match=f"a burst has at least one step .* got {shortest} to {longest}"):
        ActionBursts(EpisodeCounter(), 0.1, shortest, longest)


@pytest.mark.parametrize("outer", [ActionBursts, RandomActionOverwrite])
def test_an_action_is_random_whichever_wrapper_has_drawn_it(outer: Any) -> None:
    inner = RandomActionOverwrite if outer is ActionBursts else ActionBursts
    env = outer(inner(EpisodeCounter((10**6,)), 0.2), 0.2)
    given, executed, flags = bursts_of(env, 1)
    assert [one != other for one, other in zip(given, executed, strict=True)] == flags
    alone = bursts_of(outer(EpisodeCounter((10**6,)), 0.2), 1)[2]
    assert sum(flags) > sum(alone) > 0
