"""What every model of the dynamics can do, one circuit or several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Array = NDArray[np.float64]


class Simulator(nn.Module, ABC):
    """Predicts observations one step ahead, and from its own predictions as far as one likes.

    :ivar features: observations a step, n
    :ivar actions: actions a step that it reads, m; 0 if it reads none
    :ivar action_range: (2, m), the least and the greatest of each action in the rollouts that it was made for
    :ivar timed: whether it needs to be told the time between observations
    :ivar observation_names: of the features
    :ivar mean: of the observations that it was made for, (n,)
    :ivar std: their standard deviation, (n,)
    :ivar starts: first observations of episodes, (S, n)
    :ivar note: what its file says of it
    """

    features: int
    actions: int
    action_range: Array
    timed: bool
    observation_names: tuple[str, ...]
    mean: Tensor
    std: Tensor
    starts: Tensor
    note: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.note = {}

    @abstractmethod
    def forward(
        self,
        observations: Tensor,
        actions: Tensor | None = None,
        state: Tensor | None = None,
        ahead: Tensor | float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The next observation after each of a sequence.

        :param observations: (B, T, n)
        :param actions: (B, T, m), what is executed after each observation, for a model that reads actions
        :param state: what an earlier call returned; None at a beginning
        :param ahead: the time until the observation that is predicted, a number or (B, T), for a timed model
        :return: predictions (B, T, n), and the state after the last step
        """  # fmt: skip

    @torch.no_grad()
    def predict(
        self, history: Tensor, horizon: int, actions: Tensor | None = None, ahead: Tensor | float | None = None
    ) -> Tensor:
        """What follows a history: the model reads it, then feeds itself.

        :param history: (B, T, n), or (T, n) for one
        :param horizon: steps to predict, H
        :param actions: (B, T + H - 1, m), those of the history first; the last prediction's is the last
        :param ahead: for a timed model, a number or (B, T + H - 1)
        :return: (B, H, n), or (H, n) for one
        """
        if isinstance(history, Tensor) and history.dim() == 2:
            one = actions[None] if isinstance(actions, Tensor) else actions
            time = ahead[None] if isinstance(ahead, Tensor) and ahead.dim() == 1 else ahead
            return self.predict(history[None], horizon, one, time)[0]
        self.check(history, actions, ahead, horizon)
        return self.continued(history, horizon, actions, ahead)

    def continued(self, history: Tensor, horizon: int, actions: Tensor | None, ahead: Tensor | float | None) -> Tensor:
        """`predict`, of what has been checked; with gradients if they are wanted."""
        seen = history.shape[1]
        found, state = self(history, cut(actions, 0, seen), None, cut(ahead, 0, seen))
        last = found[:, -1:]
        predictions = [last]
        for k in range(seen, seen + horizon - 1):
            last, state = self(last, cut(actions, k, k + 1), state, cut(ahead, k, k + 1))
            predictions.append(last)
        return torch.cat(predictions, dim=1)

    def check(
        self, observations: Tensor, actions: Tensor | None, ahead: Tensor | float | None, horizon: int = 1
    ) -> None:
        """Refuses observations, actions and times that are not what the model was made for.

        :param horizon: how many observations the model predicts after the last one, each with an action and a time
        """
        for name, values in (("observations", observations), ("actions", actions)):
            if values is not None and not isinstance(values, Tensor):
                raise TypeError(
                    f"a model reads tensors, and these {name} are a {type(values).__name__}: "
                    "torch.as_tensor(..., dtype=torch.float32) makes one of an array"
                )
        if observations.dim() != 3 or observations.shape[-1] != self.features:
            raise ValueError(
                f"this model reads {self.features} observations a step, (batch, time, {self.features}), "
                f"got {tuple(observations.shape)}"
            )
        if observations.shape[1] < 1:
            raise ValueError("there is no observation to go on from")
        if self.actions and actions is None:
            raise ValueError(f"this model reads actions: give it the {self.actions} of every step")
        if not self.actions and actions is not None:
            raise ValueError("this model reads no actions: leave them out, or fit one with observations+actions")
        if actions is not None and (actions.dim() != 3 or actions.shape[-1] != self.actions):
            raise ValueError(
                f"this model reads {self.actions} actions a step, (batch, time, {self.actions}), "
                f"got {tuple(actions.shape)}"
            )
        if horizon < 1:
            raise ValueError(f"the horizon must be at least one step, got {horizon}")
        count, seen = observations.shape[:2]
        steps = seen + horizon - 1
        goes = f"{seen} observations" + (f" and a horizon of {horizon}" if horizon > 1 else "")
        if actions is not None and actions.shape[1] != steps:
            raise ValueError(f"{goes} go with {steps} actions, but there are {actions.shape[1]}")
        if actions is not None and len(actions) != count:
            raise ValueError(f"there are {count} sequences of observations, but {len(actions)} of actions")
        if isinstance(ahead, Tensor) and ahead.dim() and tuple(ahead.shape) != (count, steps):
            raise ValueError(
                f"{goes} go with the time until each prediction (ahead) as a number, or of shape {(count, steps)}, "
                f"got {tuple(ahead.shape)}"
            )


def cut(values: Any, start: int, stop: int) -> Any:
    """Steps start .. stop of (B, T, ...), of what has steps."""
    return values[:, start:stop] if isinstance(values, Tensor) and values.dim() > 1 else values
