"""The processes that work on one thing together, as `torchrun` starts them; a process alone is the trivial case."""

from __future__ import annotations

import itertools
import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed
from torch import Tensor

T = TypeVar("T")
dist: Any = torch.distributed  # its names are not all known to type checkers

VARIABLES = ("WORLD_SIZE", "RANK", "LOCAL_RANK")  # what torchrun tells each process
SECONDS_FOR_LAST_WORDS = 3.0
# A sum waits so long for the others, which compute as much at the same time; most lost processes are noticed at once.
SECONDS_FOR_A_SUM = 300.0
HOURS_FOR_A_VALUE = 24.0  # a value may take long to make, such as the copy of a large dataset


class LostRankError(ConnectionError):
    """Another process has ended before the common work was done.

    :param reason: which one, and why; empty if it left no word, as after a kill
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{reason or 'another process was killed, or answers no more'}: start all processes again")


class Ranks:
    """All processes of one work, and the place of this one among them.

    Every process has to call the methods that talk to the others, in the same order. If a process has ended, they raise
    LostRankError in the others.

    :param rank: the number of this process; the first is 0
    :param count: the number of processes
    :param local: the number of this process on its machine
    :param notes: a store of torch.distributed, where a process that fails leaves its last words
    :param patient: the same group for values that take long to make; None for torch.distributed's own one
    """

    def __init__(self, rank: int = 0, count: int = 1, local: int = 0, notes: Any = None, patient: Any = None) -> None:
        self.rank, self.count, self.local, self.notes, self.patient = rank, count, local, notes, patient

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def device(self, device: torch.device) -> torch.device:
        """Returns the device of this process: of several GPUs, its own one."""
        return torch.device("cuda", self.local) if device.type == "cuda" and self.count > 1 else device

    def share(self, numbers: Tensor) -> Tensor:
        """Returns this process's part of some numbers, one piece of them; shares differ by at most one number."""
        return numbers if self.count == 1 else numbers.tensor_split(self.count)[self.rank]

    def average(self, tensors: Sequence[Tensor], weight: float) -> None:
        """Replaces tensors by the weighted sum over all processes, by one exchange; the weights add up to 1.

        :param tensors: of one type and on one device
        :param weight: the weight of this process
        """
        if self.count == 1:
            return
        flat = self.sum(torch.cat([tensor.reshape(-1) for tensor in tensors]).mul_(weight))
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def sum(self, values: Tensor) -> Tensor:
        """Returns the sum over all processes, the same in each; `values` may be overwritten."""
        if self.count > 1:
            with self._lost():
                dist.all_reduce(values)
        return values

    def gather(self, value: T) -> list[T]:
        """Returns the values of all processes, in the order of their numbers."""
        if self.count == 1:
            return [value]
        found: list[Any] = [None] * self.count
        with self._lost():
            dist.all_gather_object(found, value, group=self.patient)
        return found

    def from_first(self, make: Callable[[], T]) -> T:
        """Returns in every process what `make` returns in the first; an error of it is raised in every process."""
        return self._from(0, make)

    def once_a_machine(self, make: Callable[[], T]) -> T:
        """Returns what `make` returns in the first process of this machine.

        When this returns, every process has its copy: temporary files of which `make` tells may be removed.
        """
        return self._from(self.rank - self.local, make)

    def _from(self, maker: int, make: Callable[[], T]) -> T:
        if self.count == 1:
            return make()
        value: Any = None
        packed, failed = b"", None
        if self.rank == maker:
            try:
                value = make()
                packed = pickle.dumps(value)
            except Exception as error:
                failed = error
        answers = self.gather((packed, None if failed is None else in_words(failed)))
        if failed is not None:
            raise failed
        for _, reason in answers:
            if reason is not None:
                raise ValueError(reason)
        if self.rank != maker:
            value = pickle.loads(answers[maker][0])
        self.gather(None)  # nobody goes on, and removes what it made, before all have read it
        return value  # type: ignore[no-any-return]

    @contextmanager
    def _lost(self) -> Iterator[None]:
        """Turns torch's error of a lost connection into a sentence that says which process has ended, and why."""
        try:
            yield
        except RuntimeError as error:
            raise LostRankError(self._last_words()) from error

    def _last_words(self) -> str:
        """Returns what another process said before it ended, for which this waits a little."""
        until = time.monotonic() + SECONDS_FOR_LAST_WORDS
        with suppress(RuntimeError):  # the notes may be lost with the process that kept them
            while self.notes is not None and time.monotonic() < until:
                for other in range(self.count):
                    if other != self.rank and self.notes.check([f"ended/{other}"]):
                        return f"process {other} has ended ({self.notes.get(f'ended/{other}').decode()})"
                time.sleep(0.05)
        return ""


_group: list[Ranks] = []  # the group that this process has joined, if any
_stores: list[Any] = []  # the store by which all groups of this process find each other, once there is one
_numbers = itertools.count()  # of the groups that this process joins, the same in every process


@contextmanager
def joined(device: torch.device | None = None) -> Iterator[Ranks]:
    """Joins the processes that the variables WORLD_SIZE, RANK and LOCAL_RANK tell of, until the end of the block.

    Without these variables the process is alone. Blocks may lie within each other, and a group that torch.distributed
    has joined already is used as it is. The processes talk by gloo, and on GPUs by nccl.

    :param device: on GPUs, each process takes the GPU of its LOCAL_RANK as torch's current one
    """
    if _group:
        yield _group[-1]
        return
    rank, count, local = process_numbers()
    if dist.is_available() and dist.is_initialized():
        yield Ranks(dist.get_rank(), dist.get_world_size(), local)
        return
    if count == 1:
        yield Ranks()
        return
    if not dist.is_available():
        raise ValueError("this torch is built without torch.distributed: start one process, without torchrun")
    backend = "gloo"
    if device is not None and device.type == "cuda":
        backend = "cpu:gloo,cuda:nccl"
        take_gpu(device, local)
    try:
        if not _stores:
            _stores.append(next(dist.rendezvous("env://"))[0])
        # A group that is joined later must not meet the keys of an earlier one.
        store = dist.PrefixStore(str(next(_numbers)), _stores[0])
        group = {"store": dist.PrefixStore("group", store), "rank": rank, "world_size": count}
        dist.init_process_group(backend, timeout=timedelta(seconds=SECONDS_FOR_A_SUM), **group)
        patient = dist.new_group(backend="gloo", timeout=timedelta(hours=HOURS_FOR_A_VALUE))
    except (RuntimeError, ValueError) as error:
        raise ConnectionError(f"the {count} processes did not find each other ({in_words(error)})") from error
    ranks = Ranks(rank, count, local, dist.PrefixStore("notes", store), patient)
    _group.append(ranks)
    try:
        yield ranks
    except BaseException as error:
        if ranks.notes is not None and not isinstance(error, LostRankError):
            with suppress(RuntimeError):
                ranks.notes.set(f"ended/{rank}", in_words(error))
        raise
    finally:
        _group.pop()
        dist.destroy_process_group()


class ProcessNumbers(NamedTuple):
    """The number of this process, the number of all, and this one's number on its machine."""

    rank: int
    size: int
    local: int


def process_numbers() -> ProcessNumbers:
    """Returns the number of this process among others, as torchrun says."""
    words = [os.environ.get(name) for name in VARIABLES]
    if words[0] in (None, "", "1"):
        return ProcessNumbers(0, 1, 0)
    for name, word in zip(VARIABLES, words, strict=True):
        if word is None or not word.isdigit():
            said = "is not set" if word is None else f"is {word!r}"
            raise ValueError(f"WORLD_SIZE is {words[0]}, and {name} {said}: start the processes with torchrun")
    count, rank, local = (int(word) for word in words if word is not None)
    if not 0 <= local <= rank < count:
        raise ValueError(f"there is no process {rank} of {count} with number {local} on its machine: use torchrun")
    return ProcessNumbers(rank, count, local)


def take_gpu(device: torch.device, local: int) -> None:
    """Makes the GPU of a process the current one; refuses more processes than GPUs."""
    if device.index is not None:
        raise ValueError(f"several processes take a GPU each: choose device cuda, not {device}")
    if local >= torch.cuda.device_count():
        raise ValueError(
            f"process {local} of this machine has no GPU, because there are {torch.cuda.device_count()}: start as many "
            "processes as GPUs, or choose device cpu"
        )
    torch.cuda.set_device(local)


def in_words(error: BaseException) -> str:
    """Puts an error into one line."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return " ".join(str(error).split()) or type(error).__name__
