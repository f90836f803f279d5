"""How well an ensemble knows its own errors, and the calibration of its intervals."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncp_control.data import Rollouts
from ncp_control.dynamics.ensemble import SHARE, Calibration, Ensemble, steps_believed
from ncp_control.dynamics.open_loop import Trials
from ncp_control.dynamics.questions import Answers, ask
from ncp_control.dynamics.simulator import Array, Simulator

HORIZONS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200)
WARM_UP = 32
FEW = 20  # starts; the share that nine tenths of so many hold varies by 0.07
DIVERGED = 1e9  # stands for predictions that overflowed, so that one does not spoil a calibration
NORMAL = 0.6745  # the median size of values of a normal distribution, in standard deviations


@dataclass(frozen=True)
class Confidence:
    """What an ensemble expected of its errors from S starts, 1 .. H steps ahead, and what they were.

    Disagreements and errors are roots of mean squares over the features, over the observations' standard deviations.

    :param disagreement: the standard deviation over the members, (S, H)
    :param error: of the members' mean, (S, H)
    :param expected: the squared error that the ensemble expected, (S, H); None if it has no calibration
    :param within: the share of the features that were within their interval, (S, H); None if it has no calibration
    """

    disagreement: Array
    error: Array
    expected: Array | None = None
    within: Array | None = None

    def correlation(self, horizons: Iterable[int]) -> float:
        """Returns Spearman's rank correlation of disagreement and error, over the starts and some horizons."""
        columns = [k - 1 for k in horizons]
        return rank_correlation(self.disagreement[:, columns].ravel(), self.error[:, columns].ravel())

    def as_values(self, horizons: Iterable[int]) -> dict[str, Any]:
        """Returns the figures of `evaluate` as JSON values; None for what is not known.

        "believed" is the number of steps ahead at which the median start is believed, by what the ensemble expects, and
        "believable" the number by its true errors.
        """
        shown = list(horizons)
        expected, within = self.expected, self.within
        return {
            "correlation": self.correlation(shown),
            "within": None if within is None else float(within.mean()),
            "believed": None if expected is None else int(steps_believed(np.median(expected, axis=0))),
            "believable": int(steps_believed(np.median(self.error**2, axis=0))),
            "horizons": [
                {
                    "horizon": k,
                    "disagreement": float(np.median(self.disagreement[:, k - 1])),
                    "error": float(np.median(self.error[:, k - 1])),
                    "correlation": self.correlation([k]),
                    "within": None if within is None else float(within[:, k - 1].mean()),
                }
                for k in shown
            ],
        }


def confidences(model: Simulator, answers: Answers) -> dict[str, Confidence]:
    """Returns how well an ensemble knew its errors, for each question that was asked; nothing for a single model.

    :param answers: the model's own, of `ask`
    """
    if not isinstance(model, Ensemble) or len(model.models) < 2:
        return {}
    return {key: confidence(model, one, model.calibrations.get(key)) for key, one in answers.trials.items()}


def confidence(ensemble: Ensemble, trials: Trials, calibration: Calibration | None = None) -> Confidence:
    """Returns what an ensemble expected of its errors, and what they were.

    :param trials: what it reads and what followed
    :param calibration: the one of the ensemble's for this question
    """
    disagreement, error = spread_and_error(ensemble, trials)
    size, spread = (np.sqrt(np.mean(values**2, axis=-1)) for values in (error, disagreement))
    if calibration is None:
        return Confidence(spread, size)
    within = error <= calibration.half_width(disagreement)
    return Confidence(spread, size, calibration.expected_error(disagreement), within.mean(-1))


def calibrate(ensemble: Ensemble, rollouts: Rollouts, seed: int = 0, progress: bool = False) -> dict[str, Calibration]:
    """Returns how wide an ensemble's intervals have to be to hold nine of ten observations.

    The ensemble predicts the rollouts after the recorded actions and, if they name an environment of MuJoCo's in which
    they can be run again, after those of other episodes: "recorded" and "off-policy". Use it as ::

        ensemble.calibrations = calibrate(ensemble, valid)

    :param rollouts: to which no member was fitted; their errors must be those of rollouts to come
    :param seed: chooses the other episodes
    :param progress: show a progress bar on stderr, and say there if the rollouts are too few
    """
    steps = sorted(rollout.steps for rollout in rollouts)[(len(rollouts) - 1) // 2]  # which half of the rollouts have
    warm_up = max(1, min(WARM_UP, steps // 2))  # half of a short rollout is left to be predicted
    asked = ask(ensemble, rollouts, min(HORIZONS[-1], steps + 1 - warm_up), warm_up, seed, progress, floors=False)
    starts = len(asked.recorded.errors)
    if progress and starts < FEW:
        print(
            f"the intervals are calibrated from {starts} start{'s' if starts > 1 else ''} in the validation rollouts "
            f"and are a rough guess: from about {FEW} on they are reliable",
            file=sys.stderr,
        )
    return {question: calibration_of(*spread_and_error(ensemble, one)) for question, one in asked.trials.items()}


def calibration_of(disagreement: Array, error: Array) -> Calibration:
    """Returns the calibration for which nine tenths of errors are within half the width of their intervals.

    What holds at a horizon is taken from the steps between the horizons before and after it.

    :param disagreement: d, (S, H, n)
    :param error: sizes of errors, (S, H, n)
    """
    # Quantiles of infinite numbers are NaN, so overflows take part as a large finite error.
    disagreement, error = (np.nan_to_num(values, nan=DIVERGED, posinf=DIVERGED) for values in (disagreement, error))
    starts, last, _ = error.shape
    # The last step is always a knot, so that nothing is extrapolated.
    knots = [k for k in HORIZONS if k < last] + [last]
    share = min(1.0, SHARE * (1 + 1 / starts))  # so that a further start is within with a probability of nine tenths
    floors, factors = [], []
    for before, after in zip([0, *knots[:-1]], [*knots[1:], last + 1], strict=True):
        spread, size = disagreement[:, before : after - 1], error[:, before : after - 1]
        # Members may agree and be wrong: with this floor, the usual error, no interval closes.
        floor = np.maximum(np.median(size, axis=(0, 1)) / NORMAL, np.finfo(np.float32).tiny)
        floors.append(floor)
        # Conformal: the quantile of the errors over the expected ones holds for further starts, whatever their
        # distribution.
        factors.append(np.quantile(size / np.sqrt(spread**2 + floor**2), share, axis=(0, 1)))
    return Calibration(np.array(knots, np.float64), np.stack(floors), np.stack(factors))


def spread_and_error(ensemble: Ensemble, trials: Trials) -> tuple[Array, Array]:
    """Returns the members' standard deviation and the size of their mean's error, (S, H, n), over that of the data."""
    each = ensemble.predict_each(trials.seen, trials.real.shape[1], trials.actions, trials.ahead)
    error = (each.mean(0).double() - trials.real.double()).abs() / ensemble.std.double()
    return ensemble.disagreement(each), error.cpu().numpy()


def rank_correlation(one: Array, other: Array) -> float:
    """Returns Spearman's rank correlation of two rows of numbers; 0 if the numbers of a row are all the same."""
    ranks = [centred_ranks(values) for values in (one, other)]
    size = np.sqrt(np.prod([np.sum(values**2) for values in ranks]))
    return float(np.sum(ranks[0] * ranks[1]) / size) if size else 0.0


def centred_ranks(values: Array) -> Array:
    """Returns the ranks less their mean; equal numbers share the mean of their ranks."""
    # Equal numbers get one mean rank, without SciPy.
    _, number, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(ranks[number] - (len(values) + 1) / 2)
