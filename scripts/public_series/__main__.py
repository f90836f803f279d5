"""Compare the cells on one of the papers' public series, beside the papers' figures.

The script fits every cell once for each seed, and prints the mean and the standard deviation of the scores on the test
part. The figures beside them are from Tables 3, 4 and 5 of Hasani, Lechner, Amini, Rus and Grosu, "Liquid time-constant
networks" (2021). `README.md` beside this file tells why the two columns are comparable only in part; in particular,
the paper weighs an ozone day 15 times in its loss, and this script does not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from ncp_control.base.files import write_atomically
from ncp_control.dynamics.settings import FitSettings
from ncp_control.series.data import SeriesData
from ncp_control.series.fitting import fit_series
from ncp_control.series.model import SeriesModel
from ncp_control.series.scores import ClassScores, NumberScores, score
from ncp_control.series.splitting import split_series
from scripts.public_series.sets import PUBLIC, load_public

CELLS = ("ltc", "ctrnn", "neuralode", "ctgru", "lstm", "neuralltc", "cfc")
# Mean and standard deviation of five runs. Accuracies are percentages, except in Table 5.
PAPER: dict[str, dict[str, str]] = {
    "gesture": {"lstm": "64.57 ± 0.59", "ctrnn": "59.01 ± 1.22", "neuralode": "46.97 ± 3.03", "ctgru": "68.31 ± 1.78",
                "ltc": "69.55 ± 1.13"},
    "occupancy": {"lstm": "93.18 ± 1.66", "ctrnn": "94.54 ± 0.54", "neuralode": "90.15 ± 1.71", "ctgru": "91.44 ± 1.67",
                  "ltc": "94.63 ± 0.17"},
    "har": {"lstm": "95.85 ± 0.29", "ctrnn": "95.73 ± 0.47", "neuralode": "97.26 ± 0.10", "ctgru": "96.16 ± 0.39",
            "ltc": "95.67 ± 0.575"},
    "smnist": {"lstm": "98.41 ± 0.12", "ctrnn": "96.73 ± 0.19", "neuralode": "97.61 ± 0.14", "ctgru": "98.27 ± 0.14",
               "ltc": "97.57 ± 0.18"},
    "traffic": {"lstm": "0.169 ± 0.004", "ctrnn": "0.224 ± 0.008", "neuralode": "1.512 ± 0.179",
                "ctgru": "0.389 ± 0.076", "ltc": "0.099 ± 0.0095"},
    "power": {"lstm": "0.628 ± 0.003", "ctrnn": "0.742 ± 0.005", "neuralode": "1.254 ± 0.149",
              "ctgru": "0.586 ± 0.003", "ltc": "0.642 ± 0.021"},
    "ozone": {"lstm": "0.284 ± 0.025", "ctrnn": "0.236 ± 0.011", "neuralode": "0.168 ± 0.006",
              "ctgru": "0.260 ± 0.024", "ltc": "0.302 ± 0.0155"},
    "person-1": {"lstm": "83.59 ± 0.40", "ctrnn": "81.54 ± 0.33", "ctgru": "85.27 ± 0.39", "ltc": "85.48 ± 0.40"},
    "person-2": {"ltc": "88.2 ± 0.5"},  # 0.882 ± 0.005 in Table 5
}  # fmt: skip


@dataclass
class Arguments:
    """Fit all cells to a public set whose files you have, and print a table.

    Example: python -m scripts.public_series --name occupancy --folder downloads/occupancy --seeds 0 1 2 3 4
    """

    name: str
    """The name of the set, as in `load_public`."""

    folder: Path
    """The folder with its files."""

    cells: tuple[str, ...] = CELLS
    """The cells."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """The seeds of the fits, and of the random parts."""

    neurons: int = 32
    """Neurons of each cell."""

    epochs: int = 200
    """Passes over the training part."""

    stride: int | None = None
    """Rows from one window to the next, in place of the set's own; 32 makes windows without a row in common."""

    json: Path | None = None
    """Also write every number to this file."""


def score_of(name: str, found: ClassScores | NumberScores) -> float:
    """Returns the paper's score of a set: an accuracy in percent, the F1 of ozone days, or a squared error."""
    if isinstance(found, NumberScores):
        return found.mse
    if PUBLIC[name].score != "F1":
        return 100 * found.accuracy
    there, told = found.confusion[1].sum(), found.confusion[:, 1].sum()
    return float(2 * found.confusion[1, 1] / max(there + told, 1))


def measure(data: SeriesData, cell: str, seed: int, arguments: Arguments) -> dict[str, Any]:
    """Fits one cell, and returns its score on the test part and its size."""
    parts = split_series(data)
    torch.manual_seed(seed)
    model = SeriesModel.of(parts.train, cell, arguments.neurons)
    longest = max(len(one.inputs) for one in parts.train.series)  # so that no window is cut once more
    settings = FitSettings(epochs=arguments.epochs, length=longest)
    fit_series(model, parts, settings, seed=seed)
    value = score_of(arguments.name, score(model, parts.test))
    return {"cell": cell, "seed": seed, "score": value, "parameters": sum(one.numel() for one in model.parameters())}


def table_of(arguments: Arguments, found: list[dict[str, Any]]) -> Table:
    """Returns the mean scores beside the paper's."""
    unit = {"accuracy": "accuracy, %", "F1": "F1"}.get(PUBLIC[arguments.name].score, "squared error")
    table = Table("cell", "parameters", f"{unit}, {len(arguments.seeds)} seeds", "the paper, 5 runs")
    for cell in arguments.cells:
        own = [one for one in found if one["cell"] == cell]
        values = np.array([one["score"] for one in own])
        spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
        paper = PAPER.get(arguments.name, {}).get(cell, "")
        table.add_row(cell, f"{own[0]['parameters']:,}", f"{values.mean():.3f}{spread}", paper)
    return table


def main(arguments: Arguments) -> None:
    """Fits every cell with every seed, and prints the table."""
    found = []
    for seed in arguments.seeds:
        data = load_public(arguments.name, arguments.folder, seed=seed, stride=arguments.stride)
        found += [measure(data, cell, seed, arguments) for cell in arguments.cells]
    Console().print(table_of(arguments, found))
    if arguments.json:
        write_atomically(arguments.json, json.dumps(found, indent=2).encode())


if __name__ == "__main__":
    main(tyro.cli(Arguments))
