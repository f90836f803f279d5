"""A recurrent model of what is observed next."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ncp_control.cells import Cell, cell_config, make_cell, named_cell
from ncp_control.data import Rollouts, Scaler
from ncp_control.dynamics.lagged import LaggedMLP
from ncp_control.dynamics.simulator import Array, Simulator
from ncp_control.rnn import RNN
from ncp_control.wiring import Plan, Wiring

INPUTS = ("observations", "observations+actions")
STARTS = 64


class DynamicsModel(Simulator):
    """Next observations from a circuit that reads observations, and actions if it is told to.

    With z = (o - mean) / std, u the actions scaled likewise, motor neurons y of a circuit and a linear readout::

        y_t, s_t = RNN([z_t, u_t], s_(t-1), elapsed = time until the next observation)
        plain:     o_(t+1) = mean + std (R y_t + r)
        residual:  o_(t+1) = o_t + change (R y_t + r),   change: standard deviations of o_(t+1) - o_t

    The scales belong to the model, which takes and gives observations as the environment has them. A residual model
    starts as persistence (R = 0). Where the cell takes no notice of time and the data is irregular, the time until the
    next observation is one more input.

    Example::

        train, valid, test = Rollouts.load("./cheetah-v0").split()
        model = DynamicsModel.of(train, "ltc", AutoNCP(40, 16), inputs="observations+actions", residual=True)

    :param cell: a cell's name, such as "ltc", "cfc" or "gru", or a class of one's own; or "mlp", on a few lags, for
        comparison
    :param wiring: a plan, a built wiring, or a number of fully connected neurons
    :param scaler: of the observations, n features
    :param change_scaler: of their change, for a residual model
    :param action_scaler: of the actions, m of them, where they are inputs
    :param inputs: "observations", or "observations+actions"
    :param residual: predict the change rather than the observation
    :param timed: whether the time between observations differs
    :param clip: scaled inputs are held in [-clip, clip], so that what no rollout has shown cannot run away
    :param settings: further arguments of the cell
    :param observation_names: of the features
    :param action_range: (2, m), the least and the greatest of each action of the data, for `DynamicsEnv`; -1 and 1 by
        default
    :param starts: first observations of episodes, (S, n), from which a simulated episode may start
    :param backend: as in `RNN`
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
        inputs: str = "observations",
        residual: bool = False,
        timed: bool = False,
        clip: float = 10.0,
        settings: dict[str, Any] | None = None,
        observation_names: tuple[str, ...] = (),
        action_range: Any = None,
        starts: Any = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if inputs not in INPUTS:
            raise ValueError(f"a model's inputs are {' or '.join(INPUTS)}, not {inputs!r}")
        if (inputs == INPUTS[1]) != (action_scaler is not None):
            verb = "needs" if action_scaler is None else "goes without"
            raise ValueError(f"inputs={inputs!r} {verb} an action_scaler")
        if residual and change_scaler is None:
            raise ValueError("a residual model needs a change_scaler: DynamicsModel.of makes it from rollouts")
        if not 0 < clip <= 1e30:
            raise ValueError(f"clip must be positive, and at most 1e30, got {clip}")
        self.inputs, self.residual, self.timed, self.clip = inputs, bool(residual), bool(timed), float(clip)
        self.features = len(scaler.mean)
        self.actions = 0 if action_scaler is None else len(action_scaler.mean)
        self.action_range = read_range(action_range, self.actions)
        self.observation_names = tuple(observation_names) or tuple(f"observation {k}" for k in range(self.features))
        kind: Any = LaggedMLP if str(cell).lower() == "mlp" else named_cell(cell)
        self.tells_time = self.timed and not kind.uses_elapsed
        reads = self.features + self.actions + int(self.tells_time)
        make: Any = LaggedMLP if kind is LaggedMLP else partial(make_cell, cell)
        made = make(reads, wiring, **(settings or {}))
        self.rnn: Any = made if kind is LaggedMLP else RNN(made, backend)
        self.cell_name = (cell if isinstance(cell, str) else cell.__name__).lower()
        self.state_size = int(made.state_size)
        self.readout = nn.Linear(made.outputs, self.features)
        if self.residual:
            nn.init.zeros_(self.readout.weight)
            nn.init.zeros_(self.readout.bias)
        zeros, ones = np.zeros(self.actions), np.ones(self.actions)
        buffers = {
            "mean": scaler.mean, "std": scaler.std,
            "change": np.ones(self.features) if change_scaler is None else change_scaler.std,
            "action_mean": zeros if action_scaler is None else action_scaler.mean,
            "action_std": ones if action_scaler is None else action_scaler.std,
            "starts": np.asarray(scaler.mean)[None] if starts is None else starts,
        }  # fmt: skip
        for name, values in buffers.items():
            self.register_buffer(name, torch.as_tensor(np.asarray(values, np.float64), dtype=torch.float32))

    @classmethod
    def of(
        cls,
        train: Rollouts,
        cell: str | type[Cell] = "ltc",
        wiring: Plan | Wiring | int = 32,
        *,
        inputs: str = INPUTS[0],
        **arguments: Any,
    ) -> DynamicsModel:
        """A model with the scales of training rollouts.

        :param train: the training part only
        :param arguments: of the constructor
        """  # fmt: skip
        with_actions = inputs == INPUTS[1]
        if with_actions and train[0].actions is None:
            raise ValueError("these rollouts have no actions: fit a model of the observations alone")
        return cls(
            cell,
            wiring,
            scaler=Scaler.fit(train),
            change_scaler=Scaler.fit(train, "changes"),
            action_scaler=Scaler.fit(train, "actions") if with_actions else None,
            inputs=inputs,
            timed=any(rollout.elapsed is not None for rollout in train),
            observation_names=train.observation_names,
            action_range=range_of_actions(train) if with_actions else None,
            starts=np.stack([rollout.observations[0] for rollout in train[:STARTS]]),
            **arguments,
        )

    def forward(
        self, observations: Tensor, actions: Tensor | None = None, state: Tensor | None = None,
        ahead: Tensor | float | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """See `Simulator`."""
        inputs = self.read(observations, actions, ahead)
        if state is not None and state.shape != (len(inputs), self.state_size):
            raise ValueError(f"state must have shape {(len(inputs), self.state_size)}, got {tuple(state.shape)}")
        y, state = self.rnn(inputs, state, elapsed=self.span(ahead))
        return self.write(observations, y), state

    def unrolled(
        self, observations: Tensor, actions: Tensor | None = None, ahead: Tensor | float | None = None
    ) -> tuple[Tensor, Tensor]:
        """Predictions (B, T, n) and the circuit's state after every step, (B, T, S)."""
        y, _, states = self.rnn(self.read(observations, actions, ahead), elapsed=self.span(ahead), states=True)
        return self.write(observations, y), states

    def read(self, observations: Tensor, actions: Tensor | None, ahead: Tensor | float | None) -> Tensor:
        """The circuit's inputs, (B, T, I)."""
        self.check(observations, actions, ahead)
        parts = [((observations - self.mean) / self.std).clamp(-self.clip, self.clip)]
        if actions is not None:
            parts.append((actions - self.action_mean) / self.action_std)
        if self.tells_time:
            span = self.span(ahead)
            time = span if isinstance(span, Tensor) else observations.new_tensor(span)
            parts.append(time.to(observations.dtype).expand(observations.shape[:2])[..., None])
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def write(self, observations: Tensor, y: Tensor) -> Tensor:
        """Predictions (B, T, n) from motor neurons (B, T, O)."""
        found: Tensor = self.readout(y)
        return observations + self.change * found if self.residual else self.mean + self.std * found

    def span(self, ahead: Tensor | float | None) -> Tensor | float:
        """The elapsed time for the cell."""
        if self.timed and ahead is None:
            raise ValueError("this model was fitted to irregular time: tell it the time until each prediction (ahead)")
        return 1.0 if ahead is None else ahead

    def about(self) -> dict[str, Any]:
        """Everything but the tensors, as JSON values."""
        if isinstance(self.rnn, LaggedMLP):
            network = {"cell": {"cell": "mlp", **self.rnn.config()}, "wiring": self.rnn.outputs}
        else:
            network = {"cell": cell_config(self.rnn.cell), "wiring": json.loads(self.rnn.wiring.to_json())}
        return {
            **network,
            "inputs": self.inputs, "residual": self.residual, "timed": self.timed, "clip": self.clip,
            "observation_names": list(self.observation_names), "action_range": self.action_range.tolist(),
        }  # fmt: skip

    def extra_repr(self) -> str:
        """Shown by `print(model)`."""
        return f"{self.features} observations, {self.actions} actions, residual={self.residual}, timed={self.timed}"


def range_of_actions(train: Rollouts) -> Array:
    """The least and the greatest of each action, (2, m): what the source says, or else what was done."""
    if train.action_range is not None:
        return np.asarray(train.action_range, np.float64)
    rows = np.concatenate([np.asarray(one.actions, np.float64).reshape(one.steps, -1) for one in train])
    return np.stack([rows.min(axis=0), rows.max(axis=0)])


def read_range(given: Any, actions: int) -> Array:
    """A range of so many actions as (2, m); -1 and 1 where none is given."""
    if given is None:
        return np.stack([-np.ones(actions), np.ones(actions)])
    found = np.asarray(given, np.float64)
    if found.shape != (2, actions) or not np.isfinite(found).all() or (found[0] > found[1]).any():
        raise ValueError(
            f"action_range must be the least and the greatest of each of {actions} actions, (2, {actions}), got "
            f"{found.tolist()}"
        )
    return found
