"""Models of series of any kind: they tell a class or numbers, for every row or for the whole series.

    train, valid, test = parts = split_series(read_series("walks.csv:label=activity,group=person,time=t"))
    model = SeriesModel.of(train, "cfc", 32)
    fit_series(model, parts, FitSettings(epochs=50), out="runs/walks")
    print(score(model, test).as_json())

Names are imported when they are first used, so that the command line can read a table without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.base.imports import names_of

if TYPE_CHECKING:
    from ncp_control.series.data import NO_CLASS, Series, SeriesData
    from ncp_control.series.fitting import fit_series
    from ncp_control.series.model import SeriesModel
    from ncp_control.series.model_file import load_series_model, save_series_model
    from ncp_control.series.scores import ClassScores, NumberScores, score
    from ncp_control.series.splitting import SeriesSplit, split_series
    from ncp_control.series.tables import read_series

_HOME = {
    "ncp_control.series.data": ("NO_CLASS", "Series", "SeriesData"),
    "ncp_control.series.fitting": ("fit_series",),
    "ncp_control.series.model": ("SeriesModel",),
    "ncp_control.series.model_file": ("load_series_model", "save_series_model"),
    "ncp_control.series.scores": ("ClassScores", "NumberScores", "score"),
    "ncp_control.series.splitting": ("SeriesSplit", "split_series"),
    "ncp_control.series.tables": ("read_series",),
}

__all__ = [
    "NO_CLASS",
    "ClassScores",
    "NumberScores",
    "Series",
    "SeriesData",
    "SeriesModel",
    "SeriesSplit",
    "fit_series",
    "load_series_model",
    "read_series",
    "save_series_model",
    "score",
    "split_series",
]

__getattr__, __dir__ = names_of(__name__, _HOME)
