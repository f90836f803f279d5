"""How well do liquid time-constant circuits forecast a noisy chaotic series, compared with an LSTM of the same size?

A network reads noisy observations of a chaotic series, one a step, and predicts the clean value of the next step. The
series is the first coordinate of the Lorenz system every 0.1, or the Mackey-Glass series with delay 17 every 6. It is
divided in time into training, validation and test parts; no window of a network crosses from one part to the next, and
the series is scaled by its training part. Noise 0.3 is Gaussian noise with 0.3 times the standard deviation of the
series. The error is the root mean square error on the test part divided by the standard deviation of the values to be
predicted there: it is 0 for perfect predictions and 1 for always predicting the mean. These models predict the same
steps:

- `LTC NCP`, liquid neurons in a neural circuit policy; `LTC dense`, the same neurons fully connected; and `LSTM`. Each
  is followed by a linear readout. The LSTM has the width that brings its number of parameters closest to
  `--parameters`, and the circuits have about as many parameters as the LSTM;
- `linear`, least squares on the last 24 observations, and `persistence`, which predicts the last observation.

Networks are trained on windows of 24 steps, of which the first 8 do not count, and tested with the weights that were
best on the validation part. A seed determines the stretch of the series, the noise, the wiring, the first weights and
the batches. Each network's learning rate is the best of 0.01, 0.03, 0.1 and 0.3 by validation error: the geometric mean
over both series, noise 0 and 0.3, and seeds 100 and 101, which the experiment does not use. Other settings were tried
on seed 100 of the Lorenz series: initial ranges, time constants, unfolds and sparsity for the circuits, and a forget
bias of 1 for the LSTM, which did not help.
"""

from __future__ import annotations

import argparse
import copy
import csv
import hashlib
import importlib.util
import json
import math
import multiprocessing
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from chaotic_series import SERIES, clean_series
from forecasting_networks import build
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn

import ncp_control as nc
from ncp_control.base.files import write_atomically

LEARNING_RATES = {"LTC NCP": 0.03, "LTC dense": 0.1, "LSTM": 0.1}
BASELINES = ("linear", "persistence")
LOOKS = {"LTC NCP": "#0072B2 o-", "LTC dense": "#56B4E9 s-", "LSTM": "#D55E00 D-"}
LOOKS |= {"linear": "#555555 ^--", "persistence": "#999999 v--"}
SHOWN = 70  # steps in the picture
SOURCES = [Path(__file__).with_name(f"{name}.py") for name in ("noisy_chaos", "chaotic_series", "forecasting_networks")]

Predict = Callable[[Tensor], Tensor]
Outcome = dict[str, Any]
Errors = dict[str, dict[float, list[float]]]  # by model and noise, one for each seed


@dataclass(frozen=True)
class Run:
    """Everything that determines a result; a kept result is found by it."""

    series: str
    model: str
    noise: float
    seed: int
    parameters: int = 0
    steps: int = 0
    learning_rate: float = 0.0
    train: int = 4000
    valid: int = 1000
    test: int = 1600
    window: int = 24
    warm_up: int = 8
    batch: int = 64
    script: str = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:8]


class Data:
    """A run's series, clean and noisy, (T,), and the times of the windows in each part, (rows, window)."""

    def __init__(self, run: Run) -> None:
        cut = run.train + run.valid
        end = cut + run.test
        clean = clean_series(run.series, end, run.train, run.seed)
        noisy = clean + run.noise * np.random.default_rng([run.seed, 1]).normal(size=end)
        self.clean, self.noisy = (torch.tensor(values, dtype=torch.float32) for values in (clean, noisy))
        self.window, self.warm_up = run.window, run.warm_up
        scored = run.window - run.warm_up
        self.overlapping = self._windows(0, run.train, 1)
        self.train = self._windows(run.window, run.train, scored)
        self.valid, self.test = self._windows(run.train, cut, scored), self._windows(cut, end, scored)

    def _windows(self, start: int, end: int, stride: int) -> Tensor:
        """Returns the times of all windows whose inputs and targets lie in [start, end)."""
        return torch.arange(start, end - self.window, stride)[:, None] + torch.arange(self.window)

    def last_seen(self, times: Tensor) -> Tensor:
        """Returns the observations at the scored times, (rows, window - warm_up)."""
        return self.noisy[times[:, self.warm_up :]]

    def targets(self, times: Tensor) -> Tensor:
        """Returns the clean values one step after the scored times."""
        return self.clean[times[:, self.warm_up :] + 1]

    def error(self, predict: Predict, times: Tensor) -> float:
        """Returns the root mean square error divided by the standard deviation of the values to be predicted."""
        target = self.targets(times)
        return float((predict(times) - target).square().mean().sqrt() / target.std(correction=0))


def train(run: Run) -> Outcome:
    """Does one run and returns its results."""
    torch.set_num_threads(1)
    data = Data(run)
    started = time.process_time()
    predict: Predict
    outcome: Outcome
    if run.model == "persistence":
        predict, outcome = data.last_seen, {"count": 0, "scan": ""}
    elif run.model == "linear":
        predict, outcome = fit_linear(data)
    else:
        predict, outcome = fit_network(run, data)
    return {
        **outcome,
        "seconds": round(time.process_time() - started, 3),
        "valid_error": data.error(predict, data.valid),
        "test_error": data.error(predict, data.test),
        "first_predictions": [round(value, 4) for value in predict(data.test).flatten()[:SHOWN].tolist()],
    }


def fit_linear(data: Data) -> tuple[Predict, Outcome]:
    """Fits a linear function of the last observations, as many as a window has, by least squares."""

    def known(times: Tensor) -> Tensor:
        seen = data.noisy[times[:, data.warm_up :, None] - torch.arange(data.window)].double()
        return torch.cat([seen, torch.ones_like(seen[..., :1])], dim=-1)

    wanted = data.targets(data.train).double().reshape(-1, 1)
    weights = torch.linalg.lstsq(known(data.train).flatten(0, 1), wanted).solution
    return lambda times: (known(times) @ weights)[..., 0].float(), {"count": len(weights), "scan": ""}


def fit_network(run: Run, data: Data) -> tuple[Predict, Outcome]:
    """Trains a network with Adam and a cosine schedule, and validates it every 25 steps."""
    network = build(run.model, run.parameters, run.seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=run.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, run.steps)

    @torch.no_grad()
    def predict(times: Tensor) -> Tensor:
        predicted: Tensor = network(data.noisy[times])[:, run.warm_up :]
        return predicted

    lowest, best = math.inf, network.state_dict()
    for step in range(1, run.steps + 1):
        times = data.overlapping[torch.randint(len(data.overlapping), (run.batch,))]
        predicted = network(data.noisy[times])[:, run.warm_up :]
        optimizer.zero_grad()
        nn.functional.mse_loss(predicted, data.targets(times)).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 25 == 0 or step == run.steps:
            error = data.error(predict, data.valid)
            if error < lowest:
                lowest, best = error, copy.deepcopy(network.state_dict())
    network.load_state_dict(best)
    backends = nc.explain_backends(network.rnn.cell, data.noisy[None, :, None])
    return predict, {"count": network.count(), "scan": next(name for name, (able, _) in backends.items() if able)}


def planned(options: argparse.Namespace) -> list[Run]:
    """Returns all runs, seed by seed."""
    less: dict[str, Any] = {"train": 600, "valid": 200, "test": 200} if options.quick else {}
    size: dict[str, Any] = {"parameters": options.parameters, "steps": options.steps}
    runs = []
    for seed in range(options.seeds):
        for noise in options.noise:
            for model, rate in LEARNING_RATES.items():
                runs.append(Run(options.series, model, noise, seed, learning_rate=rate, **size, **less))
            runs += [Run(options.series, model, noise, seed, **less) for model in BASELINES]
    return runs


def load(path: Path) -> dict[Run, Outcome]:
    """Returns the results that earlier calls have kept."""
    if not path.exists():
        return {}
    try:
        rows = json.loads(path.read_text())["runs"]
        return {Run(**{field.name: row.pop(field.name) for field in fields(Run)}): row for row in rows}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path} is not a file of this script: move it away, or choose another --out") from None


def save(path: Path, results: dict[Run, Outcome]) -> None:
    """Writes one run a line. The file is replaced in one operation, so that it is always complete."""
    lines = ",\n".join(json.dumps({**asdict(run), **outcome}) for run, outcome in results.items())
    write_atomically(path, f'{{"runs": [\n{lines}\n]}}\n'.encode())


def finish(runs: list[Run], results: dict[Run, Outcome], options: argparse.Namespace, console: Console) -> None:
    """Does the runs in `--jobs` processes, and saves and shows the result of each."""
    bar = Progress(console=console, disable=not console.is_terminal, speed_estimate_period=120)
    with bar, ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            # Children inherit this, so that only this process receives Ctrl-C.
            usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
            futures = {pool.submit(train, run): run for run in runs}
            signal.signal(signal.SIGINT, usual)
            task = bar.add_task("starting", total=sum(run.steps for run in runs) or 1)
            for done, future in enumerate(as_completed(futures), start=1):
                run, outcome = futures[future], future.result()
                results[run] = outcome
                save(options.out / "results.json", results)
                error = f"error {outcome['test_error']:.3f}"
                text = f"{done:>3}/{len(runs)}  {run.model}, noise {run.noise:g}, seed {run.seed}: {error}"
                bar.update(task, advance=run.steps, description=text)
                if not console.is_terminal:
                    console.print(text)
        except BaseException:
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    """Returns the mean and the standard deviation over the seeds; the deviation of a single seed is 0."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def errors_of(results: dict[Run, Outcome]) -> Errors:
    """Returns the test errors by model and noise, one for each seed."""
    errors: Errors = {model: {} for model in (*LEARNING_RATES, *BASELINES)}
    for run, outcome in results.items():
        errors[run.model].setdefault(run.noise, []).append(outcome["test_error"])
    return errors


def tabulate(errors: Errors, results: dict[Run, Outcome]) -> Table:
    """Returns a table with a row for each model."""
    table = Table("model", title="Test error, mean ± standard deviation of the seeds", box=box.SIMPLE_HEAD)
    for name in ("parameters", *(f"noise {noise:g}" for noise in errors["LSTM"]), "CPU s", "scan"):
        table.add_column(name, justify="right")
    for model, by_noise in errors.items():
        mine = [outcome for run, outcome in results.items() if run.model == model]
        seconds = statistics.fmean(outcome["seconds"] for outcome in mine)
        cells = ["{:.3f} ± {:.3f}".format(*mean_and_deviation(values)) for values in by_noise.values()]
        table.add_row(model, str(mine[0]["count"]), *cells, f"{seconds:.1f}", mine[0]["scan"])
    return table


def conclude(errors: Errors) -> Iterator[str]:
    """Returns sentences that say what the table shows."""
    noises, lstm = list(errors["LSTM"]), errors["LSTM"]
    for noise in noises:
        (least, best), *others = sorted((statistics.fmean(of[noise]), model) for model, of in errors.items())
        times = ", ".join(f"{model} {mean / least:.2f}" for mean, model in others)
        yield f"Noise {noise:g}: {best} has the lowest error, {least:.3f}. In multiples of it: {times}."
    for model in ("LTC NCP", "LTC dense"):
        pairs = [pair for noise in noises for pair in zip(errors[model][noise], lstm[noise], strict=True)]
        better = sum(mine < its for mine, its in pairs)
        yield f"Seed by seed, {model} has a lower error than the LSTM in {better} of {len(pairs)} cases."
    if len(lstm[noises[0]]) < 3:
        yield "So few seeds say little: another seed can change the order."


def draw(errors: Errors, results: dict[Run, Outcome], path: Path) -> None:
    """Draws the error against the noise, and the first test steps of seed 0 at the highest noise."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), width_ratios=(1, 1.6), layout="constrained")
    for model, by_noise in errors.items():
        mean, deviation = np.array([mean_and_deviation(values) for values in by_noise.values()]).T
        colour, line = LOOKS[model].split()
        left.errorbar(list(by_noise), mean, deviation, fmt=line, color=colour, capsize=3, label=model)
    left.set(xlabel="noise / standard deviation of the series", ylabel="test error / standard deviation", ylim=0)
    left.set_title("mean and standard deviation of the seeds", fontsize="medium")
    left.legend()
    noise = max(errors["LSTM"])
    shown = {run.model: run for run in results if run.seed == 0 and run.noise == noise}
    data = Data(shown["LSTM"])
    times = data.test[:, data.warm_up :].flatten()[:SHOWN] + 1
    right.plot(times, data.clean[times], color="black", linewidth=4, alpha=0.25, label="clean")
    right.plot(times, data.noisy[times], "x", color="black", markersize=4, label="observed")
    for model in ("LTC NCP", "LSTM"):
        predicted = results[shown[model]]["first_predictions"]
        right.plot(times, predicted, color=LOOKS[model].split()[0], label=f"{model}, a step ahead")
    right.set(xlabel="step of the series", ylabel=f"{shown['LSTM'].series}, standardised")
    right.set_title(f"noise {noise:g}, seed 0, start of the test part", fontsize="medium")
    right.margins(y=0.15)
    right.legend(ncols=4, loc="upper center")
    figure.savefig(path, dpi=120)
    plt.close(figure)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose error messages are one line."""

    def error(self, message: str) -> NoReturn:
        """Prints what is wrong, and exits with code 2."""
        self.exit(2, f"noisy_chaos: {message}\n")


def parse(words: list[str] | None) -> argparse.Namespace:
    """Reads the settings, and refuses those that cannot work."""
    example = "example: python scripts/noisy_chaos.py --series mackey-glass --out runs/mackey"
    parser = Parser("noisy_chaos.py", description=(__doc__ or "").split("\n")[0], epilog=example)
    add = parser.add_argument
    add("--series", choices=SERIES, default="lorenz", help="the series to forecast (%(default)s)")
    add("--noise", type=float, nargs="+", default=[0, 0.1, 0.3], metavar="X", help="noise levels (0 0.1 0.3)")
    add("--seeds", type=int, default=5, metavar="N", help="number of seeds (%(default)s)")
    add("--steps", type=int, default=800, metavar="N", help="number of batches to train a network on (%(default)s)")
    add("--parameters", type=int, default=600, metavar="N", help="about how many a network has (%(default)s)")
    add("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N", help="number of processes (%(default)s)")
    add("--out", type=Path, default=Path("runs/noisy_chaos"), metavar="DIR", help="the results' folder (%(default)s)")
    add("--json", action="store_true", help="print one JSON object; everything else goes to stderr")
    add("--quick", action="store_true", help="smaller defaults and less data: checks in seconds that all works")
    options = parser.parse_args(words)
    if options.quick:
        parser.set_defaults(noise=[0, 0.3], seeds=2, steps=25, parameters=150)
        options = parser.parse_args(words)
    for name, least in (("seeds", 1), ("steps", 1), ("parameters", 100), ("jobs", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}, got {getattr(options, name)}")
    options.noise = sorted({float(level) for level in options.noise})
    if not all(0 <= level < math.inf for level in options.noise):
        parser.error(f"--noise must be finite and at least 0, got {' '.join(f'{level:g}' for level in options.noise)}")
    if importlib.util.find_spec("matplotlib") is None:
        parser.error("the picture needs matplotlib: pip install 'ncp-control[plot]'")
    return options


def main(words: list[str] | None = None) -> int:
    """Does the runs that are missing, then writes the results, draws the picture and prints the table."""
    options = parse(words)
    terminal = (sys.stderr if options.json else sys.stdout).isatty()
    console = Console(stderr=options.json, width=None if terminal else 100, highlight=False)
    runs, kept = planned(options), {}
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        kept = load(options.out / "results.json")
        missing = [run for run in runs if run not in kept]
        console.print(f"{len(runs)} runs, {len(runs) - len(missing)} of them done before")
        if missing:
            finish(missing, kept, options, console)
    except OSError as problem:
        print(f"noisy_chaos: cannot keep results in {options.out}: {problem.strerror}", file=sys.stderr)
        return 2
    except ValueError as problem:
        print(f"noisy_chaos: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        done = sum(run in kept for run in runs)
        print(
            f"noisy_chaos: stopped; {done} of {len(runs)} runs are done; the same command continues",
            file=sys.stderr,
        )
        return 130
    results = {run: kept[run] for run in runs}
    errors = errors_of(results)
    with (options.out / "results.csv").open("w", newline="") as file:
        rows = [{**asdict(run), **outcome} for run, outcome in results.items()]
        columns = [name for name in rows[0] if name != "first_predictions"]
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    draw(errors, results, options.out / "noisy_chaos.png")
    console.print(tabulate(errors, results))
    for sentence in conclude(errors):
        console.print(sentence)
    console.print(f"In {options.out}: results.json, results.csv, noisy_chaos.png")
    if options.json:
        counts = {run.model: outcome["count"] for run, outcome in results.items()}
        print(json.dumps({"series": options.series, "parameters": counts, "test_error": errors}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
