"""How a model is fitted: one description for the library and the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import cos, pi

# What suited a cell of 32 to 64 units in trials on half-cheetah traces.
RATES = {"ltc": 0.01, "neuralltc": 0.005, "cfc": 0.005, "lstm": 0.01, "gru": 0.005, "ctgru": 0.005, "ctrnn": 0.005,
         "neuralode": 0.005, "mlp": 0.003}  # fmt: skip
LOSSES = ("raw", "normalised")
SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True)
class FitSettings:
    """How a model is fitted. The defaults are the LTC paper's (batches of 16 windows of 32 steps, 200 epochs)."""

    epochs: int = 200
    """How often the training windows are gone through."""

    batch: int = 16
    """Windows in a batch."""

    length: int = 32
    """Steps of a window."""

    stride: int = 10
    """Steps from one training window to the next of the same rollout."""

    learning_rate: float | None = None
    """Of Adam; by default what suits the cell, 0.003 to 0.01."""

    schedule: str = "constant"
    """constant, or cosine: up over the first twentieth, then down to a hundredth."""

    weight_decay: float = 0.0
    """Decoupled, as in AdamW."""

    max_grad_norm: float = 10.0
    """Longer gradients are shortened to this."""

    loss: str = "raw"
    """raw: squared errors in the units of the observations; normalised: over their variances."""

    robust: float = 0.0
    """Count a step's squared error e as R log(1 + e / R): what cannot be foreseen should not steer. 0: as it is."""

    average: float = 0.0
    """Keep a running average of the weights, this much of it each step, and judge and keep that; 0: no average."""

    horizon: int = 1
    """Steps fed by the model's own predictions that the loss looks at; grows from 1 over the first half."""

    patience: int = 0
    """Stop after this many epochs without a better validation; 0: never."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "length", "stride", "horizon"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if (self.learning_rate is not None and not self.learning_rate > 0) or not self.max_grad_norm > 0:
            raise ValueError("learning_rate and max_grad_norm must be positive")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule is {' or '.join(SCHEDULES)}, not {self.schedule!r}")
        if self.loss not in LOSSES:
            raise ValueError(f"loss is {' or '.join(LOSSES)}, not {self.loss!r}")
        if not 0 <= self.average < 1:
            raise ValueError(f"average is a share from 0 up to 1, such as 0.998, got {self.average}")
        if self.robust < 0 or self.weight_decay < 0 or self.patience < 0:
            raise ValueError("robust, weight_decay and patience must not be negative")
        if self.horizon > self.length:
            raise ValueError(f"a horizon of {self.horizon} does not fit into windows of {self.length} steps")

    def of_cell(self, cell: str) -> FitSettings:
        """With the learning rate of a cell where none was given."""
        return self if self.learning_rate is not None else replace(self, learning_rate=RATES.get(cell.lower(), 0.005))

    def rate(self, done: float) -> float:
        """The learning rate when a share of the training, 0 to 1, is done."""
        if self.learning_rate is None:
            raise ValueError("the learning rate is not settled: take of_cell(name)")
        if self.schedule == "constant":
            return self.learning_rate
        if done < 0.05:
            return self.learning_rate * (0.04 + 0.96 * done / 0.05)
        return self.learning_rate * (0.01 + 0.99 * (0.5 + 0.5 * cos(pi * (done - 0.05) / 0.95)))

    def horizon_at(self, epoch: int) -> int:
        """The horizon of the loss in an epoch, 0 the first."""
        return 1 + round((self.horizon - 1) * min(1.0, 2 * (epoch + 1) / self.epochs))
