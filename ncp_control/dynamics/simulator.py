"""The base class of everything that predicts observations: one model, or an ensemble of models."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Array = NDArray[np.float64]
SINGLE = "a single model does not know where it is wrong: that takes an ensemble, such as `fit --members 5` makes"


class PredictionInterval(NamedTuple):
    """Predictions, and between which values nine of ten observations are expected; each (B, H, n) or (H, n)."""

    mean: Tensor
    low: Tensor
    high: Tensor


class Simulator(nn.Module, ABC):
    """Predicts observations one step ahead, or any number of steps ahead from its own predictions.

    :ivar features: number of observed values in a step, n
    :ivar action_size: number of action values that it reads in a step, m; 0 if it reads no actions
    :ivar action_range: the smallest and the largest value of each action in the rollouts it was made for, (2, m)
    :ivar timed: whether it must be told the time between observations
    :ivar observation_names: the names of the observed values
    :ivar action_names: the names of the actions; empty if nobody has named them
    :ivar mean: the mean of the observations it was made for, (n,)
    :ivar std: their standard deviation, (n,)
    :ivar starts: first observations of episodes, (S, n)
    :ivar note: the note in the file it was loaded from
    """

    features: int
    action_size: int
    action_range: Array
    timed: bool
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...] = ()
    mean: Tensor
    std: Tensor
    starts: Tensor
    note: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.note = {}

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Reads `actions`, the old name of `action_size`, in a class that still defines it."""
        super().__init_subclass__(**arguments)
        if "actions" in vars(cls):
            warn_of_actions(cls)
            cls.action_size = vars(cls)["actions"]
            del cls.actions

    @property
    def actions(self) -> int:
        """The old name of `action_size`."""
        warn_of_actions(type(self))
        return self.action_size

    @actions.setter
    def actions(self, size: int) -> None:
        warn_of_actions(type(self))
        self.action_size = size

    @abstractmethod
    def forward(
        self,
        observations: Tensor,
        actions: Tensor | None = None,
        state: Tensor | None = None,
        ahead: Tensor | float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Predicts the observation that follows each step of a sequence.

        :param observations: (B, T, n)
        :param actions: the action executed after each observation, (B, T, m), for a model that reads actions
        :param state: the state that an earlier call returned, to continue its sequence; None starts a new one
        :param ahead: the time until the predicted observation, not negative, a number or (B, T), for a timed model
        :return: predictions (B, T, n), and the state after the last step
        """

    @torch.no_grad()
    def predict(
        self, history: Tensor, horizon: int, actions: Tensor | None = None, ahead: Tensor | float | None = None
    ) -> Tensor:
        """Predicts what follows a history: the model reads the history, then its own predictions.

        :param history: (B, T, n), or (T, n) for a single sequence
        :param horizon: number of steps to predict, H
        :param actions: (B, T + H - 1, m); the history's actions come first, the last one leads to the last prediction
        :param ahead: for a timed model, a number or (B, T + H - 1)
        :return: (B, H, n), or (H, n) for a single sequence
        """
        if isinstance(history, Tensor) and history.dim() == 2:
            one = actions[None] if isinstance(actions, Tensor) else actions
            time = ahead[None] if isinstance(ahead, Tensor) and ahead.dim() == 1 else ahead
            return self.predict(history[None], horizon, one, time)[0]
        self.check(history, actions, ahead, horizon)
        if ahead is not None:
            check_times(ahead)
        return self.continued(history, horizon, actions, ahead)

    def predict_interval(
        self, history: Tensor, horizon: int, actions: Tensor | None = None, ahead: Tensor | float | None = None,
        off_policy: bool = False,
    ) -> PredictionInterval:  # fmt: skip
        """Returns what `predict` returns, and between which values nine of ten observations are expected.

        An `Ensemble` knows that, and a single model does not.
        """
        raise ValueError(SINGLE)

    def believed_steps(
        self, history: Tensor, horizon: int, actions: Tensor | None = None, ahead: Tensor | float | None = None,
        off_policy: bool = False,
    ) -> Tensor:  # fmt: skip
        """Returns how many steps ahead, of `horizon`, may be believed: (B,), or one number for a single history.

        An `Ensemble` knows that, and a single model does not.
        """
        raise ValueError(SINGLE)

    def continued(self, history: Tensor, horizon: int, actions: Tensor | None, ahead: Tensor | float | None) -> Tensor:
        """Predicts as `predict` does, from arguments that were checked, and keeps gradients if they are enabled."""
        seen, stop = history.shape[1], history.shape[1] + horizon - 1
        found, state = self(history, steps_of(actions, 0, seen), None, steps_of(ahead, 0, seen))
        last: Tensor = found[:, -1:]
        if horizon == 1:
            return last
        rest, _ = self.run_free(last, state, horizon - 1, steps_of(actions, seen, stop), steps_of(ahead, seen, stop))
        return torch.cat([last, rest], dim=1)

    def run_free(
        self, last: Tensor, state: Tensor, steps: int, actions: Tensor | None = None,
        ahead: Tensor | float | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Predicts K further observations, each from the prediction before it.

        :param last: the observation to begin with, (B, 1, n)
        :param state: the state before that observation, (B, S)
        :param steps: K, at least 1
        :param actions: (B, K, m), or None
        :param ahead: the time until each prediction, a number or (B, K), for a timed model
        :return: predictions (B, K, n), and the last state
        """
        predictions = []
        for k in range(steps):
            last, state = self(last, steps_of(actions, k, k + 1), state, steps_of(ahead, k, k + 1))
            predictions.append(last)
        return torch.cat(predictions, dim=1), state

    def check(
        self, observations: Tensor, actions: Tensor | None, ahead: Tensor | float | None, horizon: int = 1
    ) -> None:
        """Refuses observations, actions and times that this model cannot read.

        Times on a GPU are not looked at here: that waits for the GPU, which `predict` does once for all its steps.

        :param horizon: how many observations are to be predicted after the last one
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
        if self.action_size and actions is None:
            raise ValueError(f"this model reads actions: give it the {self.action_size} of every step")
        if not self.action_size and actions is not None:
            raise ValueError(
                'this model reads no actions: leave them out, or fit one with reads="observations+actions"'
            )
        if actions is not None and (actions.dim() != 3 or actions.shape[-1] != self.action_size):
            raise ValueError(
                f"this model reads {self.action_size} actions a step, (batch, time, {self.action_size}), "
                f"got {tuple(actions.shape)}"
            )
        if horizon < 1:
            raise ValueError(f"the horizon must be at least one step, got {horizon}")
        count, seen = observations.shape[:2]
        steps = seen + horizon - 1  # the last prediction is read by nobody, so no action follows it
        words = f"{seen} observations" + (f" and a horizon of {horizon}" if horizon > 1 else "")
        if actions is not None and actions.shape[1] != steps:
            raise ValueError(f"{words} go with {steps} actions, but there are {actions.shape[1]}")
        if actions is not None and len(actions) != count:
            raise ValueError(f"there are {count} sequences of observations, but {len(actions)} of actions")
        if isinstance(ahead, Tensor) and ahead.dim() and tuple(ahead.shape) != (count, steps):
            raise ValueError(
                f"{words} go with the time until each prediction (ahead) as a number, or of shape {(count, steps)}, "
                f"got {tuple(ahead.shape)}"
            )
        # Looking at values on a GPU waits for it, and would end the capture of a CUDA graph.
        if ahead is not None and not (isinstance(ahead, Tensor) and ahead.device.type != "cpu"):
            check_times(ahead)


def check_times(ahead: Tensor | float) -> None:
    """Refuses times until the predictions that are negative or not finite; the message names the first one."""
    values = torch.as_tensor(ahead)
    bad = ~torch.isfinite(values) | (values < 0)
    if bad.any():
        first = torch.nonzero(bad)[0].tolist()
        raise ValueError(
            f"ahead{first or ''} is {values[tuple(first)].item()}: the time until a prediction is finite and not "
            "negative, so sort the data by time first"
        )


def steps_of(values: Any, start: int, stop: int) -> Any:
    """Returns steps start .. stop of a tensor (B, T, ...); a number or None is the same for all steps."""
    return values[:, start:stop] if isinstance(values, Tensor) and values.dim() > 1 else values


def warn_of_actions(kind: type) -> None:
    """Warns that a simulator's number of actions has a new name."""
    warnings.warn(
        f"{kind.__name__}.actions, the number of actions, is now action_size; the old name will go with 0.3",
        DeprecationWarning,
        stacklevel=3,
    )
