"""Reads what earlier versions wrote otherwise, in files and records of fits: in version 0.1.0 an MLP on lags was not a
cell, and every split was one of episodes; until 0.2.0 first weights were told by a hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ncp_control.base.run_folder import RECORD, read_record
from ncp_control.base.tensors import rough_moments
from ncp_control.data import Rollouts, Split
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.settings import FitSettings

CELL = "mlp"  # what 0.1.0 wrote; today a file says "LaggedMLP"
SERIES = "series"  # whether the rollouts were split in time, in a record (only if they were) and in a model's note
HASHED = "first_weights_sha256"
LAYER, LAYER_TODAY = "rnn.hidden.", "rnn.cell.hidden."

Described = dict[str, Any]


def todays_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns a model's tensors by today's names."""
    return {renamed(name, LAYER, LAYER_TODAY): value for name, value in tensors.items()}


def todays_words(described: Described, tensors: Mapping[str, Tensor]) -> Described:
    """Returns the description of a model as it would be written today.

    Version 0.1.0 wrote a number of neurons in place of the wiring of an MLP.

    :param described: what a file says
    :param tensors: the model's tensors, by today's names
    """
    cell, units = described["cell"], described["wiring"]
    if not isinstance(units, int):
        return described
    if cell["cell"] != CELL or len(tensors[f"{LAYER_TODAY}bias"]) != units:
        raise ValueError(f"only an {CELL} with that many neurons can have a number for its wiring, not {cell['cell']}")
    return {**described, "cell": {**cell, "cell": "LaggedMLP"}}


def described_in_0_1(model: DynamicsModel) -> tuple[Described, dict[str, Tensor]]:
    """Returns the description and the tensors of an MLP on lags as version 0.1.0 wrote them."""
    about = model.about()
    description = {**about, "cell": {**about["cell"], "cell": CELL}, "wiring": model.rnn.wiring.units}
    return description, {renamed(name, LAYER_TODAY, LAYER): value for name, value in model.state_dict().items()}


def split_of_run(rollouts: Rollouts, folder: Path, resume: bool) -> Split:
    """Splits rollouts as the unfinished fit or comparison in a folder did, or by today's rule if there is none.

    :param folder: the folder of the run
    :param resume: whether the run goes on
    """
    records = [path for path in (folder / RECORD, folder / "member-0" / RECORD) if path.exists()]
    if not resume or not records:
        return rollouts.split()
    data = read_record(records[0]).get("data")
    return rollouts.split(series=isinstance(data, dict) and data.get(SERIES) is True)


def split_of_model(rollouts: Rollouts, note: Described) -> Split:
    """Splits rollouts as they were split for a fit, so that the test part holds nothing that the model was fitted to.

    :param note: the note in the model's file; by today's rule if it tells nothing of a fit
    """
    series = note.get(SERIES, False if "epoch" in note or "members" in note else None)
    return rollouts.split(series=series if isinstance(series, bool) and len(rollouts) > 1 else None)


def noted_split(parts: Split) -> Described:
    """Returns the entry of a model's note that says how rollouts were split; none for episodes, as in version 0.1.0. If
    they were not split by `Rollouts.split`, the entry says that this is not known.
    """
    series = parts.train.about.get(SERIES)
    return {} if series is False else {SERIES: series}


def is_record_of_0_1(path: Path) -> bool:
    """Whether the record of a fit describes an MLP as version 0.1.0 did."""
    model = read_record(path).get("model") if path.exists() else None
    cell = model.get("cell") if isinstance(model, dict) else None
    return isinstance(cell, dict) and cell.get("cell") == CELL


def first_weights(weights: Mapping[str, Tensor], record: Path | None) -> Described:
    """Returns the entry of a record that tells the weights with which a fit begins from any others.

    Until version 0.2.0 it was a hash of every bit. Other kinds of processors draw other last digits for the same seed,
    so what such a record says is kept as it is: the fit goes on from its own weights.

    :param weights: the tensors of the model
    :param record: of the fit that goes on, if it has been begun
    """
    model = read_record(record).get("model") if record is not None and record.exists() else None
    if isinstance(model, dict) and HASHED in model:
        return {HASHED: model[HASHED]}
    return {"first_weights": rough_moments(weights)}


def renamed(name: str, before: str, after: str) -> str:
    """Returns a name with another beginning if it begins with `before`."""
    return f"{after}{name.removeprefix(before)}" if name.startswith(before) else name


def settings_of_run(settings: FitSettings, record: Path | None) -> FitSettings:
    """Returns settings with the horizon of a fit that goes on, if they leave it open: the usual one was once 1.

    :param record: of the fit that goes on; None, or a path where nothing is, if it is a new one
    """
    if settings.horizon or record is None or not record.exists():
        return settings
    begun = read_record(record).get("settings")
    before = begun.get("horizon") if isinstance(begun, dict) else None
    return replace(settings, horizon=before) if isinstance(before, int) and before > 0 else settings
