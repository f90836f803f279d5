"""How a certificate writes its numbers: no bound becomes smaller by rounding, and what is unknown is "not proved"."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal

from ncp_control.audit.certificate import Certificate, Range
from ncp_control.base.bounds import NOT_PROVED as NOT_PROVED
from ncp_control.base.bounds import at_least as at_least
from ncp_control.base.bounds import at_most as at_most
from ncp_control.base.bounds import nearest as nearest
from ncp_control.base.bounds import written
from ncp_control.base.text import counted

PROVED = "proved"
WHOLE = "whole range"
NEARLY = 0.999  # a larger share of a range says no more than the whole range


def span(one: Range) -> str:
    """Writes a range, rounded outward, such as `-0.5 to 1`, or `at least 2` where one end is not known."""
    if math.isinf(one.low) or math.isinf(one.high):
        if math.isfinite(one.low):
            return f"at least {at_least(one.low)}"
        return f"at most {at_most(one.high)}" if math.isfinite(one.high) else NOT_PROVED
    return f"{at_least(one.low)} to {at_most(one.high)}"


def found(one: Range) -> str:
    """Writes the range that an attack found."""
    if one.found_low is None or one.found_high is None:
        return NOT_PROVED
    return f"{nearest(one.found_low)} to {nearest(one.found_high)}"


def hull(ranges: Iterable[Range]) -> Range:
    """Returns the smallest range that contains all of them."""
    listed = list(ranges)
    return Range(min(one.low for one in listed), max(one.high for one in listed))


def width(one: Range) -> float:
    """Returns how far the ends of a range are apart."""
    return one.high - one.low


def share(value: float | None) -> str:
    """Writes an upper bound of a share as a percentage, rounded up."""
    if value is None or not math.isfinite(value):
        return NOT_PROVED
    # In decimal: 0.07 * 100 is 7.000000000000001 in binary, which would be rounded up to 7.01.
    return f"{written(float(Decimal(repr(float(value))) * 100), ROUND_CEILING, 3)} %"


def share_found(value: float) -> str:
    """Writes a share that an attack found, which is no bound, as a percentage."""
    return f"{written(100 * value, ROUND_HALF_EVEN, 3)} %"


def moved(value: float | None, most: float) -> str:
    """Writes how far an action can be moved; a bound as wide as the action's range shows nothing."""
    if value is None or not math.isfinite(value):
        return NOT_PROVED
    return WHOLE if most > 0 and is_vacuous(value / most) else at_most(value)


def is_vacuous(share: float) -> bool:
    """Whether a share says nothing, because nothing moves an action further than through its range."""
    return share >= NEARLY


def listed(names: Sequence[str], most: int = 6) -> str:
    """Writes names with commas between them, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def error_of(certificate: Certificate) -> str:
    """Writes how large the certified errors of observations are."""
    size = nearest(certificate.error)
    if all(one == 1 for one in certificate.error_units):
        return f"{size} in every sensor's own unit"
    return f"{size} of every sensor's standard deviation in training"


def counts_of(certificate: Certificate) -> str:
    """Writes how many observations, actions, neurons and synapses the agent has."""
    singular = {"sensory": "sensory synapse", "gap_junctions": "gap junction"}
    counts = [(count, singular.get(what, what.removesuffix("s"))) for what, count in certificate.counts.items()]
    return ", ".join(counted(count, name) for count, name in counts if count)
