"""The tasks of memory: who remembers answers everything, who does not is at the level of the table."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ncp_envs import observation_names
from ncp_envs.memory import Autoencode, Recall, RepeatPrevious, TMaze

IDS = {
    "ncp/Recall-v0": (12, 4, 0.25),
    "ncp/TMaze-v0": (11, 3, 0.5),
    "ncp/RepeatPrevious-v0": (32, 4, 0.25),
    "ncp/Autoencode-v0": (8, 2, 0.5),
}
named = pytest.mark.parametrize("name", IDS)


def remembering(name: str, seen: list[Any]) -> int:
    """Returns the right answer to the last of the observations of an episode."""
    if "Recall" in name:
        return int(seen[0][:4].argmax())
    if "TMaze" in name:
        return 1 + int(seen[0][:2].argmax()) if seen[-1][2] else 0
    if "Repeat" in name:
        return int(seen[max(0, len(seen) - 4)].argmax())
    return int(seen[max(0, len(seen) - 5)][:2].argmax())


def forgetful(name: str, seen: list[Any]) -> int:
    """Returns the best answer that the present observation tells: in the corridor, go on, and elsewhere guess."""
    return int(seen[-1][2]) if "TMaze" in name else 0


def returns(env: Any, name: str, act: Any, episodes: int) -> tuple[list[float], list[int]]:
    found, lengths = [], []
    for k in range(episodes):
        seen, total, ended = [env.reset(seed=k)[0]], 0.0, False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(act(name, seen))
            seen.append(observation)
            total, ended = total + reward, terminated or truncated
        found.append(total)
        lengths.append(len(seen) - 1)
    return found, lengths


@named
def test_who_remembers_answers_everything(name: str) -> None:
    found, lengths = returns(gym.make(name), name, remembering, 40)
    np.testing.assert_allclose(found, 1.0)
    assert set(lengths) == {IDS[name][0]}


@named
def test_who_does_not_is_at_the_level_of_chance(name: str) -> None:
    found, _ = returns(gym.make(name), name, forgetful, 1000)
    assert np.mean(found) == pytest.approx(IDS[name][2], abs=0.05)


@named
def test_they_are_environments_of_gymnasium_and_name_what_they_show(name: str) -> None:
    env = gym.make(name)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.action_space.n == IDS[name][1]
    names = observation_names(env)
    assert len(names) == env.observation_space.shape[0] == len(set(names))


def test_a_step_at_the_wrong_place_of_the_maze_costs_a_little_and_moves_nobody() -> None:
    env = TMaze(length=2)
    sign, _ = env.reset(seed=1)
    after, reward, terminated, *_ = env.step(1)
    np.testing.assert_array_equal(after, sign)
    assert (reward, terminated) == (-0.1, False)
    for place in (0, 1):
        after, reward, *_ = env.step(0)
        assert (reward, after[2]) == (0.0, place)
        assert after[:2].sum() == 0
    assert env.step(0)[1:3] == (-0.1, False)
    wrong = 2 - int(sign[:2].argmax())
    assert env.step(wrong)[1:3] == (0.0, True)


def test_a_maze_ends_after_a_while() -> None:
    found, lengths = returns(gym.make("ncp/TMaze-v0"), "", lambda name, seen: 2, 1)
    assert lengths == [100]
    assert found == [pytest.approx(-10.0)]


def test_lengths_and_symbols_are_settings() -> None:
    assert returns(Recall(delay=0, symbols=7), "", lambda name, seen: int(seen[0][:7].argmax()), 5)[0] == [1.0] * 5
    repeat = RepeatPrevious(back=1, questions=4, symbols=3)
    found, lengths = returns(repeat, "", lambda name, seen: int(seen[max(0, len(seen) - 2)].argmax()), 5)
    np.testing.assert_allclose(found, 1.0)
    assert lengths == [5] * 5
    assert Autoencode(length=9, symbols=3).observation_space.shape == (4,)


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [
        (Recall, {"delay": -1}, "delay must be at least 0, got -1"),
        (RepeatPrevious, {"back": 0}, "back must be at least 1, got 0"),
        (Autoencode, {"symbols": 1}, "a task needs at least two symbols, got 1"),
        (TMaze, {"length": 0}, "length must be at least 1, got 0"),
    ],
)
def test_a_task_that_is_none_is_refused(kind: Any, settings: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        kind(**settings)
