"""`fit_series`: fits a model to series, in a folder from which the fit can be resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ncp_control.base.machine import pick_device
from ncp_control.data.digits import check_columns
from ncp_control.dynamics.earlier_files import first_weights
from ncp_control.dynamics.fit_loop import EpochLoop, Fitted
from ncp_control.dynamics.settings import FitSettings
from ncp_control.runs.run import Run
from ncp_control.series.data import SeriesData
from ncp_control.series.model import SeriesModel
from ncp_control.series.model_file import save_series_model
from ncp_control.series.rows import SeriesBatch, SeriesRows
from ncp_control.series.scores import USUAL, usual_class
from ncp_control.series.splitting import SeriesSplit, split_series
from ncp_control.series.telling import error_of, tell

FOREIGN = ("horizon", "forced", "robust", "loss")  # settings of models that feed themselves


def fit_series(
    model: SeriesModel,
    data: SeriesData | SeriesSplit,
    settings: FitSettings | None = None,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    device: str | torch.device = "auto",
    command: str = "",
    note: dict[str, Any] | None = None,
    progress: bool = True,
    on_epoch: Callable[[int], None] | None = None,
) -> Fitted:
    """Fits a model to the training part, and gives it the weights that were best on the validation part.

    The loss is the mean over the known targets of a batch: the cross entropy of classes, or the squared error of
    numbers over their variance in the training part. A batch has pieces of at most `settings.length` rows, or whole
    series if a whole series has one target; the validation part is read whole. A fit that was stopped and resumed ends
    with the same weights as one that was not.

    The folder `out` receives `best.safetensors`, for `load_series_model`; `curve.csv`; `run.json`, the record; and
    `state.safetensors`, from which the fit can be resumed.

    :param model: a new model; see `SeriesModel.of`
    :param data: if the series are not split yet, they are split here
    :param settings: how the model is fitted; horizon, forced, robust and loss have no meaning for series
    :param seed: the order of the pieces follows from it
    :param out: a folder for this fit alone; None writes nothing
    :param resume: continue the fit in `out`, or start it if the folder holds none
    :param device: "auto" chooses a GPU if there is one
    :param command: kept in the record
    :param note: kept in the model's file
    :param progress: show a progress bar on stderr
    :param on_epoch: called after each epoch with the number of epochs done
    """
    settings = (settings or FitSettings()).of_cell(model.cell_name)
    check_settings(settings)
    parts = data if isinstance(data, SeriesSplit) else split_series(data)
    for part in parts:
        model.check(part)
    check_columns(np.concatenate([one.inputs for one in parts.train.series]), model.inputs)
    if not model.classes:
        told = np.concatenate([one.targets for one in parts.train.series])
        check_columns(told.reshape(len(told), -1), model.targets)
    run = Run(out, seed=seed, resume=resume, command=command, progress=progress)
    usual = {USUAL: usual_class(parts.train)} if model.classes else {}
    return SeriesLoop(model, parts, pick_device(device), settings, run, {**usual, **(note or {})}, on_epoch).fit()


class SeriesLoop(EpochLoop[SeriesModel]):
    """The epochs of the fit of a model of series.

    :param model: the model that is fitted
    :param parts: the series
    :param device: where the pieces are, and the fit is computed; this and the others are those of `EpochLoop`
    """

    unit = "pieces"

    def __init__(
        self, model: SeriesModel, parts: SeriesSplit, device: torch.device, settings: FitSettings, *others: Any
    ) -> None:
        self.parts = parts
        self.train = SeriesRows(parts.train, settings.length, settings.stride, device)  # pieces
        self.valid = SeriesRows(parts.valid, device=device)  # whole series
        super().__init__(model, len(self.train), device, settings, *others)
        model.note = self.note

    def recorded(self) -> dict[str, Any]:
        """Returns what the record says of the model and of the data, which tells them from any others."""
        about = self.model.about()
        wiring = hashlib.sha256(str(about.pop("wiring")).encode()).hexdigest()
        weights = first_weights(self.model.state_dict(), self.run.before)
        return {
            "model": {**about, "wiring_sha256": wiring, **weights},
            "series": {name: recorded_part(part) for name, part in zip(SeriesSplit._fields, self.parts, strict=True)},
        }

    def batches(self, numbers: Iterable[Tensor]) -> Iterator[SeriesBatch]:
        """Yields a batch of pieces for each tensor of their numbers."""
        return self.train.batches(numbers)

    def draw(self, horizon: int, generator: torch.Generator) -> None:
        """Draws nothing."""

    def loss(self, batch: SeriesBatch, horizon: int, drawn: Tensor | None) -> Tensor:
        """Returns the mean error over known targets; series know no horizon."""
        told, _ = self.model(batch.inputs, batch.elapsed, count=batch.counts if self.model.whole else None)
        return error_of(self.model, told, batch.targets)

    def valid_error(self) -> float:
        """Returns the mean error over all known targets of the validation part."""
        return float(error_of(self.validated, *tell(self.validated, self.valid)))

    def save(self, model: SeriesModel, path: Path, note: dict[str, Any]) -> None:
        """Writes a model with a note."""
        save_series_model(model, path, note)


def check_settings(settings: FitSettings) -> None:
    """Refuses settings that have no meaning for series."""
    usual = FitSettings()
    found = [name for name in FOREIGN if getattr(settings, name) != getattr(usual, name)]
    if found:
        verb = "have" if len(found) > 1 else "has"
        raise ValueError(
            f"{' and '.join(found)} {verb} no meaning for series, where each row is predicted from what was measured: "
            "leave it out"
        )


def recorded_part(part: SeriesData) -> dict[str, Any]:
    """Returns what tells the series of one part from any others: their number, their rows and a checksum."""
    digest = hashlib.sha256()
    for one in part.series:
        for values in (one.inputs, one.targets, one.elapsed):
            digest.update(b"none" if values is None else np.ascontiguousarray(values).tobytes())
    rows = sum(len(one.inputs) for one in part.series)
    return {"series": len(part.series), "rows": rows, "sha256": digest.hexdigest()[:16]}
