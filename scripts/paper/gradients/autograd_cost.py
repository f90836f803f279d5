"""The cost of a gradient in autograd: the bytes kept for the backward pass, and the depth of the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


class SavedBytes:
    """Counts in a `with` block the bytes that autograd keeps for backward passes, and their peak.

    Memory that several operations keep is counted once, until the last of them releases it. Graphs that a backward
    pass builds and drops count too, such as those of the adjoint method at every evaluation.

    Example::

        with SavedBytes(module.parameters()) as saved:
            module(inputs).sum().backward()
        print(saved.peak)

    :param given: tensors that do not count, such as parameters and inputs, which exist anyway
    """

    def __init__(self, given: Iterable[Tensor] = ()) -> None:
        self.given = {tensor.untyped_storage().data_ptr() for tensor in given}
        self.holders: Counter[int] = Counter()
        self.now = self.peak = 0
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)

    def __enter__(self) -> SavedBytes:
        self._hooks.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hooks.__exit__(kind, error, trace)

    def _pack(self, tensor: Tensor) -> _Kept:
        return _Kept(self, tensor.detach())  # detached, because an output would keep the node that keeps it

    def _unpack(self, kept: _Kept) -> Tensor:
        return kept.tensor

    def hold(self, place: int, size: int) -> None:
        """Counts one more operation that keeps the `size` bytes at `place`."""
        self.holders[place] += 1
        if self.holders[place] == 1:
            self.now += size
            self.peak = max(self.peak, self.now)

    def release(self, place: int, size: int) -> None:
        """Counts one operation less that keeps the `size` bytes at `place`."""
        self.holders[place] -= 1
        if self.holders[place] == 0:
            self.now -= size


class _Kept:
    """A tensor that a graph keeps; it lives as long as the graph's node."""

    def __init__(self, count: SavedBytes, tensor: Tensor) -> None:
        self.tensor = tensor
        storage = tensor.untyped_storage()
        self.counted = (storage.data_ptr(), storage.nbytes())
        self.count = None if self.counted[0] in count.given else count
        if self.count is not None:
            self.count.hold(*self.counted)

    def __del__(self) -> None:
        if self.count is not None:
            self.count.release(*self.counted)


def graph_depth(tensor: Tensor) -> int:
    """Counts autograd's nodes on the longest path from `tensor` back to a leaf."""
    depths: dict[Any, int] = {None: 0}
    waiting: list[Any] = [tensor.grad_fn]
    while waiting:  # no recursion: a long sequence would exceed Python's limit
        node = waiting[-1]
        below = [] if node is None else [child for child, _ in node.next_functions]
        unknown = [child for child in below if child not in depths]
        if unknown:
            waiting += unknown
        else:
            waiting.pop()
            depths.setdefault(node, 1 + max((depths[child] for child in below), default=0))
    return depths[tensor.grad_fn]
