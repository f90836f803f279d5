"""How well do liquid time-constant circuits forecast a noisy chaotic series, against an LSTM with as many parameters?

A network sees a chaotic series through noise, one observation a step, and predicts the clean value of the next step.
The series, the first coordinate of the Lorenz system every 0.1 or the Mackey-Glass series of delay 17 every 6, is cut
in time into training, validation and test parts; no network's window crosses a cut, and the scale is the first part's.
Noise 0.3 is Gaussian, with 0.3 times the standard deviation of the series. The error is the root mean square error on
the test part over the standard deviation there: 0 is perfect, 1 is always saying the mean. On the same steps compete

- `LTC NCP`, liquid neurons in a neural circuit policy, `LTC dense`, the same neurons each wired to each, and `LSTM`, a
  linear readout after each. With it the LSTM has as nearly `--parameters` as a width allows, the circuits as the LSTM;
- `linear`, least squares on the last 24 observations, and `persistence`, the last observation.

Networks train on windows of 24 steps, scored after 8; the weights that are best on the validation part are tested. A
seed stands for a stretch of the series, noise, wiring, first weights and batches. Each learning rate was the best of
0.01, 0.03, 0.1 and 0.3 by validation error, the geometric mean over both series, noise 0 and 0.3, seeds 100 and 101,
which the experiment does not use. Also tried, on seed 100 of the Lorenz series: for the circuits initial ranges, time
constants, unfolds, sparsity; for the LSTM a forget bias of 1, which did not help.
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
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn

import ncp_control as nc
from ncp_control.storage.atomic_writes import write_atomically

NETWORKS = {"LTC NCP": 0.03, "LTC dense": 0.1, "LSTM": 0.1}  # and their learning rates
BASELINES = ("linear", "persistence")
LOOKS = {"LTC NCP": "#0072B2 o-", "LTC dense": "#56B4E9 s-", "LSTM": "#D55E00 D-"}
LOOKS |= {"linear": "#555555 ^--", "persistence": "#999999 v--"}
SHOWN = 70  # steps in the picture

Predict = Callable[[Tensor], Tensor]
Outcome = dict[str, Any]
Errors = dict[str, dict[float, list[float]]]  # by model and noise, one for each seed


@dataclass(frozen=True)
class Run:
    """Everything that decides a result; results are found again by it."""

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
    script: str = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


def lorenz(count: int, rng: np.random.Generator) -> np.ndarray:
    """The first coordinate of the Lorenz system (10, 28, 8/3) every 0.1, by the classical Runge-Kutta method."""

    def slope(at: np.ndarray) -> np.ndarray:
        x, y, z = at.tolist()
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    substeps = 5
    h = 0.1 / substeps
    at, path = np.array([0.0, 0.0, 25.0]) + rng.uniform(-10, 10, 3), []
    for _ in range(count * substeps):
        k1 = slope(at)
        k2 = slope(at + h / 2 * k1)
        k3 = slope(at + h / 2 * k2)
        at = at + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(at + h * k3))
        path.append(at[0])
    return np.array(path[::substeps])


def mackey_glass(count: int, rng: np.random.Generator) -> np.ndarray:
    """`dx/dt = 0.2 y / (1 + y^10) - 0.1 x` with `y(t) = x(t - 17)` every 6: exact decay, trapezium rule for growth."""
    substeps = 60
    h = 6 / substeps
    delay, kept = round(17 / h), math.exp(-0.1 * h)
    path = [1.2 + rng.uniform(-0.2, 0.2)] * (delay + 1)
    growth = [0.2 * path[0] / (1 + path[0] ** 10)] * (delay + 1)
    for step in range(count * substeps):
        path.append(kept * path[-1] + (1 - kept) / 0.1 * (growth[step] + growth[step + 1]) / 2)
        growth.append(0.2 * path[-1] / (1 + path[-1] ** 10))
    return np.array(path[delay + 1 :: substeps])


SERIES = {"lorenz": lorenz, "mackey-glass": mackey_glass}


@lru_cache(maxsize=8)
def clean_series(name: str, count: int, train: int, seed: int) -> np.ndarray:
    """The series after 300 samples of settling, scaled by its training part."""
    values = SERIES[name](count + 300, np.random.default_rng([seed, 0]))[300:]
    return np.asarray((values - values[:train].mean()) / values[:train].std())


class Data:
    """A run's series, clean and noisy (T,), and for each part the times (rows, window) of its windows."""

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
        """Windows whose inputs and targets all lie in [start, end)."""
        return torch.arange(start, end - self.window, stride)[:, None] + torch.arange(self.window)

    def last_seen(self, times: Tensor) -> Tensor:
        """The observations at the scored times, (rows, window - warm_up)."""
        return self.noisy[times[:, self.warm_up :]]

    def targets(self, times: Tensor) -> Tensor:
        """The clean values one step after the scored times."""
        return self.clean[times[:, self.warm_up :] + 1]

    def error(self, predict: Predict, times: Tensor) -> float:
        """Root mean square error over the standard deviation of what was to be predicted."""
        target = self.targets(times)
        return float((predict(times) - target).square().mean().sqrt() / target.std(correction=0))


class Forecaster(nn.Module):
    """A recurrent network and its linear readout: predictions (B, T) from observations (B, T)."""

    def __init__(self, cell: nc.Cell) -> None:
        super().__init__()
        self.rnn = nc.RNN(cell)
        self.readout = nn.Linear(cell.outputs, 1)

    def forward(self, observed: Tensor) -> Tensor:
        outputs, _ = self.rnn(observed[..., None])
        predicted: Tensor = self.readout(outputs)[..., 0]
        return predicted

    def count(self) -> int:
        """Numbers that training changes."""
        return sum(parameter.numel() for parameter in self.parameters())


def build(model: str, parameters: int, seed: int) -> Forecaster:
    """A network of about `parameters` parameters, drawn from `seed`."""

    def nearest(make: Callable[[int], nc.Cell], parameters: int) -> int:
        return min(range(2, 60), key=lambda size: abs(Forecaster(make(size)).count() - parameters))

    def liquid(plan: nc.NCP | nc.FullyConnected) -> nc.LTC:
        # Thresholds start where standardised inputs are; the readout scales the motor neurons, which need no map.
        return nc.LTC(1, plan, unfolds=3, init="centred", output_map="none")

    def dense(units: int) -> nc.LTC:
        return liquid(nc.FullyConnected(units, seed=seed))

    def policy(command: int, more: int = 0) -> nc.LTC:
        recurrent = min(command**2 // 2 + more, command**2)
        fans = {"sensory_fanout": command, "inter_fanout": command // 2, "motor_fanin": command // 2}
        return liquid(nc.NCP(command, command, 4, recurrent_command=recurrent, seed=seed, **fans))

    cell: Callable[[], nc.Cell]
    width = nearest(lambda width: nc.LSTM(1, width), parameters)
    equal = Forecaster(nc.LSTM(1, width)).count()
    if model == "LTC NCP":
        command = nearest(policy, equal)
        more = (equal - Forecaster(policy(command)).count()) // 4  # a synapse has four parameters
        cell = partial(policy, command, more)
    elif model == "LTC dense":
        cell = partial(dense, nearest(dense, equal))
    else:
        cell = partial(nc.LSTM, 1, width)
    torch.manual_seed(seed)
    return Forecaster(cell())


def train(run: Run) -> Outcome:
    """What comes of one run."""
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
    """Least squares on the last observations, as many as a window has, and a constant."""

    def known(times: Tensor) -> Tensor:
        seen = data.noisy[times[:, data.warm_up :, None] - torch.arange(data.window)].double()
        return torch.cat([seen, torch.ones_like(seen[..., :1])], dim=-1)

    wanted = data.targets(data.train).double().reshape(-1, 1)
    weights = torch.linalg.lstsq(known(data.train).flatten(0, 1), wanted).solution
    return lambda times: (known(times) @ weights)[..., 0].float(), {"count": len(weights), "scan": ""}


def fit_network(run: Run, data: Data) -> tuple[Predict, Outcome]:
    """Adam, its rate falling to zero along a cosine; every 25 steps a look at the validation part."""
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
    """Every run, seed by seed."""
    less: dict[str, Any] = {"train": 600, "valid": 200, "test": 200} if options.quick else {}
    size: dict[str, Any] = {"parameters": options.parameters, "steps": options.steps}
    runs = []
    for seed in range(options.seeds):
        for noise in options.noise:
            for model, rate in NETWORKS.items():
                runs.append(Run(options.series, model, noise, seed, learning_rate=rate, **size, **less))
            runs += [Run(options.series, model, noise, seed, **less) for model in BASELINES]
    return runs


def load(path: Path) -> dict[Run, Outcome]:
    """What earlier calls have finished."""
    if not path.exists():
        return {}
    try:
        rows = json.loads(path.read_text())["runs"]
        return {Run(**{field.name: row.pop(field.name) for field in fields(Run)}): row for row in rows}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path} is not a file of this script: move it away, or choose another --out") from None


def save(path: Path, results: dict[Run, Outcome]) -> None:
    """One run a line; the file is replaced in one go, so that it is whole whenever this process ends."""
    lines = ",\n".join(json.dumps({**asdict(run), **outcome}) for run, outcome in results.items())
    write_atomically(path, f'{{"runs": [\n{lines}\n]}}\n'.encode())


def finish(runs: list[Run], results: dict[Run, Outcome], options: argparse.Namespace, console: Console) -> None:
    """Does the runs in `--jobs` processes; saves and shows each, in a bar or, where there is no terminal, on a line."""
    bar = Progress(console=console, disable=not console.is_terminal, speed_estimate_period=120)
    with bar, ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            # Children inherit this, so that Ctrl-C reaches this process alone.
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
    """Over the seeds; the deviation of one seed is 0."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def errors_of(results: dict[Run, Outcome]) -> Errors:
    """The test errors, seed by seed."""
    errors: Errors = {model: {} for model in (*NETWORKS, *BASELINES)}
    for run, outcome in results.items():
        errors[run.model].setdefault(run.noise, []).append(outcome["test_error"])
    return errors


def tabulate(errors: Errors, results: dict[Run, Outcome]) -> Table:
    """A row a model."""
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
    """What the table shows, in sentences made of its numbers."""
    noises, lstm = list(errors["LSTM"]), errors["LSTM"]
    for noise in noises:
        (least, best), *others = sorted((statistics.fmean(of[noise]), model) for model, of in errors.items())
        times = ", ".join(f"{model} {mean / least:.2f}" for mean, model in others)
        yield f"Noise {noise:g}: {best} errs least, {least:.3f}. In multiples of that: {times}."
    for model in ("LTC NCP", "LTC dense"):
        pairs = [pair for noise in noises for pair in zip(errors[model][noise], lstm[noise], strict=True)]
        better = sum(mine < its for mine, its in pairs)
        yield f"Seed by seed, {model} errs less than the LSTM in {better} of {len(pairs)} cases."
    if len(lstm[noises[0]]) < 3:
        yield "So few seeds say little: another one can turn the order."


def draw(errors: Errors, results: dict[Run, Outcome], path: Path) -> None:
    """The error against the noise, and the first test steps of seed 0 at the highest noise."""
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
    """An ArgumentParser that complains in one line."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, and leaves with code 2."""
        self.exit(2, f"noisy_chaos: {message}\n")


def parse(words: list[str] | None) -> argparse.Namespace:
    """The settings, checked."""
    example = "example: python scripts/noisy_chaos.py --series mackey-glass --out runs/mackey"
    parser = Parser("noisy_chaos.py", description=(__doc__ or "").split("\n")[0], epilog=example)
    add = parser.add_argument
    add("--series", choices=SERIES, default="lorenz", help="what to forecast (%(default)s)")
    add("--noise", type=float, nargs="+", default=[0, 0.1, 0.3], metavar="X", help="levels (0 0.1 0.3)")
    add("--seeds", type=int, default=5, metavar="N", help="how many (%(default)s)")
    add("--steps", type=int, default=800, metavar="N", help="batches that a network trains on (%(default)s)")
    add("--parameters", type=int, default=600, metavar="N", help="about how many a network has (%(default)s)")
    add("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N", help="processes (%(default)s)")
    add("--out", type=Path, default=Path("runs/noisy_chaos"), metavar="DIR", help="keeps the results (%(default)s)")
    add("--json", action="store_true", help="print one JSON object; all else goes to stderr")
    add("--quick", action="store_true", help="other defaults, less data: some seconds, to see that all works")
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
    """Does the runs that are missing, then writes, draws and tells."""
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
        print(f"noisy_chaos: stopped; {done} of {len(runs)} runs are done, the same command goes on", file=sys.stderr)
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
