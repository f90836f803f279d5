"""Arrays as a laboratory carries them: exact numbers in base64."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def packed(values: ArrayLike) -> dict[str, str]:
    """Returns an array for `unpacked` of `numbers.js`, row after row: numbers as float64, whole numbers as int32.

    A laboratory computes in float64, and a weight in float32 is the same number there.
    """
    given: Any = values
    array = np.asarray(given.detach().cpu().numpy() if hasattr(given, "detach") else given)
    kind = "<i4" if array.dtype.kind in "biu" else "<f8"
    return {"type": kind[1:], "data": base64_of(array.astype(kind))}


def base64_of(values: NDArray[Any]) -> str:
    """Returns the bytes of an array, row after row, in base64."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
