"""Nested values with arrays and tensors among them, as JSON values and named tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def pack(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """JSON values, with the arrays and tensors among them put into `tensors` under numbers."""
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, torch.Tensor):
        name = str(len(tensors))
        # a copy: two names of one memory are not kept apart otherwise
        tensors[name] = value.detach().cpu().clone()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, pack(own, tensors)] for key, own in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [pack(own, tensors) for own in value]}
    if isinstance(value, np.generic):
        return value.item()
    return value


def unpack(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """What `pack` was given; tuples come back as lists, arrays as tensors."""
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "list" in value:
        return [unpack(own, tensors) for own in value["list"]]
    return {key: unpack(own, tensors) for key, own in value["dict"]}
