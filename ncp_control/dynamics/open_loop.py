"""Open-loop predictions: a model reads some observations, then its own predictions. Their errors and statistics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.data import Rollout, Rollouts, Scaler
from ncp_control.dynamics.simulator import Simulator

Array = NDArray[np.float64]
BAND = (0.1, 0.9)


@dataclass(frozen=True)
class OpenLoop:
    """Squared errors 1 .. H steps ahead, each feature's divided by its variance, averaged over the features.

    :param errors: the errors from each of S starts, (S, H)
    :param persistence: the mean errors of predicting that nothing changes, (H,)
    :param level: the error of always predicting the mean of the rollouts, the same for every horizon
    """

    errors: Array
    persistence: Array
    level: float

    @property
    def mean(self) -> Array:
        """The mean over the starts, (H,)."""
        return np.asarray(self.errors.mean(0), np.float64)

    @property
    def band(self) -> tuple[Array, Array]:
        """The 10th and the 90th percentile over the starts, (H,) each."""
        low, high = np.quantile(self.errors, BAND, axis=0)
        return low, high


@dataclass(frozen=True)
class FreeRun:
    """A stretch of a rollout, and what a model predicted for it without seeing it.

    :param last: the last observation before the stretch, (n,)
    :param real: the observations, (H, n)
    :param free: the predictions, (H, n)
    """

    last: Array
    real: Array
    free: Array


@dataclass(frozen=True)
class Trials:
    """What a model reads from S starts, as `predict` takes it, and what followed.

    :param seen: the observations that it reads first, (S, W, n)
    :param actions: (S, W + H - 1, m); None if it reads none
    :param ahead: the time until each prediction, a number or (S, W + H - 1); None if it is not told
    :param real: the observations that followed, (S, H, n)
    """

    seen: Tensor
    actions: Tensor | None
    ahead: Tensor | float | None
    real: Tensor


def stretch(model: Simulator, rollout: Rollout, start: int, stop: int) -> dict[str, Tensor | None]:
    """Returns observations, actions and times of steps start .. stop of a rollout, (1, ...), as the model reads them.

    :return: "seen", the observations; "actions" and "ahead", each None if the model does not read them
    """
    like = next(model.parameters())

    def as_tensor(values: NDArray[np.floating]) -> Tensor:
        return torch.as_tensor(values, dtype=like.dtype, device=like.device)[None]

    actions = None
    if model.action_size:
        if rollout.actions is None:
            raise ValueError(f"{rollout.name} has no actions, and the model reads them")
        # The last observation is followed by no action.
        actions = as_tensor(rollout.actions[start : stop - 1].reshape(stop - 1 - start, -1))
    times = None
    if model.timed:
        # Regular data count their steps.
        elapsed = np.ones(rollout.steps + 1) if rollout.elapsed is None else rollout.elapsed
        times = as_tensor(elapsed[start + 1 : stop])
    return {"seen": as_tensor(rollout.observations[start:stop]), "actions": actions, "ahead": times}


def stretches(model: Simulator, places: Iterable[tuple[Rollout, int]], length: int) -> dict[str, Tensor | None]:
    """Returns stretches of equal length, (S, ...), with the entries of `stretch`.

    :param places: rollouts, each with the step at which a stretch begins; at least one
    :param length: number of observations in a stretch
    """
    found = [stretch(model, rollout, start, start + length) for rollout, start in places]
    return {
        key: None if value is None else torch.cat([one[key] for one in found])  # type: ignore[misc]
        for key, value in found[0].items()
    }


def starts_in(rollout: Rollout, horizon: int, warm_up: int, every: int) -> range:
    """Returns the steps at which a start leaves room in a rollout for warm-up and horizon; see `free_runs`."""
    return range(0, len(rollout.observations) - warm_up - horizon + 1, every)


def over_variance(free: Array, real: Array, std: Array) -> Array:
    """Returns squared errors (..., n) over the variances, averaged over the features."""
    return np.asarray(np.mean(((free - real) / std) ** 2, axis=-1), np.float64)


def free_runs(model: Simulator, rollouts: Rollouts, horizon: int, warm_up: int = 32, every: int = 50) -> list[FreeRun]:
    """Returns open-loop predictions from many starts, each after a warm-up, with the actions of the rollout.

    :param horizon: number of steps to predict, H
    :param warm_up: number of observations that the model reads first
    :param every: steps from one start to the next in the same rollout
    """
    return runs_of(model, trials(model, rollouts, horizon, warm_up, every))


def runs_of(model: Simulator, read: Trials) -> list[FreeRun]:
    """Returns what a model predicts from starts."""
    horizon = read.real.shape[1]
    free = model.predict(read.seen, horizon, read.actions, read.ahead).double().cpu().numpy()
    last, real = (values.double().cpu().numpy() for values in (read.seen[:, -1], read.real))
    return [FreeRun(*run) for run in zip(last, real, free, strict=True)]


def trials(model: Simulator, rollouts: Rollouts, horizon: int, warm_up: int = 32, every: int = 50) -> Trials:
    """Returns what a model reads from many starts in rollouts, and what followed; see `free_runs` for parameters."""
    places = [(rollout, start) for rollout in rollouts for start in starts_in(rollout, horizon, warm_up, every)]
    if not places:
        longest = max(len(rollout.observations) for rollout in rollouts)
        raise ValueError(
            f"no rollout has {warm_up + horizon} observations, for a warm-up of {warm_up} and a horizon of {horizon}: "
            f"the longest has {longest}"
        )
    found = stretches(model, places, warm_up + horizon)
    seen = found["seen"]
    assert seen is not None
    return Trials(seen[:, :warm_up], found["actions"], found["ahead"], seen[:, warm_up:])


def open_loop(model: Simulator, rollouts: Rollouts, horizon: int = 200, warm_up: int = 32, every: int = 50) -> OpenLoop:
    """Returns the errors of open-loop predictions 1 .. H steps ahead; see `free_runs` for the parameters.

    The variances are those of these rollouts: a model that was fitted to wilder ones is not measured more kindly.
    """
    return errors_from(model, rollouts, trials(model, rollouts, horizon, warm_up, every))


def errors_from(model: Simulator, rollouts: Rollouts, read: Trials) -> OpenLoop:
    """Returns the errors of open-loop predictions from starts in rollouts, as `open_loop` does."""
    runs = runs_of(model, read)
    scaler = Scaler.fit(rollouts)
    mean, std = scaler.mean, scaler.std
    errors = np.stack([over_variance(run.free, run.real, std) for run in runs])
    still = np.stack([over_variance(run.last, run.real, std) for run in runs])
    level = float(np.mean([over_variance(mean, run.real, std) for run in runs]))
    return OpenLoop(errors, still.mean(0), level)


@dataclass(frozen=True)
class RunStatistics:
    """Statistics of a long run, to compare a model's own run with a real one.

    :param energy: the mean square of the scaled observations; 1 is the value over all rollouts
    :param frequency: the gait's frequency in cycles a step, where the spectrum of the scaled observations peaks
    :param peak: the share of the spectrum at that peak, 0 to 1; it is near 0 if there is no gait
    """

    energy: float
    frequency: float
    peak: float


def statistics_of(values: Array, mean: Array, std: Array) -> RunStatistics:
    """Returns the statistics of one run.

    :param values: the observations, (H, n)
    :param mean: the mean of the training observations, (n,)
    :param std: their standard deviation, (n,)
    """
    scaled = (values - mean) / std
    moving = scaled - scaled.mean(0)
    # A window, or a run that ends in mid-stride would leak into all frequencies.
    power = np.abs(np.fft.rfft(moving * np.hanning(len(moving))[:, None], axis=0)) ** 2
    power = power.sum(1)
    power[0] = 0.0
    top = int(power.argmax())
    near = power[max(1, top - 1) : top + 2].sum()  # a window spreads a pure oscillation over three bins
    total = float(power.sum())
    return RunStatistics(float(np.mean(scaled**2)), top / len(moving), float(near / total) if total > 0 else 0.0)


def long_runs(
    model: Simulator, rollouts: Rollouts, steps: int = 500, warm_up: int = 32
) -> dict[str, list[RunStatistics]]:
    """Returns the statistics of one run for each rollout: "real" as observed, "free" as the model predicted it.

    :param steps: how long the runs are at most; they are as long as the shortest rollout allows
    :param warm_up: number of observations that the model reads first
    """
    length = min(steps, min(len(rollout.observations) for rollout in rollouts) - warm_up)
    if length < 16:
        raise ValueError(f"the rollouts are too short: after a warm-up of {warm_up} a long run needs 16 observations")
    runs = free_runs(model, rollouts, length, warm_up, every=10**9)  # one start in each rollout
    scaler = Scaler.fit(rollouts)
    mean, std = scaler.mean, scaler.std
    return {
        "real": [statistics_of(run.real, mean, std) for run in runs],
        "free": [statistics_of(run.free, mean, std) for run in runs],
    }


@torch.no_grad()
def time_constants(model: Simulator, rollouts: Rollouts, steps: int = 1000) -> dict[str, Array]:
    """Returns every neuron's time constant while a circuit reads a rollout, in units of the time between observations.

    :param steps: how many steps of the first rollout it reads at most
    :return: "median", "least" and "most" over the steps, NaN if the cell does not know its time constants; "low" and
        "high", their bounds; each (N,)
    """
    from ncp_control.dynamics.model import DynamicsModel

    if not isinstance(model, DynamicsModel):
        raise ValueError("an ensemble has the time constants of several circuits: ask for those of one member")
    rollout = rollouts[0]
    read = stretch(model, rollout, 0, min(steps, rollout.steps) + 1)
    seen, actions, ahead = (read[key] for key in ("seen", "actions", "ahead"))
    assert seen is not None
    seen = seen[:, :-1]
    _, states = model.unrolled(seen, actions, ahead)
    inputs = model.encode(seen, actions, ahead)[0]
    # Time constants of a step follow from the state before it.
    before = torch.cat([model.rnn.initial_state(1), states[0, :-1]])
    found = model.rnn.cell.time_constants(inputs, before).double()
    low, high = model.rnn.cell.time_constant_bounds()
    return {
        "median": found.median(0).values.cpu().numpy(),
        "least": found.min(0).values.cpu().numpy(),
        "most": found.max(0).values.cpu().numpy(),
        "low": low.double().cpu().numpy(),
        "high": high.double().cpu().numpy(),
    }
