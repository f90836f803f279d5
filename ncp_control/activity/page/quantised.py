"""Arrays as a page carries them: whole numbers in base64, which are much smaller than numbers as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from ncp_control.activity.recording.activity import Array
from ncp_control.base.packed import base64_of


def quantise(values: Array, bits: int = 8, log: bool = False) -> dict[str, Any]:
    """Turns each column into whole numbers between its least and greatest value.

    The greatest whole number stands for values that are not finite.

    :param values: (T, C)
    :param bits: 8 or 16
    :param log: quantise the logarithm (base 10), for values over many orders of magnitude; values of 0 or less count as
        not finite
    """
    values = np.asarray(values, np.float64).reshape(len(values), -1)
    if log:
        values = np.log10(np.where(values > 0, values, np.nan))
    finite = np.isfinite(values)
    # A column without a finite value needs bounds too, and 0 does.
    some = finite.any(axis=0)
    low = np.where(some, np.min(values, axis=0, initial=np.inf, where=finite), 0.0)
    high = np.where(some, np.max(values, axis=0, initial=-np.inf, where=finite), 0.0)
    missing = 2**bits - 1
    span = np.where(high > low, high - low, 1.0)
    codes = np.rint(np.where(finite, values - low, 0.0) / span * (missing - 1))
    codes = np.where(finite, codes, missing).astype(f"<u{bits // 8}")
    return {
        "kind": f"u{bits // 8}",
        "columns": values.shape[1],
        "low": low.tolist(),
        "high": high.tolist(),
        "log": log,
        "data": base64_of(codes),
    }


def exact(values: Array) -> dict[str, Any]:
    """Keeps values (T, C) as 32-bit floating-point numbers."""
    values = np.asarray(values, dtype="<f4").reshape(len(values), -1)
    return {"kind": "f4", "columns": values.shape[1], "log": False, "data": base64_of(values)}
