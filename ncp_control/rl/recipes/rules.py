"""What a value in a recipe may be: each rule reads a value, or refuses it in a sentence that names its key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

LINEAR = "lin_"
MOST = 10**15  # the largest whole number of any setting; counters and products of counters stay far below 2**63


class Rule(NamedTuple):
    """What a value may be.

    :param words: the same in words, for the sentence that refuses a value
    :param read: returns the value as the algorithm takes it, or raises ValueError or TypeError
    """

    words: str
    read: Callable[[Any], Any]


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
        found = float(value.removeprefix(LINEAR))
    except ValueError:
        return value
    if not math.isfinite(found):
        return value
    if value.startswith(LINEAR):
        return Linear(found)
    return int(found) if found.is_integer() and abs(found) <= 2**53 else found


class TooLarge(ValueError):
    """A number is larger than its rule allows; the message is the limit."""


def read_settings(given: Mapping[str, Any], rules: Mapping[str, Rule], where: str) -> dict[str, Any]:
    """Reads the values that have a rule, and returns the others as they are, with texts of numbers as numbers.

    :param given: the values by their keys
    :param rules: the rules by their keys
    :param where: what the keys belong to, for the sentence that refuses a value
    """
    return {key: read_value(key, value, rules.get(key), where) for key, value in given.items()}


def read_value(key: str, value: Any, rule: Rule | None, where: str) -> Any:
    """Reads one value by its rule; raises ValueError, in a sentence, for one that does not fit."""
    number = read_number(value)
    if rule is None:
        return number
    try:
        return rule.read(number)
    except TooLarge as error:
        raise ValueError(f"{where} {key} must be {error}, not {shortened(value)}") from None
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{where} {key} must be {rule.words}, not {shortened(value)}") from None


def check_known(given: Mapping[str, Any], known: set[str], where: str) -> None:
    """Refuses a key that is not known, and names the one that was probably meant."""
    for key in given:
        if key not in known:
            near = get_close_matches(key, sorted(known), 1)
            advice = f"did you mean {near[0]}?" if near else f"choose from {', '.join(sorted(known))}"
            raise ValueError(f"{where} no {key!r}: {advice}")


def shortened(value: Any) -> str:
    """Writes a value for a sentence, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def whole(least: int, most: int = MOST) -> Rule:
    """Makes the rule for a whole number, which may be written as 1e3 or 1000.0."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise TypeError
        if value < least:
            raise ValueError
        if value > most:
            raise TooLarge(f"at most {most:,}")
        return int(value)

    return Rule(f"a whole number of at least {least}", read)


def number(least: float = -math.inf, most: float = math.inf, above: float = -math.inf) -> Rule:
    """Makes the rule for a finite number.

    :param least: the smallest value
    :param most: the largest value
    :param above: the value itself must be larger than this
    """
    limits = f" of at least {least:g}" * math.isfinite(least) + f" above {above:g}" * math.isfinite(above)
    words = f"a number from {least:g} to {most:g}" if math.isfinite(most) else f"a number{limits}"

    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        if not (math.isfinite(float(value)) and least <= value <= most and value > above):
            raise ValueError
        return value

    return Rule(words, read)


def rate(above: float = -math.inf) -> Rule:
    """Makes the rule for a rate: a number that is not negative, or one that falls linearly to zero."""
    plain = number(0, above=above)

    def read(value: Any) -> Any:
        if isinstance(value, Linear):
            plain.read(value.first)
            return value
        return plain.read(value)

    return Rule(f"{plain.words}, or one that falls to zero, such as lin_3e-4", read)


def choice(*choices: Any) -> Rule:
    """Makes the rule for one of a few values."""

    def read(value: Any) -> Any:
        if not any(type(one) is type(value) and one == value for one in choices):
            raise ValueError
        return value

    return Rule(" or ".join(str(one).lower() if isinstance(one, bool) else str(one) for one in choices), read)


def either(*rules: Rule) -> Rule:
    """Makes the rule for a value that fits at least one of several rules."""

    def read(value: Any) -> Any:
        for rule in rules:
            try:
                return rule.read(value)
            except TooLarge:
                raise
            except (ValueError, TypeError, OverflowError):
                continue
        raise ValueError

    return Rule(", or ".join(rule.words for rule in rules), read)


def any_of(kind: type, words: str) -> Rule:
    """Makes the rule for any value of a type."""

    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return Rule(words, read)


SWITCH = choice(True, False)
NOTHING = Rule("null", choice(None).read)
DICTIONARY = any_of(dict, "a dictionary")
TEXT = any_of(str, "text")
