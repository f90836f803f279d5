"""Builds things from the descriptions in files, which anybody may have written."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ncp_control.storage.safe_tensors import CheckpointError

# The errors that a description which we did not write can cause in code that expects ours.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, AssertionError, RuntimeError, ArithmeticError,
              MemoryError)  # fmt: skip
# torch's functions that allocate a tensor whose size is an argument.
MAKERS = ("empty", "empty_strided", "zeros", "ones", "full", "rand", "randn", "new_empty", "new_empty_strided",
          "new_zeros", "new_ones", "new_full")  # fmt: skip

A_TENSOR = 2048  # numbers that each tensor counts for beside its own, so that there cannot be millions of tiny ones


@contextmanager
def described_in(path: str | Path, what: str) -> Iterator[None]:
    """Turns an error that a description causes in the block into a CheckpointError of one sentence.

    :param what: what the file describes, such as "a network that cannot be built"
    """
    try:
        yield
    except UNREADABLE as error:
        words = " ".join(str(error).split()) or type(error).__name__
        words = f"{words} is missing" if isinstance(error, KeyError) else words
        raise CheckpointError(f"{path} describes {what}: {textwrap.shorten(words, 400)}") from error


def most_numbers(tensors: Mapping[str, Tensor]) -> int:
    """Returns how many numbers may be allocated to build from a file with these tensors, copies included."""
    return 16 * sum(value.numel() for value in tensors.values()) + 4_000_000


class Bounded(TorchDispatchMode):
    """Raises ValueError before the tensors made in the block hold more than `most` numbers in all.

    A few bytes can describe a network of a million neurons; they must not fill the memory.

    :param most: see `most_numbers`
    """

    def __init__(self, most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.left = most

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Counts what one operation of torch allocates, then runs it."""
        if func.overloadpacket.__name__ in MAKERS:
            sizes = [value for value in args if isinstance(value, list | tuple)]
            self.left -= A_TENSOR + (prod(sizes[0]) if sizes else 0)
            if self.left < 0:
                raise ValueError("it is far larger than the file")
        return func(*args, **(kwargs or {}))


@contextmanager
def building(path: str | Path, what: str, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Builds in the block what a file describes: errors become one sentence, the tensors built cannot be far larger
    than the file, and torch's random state is afterwards as it was before.

    :param what: as in `described_in`
    :param tensors: the file's tensors
    """
    with described_in(path, what), torch.random.fork_rng(devices=[]), Bounded(most_numbers(tensors)):
        yield
