"""Gymnasium's spaces as JSON values, and back."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from gymnasium import spaces


def space_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """Returns a space as JSON values: infinite bounds as null, and bounds that are all equal as one number."""
    if isinstance(space, spaces.Box):
        low, high = (_bound(bound) for bound in (space.low, space.high))
        return {"type": "Box", "low": low, "high": high, "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        start = {"start": space.start.tolist()} if space.start.any() else {}
        return {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), **start}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.n)}
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {key: space_to_json(own) for key, own in space.spaces.items()}}
    raise TypeError(f"a policy's file holds Box, Discrete, MultiDiscrete, MultiBinary and Dict spaces, not {space}")


def _bound(bound: Any) -> list[float | None] | float | None:
    values = [float(x) if np.isfinite(x) else None for x in bound.ravel()]
    return values[0] if len(set(values)) == 1 else values


def space_from_json(described: dict[str, Any]) -> spaces.Space[Any]:
    """Returns the space that `space_to_json` described.

    :param described: the JSON values
    """
    kind = described["type"]
    if kind == "Discrete":
        return spaces.Discrete(described["n"], start=described["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(described["nvec"], start=described.get("start"))
    if kind == "MultiBinary":
        return spaces.MultiBinary(described["n"])
    if kind == "Dict":
        # Networks rely on the order of the keys; Gymnasium keeps it for an OrderedDict, and sorts a plain dict.
        return spaces.Dict(OrderedDict((key, space_from_json(own)) for key, own in described["spaces"].items()))
    if kind != "Box":
        raise ValueError(f"unknown space {kind!r}")
    shape, dtype = tuple(described["shape"]), np.dtype(described["dtype"])
    if dtype.kind not in "fiub":
        raise ValueError(f"a policy cannot see a Box of {shape} {dtype}")
    low, high = (
        _numbers(described[side], infinite, shape, dtype) for side, infinite in (("low", -np.inf), ("high", np.inf))
    )
    return spaces.Box(low, high, dtype=dtype.type)


def _numbers(bound: Any, infinite: float, shape: tuple[int, ...], dtype: Any) -> Any:
    if not isinstance(bound, list):
        return np.full(shape, infinite if bound is None else bound, dtype=dtype)
    return np.array([infinite if x is None else x for x in bound], dtype=dtype).reshape(shape)
