"""Values of settings: numbers and falling rates as text, misspelt names, and what earlier versions did not write."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

LINEAR = "lin_"


@dataclass(frozen=True)
class Linear:
    """A rate that falls linearly to zero, as a function of the remaining share of the training.

    :param first: the rate at the beginning
    """

    first: float

    def __call__(self, left: float) -> float:
        # The last rollout may take more steps than were asked for.
        return max(left, 0.0) * self.first


def read_number(value: Any) -> Any:
    """Turns text such as 3e-4, which YAML does not read as a number, into a number, and lin_3e-4 into a falling rate.

    :param value: any value; the values in a dictionary or a list are turned one by one
    :return: the number, whole if it can be; the rate; or the value itself
    """
    if isinstance(value, dict):
        return {key: read_number(own) for key, own in value.items()}
    if isinstance(value, list):
        return [read_number(own) for own in value]
    if not isinstance(value, str) or not any(letter.isdigit() for letter in value):
        return value
    try:
        number = float(value.removeprefix(LINEAR))
    except ValueError:
        return value
    if not math.isfinite(number):
        return value
    if value.startswith(LINEAR):
        return Linear(number)
    return int(number) if number.is_integer() and abs(number) <= 2**53 else number


def strict_json(value: Any) -> Any:
    """Returns a value in which infinite numbers and NaN are None, as JSON has none of them."""
    if isinstance(value, dict):
        return {key: strict_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def check_known(given: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuses a key that is not known, and names the one that was probably meant."""
    for key in given:
        if key not in known:
            raise ValueError(f"{where} no {key!r}: {advice_for(key, known)}")


def advice_for(name: str, known: Collection[str]) -> str:
    """Returns the name that was probably meant, or all that there are, for a sentence that refuses another one."""
    near = get_close_matches(name, sorted(known), 1)
    return f"did you mean {near[0]}?" if near else f"choose from {', '.join(sorted(known))}"


def shortened(value: Any) -> str:
    """Writes a value for a sentence, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def without_added(values: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """Returns the entries of a record without those that stand for what earlier versions did, so that work which these
    began can be resumed.

    :param values: the entries
    :param added: entries that earlier versions did not write, with the values that stand for what they did
    """
    return {name: value for name, value in values.items() if name not in added or value != added[name]}


OPTIMIZERS = ("adam", "muon")


def check_optimizer_name(name: str) -> None:
    """Refuses a name that is none of an optimizer."""
    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer is {' or '.join(OPTIMIZERS)}, not {name!r}")
