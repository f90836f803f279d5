"""Index tensors of a module: they follow from its wiring, and stay right wherever the module's parameters go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn


class IndexedModule(nn.Module):
    """A module with index tensors, which are buffers outside of its state dict.

    The arrays that they are made from stay with the module as they are. So its index tensors have the right values
    again after what casts every buffer, as `module.type(dtype)` does, and after a time without values: on the meta
    device, and after `to_empty`.
    """

    def add_indexes(self, **arrays: Any) -> None:
        """Registers index tensors by their names."""
        kept = {name: np.asarray(array, dtype=np.int64) for name, array in arrays.items()}
        self.index_arrays: dict[str, np.ndarray] = kept
        for name, array in kept.items():
            self.register_buffer(name, torch.tensor(array), persistent=False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        """Does what moves or casts a module, then makes anew the index tensors that it changed."""
        before = dict(self._buffers)
        found = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name in self._index_names():
            after = self._buffers[name]
            if after is not None and after is not before[name]:
                self._make(name, after.device)
        return found

    def _load_from_state_dict(self, *arguments: Any, **options: Any) -> None:
        """Loads parameters, then moves the index tensors after those that `assign=True` put on another device."""
        super()._load_from_state_dict(*arguments, **options)
        parameter = next(self.parameters(), None)
        for name in self._index_names():
            index = self._buffers[name]
            if index is not None and parameter is not None and index.device != parameter.device:
                self._make(name, parameter.device)

    def _index_names(self) -> list[str]:
        """The names of the index tensors; none for a module that an earlier version pickled whole."""
        return [name for name in self.__dict__.get("index_arrays", {}) if name in self._buffers]

    def _make(self, name: str, device: torch.device) -> None:
        self._buffers[name] = torch.tensor(self.index_arrays[name], device=device)
