"""The ranges that a search chooses values from, as a small YAML file says them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncp_control.base.plain_yaml import read_yaml

KEYS = {"low", "high", "log", "step"}


@dataclass(frozen=True)
class SearchRange:
    """The values that one key may have: those of a list, or numbers between two.

    :param choices: a list, or None
    :param low: the least number
    :param high: the largest number
    :param log: whether each factor of ten is as likely as the next
    :param step: numbers lie so far apart; whole numbers if both ends are whole
    """

    choices: tuple[str, ...] | None = None
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the numbers are whole."""
        return all(isinstance(value, int) for value in (self.low, self.high, self.step or 1))

    @property
    def least(self) -> str:
        """The first of the choices, or the least number, as a word."""
        return self.choices[0] if self.choices is not None else f"{self.low:.6g}"

    def distribution(self) -> Any:
        """Returns the range in the form of Optuna."""
        from optuna import distributions

        if self.choices is not None:
            return distributions.CategoricalDistribution(self.choices)
        if self.is_whole:
            step = 1 if self.step is None else int(self.step)
            return distributions.IntDistribution(int(self.low), int(self.high), self.log, step)
        return distributions.FloatDistribution(self.low, self.high, self.log, self.step)


def read_ranges(path: str | Path) -> dict[str, SearchRange]:
    """Reads a file such as ::

    learning_rate: {low: 1e-4, high: 1e-2, log: true}
    policy_kwargs.cell: [ltc, cfc]
    n_epochs: {low: 2, high: 10}
    """
    path = Path(path)
    found = read_yaml(path.read_text(encoding="utf-8"), str(path))
    if not isinstance(found, Mapping) or not found:
        raise ValueError(f"{path} must have a range for each key, such as learning_rate: {{low: 1e-4, high: 1e-2}}")
    return {str(key): _range(f"{path}: {key}", value) for key, value in found.items()}


def _range(name: str, value: Any) -> SearchRange:
    """Reads one range; `name` begins the sentences about it."""
    if isinstance(value, list):
        choices = tuple(str(one).lower() if isinstance(one, bool) else str(one) for one in value)
        if len(set(choices)) < max(len(choices), 2):
            raise ValueError(f"{name} must list at least two values, each once")
        return SearchRange(choices)
    if not isinstance(value, Mapping) or not {"low", "high"} <= value.keys() or not value.keys() <= KEYS:
        raise ValueError(f"{name} must be a list of values, or {{low: X, high: X}}, perhaps with log: true or step: X")
    low, high, step = (_number(value.get(key)) for key in ("low", "high", "step"))
    log = value.get("log", False)
    if low is None or high is None or not isinstance(log, bool) or ("step" in value and step is None):
        raise ValueError(f"{name}: low, high and step are numbers, and log is true or false")
    if not low < high or (log and low <= 0) or (step is not None and (step <= 0 or log)):
        raise ValueError(f"{name}: low must be below high, above 0 with log; step above 0, and not with log")
    return SearchRange(None, low, high, log, step)


def _number(value: Any) -> float | None:
    """Returns a number of YAML, or of the words that YAML 1.1 does not take for one, such as 1e-4; otherwise None."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
