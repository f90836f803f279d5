"""How long a model can go without looking: errors against the horizon, and what a run of its own is like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.data import Rollout, Rollouts
from ncp_control.dynamics.simulator import Simulator

Array = NDArray[np.float64]
BAND = (0.1, 0.9)


@dataclass(frozen=True)
class OpenLoop:
    """Errors of predictions 1 .. H steps ahead, over the variances of the observations, feature by feature, averaged.

    :param errors: (S, H), from every start
    :param persistence: (H,), of saying that nothing changes
    :param level: of saying the mean of the training rollouts, which no horizon makes worse
    """

    errors: Array
    persistence: Array
    level: float

    @property
    def mean(self) -> Array:
        """(H,)"""
        return np.asarray(self.errors.mean(0), np.float64)

    @property
    def band(self) -> tuple[Array, Array]:
        """What one start in ten is below, and one in ten above, (H,) each."""
        low, high = np.quantile(self.errors, BAND, axis=0)
        return low, high


@dataclass(frozen=True)
class Run:
    """A stretch of a rollout, and what a model made of its beginning.

    :param last: (n,), the last observation before it
    :param real: (H, n)
    :param free: (H, n), predicted without looking
    """

    last: Array
    real: Array
    free: Array


def stretch(model: Simulator, rollout: Rollout, start: int, stop: int) -> dict[str, Tensor | None]:
    """Observations, actions and times of steps start .. stop, (1, ...), as the model reads them."""
    like = next(model.parameters())

    def as_tensor(values: NDArray[np.floating]) -> Tensor:
        return torch.as_tensor(values, dtype=like.dtype, device=like.device)[None]

    actions = None
    if model.actions:
        if rollout.actions is None:
            raise ValueError(f"{rollout.name} has no actions, and the model reads them")
        actions = as_tensor(rollout.actions[start : stop - 1].reshape(stop - 1 - start, -1))
    times = None
    if model.timed:
        elapsed = np.ones(rollout.steps + 1) if rollout.elapsed is None else rollout.elapsed
        times = as_tensor(elapsed[start + 1 : stop])
    return {"seen": as_tensor(rollout.observations[start:stop]), "actions": actions, "ahead": times}


def free_runs(model: Simulator, rollouts: Rollouts, horizon: int, warm_up: int = 32, every: int = 50) -> list[Run]:
    """Runs from many starts, each after a warm-up on what was observed; the actions are those of the rollout.

    :param horizon: steps without looking, H
    :param warm_up: observations that the model reads first
    :param every: steps from one start to the next of the same rollout
    """
    found = [
        stretch(model, rollout, start, start + warm_up + horizon)
        for rollout in rollouts
        for start in range(0, len(rollout.observations) - warm_up - horizon + 1, every)
    ]
    if not found:
        longest = max(len(rollout.observations) for rollout in rollouts)
        raise ValueError(
            f"no rollout has {warm_up + horizon} observations, for a warm-up of {warm_up} and a horizon of {horizon}: "
            f"the longest has {longest}"
        )

    def batch(key: str) -> Tensor | None:
        values = [one[key] for one in found]
        return None if values[0] is None else torch.cat([value for value in values if value is not None])

    seen = batch("seen")
    assert seen is not None
    free = model.predict(seen[:, :warm_up], horizon, batch("actions"), batch("ahead")).double().cpu().numpy()
    real = seen[:, warm_up - 1 :].double().cpu().numpy()
    return [Run(one[0], one[1:], other) for one, other in zip(real, free, strict=True)]


def open_loop(model: Simulator, rollouts: Rollouts, horizon: int = 200, warm_up: int = 32, every: int = 50) -> OpenLoop:
    """Errors against the horizon (see `free_runs`)."""
    runs = free_runs(model, rollouts, horizon, warm_up, every)
    mean, std = (value.double().cpu().numpy() for value in (model.mean, model.std))
    errors = np.stack([np.mean(((run.free - run.real) / std) ** 2, axis=1) for run in runs])
    still = np.stack([np.mean(((run.last - run.real) / std) ** 2, axis=1) for run in runs])
    level = float(np.mean([np.mean(((mean - run.real) / std) ** 2) for run in runs]))
    return OpenLoop(errors, still.mean(0), level)


@dataclass(frozen=True)
class LongRun:
    """What long runs are like: of the real ones, and of the model's own.

    :param energy: mean square of the scaled observations around their mean: 1 is as lively as the training rollouts
    :param frequency: of the gait, in cycles a step: where the spectrum of the liveliest observations has its peak
    :param peak: the share of the spectrum that lies at that peak, 0 to 1: near 0 there is no gait
    """

    energy: float
    frequency: float
    peak: float


def long_run(values: Array, mean: Array, std: Array) -> LongRun:
    """Of one run (H, n)."""
    scaled = (values - mean) / std
    moving = scaled - scaled.mean(0)
    power = np.abs(np.fft.rfft(moving * np.hanning(len(moving))[:, None], axis=0)) ** 2
    power = power.sum(1)
    power[0] = 0.0
    top = int(power.argmax())
    near = power[max(1, top - 1) : top + 2].sum()
    total = float(power.sum())
    return LongRun(float(np.mean(scaled**2)), top / len(moving), float(near / total) if total > 0 else 0.0)


def long_runs(model: Simulator, rollouts: Rollouts, steps: int = 500, warm_up: int = 32) -> dict[str, list[LongRun]]:
    """Of one run a rollout, "real" and "free"."""
    length = min(steps, min(len(rollout.observations) for rollout in rollouts) - warm_up)
    if length < 16:
        raise ValueError(f"the rollouts are too short for a run of their own after a warm-up of {warm_up}")
    runs = free_runs(model, rollouts, length, warm_up, every=10**9)
    mean, std = (value.double().cpu().numpy() for value in (model.mean, model.std))
    return {
        "real": [long_run(run.real, mean, std) for run in runs],
        "free": [long_run(run.free, mean, std) for run in runs],
    }


@torch.no_grad()
def time_constants(model: Simulator, rollouts: Rollouts, steps: int = 1000) -> dict[str, Array]:
    """Every neuron's time constant while a circuit reads a rollout, in units of the time between observations.

    :return: "median", "least" and "most" over the steps, and "low" and "high", the bounds, each (N,)
    """
    from ncp_control.dynamics.model import DynamicsModel
    from ncp_control.rnn import RNN

    if not isinstance(model, DynamicsModel) or not isinstance(model.rnn, RNN):
        raise ValueError("time constants are those of one circuit: ask for those of a member")
    rollout = rollouts[0]
    read = stretch(model, rollout, 0, min(steps, rollout.steps) + 1)
    seen, actions, ahead = (read[key] for key in ("seen", "actions", "ahead"))
    assert seen is not None
    seen = seen[:, :-1]
    _, states = model.unrolled(seen, actions, ahead)
    inputs = model.read(seen, actions, ahead)[0]
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
