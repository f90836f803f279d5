"""What every model of the dynamics can do, one circuit or several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn


class Simulator(nn.Module, ABC):
    """Predicts observations one step ahead, and from its own predictions as far as one likes.

    :ivar features: observations a step, n
    :ivar actions: actions a step that it reads, m; 0 if it reads none
    :ivar timed: whether it needs to be told the time between observations
    :ivar observation_names: of the features
    :ivar mean: of the observations that it was made for, (n,)
    :ivar std: their standard deviation, (n,)
    :ivar starts: first observations of episodes, (S, n)
    :ivar note: what its file says of it
    """

    features: int
    actions: int
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
        if history.dim() == 2:
            one = None if actions is None else actions[None]
            time = ahead[None] if isinstance(ahead, Tensor) and ahead.dim() == 1 else ahead
            return self.predict(history[None], horizon, one, time)[0]
        self.check(history, actions)
        if horizon < 1:
            raise ValueError(f"the horizon must be at least one step, got {horizon}")
        seen = history.shape[1]
        steps = seen + horizon - 1
        if actions is not None and actions.shape[1] != steps:
            raise ValueError(
                f"{seen} observations and a horizon of {horizon} go with {steps} actions, but there are "
                f"{actions.shape[1]}"
            )
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

    def check(self, observations: Tensor, actions: Tensor | None) -> None:
        """Refuses observations and actions that are not what the model was made for."""
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


def cut(values: Any, start: int, stop: int) -> Any:
    """Steps start .. stop of (B, T, ...), of what has steps."""
    return values[:, start:stop] if isinstance(values, Tensor) and values.dim() > 1 else values
