"""Returns on a scale from 0 to 1, whose ends a dataset's metadata name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENDS = ("ref_min_score", "ref_max_score")  # Minari's names
LARGEST = 1e300  # so that a difference of two scores never overflows


def scale_in(metadata: Mapping[str, Any]) -> tuple[float, float] | None:
    """Returns the returns that score 0 and 1, as a dataset's metadata name them; None where they name no such scale."""
    found = [metadata.get(name) for name in ENDS]
    numbers = [float(value) for value in found if value is not None and is_number(value)]
    return (numbers[0], numbers[1]) if len(numbers) == len(ENDS) and numbers[0] != numbers[1] else None


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number, and a finite one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST < value < LARGEST


def normalized(returns: NDArray[Any], scale: tuple[float, float]) -> NDArray[Any]:
    """Returns scores, (return - least) / (greatest - least), as `minari.get_normalized_score` does.

    :param returns: the returns of episodes
    :param scale: the returns that score 0 and 1
    """
    least, greatest = scale
    return np.asarray((returns - least) / (greatest - least))
