"""How bounds are written: none becomes smaller by rounding, and what is unknown is "not proved"."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

NOT_PROVED = "not proved"
DIGITS = 4
# Numbers beyond these are written with a power of ten.
SMALL, LARGE = 1e-4, 1e6


def at_least(value: float | None) -> str:
    """Writes a lower bound, rounded down."""
    return written(value, ROUND_FLOOR)


def at_most(value: float | None) -> str:
    """Writes an upper bound, rounded up."""
    return written(value, ROUND_CEILING)


def nearest(value: float | None) -> str:
    """Writes a number that is no bound."""
    return written(value, ROUND_HALF_EVEN)


def written(value: float | None, rounding: str, digits: int = DIGITS) -> str:
    """Writes a number with a few significant digits, or that it is not proved."""
    if value is None or not math.isfinite(value):
        return NOT_PROVED
    if value == 0:
        return "0"
    exact = Decimal(repr(float(value)))  # the digits that JSON shows, so that both forms agree
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=rounding)
    if SMALL <= abs(rounded) < LARGE:
        text = f"{rounded:,.{max(digits - 1 - rounded.adjusted(), 0)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, power = f"{rounded:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(power):+}"
