"""Pictures of a fit to series: how the error fell, and what the model tells of the test part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.pages import BLUE, GREY, ORANGE, new_figure, plain
from ncp_control.base.text import shown
from ncp_control.series.data import Series, SeriesData
from ncp_control.series.model import SeriesModel
from ncp_control.series.scores import ClassScores
from ncp_control.series.splitting import is_known

COLUMNS, ROWS = 3, 300  # of one series that are drawn
WRITTEN = 12  # with more classes the counts are not written into the squares

Curve = Sequence[tuple[float, float]]
Floats = NDArray[np.float64]


def draw_classes(scores: ClassScores, classes: Sequence[str], label: str, curve: Curve = ()) -> Any:
    """Returns a matplotlib Figure: the share of each class that was told as each class, and the curve.

    :param scores: the scores of the test part
    :param classes: the names of the classes
    :param label: the name of the column of classes
    :param curve: training and validation error of every epoch; without them no curve is drawn
    """
    size = max(3.6, 1.6 + 0.45 * len(classes))
    figure = new_figure(size + 0.6 + (4.6 if curve else 0), size)
    axes: Any = figure.subplots(1, 2 if curve else 1, squeeze=False)[0]
    there = np.maximum(scores.confusion.sum(axis=1, keepdims=True), 1)
    share = scores.confusion / there
    axes[0].imshow(share, cmap="Blues", vmin=0, vmax=1)
    if len(classes) <= WRITTEN:
        for row, column in np.ndindex(*share.shape):
            # to be read on dark squares as on light ones
            colour = "white" if share[row, column] > 0.6 else "black"
            axes[0].text(column, row, f"{scores.confusion[row, column]:,}", ha="center", va="center", color=colour)
    names = [shown(name)[:18] for name in classes]  # longer labels would leave no room for the squares
    axes[0].set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor", parse_math=False)
    axes[0].set_yticks(range(len(names)), names, parse_math=False)
    axes[0].set(xlabel="predicted", ylabel="true")
    axes[0].set_title(f"{shown(label)[:18]}, accuracy {scores.accuracy:.3f}", parse_math=False)
    if curve:
        draw_curve(axes[1], curve, "cross entropy")
    return figure


def draw_numbers(model: SeriesModel, data: SeriesData, curve: Curve = ()) -> Any:
    """Returns a matplotlib Figure: what is told of one series over what is true, against time, and the curve.

    Of whole series with one value each, what is told is drawn against what is true.

    :param model: the model
    :param data: the test part; its series with the most known targets is drawn
    :param curve: training and validation error of every epoch; without them no curve is drawn
    """
    columns = model.targets[:COLUMNS]
    rows = len(columns) + bool(curve)
    figure = new_figure(7.5, 0.8 + 1.9 * rows)
    axes: Any = figure.subplots(rows, 1, squeeze=False)[:, 0]
    if model.whole:
        predicted = np.stack([model.predict(series) for series in data.series])
        true = np.concatenate([series.targets for series in data.series])
        for k, name in enumerate(columns):
            axes[k].plot(true[:, k], predicted[:, k], "o", color=BLUE, markersize=4)
            axes[k].axline((float(np.nanmean(true[:, k])),) * 2, slope=1, color=GREY, linewidth=1)
            axes[k].set(xlabel="true", ylabel="predicted")
            axes[k].set_title(shown(name), parse_math=False)
            plain(axes[k])
    else:
        series = max(data.series, key=lambda series: int(is_known(series.targets).sum()))
        draw_series(axes[: len(columns)], series, model.predict(series), columns)
    if curve:
        draw_curve(axes[-1], curve, "squared error over variance")
    return figure


def draw_series(axes: Any, series: Series, predicted: Floats, names: Sequence[str]) -> None:
    """Draws the first rows of a series: what is true as dots, where it is known, and what is told as a line.

    :param predicted: what is told, (T, O)
    """
    times = np.arange(len(predicted), dtype=np.float64) if series.elapsed is None else np.cumsum(series.elapsed)
    times = (times - times[0])[:ROWS]
    for k, name in enumerate(names):
        axes[k].plot(times, series.targets[:ROWS, k], "o", color=GREY, markersize=3, label="true")
        axes[k].plot(times, predicted[:ROWS, k], color=ORANGE, linewidth=1.4, label="predicted")
        axes[k].set_ylabel(shown(name), parse_math=False)
        plain(axes[k])
    axes[0].set_title(f"test part: {shown(series.name)}", loc="left", parse_math=False)
    axes[0].legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    axes[-1].set_xlabel("row" if series.elapsed is None else "time")


def draw_curve(axes: Any, curve: Curve, what: str) -> None:
    """Draws the training and the validation error of every epoch."""
    epochs = range(1, len(curve) + 1)
    axes.plot(epochs, [loss for loss, _ in curve], color=GREY, label="training")
    axes.plot(epochs, [valid for _, valid in curve], color=BLUE, label="validation")
    axes.set(xlabel="epoch", ylabel=what)
    if all(value > 0 for pair in curve for value in pair):
        axes.set_yscale("log")
    axes.legend(frameon=False)
    plain(axes)
