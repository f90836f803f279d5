"""Index tensors of a module: they follow from its wiring, and stay right wherever the module's parameters go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class IndexedModule(nn.Module):
    """A module with index tensors, which are buffers outside of its state dict.

    The arrays that they are made from stay with the module as they are. So its index tensors have the right values
    again after what casts every buffer, as `module.type(dtype)` does, and after a time without values: on the meta
    device, and after `to_empty`.
    """

    def add_indexes(self, **arrays: Any) -> None:
        """Registers index tensors by their names."""
        self._add({name: np.asarray(array, dtype=np.int64) for name, array in arrays.items()})

    def add_constants(self, **arrays: Any) -> None:
        """Registers tensors of fixed numbers by their names, which have the floating-point type of the parameters."""
        self._add({name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()})

    def _add(self, arrays: dict[str, np.ndarray]) -> None:
        self.index_arrays: dict[str, np.ndarray] = {**self.__dict__.get("index_arrays", {}), **arrays}
        for name, array in arrays.items():
            dtype = torch.int64 if array.dtype == np.int64 else torch.get_default_dtype()
            self.register_buffer(name, torch.tensor(array, dtype=dtype), persistent=False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        """Does what moves or casts a module, then makes anew the index tensors that it changed."""
        before = dict(self._buffers)
        found = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name in self._index_names():
            after = self._buffers[name]
            if after is not None and after is not before[name]:
                self._make(name, after)
        return found

    def _load_from_state_dict(self, *arguments: Any, **options: Any) -> None:
        """Loads parameters, then moves the index tensors after those that `assign=True` put on another device."""
        super()._load_from_state_dict(*arguments, **options)
        parameter = next(self.parameters(), None)
        for name in self._index_names():
            index = self._buffers[name]
            if index is None or parameter is None:
                continue
            if index.device != parameter.device or (index.is_floating_point() and index.dtype != parameter.dtype):
                self._make(name, parameter)

    def _index_names(self) -> list[str]:
        """The names of the index tensors; none for a module that an earlier version pickled whole."""
        return [name for name in self.__dict__.get("index_arrays", {}) if name in self._buffers]

    def _make(self, name: str, like: Tensor) -> None:
        """Makes one again: on the device of another tensor, and where it has a floating-point type, in that one's."""
        array = self.index_arrays[name]
        dtype = torch.int64 if array.dtype == np.int64 else like.dtype
        self._buffers[name] = torch.tensor(array, dtype=dtype, device=like.device)
