"""The rows of the comparison: those of the LTC paper's Table 6, models that it lacks, and our own settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from ncp_control.dynamics.settings import FitSettings
from ncp_control.wiring import AutoNCP, Plan

Changes = dict[str, float | int | str]

# Our own settings: a loss that grows slowly for events that cannot be foreseen, averaged weights, a learning rate that
# falls, and windows that overlap more.
TUNED: Changes = {"robust": 2.0, "average": 0.998, "schedule": "cosine", "stride": 5, "batch": 32}
NORMALISED = 0.2  # an error in the units of the observations, times this, is about the same error over their variances


@dataclass(frozen=True)
class ComparisonRow:
    """A model that the comparison fits from several seeds.

    :param name: its name in the table
    :param cell: the name of a cell
    :param wiring: a plan, or a number of fully connected neurons
    :param published: mean and standard deviation of its test error in Table 6
    :param learning_rate: of Adam
    :param changes: settings that differ from the paper's (see `FitSettings`)
    """

    name: str
    cell: str
    wiring: Plan | int = 32
    published: tuple[float, float] | None = None
    learning_rate: float = 0.005
    changes: Changes = field(default_factory=dict)

    def settings(self, epochs: int, loss: str = "raw", horizon: int = 1) -> FitSettings:
        """Returns the settings with which the model is fitted."""
        changes: Changes = {**self.changes, "learning_rate": self.learning_rate, "loss": loss}
        if loss == "normalised" and "robust" in changes:
            changes["robust"] = NORMALISED * float(changes["robust"])
        return FitSettings(epochs=epochs, horizon=horizon, **changes)  # type: ignore[arg-type]


# Each learning rate had the lowest validation error of two or three that were tried, from 0.002 to 0.02, in fits of 50
# or 100 epochs.
ROWS = (
    ComparisonRow("LSTM", "lstm", published=(2.500, 0.140), learning_rate=0.002),
    ComparisonRow("CT-RNN", "ctrnn", published=(2.838, 0.112), learning_rate=0.01),
    ComparisonRow("Neural ODE", "neuralode", published=(3.805, 0.313), learning_rate=0.002),
    ComparisonRow("CT-GRU", "ctgru", published=(3.014, 0.134), learning_rate=0.005),
    ComparisonRow("LTC", "ltc", published=(2.308, 0.015), learning_rate=0.01),
    ComparisonRow("LTC, AutoNCP(32, 8)", "ltc", AutoNCP(32, 8), learning_rate=0.02),
    ComparisonRow("NeuralLTC", "neuralltc", learning_rate=0.01),
    ComparisonRow("CfC", "cfc", learning_rate=0.002),
    ComparisonRow("GRU", "gru", learning_rate=0.002),
    ComparisonRow("MLP, five lags", "mlp", 68, learning_rate=0.003),
    ComparisonRow("LTC, robust", "ltc", 32, learning_rate=0.01, changes=TUNED),
    ComparisonRow("NeuralLTC 64, robust", "neuralltc", 64, learning_rate=0.01, changes=TUNED),
    ComparisonRow("MLP, five lags, robust", "mlp", 68, learning_rate=0.003, changes=TUNED),
)


def choose_rows(names: tuple[str, ...]) -> tuple[ComparisonRow, ...]:
    """Returns the rows with these names, in any case; all rows if there are no names."""
    known = {row.name.lower(): row for row in ROWS}
    for name in names:
        if name.lower() not in known:
            raise ValueError(f"there is no row {name!r}: the rows are {', '.join(repr(row.name) for row in ROWS)}")
    return tuple(known[name.lower()] for name in names) or ROWS
