"""What is compared: the rows of the LTC paper's Table 6, those it lacks, and ours."""

from __future__ import annotations

from dataclasses import dataclass, field

from ncp_control.dynamics.settings import FitSettings
from ncp_control.wiring import AutoNCP, Plan

Changes = dict[str, float | int | str]

# Our own settings: what cannot be foreseen does not steer, weights are averaged, the rate falls, windows overlap more.
TUNED: Changes = {"robust": 2.0, "average": 0.998, "schedule": "cosine", "stride": 5, "batch": 32}
NORMALISED = 0.2  # of an error in the units of observations, about, is the same error over their variances


@dataclass(frozen=True)
class Row:
    """A model that is fitted from several seeds.

    :param name: what the table calls it
    :param cell: a cell's name, or "mlp"
    :param wiring: a plan, or a number of fully connected neurons
    :param published: mean and spread of its test error in Table 6
    :param learning_rate: of Adam
    :param changes: other settings than the paper's (see `FitSettings`)
    """

    name: str
    cell: str
    wiring: Plan | int = 32
    published: tuple[float, float] | None = None
    learning_rate: float = 0.005
    changes: Changes = field(default_factory=dict)

    def settings(self, epochs: int, loss: str = "raw") -> FitSettings:
        """How it is fitted."""
        changes: Changes = {**self.changes, "learning_rate": self.learning_rate, "loss": loss}
        if loss == "normalised" and "robust" in changes:
            changes["robust"] = NORMALISED * float(changes["robust"])
        return FitSettings(epochs=epochs, **changes)  # type: ignore[arg-type]


# The rates had the lowest validation error of the two or three tried, from 0.002 to 0.02, in a fit of 50 or 100 epochs.
ROWS = (
    Row("LSTM", "lstm", published=(2.500, 0.140), learning_rate=0.002),
    Row("CT-RNN", "ctrnn", published=(2.838, 0.112), learning_rate=0.01),
    Row("Neural ODE", "neuralode", published=(3.805, 0.313), learning_rate=0.002),
    Row("CT-GRU", "ctgru", published=(3.014, 0.134), learning_rate=0.005),
    Row("LTC", "ltc", published=(2.308, 0.015), learning_rate=0.01),
    Row("LTC, AutoNCP(32, 8)", "ltc", AutoNCP(32, 8), learning_rate=0.02),
    Row("NeuralLTC", "neuralltc", learning_rate=0.01),
    Row("CfC", "cfc", learning_rate=0.002),
    Row("GRU", "gru", learning_rate=0.002),
    Row("MLP, five lags", "mlp", 68, learning_rate=0.003),
    Row("LTC, robust", "ltc", 32, learning_rate=0.01, changes=TUNED),
    Row("NeuralLTC 64, robust", "neuralltc", 64, learning_rate=0.01, changes=TUNED),
    Row("MLP, five lags, robust", "mlp", 68, learning_rate=0.003, changes=TUNED),
)


def choose(names: tuple[str, ...]) -> tuple[Row, ...]:
    """The rows of these names, in any case; all of them for none."""
    known = {row.name.lower(): row for row in ROWS}
    for name in names:
        if name.lower() not in known:
            raise ValueError(f"there is no row {name!r}: the rows are {', '.join(repr(row.name) for row in ROWS)}")
    return tuple(known[name.lower()] for name in names) or ROWS
