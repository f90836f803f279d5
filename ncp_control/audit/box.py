"""The observations that a certificate holds for, and what the circuit then reads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from ncp_control.base.intervals import Array, Interval, between, divide, outward, point, subtract
from ncp_control.neurons.ranges import Elapsed, numbers
from ncp_control.rl.controller import Controller, Normalize

LARGEST = 1e9  # certified magnitude of an observation that neither the space nor a normalisation limits
WIDENED = 0.1  # a recording's range is widened at both ends by this share of its width

Box = None | float | tuple[ArrayLike, ArrayLike] | ArrayLike


def observation_box(controller: Controller, space: Any, box: Box) -> tuple[Interval, str]:
    """Returns the box of the observations (n,), and in words where it comes from.

    :param controller: normalises the observations
    :param space: the agent's observation space, a vector
    :param box: None for the whole space; a number k for k standard deviations around the training's mean; a pair
        (low, high); or recorded observations (T, n), whose range is widened by a tenth at both ends
    """
    whole, limits = between(space.low, space.high, space.shape), ""
    if normalizer_of(controller) is None and (whole.size > LARGEST).any():  # float32 overflows far beyond
        whole = whole.within(between(-LARGEST, LARGEST, space.shape))
        limits = f", where it is wider at most {LARGEST:g}"
    n = len(controller.sensors)
    if box is None:
        normalizer = normalizer_of(controller)
        clipped = limits if normalizer is None else f", clipped at {normalizer.clip:g} standard deviations in training"
        return whole, f"the observation space{clipped}"
    if isinstance(box, tuple):
        low, high = (np.asarray(end, dtype=np.float64) for end in box)
        if not (low.shape in ((), (n,)) and high.shape in ((), (n,)) and (low <= high).all()):
            raise ValueError(f"a box needs a low and a high end for each of the {n} observations, low <= high")
        return between(low, high, n), "a given box"
    given = np.asarray(box, dtype=np.float64)
    if given.ndim == 0:
        if not given > 0:
            raise ValueError(f"a box of deviations must be wider than zero, got {float(given)}")
        mean, unit = center_of(controller), units_of(controller)
        found = Interval(mean - given * unit, mean + given * unit)
        found = found.within(whole)
        if (found.low > found.high).any():
            raise ValueError(f"within {float(given):g} deviations there is no observation that the space allows")
        if normalizer_of(controller) is None:
            return found, f"at most {float(given):g} in every sensor's own unit"
        return found, f"{float(given):g} standard deviations around the mean in training"
    check_recording(given, n)
    low, high = given.min(axis=0), given.max(axis=0)
    extra = WIDENED * (high - low)
    return Interval(low - extra, high + extra), f"the range of {len(given):,} recorded observations, widened by a tenth"


def check_recording(recording: Array, sensors: int) -> None:
    """Refuses recorded observations that an agent cannot read.

    :param recording: the observations
    :param sensors: how many numbers the agent reads
    """
    if recording.ndim != 2 or recording.shape[1] != sensors or not len(recording):
        raise ValueError(
            f"the recording has observations of shape {recording.shape}, and the agent reads (T, {sensors})"
        )
    if not np.isfinite(recording).all():
        step = int(np.argwhere(~np.isfinite(recording))[0, 0])
        raise ValueError(f"the recording holds {recording[step]} at step {step}, which is not finite: leave it out")


def features_in(controller: Controller, observations: Interval, elapsed: Elapsed) -> Interval:
    """Returns bounds of what the circuit reads, (F,)."""
    if not isinstance(controller.extractor, nn.Identity):
        raise ValueError(
            f"an audit needs an agent that reads its observations as they are, and this one has the features extractor "
            f"{type(controller.extractor).__name__}"
        )
    found = observations
    normalizer = normalizer_of(controller)
    if normalizer is not None:
        shifted = subtract(found, point(numbers(normalizer.mean)))
        scaled = divide(shifted, point(numbers(normalizer.scale)))
        found = Interval(*(np.clip(end, -normalizer.clip, normalizer.clip) for end in scaled))
    found = outward(*found)
    if not controller.reads_elapsed:
        return found
    return Interval(np.append(found.low, elapsed.low), np.append(found.high, elapsed.high))


def feature_errors(controller: Controller, errors: Array) -> Array:
    """Returns how far errors of the observations (..., n) move what the circuit reads, (..., F)."""
    normalizer = normalizer_of(controller)
    found = errors if normalizer is None else errors / numbers(normalizer.scale)
    if not controller.reads_elapsed:
        return found
    return np.concatenate([found, np.zeros((*found.shape[:-1], 1))], axis=-1)


def finite_box(controller: Controller, observations: Interval) -> Interval:
    """Returns the part of a box from which an attack draws: an infinite end becomes the clip's, or 100."""
    mean, unit = center_of(controller), units_of(controller)
    normalizer = normalizer_of(controller)
    reach = unit * (100.0 if normalizer is None else normalizer.clip)
    return Interval(
        np.where(np.isfinite(observations.low), observations.low, np.minimum(mean - reach, observations.high)),
        np.where(np.isfinite(observations.high), observations.high, np.maximum(mean + reach, observations.low)),
    )


def normalizer_of(controller: Controller) -> Normalize | None:
    """Returns the normalisation, or None."""
    return controller.normalize if isinstance(controller.normalize, Normalize) else None


def units_of(controller: Controller) -> Array:
    """Returns the standard deviation of each observation in training, (n,), or ones."""
    normalizer = normalizer_of(controller)
    return np.ones(len(controller.sensors)) if normalizer is None else numbers(normalizer.scale)


def center_of(controller: Controller) -> Array:
    """Returns the mean of each observation in training, (n,), or zeros."""
    normalizer = normalizer_of(controller)
    return np.zeros(len(controller.sensors)) if normalizer is None else numbers(normalizer.mean)
