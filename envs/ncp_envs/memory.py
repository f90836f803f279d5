"""Small tasks in which memory decides and nothing else is hard.

| id | what is asked | without a memory | at best |
|---|---|---|---|
| `ncp/Recall-v0` | which symbol was the cue, after ten steps of other symbols | 0.25 | 1 |
| `ncp/TMaze-v0` | the turn at the end of a corridor that a sign at its beginning shows | 0.5 | 1 |
| `ncp/RepeatPrevious-v0` | at each step the symbol of three steps before | 0.25 | 1 |
| `ncp/Autoencode-v0` | four symbols, in their order, after all of them were shown | 0.5 | 1 |

The two columns are the best returns: that of an agent that knows the rules and sees the present observation only, and
that of one that remembers everything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

Info = dict[str, Any]
Array = NDArray[Any]
NOT_ASKED = -1


class Questions(NamedTuple):
    """An episode of T steps.

    :param symbols: the symbol that each step shows, (T,); a number beyond the last symbol shows none
    :param flags: what else each step shows, (T, F)
    :param answers: the right action at each step, (T,), or `NOT_ASKED`
    """

    symbols: Array
    flags: Array
    answers: Array


class SymbolTask(gym.Env[Array, Any], ABC):
    """Shows symbols and asks for some of them; the return is the share of right answers.

    An observation consists of a flag for each symbol and of further flags; an action is a symbol.

    :param symbols: the number of symbols
    :param flags: the names of the further flags
    """

    def __init__(self, symbols: int, flags: tuple[str, ...] = ()) -> None:
        if symbols < 2:
            raise ValueError(f"a task needs at least two symbols, got {symbols}")
        self.symbols = symbols
        self.observation_names = [*(f"symbol {k}" for k in range(symbols)), *flags]
        self.observation_space = gym.spaces.Box(0.0, 1.0, (len(self.observation_names),), np.float32)
        self.action_space = gym.spaces.Discrete(symbols)

    @abstractmethod
    def draw(self) -> Questions:
        """Draws an episode with `np_random`."""

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Array, Info]:
        """Begins an episode."""
        super().reset(seed=seed)
        symbols, flags, self._answers = self.draw()
        shown = np.eye(self.symbols + 1, self.symbols)[symbols]
        self._observations = np.concatenate([shown, flags], axis=1, dtype=np.float32, casting="unsafe")
        self._asked = int((self._answers != NOT_ASKED).sum())
        self._step = 0
        return self._observations[0].copy(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """Takes an answer, and shows the next symbol; after the last answer it shows nothing new."""
        right = int(action) == self._answers[self._step]
        self._step += 1
        ended = self._step == len(self._answers)
        return self._observations[self._step - ended].copy(), float(right) / self._asked, ended, False, {}


class Recall(SymbolTask):
    """Shows a cue, then other symbols, and asks for the cue.

    :param delay: how many steps lie between the cue and the question
    :param symbols: the number of symbols
    """

    def __init__(self, delay: int = 10, symbols: int = 4) -> None:
        check_length("delay", delay, 0)
        super().__init__(symbols, ("cue", "question"))
        self.delay = delay

    def draw(self) -> Questions:
        """Draws a cue and distractors."""
        shown = self.np_random.integers(self.symbols, size=self.delay + 2)
        flags, answers = np.zeros((len(shown), 2)), np.full(len(shown), NOT_ASKED)
        flags[0, 0] = flags[-1, 1] = 1.0
        answers[-1] = shown[0]
        shown[-1] = self.symbols
        return Questions(shown, flags, answers)


class RepeatPrevious(SymbolTask):
    """Asks at each step for the symbol of some steps before.

    :param back: how many steps before
    :param questions: how many steps are asked for
    :param symbols: the number of symbols
    """

    def __init__(self, back: int = 3, questions: int = 29, symbols: int = 4) -> None:
        check_length("back", back, 1)
        check_length("questions", questions, 1)
        super().__init__(symbols)
        self.back, self.questions = back, questions

    def draw(self) -> Questions:
        """Draws the symbols."""
        shown = self.np_random.integers(self.symbols, size=self.back + self.questions)
        answers = np.concatenate([np.full(self.back, NOT_ASKED), shown[: -self.back]])
        return Questions(shown, np.zeros((len(shown), 0)), answers)


class Autoencode(SymbolTask):
    """Shows symbols one after another, and then asks for all of them in their order.

    :param length: how many symbols are shown
    :param symbols: how many different ones there are
    """

    def __init__(self, length: int = 4, symbols: int = 2) -> None:
        check_length("length", length, 1)
        super().__init__(symbols, ("question",))
        self.length = length

    def draw(self) -> Questions:
        """Draws the symbols."""
        shown = self.np_random.integers(self.symbols, size=self.length)
        asked = np.repeat([[0.0], [1.0]], self.length, axis=0)
        nothing = np.full(self.length, self.symbols)
        answers = np.concatenate([np.full(self.length, NOT_ASKED), shown])
        return Questions(np.concatenate([shown, nothing]), asked, answers)


class TMaze(gym.Env[Array, Any]):
    """A corridor with a sign at its beginning, and a turn at its end that the sign shows.

    The actions are 0, one step forward, 1, a turn to the left, and 2, a turn to the right. A turn at the end ends the
    episode, and earns 1 if the sign showed it. A turn in the corridor, or a step forward at its end, leaves the agent
    where it is and costs a tenth.

    :param length: how many steps the corridor is long
    """

    BUMP = -0.1

    def __init__(self, length: int = 10) -> None:
        check_length("length", length, 1)
        self.length = length
        self.observation_space = gym.spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Array, Info]:
        """Puts the agent at the beginning of the corridor, before a new sign."""
        super().reset(seed=seed)
        self._sign, self._place = int(self.np_random.integers(2)), 0
        return self._see(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """Moves the agent."""
        at_end, forward = self._place == self.length, int(action) == 0
        if at_end != forward:
            self._place += int(forward)
            right = at_end and int(action) == self._sign + 1
            return self._see(), float(right), at_end, False, {}
        return self._see(), self.BUMP, False, False, {}

    def _see(self) -> Array:
        seen = np.zeros(3, dtype=np.float32)
        if self._place == 0:
            seen[self._sign] = 1.0
        seen[2] = self._place == self.length
        return seen


def check_length(name: str, value: int, least: int) -> None:
    """Refuses a length that is too short for a task."""
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def register_memory() -> None:
    """Registers the tasks."""
    for name, limit in {"Recall": None, "TMaze": 100, "RepeatPrevious": None, "Autoencode": None}.items():
        if f"ncp/{name}-v0" not in gym.registry:
            gym.register(f"ncp/{name}-v0", entry_point=f"ncp_envs.memory:{name}", max_episode_steps=limit)
