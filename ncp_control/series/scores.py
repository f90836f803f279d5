"""How good a model of series is, compared with answers that need no look at the series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.series.data import NO_CLASS, SeriesData
from ncp_control.series.model import SeriesModel
from ncp_control.series.rows import SeriesRows
from ncp_control.series.telling import tell

Floats = NDArray[np.float64]
USUAL = "usual_class"  # in the note of a model: the most frequent class of its training part


@dataclass(frozen=True)
class ClassScores:
    """How well classes were told.

    :param confusion: how often class k was told as class j, (C, C), at row k and column j
    :param usual: the most frequent class of the training part, which is the baseline
    """

    confusion: NDArray[np.int64]
    usual: int

    @property
    def accuracy(self) -> float:
        """The share of targets that were told right."""
        return float(np.trace(self.confusion) / self.confusion.sum())

    @property
    def balanced_accuracy(self) -> float:
        """The mean over classes of the share of their targets that were told right."""
        there = self.confusion.sum(axis=1)  # a class without targets has no share
        return float(np.mean(np.diag(self.confusion)[there > 0] / there[there > 0]))

    @property
    def macro_f1(self) -> float:
        """The mean over classes of F1 = 2 right / (there + told); classes neither there nor told are left out."""
        both = self.confusion.sum(axis=1) + self.confusion.sum(axis=0)
        return float(np.mean(2 * np.diag(self.confusion)[both > 0] / both[both > 0]))

    @property
    def baseline(self) -> float:
        """The accuracy of always predicting the most frequent class of the training part."""
        return float(self.confusion[self.usual].sum() / self.confusion.sum())

    def as_json(self) -> dict[str, Any]:
        """Returns all scores as JSON values."""
        return {
            "accuracy": self.accuracy, "balanced_accuracy": self.balanced_accuracy, "macro_f1": self.macro_f1,
            "baseline_accuracy": self.baseline, "targets": int(self.confusion.sum()),
            "confusion": self.confusion.tolist(),
        }  # fmt: skip


@dataclass(frozen=True)
class NumberScores:
    """How well numbers were told, a value for each of O columns.

    :param errors: the mean squared error of the model, (O,)
    :param mean_errors: that of always predicting the mean of the training part, (O,)
    :param last_errors: that of telling the last known value, (O,); None where the numbers are not of the next row
    :param targets: how many known numbers were told
    """

    errors: Floats
    mean_errors: Floats
    last_errors: Floats | None
    targets: int

    @property
    def mse(self) -> float:
        """The mean squared error, over all columns."""
        return float(self.errors.mean())

    @property
    def normalised(self) -> float:
        """The error over that of predicting the mean, averaged over columns: 1 is as good as the mean, 0 is exact."""
        return over(self.errors, self.mean_errors)

    @property
    def normalised_last(self) -> float | None:
        """The same for telling the last known value."""
        return None if self.last_errors is None else over(self.last_errors, self.mean_errors)

    def as_json(self) -> dict[str, Any]:
        """Returns all scores as JSON values."""
        return {
            "mse": self.mse, "normalised_mse": self.normalised, "baseline_mean_mse": float(self.mean_errors.mean()),
            "baseline_last_normalised_mse": self.normalised_last, "targets": self.targets,
            "errors": self.errors.tolist(),
        }  # fmt: skip


def over(errors: Floats, usual: Floats) -> float:
    """Returns the mean of errors / usual over the columns whose usual error is not 0."""
    there = usual > 0
    return float(np.mean(errors[there] / usual[there])) if there.any() else 0.0


def score(model: SeriesModel, data: SeriesData) -> ClassScores | NumberScores:
    """Evaluates a model on series, each read from its first row to its last; unknown targets do not count.

    The baselines are those of the training part: its most frequent class is in `model.note["usual_class"]`, and its
    mean is the model's `target_mean`.

    :param data: the part for testing
    """
    model.check(data)
    results = tell(model, SeriesRows(data, device=model.mean.device))
    outputs, targets = results.outputs.double().cpu().numpy(), results.targets.cpu().numpy()
    if model.classes:
        known, size = targets != NO_CLASS, len(model.classes)
        if not known.any():
            raise ValueError(f"no class of {', '.join(data.targets)} is known in these series: nothing can be scored")
        # each pair of a true and a told class as one number
        confusion = np.bincount(targets[known] * size + outputs[known].argmax(1), minlength=size * size)
        usual = model.note.get(USUAL, 0)  # a note may hold anything
        return ClassScores(confusion.reshape(size, size), usual if isinstance(usual, int) and 0 <= usual < size else 0)
    truth = targets_of(data)
    if np.isnan(truth).all(axis=0).any():
        raise ValueError(f"no number of {', '.join(data.targets)} is known in these series: nothing can be scored")
    mean = model.target_mean.double().cpu().numpy()
    last = None
    if data.meta.get("next"):
        last = np.nanmean((last_known(data, mean) - truth) ** 2, axis=0)
    return NumberScores(
        np.nanmean((outputs - truth) ** 2, axis=0), np.nanmean((mean - truth) ** 2, axis=0), last,
        int((~np.isnan(truth)).sum()),
    )  # fmt: skip


def targets_of(data: SeriesData) -> Floats:
    """Returns the targets of the series of which at least one is known, (N, O)."""
    return np.concatenate([series.targets for series in data.series if not np.isnan(series.targets).all()]).astype(
        np.float64
    )


def last_known(data: SeriesData, mean: Floats) -> Floats:
    """Returns the last known value of each column before each target, (N, O), and the mean where there is none."""
    columns = [data.inputs.index(name) for name in data.targets]
    baseline = []
    for series in data.series:
        if np.isnan(series.targets).all():
            continue
        values = series.inputs[:, columns]
        steps = np.where(np.isnan(values), -1, np.arange(len(values))[:, None])
        # the newest row with a value so far, -1 before the first one
        last = np.maximum.accumulate(steps, axis=0)
        taken = np.take_along_axis(values, np.maximum(last, 0), axis=0)
        baseline.append(np.where(last < 0, mean, taken))
    return np.concatenate(baseline)


def usual_class(train: SeriesData) -> int:
    """Returns the number of the most frequent class."""
    targets = np.concatenate([series.targets for series in train.series])
    return int(np.bincount(targets[targets != NO_CLASS]).argmax())


def words_of(scores: ClassScores | NumberScores) -> str:
    """Returns scores as two lines of text."""
    if isinstance(scores, ClassScores):
        return (
            f"accuracy {scores.accuracy:.3f}, mean recall of the classes {scores.balanced_accuracy:.3f}, macro F1 "
            f"{scores.macro_f1:.3f}, on {scores.confusion.sum():,} known labels of the test part\n"
            f"always predicting the most frequent class of the training part: accuracy {scores.baseline:.3f}"
        )
    last = "" if scores.normalised_last is None else f"; predicting the last known value: {scores.normalised_last:.4g}"
    return (
        f"mean squared error {scores.mse:.4g}, normalised {scores.normalised:.4g}, on {scores.targets:,} known numbers "
        f"of the test part\nalways predicting the mean of the training part: normalised 1{last}"
    )
