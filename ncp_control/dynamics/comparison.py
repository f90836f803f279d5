"""Many fits of many models to the same rollouts: the LTC paper's Table 6, and the rows it lacks."""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import re
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ncp_control.data import Rollouts, Scaler, Windows
from ncp_control.data.linear import linear_error, mean_error, persistence_error
from ncp_control.dynamics.errors import one_step_error
from ncp_control.dynamics.fitting import PACKAGES, DivergedError, Fitted, fit
from ncp_control.dynamics.many import make_seeded
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.rows import ROWS, Row
from ncp_control.dynamics.table import Line, write_tables
from ncp_control.storage.atomic_writes import write_atomically
from ncp_control.storage.run_folder import prepare_run, read_record, versions
from ncp_control.support.processes import end_with_parent
from ncp_control.support.progress import tracked

# What a fit takes, roughly, compared with the others': the long ones go first, so that no core waits at the end.
WEIGHTS = {"ltc": 3.0, "neuralode": 3.0, "ctgru": 4.0, "neuralltc": 2.0}
SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class Comparison:
    """What is compared on what.

    :param source: as `Rollouts.load` reads it
    :param seeds: how many fits of each row; their seeds are 0, 1, ...
    :param epochs: of every fit
    :param actions: models read the actions too
    :param loss: "raw" or "normalised", of the fits and of the table
    """

    source: str
    seeds: int = 5
    epochs: int = 200
    actions: bool = False
    loss: str = "raw"


def compare(
    what: Comparison,
    out: str | Path,
    rows: Sequence[Row] = ROWS,
    *,
    workers: int | None = None,
    resume: bool = False,
    command: str = "",
    progress: bool = True,
) -> list[Line]:
    """Fits every row from every seed, each in a folder of its own under `out/fits`, in processes of one thread.

    A comparison that was stopped at any moment and is resumed ends with the same table: finished fits are kept, the
    others go on from where they were. Writes `table.txt`, `table.csv` and, where matplotlib is installed, `table.png`.

    :param out: a folder for this comparison alone
    :param rows: what is fitted
    :param workers: processes; one a core by default
    :param command: kept in the record
    """
    if what.seeds < 1:
        raise ValueError(f"a comparison needs at least one seed, got {what.seeds}")
    workers = os.cpu_count() or 1 if workers is None else workers
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    rollouts = Rollouts.load(what.source)
    if what.actions and rollouts[0].actions is None:
        raise ValueError(f"{what.source} has no actions: compare the models without them")
    for row in rows:
        row.settings(what.epochs, what.loss)
    out = Path(out)
    about = {"compared": asdict(what), "rows": [described(row) for row in rows]}
    lines = simple_lines(rollouts, what)
    with prepare_run(out, about, resume, command=command, versions=versions(PACKAGES)):
        fits = out / "fits"
        fits.mkdir(exist_ok=True)
        jobs = [(row, seed) for seed in range(what.seeds) for row in rows if not result_of(fits, row, seed).exists()]
        jobs.sort(key=lambda job: -WEIGHTS.get(job[0].cell, 1.0))
        total = what.seeds * len(rows) * what.epochs
        with tracked("comparing", total, total - len(jobs) * what.epochs, unit="epochs", shown=progress) as tracker:
            if jobs:
                in_processes(jobs, what, fits, workers, tracker)
        lines += [line_of(row, what, fits) for row in rows]
        write_tables(lines, out, what.loss)
    return lines


def described(row: Row) -> dict[str, Any]:
    """A row as JSON values."""
    return {**asdict(row), "wiring": repr(row.wiring)}


def simple_lines(rollouts: Rollouts, what: Comparison) -> list[Line]:
    """What can be said without a network."""
    train, _, test = rollouts.split()
    scale = Scaler.fit(train).std if what.loss == "normalised" else None
    windows = Windows(test, 32, 10, dtype=torch.float64)
    features, actions = train.features, 0
    if what.actions and train[0].actions is not None:
        actions = train[0].actions.reshape(train[0].steps, -1).shape[1]

    def size(lags: int) -> int:
        return (lags * (features + actions) + 1) * features

    return [
        Line("persistence", [persistence_error(windows, scale)], 0),
        Line("mean", [mean_error(Windows(train, 32, 10, dtype=torch.float64), windows, scale)], features),
        Line("linear, one lag", [linear_error(train, test, 1, what.actions, scale)], size(1)),
        Line("linear, five lags", [linear_error(train, test, 5, what.actions, scale)], size(5)),
    ]


def slug(name: str) -> str:
    """A row's name as a folder's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def result_of(fits: Path, row: Row, seed: int) -> Path:
    """Where a finished fit's result lies."""
    return fits / f"{slug(row.name)}-s{seed}" / "result.json"


def in_processes(jobs: Sequence[tuple[Row, int]], what: Comparison, fits: Path, workers: int, tracker: Any) -> None:
    """Does all jobs; the first error or Ctrl-C ends the others, which keep what they have."""
    context = multiprocessing.get_context("spawn")
    epochs = context.Queue()
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, prepare_worker, (epochs,))
    waiting: set[Future[str]] = set()
    try:
        waiting = {pool.submit(do, row, seed, what, str(fits)) for row, seed in jobs}
        while waiting:
            finished, waiting = wait(waiting, SECONDS_BETWEEN_LOOKS, FIRST_EXCEPTION)
            count = drain(epochs)
            note = ""
            for future in finished:
                note = future.result()
            tracker.advance(done=count, work=count, note=note or None)
    except BrokenProcessPool as error:
        raise ChildProcessError("a worker process was killed, for want of memory perhaps: resume with fewer") from error
    except BaseException:
        for future in waiting:
            future.cancel()
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def drain(epochs: Any) -> int:
    """How many epochs were reported since the last look."""
    count = 0
    while True:
        try:
            count += int(epochs.get_nowait())
        except queue.Empty:
            return count


_reports: Any = None


def prepare_worker(epochs: Any) -> None:
    """One thread; where to report; no life after the one that waits for the fits."""
    global _reports
    end_with_parent()
    _reports = epochs
    torch.set_num_threads(1)


def do(row: Row, seed: int, what: Comparison, fits: str) -> str:
    """One fit, resumed if it was begun; what came of it in words."""
    path = result_of(Path(fits), row, seed)
    parts = Rollouts.load(what.source).split()
    inputs = "observations+actions" if what.actions else "observations"
    model = make_seeded(lambda: DynamicsModel.of(parts.train, row.cell, row.wiring, inputs=inputs), seed)
    settings = row.settings(what.epochs, what.loss)
    done = 0

    def report(epoch: int) -> None:
        nonlocal done
        _reports.put(epoch - done)
        done = epoch

    found: Fitted | None = None
    trouble = ""
    try:
        found = fit(
            model, parts, settings, seed=seed, out=path.parent, resume=True, device="cpu", progress=False,
            on_epoch=report,
        )  # fmt: skip
    except DivergedError as error:
        trouble = str(error)
    scale = model.std if what.loss == "normalised" else None
    result = {
        "error": one_step_error(model, parts.test, scale=scale) if found else None,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seconds": found.seconds if found else None,
        "best_epoch": found.best[0] if found and found.best else None,
        "trouble": trouble,
    }
    report(what.epochs)
    write_atomically(path, json.dumps(result).encode())
    return f"{row.name}, seed {seed}: {trouble or format(result['error'], '.4g')}"


def read_result(path: Path) -> dict[str, Any]:
    """What `do` left of a finished fit."""
    found = read_record(path)
    numbers = [found.get(key) for key in ("error", "seconds", "parameters")]
    if any(isinstance(value, bool) or not isinstance(value, int | float | None) for value in numbers):
        raise ValueError(f"{path} is not the result of a fit: remove it, and resume to make it again")
    return found


def line_of(row: Row, what: Comparison, fits: Path) -> Line:
    """The fits of a row."""
    results = [read_result(result_of(fits, row, seed)) for seed in range(what.seeds)]
    whole = [result for result in results if result["error"] is not None]
    return Line(
        row.name,
        [result["error"] for result in results],
        results[0]["parameters"],
        seconds=sum(result["seconds"] for result in whole) / len(whole) if whole else None,
        published=row.published,
    )
