"""What a worker process does: it makes environments side by side, and answers one message at a time."""

from __future__ import annotations

import pickle
import random
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv

from ncp_control.base.machine import one_thread
from ncp_control.base.processes import end_with_parent, leave_interrupts_to_parent
from ncp_control.rl.recipes.environments import reason_of
from ncp_control.rl.recipes.foreign_numbers import (
    ForeignNumbers,
    own_numbers_only,
    states_of_process,
    states_of_python,
    states_of_spaces,
)

PROTOCOL = pickle.HIGHEST_PROTOCOL
CHECKED_STEPS = 1000  # the first ones, in which the environments must draw from their own generators


class WorkerFailure(NamedTuple):
    """An error in a worker process.

    :param error: the error to raise in the parent
    :param traceback: where it arose
    """

    error: Exception
    traceback: str


def work(pipe: Any, make: Callable[[int], DummyVecEnv], places: range) -> None:
    """Runs in a worker process until the parent closes the environments.

    :param pipe: the worker's end of the pipe
    :param make: makes a number of environments side by side
    :param places: the places of these environments among all of the training
    """
    leave_interrupts_to_parent()
    end_with_parent()
    # A fork begins with the generators of the training, and no two workers may draw the same numbers.
    set_random_seed((random.getrandbits(31) + places.start) % 2**31)
    with one_thread():
        worker = WorkerLoop(make, places)
        pipe.send_bytes(worker.answer("make", ()))
        try:
            while worker.is_made:
                name, arguments = pickle.loads(pipe.recv_bytes())
                if name == "close":
                    worker.envs.close()
                    return
                pipe.send_bytes(worker.answer(name, arguments))
        except (EOFError, OSError):
            return  # the parent has ended


class WorkerLoop:
    """Answers messages with what the methods of their names return, and puts errors of environments into sentences.

    :param make: makes a number of environments side by side
    :param places: the places of these environments among all of the training
    """

    envs: DummyVecEnv

    def __init__(self, make: Callable[[int], DummyVecEnv], places: range) -> None:
        self._make, self._places = make, places
        self.is_made = False
        self._steps = 0

    def answer(self, name: str, arguments: tuple[Any, ...]) -> bytes:
        """Returns the pickled answer to a message.

        :param name: the name of one of the methods below
        :param arguments: its arguments
        """
        try:
            found = getattr(self, name)(*arguments)
        except Exception as error:
            return pickle.dumps(WorkerFailure(self._told(name, error), traceback.format_exc()), PROTOCOL)
        try:
            return pickle.dumps(found, PROTOCOL)
        except Exception as error:
            what = f"what {arguments[0]} returned" if name == "call" else f"what its {name} returned"
            sentence = f"{self._who()}: {what} cannot be sent from a worker process: {reason_of(error)}"
            return pickle.dumps(WorkerFailure(ValueError(sentence), traceback.format_exc()), PROTOCOL)

    def make(self) -> tuple[Any, ...]:
        """Makes the environments and returns their spaces and metadata."""
        with own_numbers_only(states_of_python):  # the only ones that are seeded before environments are made
            self.envs = self._make(len(self._places))
        self.is_made = True
        return self.envs.observation_space, self.envs.action_space, self.envs.metadata

    def reset(self, seeds: list[int | None], options: list[dict[str, Any]]) -> tuple[Any, ...]:
        """Resets the environments and returns their observations and infos."""
        if seeds[0] is not None:
            set_random_seed(seeds[0] % 2**31)  # for environments that draw from shared generators later than is checked
        self.envs._seeds, self.envs._options = seeds, options
        with self._checked(states_of_process):
            observations = self.envs.reset()
        return observations, self.envs.reset_infos

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Steps the environments and returns what a step returns, and the infos of the resets after it."""
        with self._checked(lambda: states_of_process() | states_of_spaces(self.envs)):
            observations, rewards, dones, infos = self.envs.step(actions)
        self._steps += 1
        began = {int(place): self.envs.reset_infos[place] for place in np.flatnonzero(dones)}
        return observations, rewards, dones, infos, began

    def call(self, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Returns what a method of the environments side by side returns."""
        return getattr(self.envs, method)(*arguments, **keywords)

    def _checked(self, look: Callable[[], dict[str, Any]]) -> AbstractContextManager[None]:
        return own_numbers_only(look) if self._steps < CHECKED_STEPS else nullcontext()

    def _told(self, name: str, error: Exception) -> Exception:
        """Returns the error to raise in the parent."""
        meant = name == "call" or (name == "make" and isinstance(error, ValueError)) or type(error) is ForeignNumbers
        if meant and is_portable(error):
            return error
        return ValueError(f"{self._who()}, in a worker process: {reason_of(error)}")

    def _who(self) -> str:
        return f"{'one of the ' * (len(self._places) > 1)}{told_places(self._places)}"


def told_places(places: range) -> str:
    """Returns in words which environments have these places."""
    first, last = places[0], places[-1]
    if first == last:
        return f"environment {first}"
    return f"environments {first} {'and' if last == first + 1 else 'to'} {last}"


def is_portable(error: Exception) -> bool:
    """Whether an error arrives in another process as what it is."""
    try:
        return type(pickle.loads(pickle.dumps(error, PROTOCOL))) is type(error)
    except Exception:
        return False
