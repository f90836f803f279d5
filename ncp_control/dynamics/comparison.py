"""Fits many models to the same rollouts: the LTC paper's Table 6, and rows that it lacks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ncp_control.base.files import write_atomically
from ncp_control.base.processes import INPUTS, Job, JobPlace, Processes, Report
from ncp_control.base.values import without_added
from ncp_control.data import Rollouts, Scaler, Split, Windows
from ncp_control.data.linear import linear_error, mean_error, persistence_error
from ncp_control.data.rollouts import is_paper_data
from ncp_control.data.table_rollouts import bring_data
from ncp_control.dynamics.earlier_files import SERIES, renamed
from ncp_control.dynamics.errors import rollout_errors, window_errors
from ncp_control.dynamics.fit_loop import PACKAGES, DivergedError, Fitted
from ncp_control.dynamics.fitting import fit, make_seeded
from ncp_control.dynamics.model import READS, DynamicsModel
from ncp_control.dynamics.questions import STARTS, ask
from ncp_control.dynamics.settings import FitSettings
from ncp_control.dynamics.table import OPEN_LOOP, RowResult, write_tables
from ncp_control.neurons.catalogue import row_named
from ncp_control.runs.folder import read_record
from ncp_control.runs.run import Run
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


LENGTH, STRIDE = 32, 10  # the paper's windows, in which errors of the next observation are measured
FITS = "fits"
FAR = max(steps for _, steps in OPEN_LOOP)


@dataclass(frozen=True)
class Comparison:
    """Which rollouts the models are fitted to, and how.

    :param source: the rollouts, as `Rollouts.load` reads them
    :param seeds: number of fits of each row; their seeds are 0, 1, ...
    :param epochs: of every fit
    :param actions: whether the models read the actions too
    :param loss: "raw" or "normalised", for the fits and for the table
    :param horizon: of the fits (see `FitSettings`)
    """

    source: str
    seeds: int = 5
    epochs: int = 200
    actions: bool = False
    loss: str = "raw"
    horizon: int = 1

    def recorded(self) -> dict[str, Any]:
        """Returns the values for the record of a comparison, without the horizon that earlier versions always had."""
        return without_added(asdict(self), {"horizon": 1})


def compare(
    what: Comparison,
    out: str | Path,
    rows: Sequence[ComparisonRow] = ROWS,
    *,
    workers: int | None = None,
    place: JobPlace | None = None,
    resume: bool = False,
    command: str = "",
    progress: bool = True,
) -> list[RowResult]:
    """Fits every row from every seed, each in a folder of its own under `out/fits`, in processes of one thread.

    A comparison that was stopped at any moment and then resumed ends with the same table: finished fits are kept, and
    the others continue. Writes `table.txt`, `table.csv`, `rollouts.csv` with the errors of each test rollout and, if
    matplotlib is installed, `table.png`.

    :param what: the rollouts, and how the models are fitted
    :param out: a folder for this comparison alone
    :param rows: the models
    :param workers: number of processes, by default one for each core
    :param place: where the fits are computed, instead of in processes of this machine
    :param resume: continue the comparison in `out`, or start it if the folder holds none
    :param command: kept in the record
    :param progress: show a progress bar on stderr
    """
    if what.seeds < 1:
        raise ValueError(f"a comparison needs at least one seed, got {what.seeds}")
    place = place or (Processes() if workers is None else Processes(workers))
    rollouts = read_rollouts(what)
    if what.actions and rollouts[0].actions is None:
        raise ValueError(f"{what.source} has no actions: compare the models without them")
    for row in rows:
        row.settings(what.epochs, what.loss, what.horizon)  # settings that cannot work are refused here
    run = Run(out, resume=resume, command=command, progress=progress)
    parts = rollouts.split()
    series = bool(parts.train.about.get(SERIES))
    about = {"compared": what.recorded(), "rows": [described(row) for row in rows]}
    about |= {"data": {SERIES: True}} if series else {}
    results = baseline_results(parts, what)
    with run.open(about, PACKAGES, results=(FITS,)):
        fits = run.path(FITS)
        fits.mkdir(exist_ok=True)
        jobs = [(row, seed) for seed in range(what.seeds) for row in rows if not result_path(fits, row, seed).exists()]
        jobs.sort(key=lambda job: -row_named(job[0].cell).cost)  # so that no core is idle at the end
        total = what.seeds * len(rows) * what.epochs
        with run.doing("comparing", total, total - len(jobs) * what.epochs, unit="epochs"):
            if jobs:
                fit_all(jobs, what, series, fits, place, run.tracker)
        in_paper = is_paper_data(rollouts) and what.loss == "raw"
        results += [result_of(row, what, fits, in_paper) for row in rows]
        write_tables(results, run.folder, what.loss)
    return results


def read_rollouts(what: Comparison) -> Rollouts:
    """Reads the rollouts, with actions in a form that models can read if they do."""
    rollouts = Rollouts.load(what.source)
    return rollouts.one_hot() if what.actions else rollouts


def described(row: ComparisonRow) -> dict[str, Any]:
    """Returns a row as JSON values."""
    return {**asdict(row), "wiring": repr(row.wiring)}


def baseline_results(parts: Rollouts | Split, what: Comparison) -> list[RowResult]:
    """Returns the results of predicting no change, the mean, and a linear function of the last observations."""
    train, _, test = parts if isinstance(parts, Split) else parts.split()
    scale = Scaler.fit(train).std if what.loss == "normalised" else None
    windows = Windows(test, LENGTH, STRIDE, dtype=torch.float64)
    features, actions = train.features, 0
    if what.actions and train[0].actions is not None:
        actions = train[0].actions.reshape(train[0].steps, -1).shape[1]

    def size(lags: int) -> int:
        return (lags * (features + actions) + 1) * features

    return [
        RowResult("persistence", [persistence_error(windows, scale)], 0),
        RowResult("mean", [mean_error(Windows(train, LENGTH, STRIDE, dtype=torch.float64), windows, scale)], features),
        RowResult("linear, one lag", [linear_error(train, test, 1, what.actions, scale)], size(1)),
        RowResult("linear, five lags", [linear_error(train, test, 5, what.actions, scale)], size(5)),
    ]


def slug(name: str) -> str:
    """Returns a row's name in a form that can name a folder."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def result_path(fits: Path, row: ComparisonRow, seed: int) -> Path:
    """Returns the path of the file with the result of a finished fit."""
    return fits / f"{slug(row.name)}-s{seed}" / "result.json"


def fit_all(
    jobs: Sequence[tuple[ComparisonRow, int]], what: Comparison, series: bool, fits: Path, place: JobPlace, tracker: Any
) -> None:
    """Fits rows from seeds. The first error, or Ctrl-C, ends all fits, which have kept what they need to resume.

    :param jobs: rows and seeds
    :param series: whether the rollouts are split in time
    :param fits: the folder for the fits
    :param place: where the fits are computed
    :param tracker: shows the progress
    """
    source = bring_data(what.source, fits)
    counted: dict[str, int] = {}
    made = []
    for row, seed in jobs:
        folder = result_path(fits, row, seed).parent.name
        arguments = {"row": row, "seed": seed, "what": replace(what, source=source), "series": series}
        made.append(Job(folder, f"{__name__}:fit_row", arguments, reads=(INPUTS,), writes=(folder,)))
    with closing(place.run(made, fits)) as events:
        for event in events:
            if event.kind == "failed":
                raise event.value
            done = what.epochs if event.kind == "done" else event.progress[0]
            new = done - counted.get(event.job, 0)
            counted[event.job] = done
            note = str(event.value) if event.kind == "done" else event.note
            tracker.advance(done=new, work=new, note=note or None)


def fit_row(
    row: ComparisonRow, seed: int, what: Comparison, report: Report, series: bool | None = None, fits: str = "."
) -> str:
    """Fits a row from a seed, or resumes that fit, and writes its result.

    :param report: is told of the epochs
    :param series: whether the rollouts are split in time; by default as `Rollouts.split` decides
    :param fits: the folder for the fits
    :return: the result in words
    """
    path = result_path(Path(fits), row, seed)
    parts = read_rollouts(what).split(series=series)
    model = make_seeded(lambda: DynamicsModel.of(parts.train, row.cell, row.wiring, reads=READS[what.actions]), seed)
    settings = row.settings(what.epochs, what.loss, what.horizon)
    fitted: Fitted | None = None
    trouble = ""
    try:
        fitted = fit(
            model, parts, settings, seed=seed, out=path.parent, resume=True, device="cpu", progress=False,
            on_epoch=lambda epoch: report(epoch, what.epochs, ""),
        )  # fmt: skip
    except DivergedError as error:
        trouble = str(error)
    result = {
        "error": None,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seconds": fitted.seconds if fitted else None,
        "best_epoch": fitted.best[0] if fitted and fitted.best else None,
        "trouble": trouble,
        **(errors_of(model, parts.test, what) if fitted else {}),
    }
    write_atomically(path, json.dumps(result).encode())
    return f"{row.name}, seed {seed}: {trouble or format(result['error'], '.4g')}"


def errors_of(model: DynamicsModel, test: Rollouts, what: Comparison) -> dict[str, Any]:
    """Returns a fitted model's errors on the test rollouts, as JSON values.

    :return: "error", of the next observation; "rollouts", the same for each rollout, with its name, None for one that
        is too short; and "open_loop", the mean errors over variances for those of `OPEN_LOOP` that are known
    """
    weight = 1 / model.std.square() if what.loss == "normalised" else None
    windows = Windows(test, LENGTH, STRIDE)
    errors = window_errors(model, windows, weight)
    each = [None if math.isnan(error) else error for error in rollout_errors(errors, windows).tolist()]
    known = {
        "error": float(errors.mean()),
        "rollouts": [[rollout.name, error] for rollout, error in zip(test, each, strict=True)],
    }
    horizon = min(FAR, max(len(rollout.observations) for rollout in test[:STARTS]) - LENGTH)
    if horizon < 1:
        return {**known, "open_loop": {}}
    rows = ask(model, test, horizon, LENGTH, floors=False).rows(range(1, horizon + 1))
    keys = {"recorded": "mean", "off-policy": "off_policy_mean"}
    ahead = {f"{after} {k}": rows[k - 1][keys[after]] for after, k in OPEN_LOOP if k <= horizon}
    return {**known, "open_loop": {name: error for name, error in ahead.items() if error is not None}}


def read_result(path: Path) -> dict[str, Any]:
    """Reads the result that `fit_row` wrote. Those of earlier versions have neither "rollouts" nor "open_loop"."""
    result = {"rollouts": [], "open_loop": {}, **read_record(path)}
    each, ahead = result["rollouts"], result["open_loop"]
    if isinstance(ahead, dict):
        result["open_loop"] = ahead = {renamed(name): error for name, error in ahead.items()}
    whole = isinstance(ahead, dict) and isinstance(each, list) and all(map(is_named_number, each))
    numbers = [result.get(key) for key in ("error", "seconds", "parameters")] + (list(ahead.values()) if whole else [])
    if not whole or not all(map(is_number, numbers)):
        raise ValueError(f"{path} is not the result of a fit: remove it, and resume to make it again")
    return result


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number, or null in the place of one."""
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def is_named_number(value: Any) -> bool:
    """Whether a JSON value is a pair of a text and a number, or of a text and null."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and is_number(value[1])


def result_of(row: ComparisonRow, what: Comparison, fits: Path, in_paper: bool) -> RowResult:
    """Reads the results of all fits of a row.

    :param in_paper: whether the paper's error was measured on the same data and in the same units
    """
    results = [read_result(result_path(fits, row, seed)) for seed in range(what.seeds)]
    whole = [result for result in results if result["error"] is not None]
    return RowResult(
        row.name,
        [result["error"] for result in results],
        results[0]["parameters"],
        seconds=sum(result["seconds"] for result in whole) / len(whole) if whole else None,
        published=row.published if in_paper else None,
        open_loop=mean_of_all([result["open_loop"] for result in whole]),
        rollouts=[result["rollouts"] for result in results],
        trouble=next((str(result["trouble"]) for result in results if result.get("trouble")), ""),
    )


def mean_of_all(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """Returns the means of those entries that all dictionaries have."""
    names = [name for name in (found[0] if found else {}) if all(name in one for one in found)]
    return {name: sum(one[name] for one in found) / len(found) for name in names}
