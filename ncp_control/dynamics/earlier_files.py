"""What records of fits and notes of models leave open, or what version 0.2.0 wrote otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from ncp_control.base.tensors import rough_moments
from ncp_control.data import Rollouts, Split
from ncp_control.dynamics.settings import FitSettings

SERIES = "series"  # whether the rollouts were split in time, in a record (only if they were) and in a model's note
HASHED = "first_weights_sha256"

Described = dict[str, Any]


def renamed(question: str) -> str:
    """Returns today's name of the actions after which a model predicts: 0.2.0 called off-policy ones "foreign"."""
    return question.replace("foreign", "off-policy")


def split_of_model(rollouts: Rollouts, note: Described) -> Split:
    """Splits rollouts as they were split for a fit, so that the test part holds nothing that the model was fitted to.

    :param note: the note in the model's file; by today's rule if it tells nothing of a fit
    """
    series = note.get(SERIES, False if "epoch" in note or "members" in note else None)
    return rollouts.split(series=series if isinstance(series, bool) and len(rollouts) > 1 else None)


def noted_split(parts: Split) -> Described:
    """Returns the entry of a model's note that says how rollouts were split; none for episodes. If they were split in
    another way than by `Rollouts.split`, the entry says that this is not known.
    """
    series = parts.train.about.get(SERIES)
    return {} if series is False else {SERIES: series}


def first_weights(weights: Mapping[str, Tensor], record: Described) -> Described:
    """Returns the entry of a record that tells the weights with which a fit begins from any others.

    In version 0.2.0 it was a hash of every bit. Other kinds of processors draw other last digits for the same seed,
    so what such a record says is kept as it is: the fit goes on from its own weights.

    :param weights: the tensors of the model
    :param record: of the fit that goes on; empty for a new one
    """
    model = record.get("model")
    if isinstance(model, dict) and HASHED in model:
        return {HASHED: model[HASHED]}
    return {"first_weights": rough_moments(weights)}


def settings_of_run(settings: FitSettings, record: Described) -> FitSettings:
    """Returns settings with the horizon of a fit that goes on, if they leave it open: version 0.2.0 used 1.

    :param record: of the fit that goes on; empty for a new one
    """
    if settings.horizon:
        return settings
    begun = record.get("settings")
    before = begun.get("horizon") if isinstance(begun, dict) else None
    return replace(settings, horizon=before) if isinstance(before, int) and before > 0 else settings
