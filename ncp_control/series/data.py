"""Series, and what is to be told of them: a class or numbers, for every row or for the whole series."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_CLASS = -1  # the target of a row whose class is not known


@dataclass(frozen=True)
class Series:
    """One series of T rows.

    :param inputs: what is read, (T, I); NaN where a value is missing
    :param targets: what to predict: class numbers (T,), `NO_CLASS` where it is not known, or numbers (T, O), NaN
        where one is not known. Of a whole series there is one target, (1,) or (1, O)
    :param elapsed: the time since the row before, (T,); None where rows are equally far apart
    :param name: for messages
    """

    inputs: NDArray[np.float64]
    targets: NDArray[Any]
    elapsed: NDArray[np.float64] | None = None
    name: str = ""


@dataclass(frozen=True)
class SeriesData:
    """Series of one kind.

    :param series: the series
    :param inputs: the names of what is read
    :param targets: the names of the numbers to tell, or of the one column of classes
    :param classes: the names of the classes; empty where numbers are to be told
    :param whole: whether a whole series has one target
    :param meta: where the data is from, as JSON values
    """

    series: tuple[Series, ...]
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    classes: tuple[str, ...] = ()
    whole: bool = False
    meta: dict[str, Any] = field(default_factory=dict)
