"""Environments of a training in worker processes, for environments whose steps take long."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from ncp_control.base.processes import how_it_ended, interrupts_later, worker_context
from ncp_control.rl.recipes.worker_loop import PROTOCOL, WorkerFailure, told_places, work

PATIENCE = 5.0  # seconds in which the environments may close themselves


class WorkerTraceback(Exception):
    """The cause of an error that arose in a worker process: its traceback there, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class WorkerProcess(NamedTuple):
    """A worker process.

    :param process: the process
    :param pipe: the parent's end of the pipe
    :param places: the places of its environments among all
    """

    process: Any
    pipe: Any
    places: range


class WorkerVecEnv(VecEnv):
    """Environments in worker processes, several in each, so that a step is one message to each worker and one back.

    All numbers are those of the same environments in one process, bit for bit, because each worker steps its own in
    their order and they draw from their own generators. An environment that draws from a generator of the process
    is refused at its first steps. A worker computes with one thread.

    :param make: makes a number of environments side by side; it is called in each worker
    :param count: the number of environments
    :param workers: the number of worker processes; there are never more than environments
    """

    def __init__(self, make: Callable[[int], DummyVecEnv], count: int, workers: int) -> None:
        self._workers: list[WorkerProcess] = []
        self._is_waiting = False
        context = worker_context()
        try:
            for places in shares(count, workers):
                ours, theirs = context.Pipe()
                process = context.Process(target=work, args=(theirs, make, places), daemon=True)
                self._workers.append(WorkerProcess(process, ours, places))
                with interrupts_later():
                    process.start()
                theirs.close()
            self._is_waiting = True
            observation_space, action_space, metadata = self._answers(self._workers)[0]
            super().__init__(count, observation_space, action_space)
        except BaseException:
            self.close()
            raise
        self.metadata = metadata

    def step_async(self, actions: Any) -> None:
        """Sends each worker the actions of its environments."""
        self._send([(worker, ("step", (actions[within(worker.places)],))) for worker in self._workers])

    def step_wait(self) -> VecEnvStepReturn:
        """Waits for all workers and returns what a step returns."""
        observations, rewards, dones, infos, began = zip(*self._answers(self._workers), strict=True)
        for worker, own in zip(self._workers, began, strict=True):
            for place, info in own.items():
                self.reset_infos[worker.places[place]] = info
        return joined(observations), np.concatenate(rewards), np.concatenate(dones), [*chain(*infos)]

    def reset(self) -> VecEnvObs:
        """Resets all environments, with the seeds and options that were set."""
        given = [(within(worker.places), worker) for worker in self._workers]
        self._send([(worker, ("reset", (self._seeds[own], self._options[own]))) for own, worker in given])
        observations, infos = zip(*self._answers(self._workers), strict=True)
        self.reset_infos = [*chain(*infos)]
        self._reset_seeds()
        self._reset_options()
        found: VecEnvObs = joined(observations)
        return found

    def close(self) -> None:
        """Closes the environments and ends the workers, those that are still busy after some seconds by force."""
        workers, self._workers = [one for one in self._workers if one.process.pid is not None], []
        for worker in workers:
            with suppress(OSError):
                worker.pipe.send_bytes(pickle.dumps(("close", ())))
        until = time.monotonic() + PATIENCE
        for worker in workers:
            worker.process.join(max(until - time.monotonic(), 0))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()

    def get_images(self) -> Sequence[Any]:
        """Returns an image of each environment."""
        return [*chain(*self._ask_all("get_images"))]

    def has_attr(self, attr_name: str) -> bool:
        """Whether all environments have an attribute."""
        return all(self._ask_all("has_attr", attr_name))

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns an attribute of environments."""
        return self._ask("get_attr", (attr_name,), {}, indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of environments."""
        self._ask("set_attr", (attr_name, value), {}, indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of environments."""
        return self._ask("env_method", (method_name, *method_args), method_kwargs, indices)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        """Whether environments have a wrapper of a class."""
        return self._ask("env_is_wrapped", (wrapper_class,), {}, indices)

    def _ask_all(self, method: str, *arguments: Any) -> list[Any]:
        """Calls a method of each worker's environments side by side."""
        self._send([(worker, ("call", (method, arguments, {}))) for worker in self._workers])
        return self._answers(self._workers)

    def _ask(
        self, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any], indices: VecEnvIndices
    ) -> list[Any]:
        """Calls a method of each worker's environments for some of them, and returns a list in the order of `indices`.

        A method that returns nothing gives an empty list.
        """
        chosen = self._get_indices(indices)
        places = [range(self.num_envs)[place] for place in (chosen if isinstance(chosen, Iterable) else [chosen])]
        asked = [worker for worker in self._workers if any(place in worker.places for place in places)]
        questions = []
        for worker in asked:
            own = [worker.places.index(place) for place in places if place in worker.places]
            questions.append((worker, ("call", (method, arguments, {**keywords, "indices": own}))))
        self._send(questions)
        answers = self._answers(asked)
        if any(answer is None for answer in answers):
            return []
        left = [(worker.places, iter(answer)) for worker, answer in zip(asked, answers, strict=True)]
        return [next(own) for place in places for those, own in left if place in those]

    def _send(self, questions: Sequence[tuple[WorkerProcess, Any]]) -> None:
        if self._is_waiting or not self._workers:
            state = "have not answered yet, because a step was interrupted" if self._workers else "are closed"
            raise ValueError(f"the environments in worker processes {state}: make them again")
        packed = [(worker, pickle.dumps(question, PROTOCOL)) for worker, question in questions]
        self._is_waiting = True
        for worker, question in packed:
            try:
                worker.pipe.send_bytes(question)
            except OSError:
                raise lost(worker) from None

    def _answers(self, workers: Sequence[WorkerProcess]) -> list[Any]:
        """Returns the answers of workers; raises the first error among them when all have answered."""
        answers = []
        for worker in workers:
            try:
                answers.append(pickle.loads(worker.pipe.recv_bytes()))
            except (EOFError, OSError):
                raise lost(worker) from None
        self._is_waiting = False
        for answer in answers:
            if isinstance(answer, WorkerFailure):
                raise answer.error from WorkerTraceback(answer.traceback)
        return answers


def shares(count: int, workers: int) -> list[range]:
    """Returns the places of each worker's environments, of which no worker has more than one more than another."""
    workers = min(workers, count)
    ends = [count * k // workers for k in range(workers + 1)]
    return [range(first, end) for first, end in pairwise(ends)]


def within(places: range) -> slice:
    """Returns the slice of a list or an array that has these places."""
    return slice(places.start, places.stop)


def joined(parts: Sequence[Any]) -> Any:
    """Joins the observations of all workers."""
    if isinstance(parts[0], dict):
        return type(parts[0])((key, joined([part[key] for part in parts])) for key in parts[0])
    if isinstance(parts[0], tuple):
        return tuple(joined(own) for own in zip(*parts, strict=True))
    return np.concatenate(parts)


def lost(worker: WorkerProcess) -> ChildProcessError:
    """Returns the error for a worker that has ended."""
    worker.process.join(PATIENCE)
    return ChildProcessError(
        f"the worker process with {told_places(worker.places)} {how_it_ended(worker.process.exitcode)}"
    )
