"""The epochs of a fit to series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ncp_control.dynamics.fit_loop import EpochLoop
from ncp_control.dynamics.settings import FitSettings
from ncp_control.series.model import SeriesModel
from ncp_control.series.model_file import save_series_model
from ncp_control.series.rows import SeriesBatch, SeriesRows
from ncp_control.series.telling import error_of, tell


class SeriesLoop(EpochLoop[SeriesModel]):
    """The epochs of the fit of a model of series.

    :param model: the model that is fitted
    :param train: pieces of the training part
    :param valid: whole series of the validation part
    :param settings: how the model is fitted; this and the others are those of `EpochLoop`
    """

    def __init__(
        self, model: SeriesModel, train: SeriesRows, valid: SeriesRows, settings: FitSettings, *others: Any
    ) -> None:
        self.train, self.valid = train, valid
        super().__init__(model, len(train), train.device, settings, *others)

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
