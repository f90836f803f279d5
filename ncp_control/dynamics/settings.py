"""The settings of a fit, the same for the library and the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import cos, pi
from typing import Any

from ncp_control.base.values import check_optimizer_name, without_added
from ncp_control.neurons.catalogue import row_named

ADDED = {"forced": 0.5, "optimizer": "adam"}  # settings that earlier versions did not have, with what they did
AHEAD, ASTRAY = 20, 0.1  # the usual horizon; the part of the variance from which continuations count as gone astray
LOSSES = ("raw", "normalised")
SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True)
class FitSettings:
    """How a model is fitted. The defaults are the LTC paper's (batches of 16 windows of 32 steps, 200 epochs)."""

    epochs: int = 200
    """Number of passes over the training windows."""

    batch: int = 16
    """Number of windows in a batch."""

    length: int = 32
    """Number of steps in a window."""

    stride: int = 10
    """Steps from one training window to the next of the same rollout."""

    learning_rate: float | None = None
    """Adam's learning rate; the default depends on the cell, from 0.003 to 0.01."""

    optimizer: str = "adam"
    """adam, or muon, which often fits better."""

    schedule: str = "constant"
    """constant, or cosine: the learning rate rises over the first twentieth of the fit, then falls to a hundredth."""

    weight_decay: float = 0.0
    """Decoupled weight decay, as in AdamW."""

    max_grad_norm: float = 10.0
    """Gradients with a larger norm are scaled down to this norm."""

    loss: str = "raw"
    """raw: squared errors in the units of the observations; normalised: divided by the observations' variances."""

    robust: float = 0.0
    """R: count a step's squared error e as R log(1 + e / R), so that large errors count less; 0: count e itself, but
    with a horizon, for what the model predicts from its own predictions, take a tenth of the variance for R."""

    average: float = 0.0
    """Validate and keep a running average of the weights, which retains this share of itself at every step; 0: keep the
    weights themselves."""

    horizon: int = 0
    """Number of steps that the loss predicts from the model's own predictions; it grows from 1 over the first half. 0:
    20 steps, or a whole window if that is shorter; 1: only the next observation counts."""

    forced: float = 0.5
    """With a horizon: the weight of the next observation's error in the loss and in the validation error, from 0 to 1;
    the rest is the weight of the errors that follow when the model feeds itself."""

    patience: int = 0
    """Stop after this many epochs without a lower validation error; 0: never stop early."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "length", "stride"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if (self.learning_rate is not None and not self.learning_rate > 0) or not self.max_grad_norm > 0:
            raise ValueError("learning_rate and max_grad_norm must be positive")
        check_optimizer_name(self.optimizer)
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule is {' or '.join(SCHEDULES)}, not {self.schedule!r}")
        if self.loss not in LOSSES:
            raise ValueError(f"loss is {' or '.join(LOSSES)}, not {self.loss!r}")
        if not 0 <= self.average < 1:
            raise ValueError(f"average is a share from 0 up to 1, such as 0.998, got {self.average}")
        if self.robust < 0 or self.weight_decay < 0 or self.patience < 0:
            raise ValueError("robust, weight_decay and patience must not be negative")
        if not 0 <= self.forced <= 1:
            raise ValueError(f"forced is a weight from 0 to 1, got {self.forced}")
        if self.horizon < 0:
            raise ValueError(f"horizon is a number of steps, or 0 for the usual one, got {self.horizon}")
        if self.horizon > self.length:
            raise ValueError(f"a horizon of {self.horizon} does not fit into windows of {self.length} steps")

    @property
    def ahead(self) -> int:
        """The number of steps that the loss predicts from the model's own predictions."""
        return self.horizon or min(AHEAD, self.length)

    def of_cell(self, cell: str) -> FitSettings:
        """Returns these settings, with the default learning rate of a cell if none was given."""
        return self if self.learning_rate is not None else replace(self, learning_rate=row_named(cell).fit_rate)

    def recorded(self) -> dict[str, Any]:
        """Returns the settings for the record of a fit. A setting that earlier versions lacked is left out where it
        says what these versions did, so that their fits can be resumed."""
        return without_added(asdict(self), ADDED)

    def rate(self, done: float) -> float:
        """Returns the learning rate after a share of the fit, 0 to 1."""
        if self.learning_rate is None:
            raise ValueError("there is no learning rate yet: of_cell(name) gives the cell's default")
        if self.schedule == "constant":
            return self.learning_rate
        if done < 0.05:
            return self.learning_rate * (0.04 + 0.96 * done / 0.05)
        return self.learning_rate * (0.01 + 0.99 * (0.5 + 0.5 * cos(pi * (done - 0.05) / 0.95)))

    def horizon_at(self, epoch: int) -> int:
        """Returns the horizon of the loss in an epoch; the first epoch is 0."""
        return 1 + round((self.ahead - 1) * min(1.0, 2 * (epoch + 1) / self.epochs))
