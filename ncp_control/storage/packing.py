"""Nested values that contain arrays and tensors, as JSON values and named tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

# The tensors that an optimizer keeps for each parameter.
NEEDED = {
    "Adam": ("step", "exp_avg", "exp_avg_sq"), "AdamW": ("step", "exp_avg", "exp_avg_sq"),
    "RMSprop": ("step", "square_avg"), "Muon": ("mean",),
}  # fmt: skip


def pack(value: Any, tensors: dict[str, torch.Tensor], copy: bool = True) -> Any:
    """Turns nested values into JSON values, and puts their arrays and tensors into `tensors` under numbers.

    :param copy: put copies there, because safetensors refuses two names for the same memory. Large arrays that are all
        apart need none if they are written before they change
    """
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value).reshape(value.shape))
    if isinstance(value, torch.Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().cpu().clone() if copy else value.detach().cpu()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, pack(own, tensors, copy)] for key, own in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [pack(own, tensors, copy) for own in value]}
    if isinstance(value, np.generic):
        return value.item()
    return value


def unpack(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Returns what `pack` was given, with lists for tuples and tensors for arrays."""
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "list" in value:
        return [unpack(own, tensors) for own in value["list"]]
    return {key: unpack(own, tensors) for key, own in value["dict"]}


def check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Raises ValueError if the state that an optimizer was given is not one of its own."""
    for group in optimizer.param_groups:
        for name, usual in optimizer.defaults.items():
            if not is_like(group.get(name), usual):
                raise ValueError(f"an optimizer cannot have {name} {group.get(name)!r}")
    needed = NEEDED.get(type(optimizer).__name__, ())
    for parameter, state in optimizer.state.items():
        for name in {*needed, *state}:
            value = state.get(name)
            if value is None and name not in needed:
                continue
            shapes = ((), parameter.shape) if name == "step" else (parameter.shape,)
            if not isinstance(value, torch.Tensor) or value.shape not in shapes:
                raise ValueError(f"{name} in an optimizer's state does not fit its parameter")


def is_like(value: Any, usual: Any) -> bool:
    """Whether a setting may replace the usual one: a finite number for a number, and a flag only if it is the same."""
    if isinstance(usual, list | tuple):
        return isinstance(value, list | tuple) and len(value) == len(usual) and all(map(is_like, value, usual))
    if usual is None or isinstance(usual, bool):
        return value is usual
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
