"""A recurrent model that predicts the next observation."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ncp_control.data import Rollouts, Scaler
from ncp_control.data.rollout import in_words, need_one_hot
from ncp_control.data.rollouts import usual_names
from ncp_control.data.scaler import blocks
from ncp_control.dynamics.simulator import Array, Simulator
from ncp_control.neurons import Cell, cell_config, make_cell, named_cell
from ncp_control.rnn import RNN
from ncp_control.wiring import Plan, Wiring

READS = ("observations", "observations+actions")
STARTS = 64


class DynamicsModel(Simulator):
    """Predicts the next observation with a circuit that reads observations, and actions too if asked to.

    With z = (o - mean) / std, u the actions scaled likewise, motor neurons y of a circuit and a linear readout::

        y_t, s_t = RNN([z_t, u_t], s_(t-1), elapsed = time until the next observation)
        plain:     o_(t+1) = mean + std (R y_t + r)
        residual:  o_(t+1) = o_t + change (R y_t + r),   change: standard deviations of o_(t+1) - o_t

    The scales belong to the model, which reads and predicts observations in the units of the environment. A residual
    model starts with R = 0 and r = 0, so that it predicts no change. If the cell ignores elapsed time and the data is
    irregular, the time until the next observation is one more input.

    Example::

        train, valid, test = Rollouts.load("./cheetah-v0").split()
        model = DynamicsModel.of(train, "ltc", AutoNCP(40, 16), reads="observations+actions", residual=True)

    :param cell: the name of a cell, such as "ltc", "cfc", "gru" or "mlp" (on the last five inputs), or a class of one's
        own
    :param wiring: a plan, a built wiring, or a number of fully connected neurons
    :param scaler: scales the observations, n features
    :param change_scaler: scales their change, for a residual model
    :param action_scaler: scales the actions, m features, for a model that reads actions
    :param reads: "observations", or "observations+actions"
    :param residual: predict the change of the observation instead of the observation
    :param timed: whether the time between observations varies
    :param time_unit: the time that is 1 for the circuit; `of` takes the median time between the rollouts' observations
    :param clip: scaled observations are limited to [-clip, clip], so that values that no rollout has shown cannot make
        the model diverge
    :param settings: further arguments of the cell
    :param observation_names: the names of the features
    :param action_names: the names of the rollouts' actions, also of a model that does not read them
    :param action_range: the smallest and the largest value of each action in the data, (2, m), for `DynamicsEnv`; -1
        and 1 by default
    :param starts: first observations of episodes, (S, n), from which a simulated episode may start
    :param backend: as in `RNN`
    :param inputs: the old name of `reads`
    """

    change: Tensor
    action_mean: Tensor
    action_std: Tensor

    def __init__(
        self,
        cell: str | type[Cell] = "ltc",
        wiring: Plan | Wiring | int = 32,
        *,
        scaler: Scaler,
        change_scaler: Scaler | None = None,
        action_scaler: Scaler | None = None,
        reads: str = READS[0],
        residual: bool = False,
        timed: bool = False,
        time_unit: float = 1.0,
        clip: float = 10.0,
        settings: dict[str, Any] | None = None,
        observation_names: tuple[str, ...] = (),
        action_names: tuple[str, ...] = (),
        action_range: Any = None,
        starts: Any = None,
        backend: str = "auto",
        inputs: str | None = None,
    ) -> None:
        super().__init__()
        reads = reads if inputs is None else renamed_inputs(inputs)
        if reads not in READS:
            raise ValueError(f"a model reads {' or '.join(READS)}, not {reads!r}")
        if (reads == READS[1]) != (action_scaler is not None):
            verb = "needs" if action_scaler is None else "goes without"
            raise ValueError(f"reads={reads!r} {verb} an action_scaler")
        if residual and change_scaler is None:
            raise ValueError("a residual model needs a change_scaler: DynamicsModel.of makes it from rollouts")
        if not 0 < clip <= 1e30:
            raise ValueError(f"clip must be positive, and at most 1e30, got {clip}")
        self.reads, self.residual, self.timed, self.clip = reads, bool(residual), bool(timed), float(clip)
        if not 0 < time_unit < float("inf"):
            raise ValueError(f"time_unit must be a positive number, got {time_unit}")
        self.time_unit = float(time_unit)
        self.features = len(scaler.mean)
        self.action_size = 0 if action_scaler is None else len(action_scaler.mean)
        self.action_range = read_range(action_range, self.action_size)
        self.observation_names = tuple(observation_names) or usual_names(self.features)
        self.action_names = tuple(action_names) or usual_names(self.action_size, "action")
        kind = named_cell(cell)
        self.tells_time = self.timed and not kind.uses_elapsed
        width = self.features + self.action_size + int(self.tells_time)
        self.rnn = RNN(make_cell(kind, width, wiring, **(settings or {})), backend)
        self.cell_name = kind.__name__.lower()
        self.state_size = self.rnn.cell.state_size
        self.readout = nn.Linear(self.rnn.cell.outputs, self.features)
        if self.residual:
            # Nothing changes is a better first guess than any random change.
            nn.init.zeros_(self.readout.weight)
            nn.init.zeros_(self.readout.bias)
        zeros, ones = np.zeros(self.action_size), np.ones(self.action_size)
        buffers = {
            "mean": scaler.mean, "std": scaler.std,
            "change": np.ones(self.features) if change_scaler is None else change_scaler.std,
            "action_mean": zeros if action_scaler is None else action_scaler.mean,
            "action_std": ones if action_scaler is None else action_scaler.std,
            "starts": np.asarray(scaler.mean)[None] if starts is None else starts,
        }  # fmt: skip
        for name, values in buffers.items():
            # Float64 until here: float32 loses a small deviation beside a large mean.
            self.register_buffer(name, torch.as_tensor(np.asarray(values, np.float64), dtype=torch.float32))

    @classmethod
    def of(
        cls,
        train: Rollouts,
        cell: str | type[Cell] = "ltc",
        wiring: Plan | Wiring | int = 32,
        *,
        reads: str = READS[0],
        inputs: str | None = None,
        **arguments: Any,
    ) -> DynamicsModel:
        """Makes a model with the scales, the range of actions and the first observations of rollouts.

        :param train: the training part only
        :param inputs: the old name of `reads`
        :param arguments: further arguments of the constructor
        """
        reads = reads if inputs is None else renamed_inputs(inputs)
        with_actions = reads == READS[1]
        if with_actions and train[0].actions is None:
            raise ValueError("these rollouts have no actions: fit a model of the observations alone")
        if with_actions and train.choices is not None and need_one_hot(train.choices):
            raise ValueError(
                f"the actions of these rollouts are {in_words(train.choices)}, whose order means nothing to a model: "
                "give it rollouts.one_hot()"
            )
        return cls(
            cell,
            wiring,
            scaler=Scaler.fit(train),
            change_scaler=Scaler.fit(train, "changes"),
            action_scaler=Scaler.fit(train, "actions") if with_actions else None,
            reads=reads,
            timed=any(rollout.elapsed is not None for rollout in train),
            time_unit=usual_time(train),  # cells compute best where a usual step takes 1
            observation_names=train.observation_names,
            action_names=train.action_names,
            action_range=range_of_actions(train) if with_actions else None,
            starts=np.stack([rollout.observations[0] for rollout in train[:STARTS]]),
            **arguments,
        )

    @property
    def inputs(self) -> str:
        """The old name of `reads`."""
        warnings.warn(
            "DynamicsModel.inputs is now reads; the old name will go with 0.3", DeprecationWarning, stacklevel=2
        )
        return self.reads

    def forward(
        self, observations: Tensor, actions: Tensor | None = None, state: Tensor | None = None,
        ahead: Tensor | float | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Predicts as described in `Simulator`."""
        y, state = self.rnn(self.encode(observations, actions, ahead), state, elapsed=self.span(ahead))
        return self.decode(observations, y), state

    def unrolled(
        self, observations: Tensor, actions: Tensor | None = None, ahead: Tensor | float | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns predictions (B, T, n) and the circuit's state after every step, (B, T, S)."""
        y, _, states = self.rnn(self.encode(observations, actions, ahead), elapsed=self.span(ahead), states=True)
        return self.decode(observations, y), states

    def encode(self, observations: Tensor, actions: Tensor | None, ahead: Tensor | float | None) -> Tensor:
        """Returns the circuit's inputs, (B, T, I)."""
        self.check(observations, actions, ahead)
        beside = self.beside(observations, actions, ahead)
        # A model that runs free may leave the data; a limit keeps it from running away.
        z = ((observations - self.mean) / self.std).clamp(-self.clip, self.clip)
        return z if beside is None else torch.cat([z, beside], dim=-1)

    def beside(self, like: Tensor, actions: Tensor | None, ahead: Tensor | float | None) -> Tensor | None:
        """Returns what the circuit reads beside observations (B, T, n): scaled actions, and times if it tells none."""
        parts = [] if actions is None else [(actions - self.action_mean) / self.action_std]
        if self.tells_time:
            span = self.span(ahead)
            time = span if isinstance(span, Tensor) else like.new_tensor(span)
            parts.append(time.to(like.dtype).expand(like.shape[:2])[..., None])
        return torch.cat(parts, dim=-1) if parts else None

    def run_free(
        self, last: Tensor, state: Tensor, steps: int, actions: Tensor | None = None,
        ahead: Tensor | float | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Predicts as described in `Simulator`, in scaled observations z from step to step."""
        weight: Tensor = self.readout.weight
        bias: Tensor = self.readout.bias
        if self.residual:
            gain = self.change / self.std  # so that a step needs no scaling to and fro
            weight, bias = weight * gain[:, None], bias * gain
        beside, span = self.beside(last.expand(-1, steps, -1), actions, ahead), self.span(ahead)
        z, scaled = (last[:, 0] - self.mean) / self.std, []
        for k in range(steps):
            x = z.clamp(-self.clip, self.clip)
            x = x if beside is None else torch.cat([x, beside[:, k]], dim=-1)
            y, state = self.rnn.step(x, state, span[:, k] if isinstance(span, Tensor) and span.dim() == 2 else span)
            change = linear(y, weight, bias)
            z = z + change if self.residual else change
            scaled.append(z)
        return self.mean + self.std * torch.stack(scaled, dim=1), state

    def decode(self, observations: Tensor, y: Tensor) -> Tensor:
        """Returns predictions (B, T, n) from motor neurons (B, T, O)."""
        found: Tensor = self.readout(y)
        return observations + self.change * found if self.residual else self.mean + self.std * found

    def span(self, ahead: Tensor | float | None) -> Tensor | float:
        """Returns the elapsed time for the cell, in its unit."""
        if self.timed and ahead is None:
            raise ValueError("this model was fitted to irregular time: pass it the time until each prediction (ahead)")
        return 1.0 if ahead is None else ahead if self.time_unit == 1.0 else ahead / self.time_unit

    def about(self) -> dict[str, Any]:
        """Returns a description of everything but the tensors, as JSON values."""
        return {
            "cell": cell_config(self.rnn.cell), "wiring": json.loads(self.rnn.wiring.to_json()), "inputs": self.reads,
            "residual": self.residual, "timed": self.timed, "clip": self.clip,
            **({} if self.time_unit == 1.0 else {"time_unit": self.time_unit}),
            "observation_names": list(self.observation_names), "action_names": list(self.action_names),
            "action_range": self.action_range.tolist(),
        }  # fmt: skip

    def extra_repr(self) -> str:
        """Shown by `print(model)`."""
        sizes = f"{self.features} observations, {self.action_size} actions"
        return f"{sizes}, residual={self.residual}, timed={self.timed}"


def renamed_inputs(inputs: str) -> str:
    """Returns the argument `inputs`, and warns that it is now called `reads`."""
    warnings.warn(
        "the argument inputs of a DynamicsModel is now reads; the old name will go with 0.3",
        DeprecationWarning,
        stacklevel=3,
    )
    return inputs


def usual_time(train: Rollouts) -> float:
    """Returns the median time between observations; 1 if it is always the same, or not positive."""
    times = [np.asarray(rollout.elapsed[1:], np.float64) for rollout in train if rollout.elapsed is not None]
    found = float(np.median(np.concatenate(times))) if times else 1.0
    return found if found > 0 else 1.0


def range_of_actions(train: Rollouts) -> Array:
    """Returns the smallest and the largest value of each action, (2, m), as the source declares or as executed."""
    if train.action_range is not None:
        return np.asarray(train.action_range, np.float64)
    ranges = [np.stack([rows.min(axis=0), rows.max(axis=0)]) for rows in blocks(train, "actions")]
    return np.stack([np.min(ranges, axis=0)[0], np.max(ranges, axis=0)[1]])


def read_range(given: Any, size: int) -> Array:
    """Returns a range of that many actions as (2, m): -1 and 1 if none is given."""
    if given is None:
        return np.stack([-np.ones(size), np.ones(size)])
    values = np.asarray(given, np.float64)
    if values.shape != (2, size) or not np.isfinite(values).all() or (values[0] > values[1]).any():
        raise ValueError(
            f"action_range must be the smallest and the largest value of each of {size} actions, (2, {size}), got "
            f"{values.tolist()}"
        )
    return values
