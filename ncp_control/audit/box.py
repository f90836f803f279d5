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
WIDENED = 0.1  # a recording misses the ends of what its sensors can show: its range grows by this share at both ends

Box = None | float | tuple[ArrayLike, ArrayLike] | ArrayLike


def observation_box(controller: Controller, space: Any, box: Box) -> tuple[Interval, str]:
    """Returns the box of the observations (n,), and in words where it comes from.

    :param controller: normalises the observations
    :param space: the agent's observation space, a vector
    :param box: None for the whole space; a number k for k standard deviations around the training's mean; a pair
        (low, high); or recorded observations (T, n), whose range is widened by a tenth at both ends
    """
    whole, limits = between(space.low, space.high, space.shape), ""
    if normalizer_of(controller) is None and (whole.size > LARGEST).any():  # far beyond, sums overflow in float32
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
    values = np.asarray(box, dtype=np.float64)
    if values.ndim == 0:
        if not values > 0:
            raise ValueError(f"a box of deviations must be wider than zero, got {float(values)}")
        mean, unit = center_of(controller), units_of(controller)
        around = Interval(mean - values * unit, mean + values * unit)
        around = around.within(whole)
        if (around.low > around.high).any():
            raise ValueError(f"within {float(values):g} deviations there is no observation that the space allows")
        if normalizer_of(controller) is None:
            return around, f"at most {float(values):g} in every sensor's own unit"
        return around, f"{float(values):g} standard deviations around the mean in training"
    check_recording(values, n)
    low, high = values.min(axis=0), values.max(axis=0)
    extra = WIDENED * (high - low)
    around = Interval(low - extra, high + extra)
    return around, f"the range of {len(values):,} recorded observations, widened by a tenth"


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
    features = observations
    normalizer = normalizer_of(controller)
    if normalizer is not None:
        shifted = subtract(features, point(numbers(normalizer.mean)))
        scaled = divide(shifted, point(numbers(normalizer.scale)))
        features = Interval(*(np.clip(end, -normalizer.clip, normalizer.clip) for end in scaled))
    features = outward(*features)  # the agent reads float32
    if not controller.reads_elapsed:
        return features
    return Interval(np.append(features.low, elapsed.low), np.append(features.high, elapsed.high))


def feature_errors(controller: Controller, errors: Array) -> Array:
    """Returns how far errors of the observations (..., n) move what the circuit reads, (..., F)."""
    normalizer = normalizer_of(controller)
    # The normaliser clips, too, which brings two observations only closer together.
    moved = errors if normalizer is None else errors / numbers(normalizer.scale)
    if not controller.reads_elapsed:
        return moved
    return np.concatenate([moved, np.zeros((*moved.shape[:-1], 1))], axis=-1)  # the elapsed time has no error


def finite_box(controller: Controller, observations: Interval) -> Interval:
    """Returns the part of a box from which an attack draws: the clip, or 100 units, replaces an infinite end."""
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
