"""A recurrent model that tells a class or numbers, for every row of a series or for the whole series."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from ncp_control.neurons import Cell, cell_config, make_cell, named_cell
from ncp_control.rnn import RNN
from ncp_control.series.data import Series, SeriesData
from ncp_control.series.splitting import source_of
from ncp_control.wiring import Plan, Wiring

Floats = NDArray[np.float64]
TINY = 1e-12  # a column whose standard deviation is a smaller share of its largest value does not change


class SeriesModel(nn.Module):
    """Tells what belongs to series, with a circuit that reads their rows and a linear readout.

    With x_t the inputs of a row, m_t = 1 where an input is missing and 0 where it is known, and y motor neurons::

        z_t = (x_t - mean) / std,   0 where x_t is missing
        y_t, s_t = RNN([z_t, m_t of the flagged columns], s_(t-1), elapsed_t / time_unit)
        classes:  logits_t = R y_t + r
        numbers:  target_mean + target_std (R y_t + r)

    If a whole series has one target, only the output after its last row counts. A column that lacks values in the
    training part is flagged: its m_t is an input. A value that is missing in another column is refused, because the
    model has not learnt what that means. If the cell ignores elapsed time and the rows are not equally far apart,
    elapsed_t / time_unit is one more input.

    Example::

        train, valid, test = split_series(read_series("walks.csv:label=activity,group=person,time=t"))
        model = SeriesModel.of(train, "cfc", 32)

    :param cell: the name of a cell, such as "ltc", "cfc", "gru" or "mlp" (on the last five inputs), or a class of one's
        own
    :param wiring: a plan, a built wiring, or a number of fully connected neurons
    :param inputs: the names of the I columns that are read
    :param targets: the names of the O columns of numbers, or of the one column of classes
    :param classes: the names of the C classes; empty where numbers are told
    :param whole: whether a whole series has one target
    :param flagged: which columns have a flag, (I,) bool; none by default
    :param timed: whether the rows are not equally far apart
    :param time_unit: the time that is 1 for the circuit; `of` takes the median interval
    :param mean: (I,), and `std`, the scales of the inputs; 0 and 1 by default
    :param target_mean: (O,), and `target_std`, the scales of the numbers; 0 and 1 by default
    :param clip: scaled inputs are limited to [-clip, clip]
    :param settings: further arguments of the cell
    :param backend: as in `RNN`
    """

    mean: Tensor
    std: Tensor
    target_mean: Tensor
    target_std: Tensor
    has_flag: Tensor

    def __init__(
        self,
        cell: str | type[Cell] = "cfc",
        wiring: Plan | Wiring | int = 32,
        *,
        inputs: Sequence[str],
        targets: Sequence[str],
        classes: Sequence[str] = (),
        whole: bool = False,
        flagged: Sequence[bool] = (),
        timed: bool = False,
        time_unit: float = 1.0,
        mean: ArrayLike | None = None,
        std: ArrayLike | None = None,
        target_mean: ArrayLike | None = None,
        target_std: ArrayLike | None = None,
        clip: float = 10.0,
        settings: dict[str, Any] | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.inputs, self.targets, self.classes = tuple(inputs), tuple(targets), tuple(classes)
        if not self.inputs or not self.targets:
            raise ValueError("a model of series needs at least one input and one target")
        if len(self.classes) == 1 or (self.classes and len(self.targets) != 1):
            raise ValueError(f"a model predicts one of at least two classes of one column, not {len(self.classes)}")
        self.whole, self.timed, self.clip = bool(whole), bool(timed), float(clip)
        self.flagged = tuple(map(bool, flagged)) or (False,) * len(self.inputs)
        if len(self.flagged) != len(self.inputs):
            raise ValueError(f"there are {len(self.flagged)} flags for {len(self.inputs)} inputs")
        if not 0 < time_unit < float("inf") or not 0 < clip <= 1e30:
            raise ValueError(f"time_unit and clip must be positive numbers, got {time_unit} and {clip}")
        self.time_unit = float(time_unit)
        kind = named_cell(cell)
        self.tells_time = self.timed and not kind.uses_elapsed
        width = len(self.inputs) + sum(self.flagged) + int(self.tells_time)
        self.rnn = RNN(make_cell(kind, width, wiring, **(settings or {})), backend)
        self.cell_name = kind.__name__.lower()
        self.readout = nn.Linear(self.rnn.cell.outputs, len(self.classes) or len(self.targets))
        self.note: dict[str, Any] = {}
        numbers = 0 if self.classes else len(self.targets)
        for name, values, size in (
            ("mean", np.zeros(len(self.inputs)) if mean is None else mean, len(self.inputs)),
            ("std", np.ones(len(self.inputs)) if std is None else std, len(self.inputs)),
            ("target_mean", np.zeros(numbers) if target_mean is None else target_mean, numbers),
            ("target_std", np.ones(numbers) if target_std is None else target_std, numbers),
        ):
            tensor = torch.as_tensor(np.asarray(values, np.float64), dtype=torch.float32)
            if tensor.shape != (size,):
                raise ValueError(f"{name} must have shape ({size},), got {tuple(tensor.shape)}")
            self.register_buffer(name, tensor)
        # not in files, which have the flags among the settings
        self.register_buffer("has_flag", torch.tensor(self.flagged), persistent=False)

    @classmethod
    def of(
        cls, train: SeriesData, cell: str | type[Cell] = "cfc", wiring: Plan | Wiring | int = 32, **arguments: Any
    ) -> SeriesModel:
        """Makes a model with the columns, classes, scales, flags and time unit of series.

        :param train: the training part only
        :param arguments: further arguments of the constructor
        """
        rows = np.concatenate([series.inputs for series in train.series])
        for name, column in zip(train.inputs, rows.T, strict=True):
            if np.isnan(column).all():
                raise ValueError(
                    f"{source_of(train)}: the column {name!r} has no value in the training part: leave it out, or "
                    "split otherwise (split=time or split=groups)"
                )
        mean, std = scales_of(rows)
        scales: dict[str, Any] = {"mean": mean, "std": std}
        if not train.classes:
            numbers = np.concatenate([series.targets for series in train.series]).astype(np.float64)
            for name, column in zip(train.targets, numbers.T, strict=True):
                if np.isnan(column).all():
                    raise ValueError(f"{source_of(train)}: no value of {name!r} is known in the training part")
            scales["target_mean"], scales["target_std"] = scales_of(numbers)
        times = [series.elapsed for series in train.series if series.elapsed is not None]
        # the time before the first row of a series is no measured interval
        later = np.concatenate([own[1:] if len(own) > 1 else own for own in times]) if times else np.ones(1)
        usual = float(np.median(later))
        return cls(
            cell,
            wiring,
            inputs=train.inputs,
            targets=train.targets,
            classes=train.classes,
            whole=train.whole,
            flagged=np.isnan(rows).any(axis=0).tolist(),
            timed=bool(times),
            time_unit=usual if usual > 0 else 1.0,
            **scales,
            **arguments,
        )

    def forward(
        self, inputs: Tensor, elapsed: Tensor | float | None = None, state: Tensor | None = None,
        count: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Tells classes or numbers.

        :param inputs: (B, T, I), NaN where a value is missing
        :param elapsed: the time since the row before, a number or (B, T); None where rows are equally far apart
        :param state: the circuit's state before the first row, (B, S); None for the initial state
        :param count: the number of rows of each series, (B,), for a model of whole series; None for T each
        :return: logits (B, T, C) or numbers (B, T, O), of whole series (B, C) or (B, O); and the state after row T
        """
        outputs, state = self.rnn(self.encode(inputs, elapsed), state, elapsed=self.span(elapsed))
        if self.whole:
            steps = outputs.shape[1]
            # the rows behind a shorter series are padding
            last = torch.full((len(outputs),), steps, device=outputs.device) if count is None else count
            outputs = outputs[torch.arange(len(outputs), device=outputs.device), last - 1]
        return self.decode(outputs), state

    def encode(self, inputs: Tensor, elapsed: Tensor | float | None = None) -> Tensor:
        """Returns what the circuit reads, (B, T, inputs + flags): scaled inputs, 0 where one is missing, and flags."""
        if inputs.shape[-1] != len(self.inputs):
            raise ValueError(f"the model reads {len(self.inputs)} inputs, and was given {inputs.shape[-1]}")
        missing = torch.isnan(inputs)
        if inputs.device.type == "cpu":
            self.check_missing(missing)
        # NaN stays NaN through all this, the clamp included
        z = ((inputs - self.mean) / self.std).clamp(-self.clip, self.clip)
        parts = [torch.where(missing & self.has_flag, torch.zeros_like(z), z)]
        parts += [missing[..., k : k + 1].to(z.dtype) for k, flag in enumerate(self.flagged) if flag]
        if self.tells_time:
            span = self.span(elapsed)
            time = span if isinstance(span, Tensor) else z.new_tensor(span)
            parts.append(time.to(z.dtype).expand(z.shape[:2])[..., None])
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]

    def check_missing(self, missing: Tensor) -> None:
        """Refuses a missing value in a column without a flag.

        `predict` and a fit call it before the values go to a GPU, where a look at them would have to wait. On a GPU,
        such a value stays NaN and makes everything that follows from it NaN.

        :param missing: (..., I) bool
        """
        columns = (missing & ~torch.tensor(self.flagged)).flatten(0, -2).any(0).nonzero()
        if len(columns):
            name = self.inputs[int(columns[0])]
            raise ValueError(f"a value of {name!r} is missing, and none was in the training part")

    def decode(self, outputs: Tensor) -> Tensor:
        """Returns logits (..., C) or numbers (..., O) from motor neurons."""
        values: Tensor = self.readout(outputs)
        return values if self.classes else self.target_mean + self.target_std * values

    def span(self, elapsed: Tensor | float | None) -> Tensor | float:
        """Returns the elapsed time for the cell, in its unit."""
        if self.timed and elapsed is None:
            raise ValueError("this model was fitted to irregular time: pass it the time since the row before (elapsed)")
        if not self.timed and elapsed is not None:
            raise ValueError("this model was fitted to rows that are equally far apart: give it no elapsed times")
        return 1.0 if elapsed is None else elapsed / self.time_unit

    @torch.no_grad()
    def predict(self, series: Series) -> Floats:
        """Tells the classes or numbers of one series.

        :param series: its targets are not read
        :return: the probability of each class (T, C), or numbers (T, O); of a whole series (C,) or (O,)
        """
        device = self.mean.device
        inputs = torch.as_tensor(series.inputs, dtype=torch.float32)[None]
        self.check_missing(torch.isnan(inputs))
        elapsed = None
        if series.elapsed is not None:
            elapsed = torch.as_tensor(series.elapsed, dtype=torch.float32, device=device)[None]
        was_training = self.training
        self.eval()
        output = self(inputs.to(device), elapsed)[0][0].double()
        self.train(was_training)
        answer: Floats = (output.softmax(-1) if self.classes else output).cpu().numpy()
        return answer

    def check(self, data: SeriesData) -> None:
        """Refuses series that this model cannot read, or whose targets are not its own."""
        where = source_of(data)
        for what in ("inputs", "targets", "classes"):
            own, other = getattr(self, what), getattr(data, what)
            if own != other:
                raise ValueError(
                    f"{where}: the {what} are {', '.join(other) or 'none'}, and those of the model are "
                    f"{', '.join(own) or 'none'}"
                )
        if data.whole != self.whole:
            kinds = ("every row has a target", "a whole series has one target (each=group)")
            raise ValueError(f"{where}: {kinds[data.whole]}, and for the model {kinds[self.whole]}")
        if self.timed and any(series.elapsed is None for series in data.series):
            raise ValueError(f"{where}: the model was fitted to irregular time, and these have none: name time=")
        if not self.timed and any(series.elapsed is not None for series in data.series):
            raise ValueError(f"{where}: the model was fitted to rows that are equally far apart, and these are not")
        for series in data.series:
            lacking = np.isnan(series.inputs) & ~np.array(self.flagged)
            if lacking.any():
                row, column = (int(k) for k in np.argwhere(lacking)[0])
                raise ValueError(
                    f"{where}: {series.name or 'a series'} lacks {self.inputs[column]!r} in its row {row + 1}"
                    ", of which no value was missing in the training part, so that the model has not learnt what that "
                    "means: remove the row, leave the column out, or split otherwise (split=time or split=groups)"
                )

    def about(self) -> dict[str, Any]:
        """Returns a description of everything but the tensors, as JSON values."""
        return {
            "cell": cell_config(self.rnn.cell), "wiring": json.loads(self.rnn.wiring.to_json()),
            "inputs": list(self.inputs), "targets": list(self.targets), "classes": list(self.classes),
            "whole": self.whole, "flagged": list(self.flagged), "timed": self.timed, "time_unit": self.time_unit,
            "clip": self.clip,
        }  # fmt: skip

    def extra_repr(self) -> str:
        """Shown by `print(model)`."""
        tells = f"{len(self.classes)} classes" if self.classes else f"{len(self.targets)} numbers"
        return f"{len(self.inputs)} inputs, {tells}, whole={self.whole}, timed={self.timed}"


def scales_of(values: Floats) -> tuple[Floats, Floats]:
    """Returns the mean and the standard deviation of the known values of each column, (I,); 1 if it never changes."""
    mean, std = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    still = std <= TINY * np.maximum(1.0, np.nanmax(np.abs(values), axis=0))
    return mean, np.where(still, 1.0, std)
