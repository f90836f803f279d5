"""Making things from the descriptions in files, which anybody may have written."""

from __future__ import annotations

import json
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

# What somebody else's description can make of code that was written for our own.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, AssertionError, RuntimeError, ArithmeticError,
              MemoryError)  # fmt: skip
# torch's functions that make a tensor of a size that they are told.
MAKERS = ("empty", "empty_strided", "zeros", "ones", "full", "rand", "randn", "new_empty", "new_empty_strided",
          "new_zeros", "new_ones", "new_full")  # fmt: skip

A_TENSOR = 2048  # numbers that one more tensor stands for, so that not too many tiny ones are made either


@contextmanager
def described_in(path: str | Path, what: str) -> Iterator[None]:
    """Whatever a description leads to in the block becomes a sentence.

    :param what: what cannot be made of it, such as "a network that cannot be built"
    """
    try:
        yield
    except UNREADABLE as error:
        words = " ".join(str(error).split()) or type(error).__name__
        words = f"{words} is missing" if isinstance(error, KeyError) else words
        raise CheckpointError(f"{path} describes {what}: {textwrap.shorten(words, 400)}") from error


def read_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"there should be a JSON object, and there is a {type(found).__name__}")
    return found


def most_numbers(tensors: Mapping[str, Tensor]) -> int:
    """How many numbers there can be in what a file with these tensors describes, copies and scratch space included."""
    return 16 * sum(value.numel() for value in tensors.values()) + 4_000_000


class Bounded(TorchDispatchMode):
    """Refuses tensors made in the block that have more numbers in all than this, before there is memory for them.

    So a few bytes that describe a network of a million neurons do not fill the memory.

    :param most: see `most_numbers`
    """

    def __init__(self, most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.left = most

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called for each of torch's operations."""
        if func.overloadpacket.__name__ in MAKERS:
            sizes = [value for value in args if isinstance(value, list | tuple)]
            self.left -= A_TENSOR + (prod(sizes[0]) if sizes else 0)
            if self.left < 0:
                raise ValueError("it is far larger than the file")
        return func(*args, **(kwargs or {}))


@contextmanager
def building(path: str | Path, what: str, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """For making in the block what a file describes: whatever that leads to becomes a sentence, nothing is far larger
    than the file, and torch's random state is as before afterwards.

    :param what: as in `described_in`
    :param tensors: of the file
    """
    with described_in(path, what), torch.random.fork_rng(devices=[]), Bounded(most_numbers(tensors)):
        yield
