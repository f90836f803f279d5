"""`fit` and `fit_ensemble`: fit a model to rollouts, in a folder from which the fit can be resumed; and the loss."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ncp_control.base.machine import pick_device
from ncp_control.base.progress import say
from ncp_control.base.ranks import joined
from ncp_control.data import Batch, Rollouts, Split, Windows
from ncp_control.data.digits import check_digits
from ncp_control.dynamics.confidence import calibrate
from ncp_control.dynamics.earlier_files import (
    SERIES,
    first_weights,
    noted_split,
)
from ncp_control.dynamics.ensemble import Ensemble
from ncp_control.dynamics.errors import free_errors, read_batch, robust_error, window_errors
from ncp_control.dynamics.fit_loop import EpochLoop, Fitted
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.model_file import save_model
from ncp_control.dynamics.settings import ASTRAY, FitSettings
from ncp_control.runs.run import BEST, Run, seed_of

STARTS = 4  # steps of each window from which the model continues on its own predictions


def fit(
    model: DynamicsModel,
    rollouts: Rollouts | Split,
    settings: FitSettings | None = None,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    device: str | torch.device = "auto",
    graph: bool | None = None,
    command: str = "",
    note: dict[str, Any] | None = None,
    progress: bool = True,
    on_epoch: Callable[[int], None] | None = None,
) -> Fitted:
    """Fits a model to the training part, and gives it the weights that were best on the validation part.

    The order of the windows in an epoch is a permutation of all of them that follows from the seed and the epoch alone:
    it is the same for rollouts in memory and on disk (`Rollouts.stream`), and a fit that was stopped and resumed ends
    with the same weights as one that was not. The validation error is the median over rollouts (see `robust_error`).

    Under torchrun, all processes share the fit: each computes a share of every batch, and the weights are, up to
    rounding, those of one process. Each calls `fit` with the same arguments, and gets the same results; the first one
    writes the folder.

    The folder `out` receives `best.safetensors`, for `load_model`; `curve.csv`; `run.json`, the record; `board/`, if
    TensorBoard is installed; and `state.safetensors`, from which the fit can be resumed.

    :param model: a new model; see `DynamicsModel.of`
    :param rollouts: if they are not split yet, they are split here
    :param settings: how the model is fitted (see `FitSettings`)
    :param seed: the order of the windows follows from it
    :param out: a folder for this fit alone; None writes nothing
    :param resume: continue the fit in `out`, or start it if the folder holds none
    :param device: "auto" chooses a GPU if there is one
    :param graph: launch the kernels of a step together, from a CUDA graph; the weights are the same up to rounding.
        None does so on a GPU in a single process, and goes on without where a step cannot be captured
    :param command: kept in the record
    :param note: kept in the model's file
    :param progress: show a progress bar on stderr
    :param on_epoch: called after each epoch with the number of epochs done
    """
    settings = (settings or FitSettings()).of_cell(model.cell_name)
    parts = rollouts if isinstance(rollouts, Split) else rollouts.split()
    check(model, parts)
    wanted = pick_device(device)
    with joined(wanted) as ranks:
        graph, first = graph_of(graph, wanted, ranks.count), ranks.first  # only the first process writes
        run = Run(out if first else None, seed=seed, resume=resume, command=command, progress=progress and first)
        short = sum(rollout.steps < settings.length for rollout in parts.train)
        if run.progress and 0 < short < len(parts.train):
            say(
                f"{short} of {len(parts.train)} training rollouts are shorter than a window of {settings.length} steps "
                "and are not used: a smaller length uses them"
            )
        note = {**noted_split(parts), **(note or {})}
        return FitLoop(model, parts, ranks.device(wanted), settings, run, note, on_epoch, ranks, graph).fit()


class FitLoop(EpochLoop[DynamicsModel]):
    """The epochs of the fit of a model of the dynamics.

    :param model: the model that is fitted
    :param parts: the rollouts
    :param device: where the windows are, and the fit is computed; this and the others are those of `EpochLoop`
    """

    def __init__(
        self, model: DynamicsModel, parts: Split, device: torch.device, settings: FitSettings, *others: Any
    ) -> None:
        self.parts = parts
        self.train = Windows(parts.train, settings.length, settings.stride, device=device)
        # The stride of the validation is fixed, so that fits with other training strides can be compared.
        self.valid = Windows(parts.valid, min(settings.length, longest(parts.valid)), 10, device=device)
        super().__init__(model, len(self.train), device, settings, *others)
        self.weight = 1 / model.std.square() if settings.loss == "normalised" else None
        # A state that has parted from the recorded one has nothing to teach: without a limit it would drown the rest.
        usual = 1.0 if settings.loss == "normalised" else float(model.std.square().mean())
        self.astray = settings.robust or ASTRAY * usual
        steps = [part.steps for part in parts]
        if len(set(self.ranks.gather((len(self.train), len(self.valid), *steps)))) > 1:
            raise ValueError("the processes were given different rollouts: give all the same")
        # Other kinds of processors draw other last digits for the same seed.
        model.load_state_dict(self.ranks.from_first(model.state_dict))

    def recorded(self) -> dict[str, Any]:
        """Returns what the record says of the model and of the data, which tells them from any others."""
        about = self.model.about()
        # these belong to the data, whose checksum is in the record, and are not fitted
        del about["action_range"], about["action_names"]
        wiring = hashlib.sha256(json.dumps(about.pop("wiring")).encode()).hexdigest()
        weights = first_weights(self.model.state_dict(), self.run.before)
        series = {SERIES: True} if self.parts.train.about.get(SERIES) else {}
        return {
            "model": {**about, "wiring_sha256": wiring, **weights},
            "data": {"steps": [part.steps for part in self.parts], **series},
        }

    def batches(self, numbers: Iterable[Tensor]) -> Iterator[Any]:
        """Yields a batch of training windows for each tensor of their numbers."""
        return self.train.batches(numbers)

    def draw(self, horizon: int, generator: torch.Generator) -> Tensor | None:
        """Draws the steps from which the model continues on its own."""
        return draw_starts(self.train.length, horizon, generator, self.device)

    def loss(self, batch: Any, horizon: int, drawn: Tensor | None) -> Tensor:
        """Returns the mean loss of the next observation and, with a horizon, of the model's own continuation."""
        settings = self.settings
        return fit_loss(self.model, batch, self.weight, settings.robust, horizon, drawn, settings.forced, self.astray)

    def valid_error(self) -> float:
        """Returns the median error over the validation rollouts."""
        return robust_error(self.valid_errors(), self.valid)

    def save(self, model: DynamicsModel, path: Path, note: dict[str, Any]) -> None:
        """Writes a model with a note."""
        save_model(model, path, note)

    def valid_errors(self) -> Tensor:
        """Returns the validation error of every window, (W,): that of the next observation and, with a horizon, also
        that of the model's own continuation, weighted as in the loss."""
        settings, model, valid, weight = self.settings, self.validated, self.valid, self.weight
        errors = window_errors(model, valid, weight, self.ranks)
        horizon = min(settings.ahead, valid.length)
        if horizon == 1:
            return errors
        free = free_errors(model, valid, horizon, weight, self.astray, self.ranks)
        return settings.forced * errors + (1 - settings.forced) * free


def fit_loss(
    model: DynamicsModel, batch: Batch, weight: Tensor | None, robust: float, horizon: int, starts: Tensor | None,
    share: float = 0.5, astray: float = 0.0,
) -> Tensor:  # fmt: skip
    """Returns the loss of a batch. Nothing here waits for a GPU, so that a CUDA graph can hold it.

    If the horizon H is longer than one step, this is the weighted mean of two losses: the teacher-forced one, and that
    of steps 2 .. H which the model predicts from its own predictions, starting at a few random steps of the windows.

    :param weight: weights of the features' squared errors, (n,); None gives all the same weight
    :param robust: R, or 0 (see `FitSettings`)
    :param horizon: H
    :param starts: these steps, as `draw_starts` returns them
    :param share: the weight of the teacher-forced loss, 0 to 1
    :param astray: R for the steps that the model predicts from its own predictions
    """
    if starts is None:
        predictions, _ = model(**read_batch(model, batch))
        return step_loss(predictions, batch.targets, weight, robust)
    read = read_batch(model, batch)
    predictions, states = model.unrolled(**read)  # type: ignore[arg-type]
    forced = step_loss(predictions, batch.targets, weight, robust)
    # The steps that follow from each start, (STARTS, H).
    spans = starts[:, None] + torch.arange(horizon, device=starts.device)

    def steps(values: Any, first: int, last: int) -> Any:
        """Returns steps start + first .. start + last of every window for each start, (STARTS * B, ...)."""
        if not isinstance(values, Tensor) or values.dim() < 2:  # no time, or one number for all steps
            return values
        return torch.cat([values.index_select(1, span[first:last]) for span in spans])

    actions, ahead = steps(read["actions"], 1, horizon), steps(read["ahead"], 1, horizon)
    # The model goes on from what it predicted itself, with the state that it had when it had read the truth.
    last, state = steps(predictions, 0, 1), steps(states, 0, 1)[:, 0]
    found, _ = model.run_free(last, state, horizon - 1, actions, ahead)
    free = step_loss(found, steps(batch.targets, 1, horizon), weight, astray)
    return share * forced + (1 - share) * free


def draw_starts(length: int, horizon: int, generator: torch.Generator, device: torch.device) -> Tensor | None:
    """Draws the steps from which a model continues on its own predictions, (STARTS,), without waiting for a GPU.

    :param length: steps of a window
    :param horizon: steps that follow from each; 1 needs no steps to start from, and nothing is drawn
    """
    if horizon == 1:
        return None
    starts = torch.randint(0, length - horizon + 1, (STARTS,), generator=generator)
    return starts.to(device, non_blocking=True)  # drawn on the CPU, so that every device draws the same


def step_loss(predictions: Tensor, targets: Tensor, weight: Tensor | None, robust: float) -> Tensor:
    """Returns the mean over steps of e, the mean squared error of a step, or of `R log(1 + e / R)` if R is given."""
    errors = (predictions - targets).square()
    if weight is not None:
        errors = errors * weight
    if not robust:
        return errors.mean()
    return robust * torch.log1p(errors.mean(-1) / robust).mean()


def graph_of(wanted: bool | None, device: torch.device, processes: int) -> bool | None:
    """Returns whether the steps come from a CUDA graph, None if that is to be tried; refuses one that cannot be."""
    if device.type == "cuda" and processes == 1:
        return wanted
    if wanted and device.type != "cuda":
        raise ValueError(f"a CUDA graph needs a GPU, and this fit runs on the {device.type}: leave --graph yes out")
    if wanted:
        raise ValueError(
            "a CUDA graph holds the steps of one process: leave --graph yes out, or start without torchrun"
        )
    return False


def check(model: DynamicsModel, parts: Split) -> None:
    """Refuses rollouts to which the model cannot be fitted."""
    for name, part in zip(Split._fields, parts, strict=True):
        if part.features != model.features:
            raise ValueError(
                f"the {name} rollouts have {part.features} observations a step, and the model predicts {model.features}"
            )
        if model.action_size and part[0].actions is None:
            raise ValueError(f"the model reads actions, and the {name} rollouts have none")
        if model.action_size and part.action_size != model.action_size:
            raise ValueError(
                f"the {name} rollouts have {part.action_size} actions a step, and the model reads {model.action_size}"
            )
    check_digits(parts.train, parts.train.observation_names)
    if model.action_size:
        check_digits(parts.train, model.action_names, "actions")


def longest(rollouts: Rollouts) -> int:
    """Returns the number of steps of the longest rollout."""
    return max(rollout.steps for rollout in rollouts)


def make_seeded(make: Callable[[], DynamicsModel], seed: int) -> DynamicsModel:
    """Makes a model whose first weights follow from the seed, and leaves torch's own random state as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def fit_ensemble(
    make: Callable[[], DynamicsModel],
    parts: Split,
    settings: FitSettings,
    members: int,
    *,
    seed: int = 0,
    out: Path | None = None,
    note: dict[str, Any] | None = None,
    **arguments: Any,
) -> tuple[Ensemble, list[Fitted]]:
    """Fits members one after the other, each from its own seed, in `out/member-K`; then calibrates the ensemble's
    intervals on the validation part, and writes `out/best.safetensors`.

    :param make: makes a new model, with first weights drawn from torch's random state
    :param parts: the rollouts
    :param settings: how each member is fitted
    :param members: number of members
    :param seed: the members' seeds follow from it; the first one's is the seed itself
    :param out: a folder for this ensemble alone; None writes nothing
    :param note: kept in the files
    :param arguments: further arguments of `fit`
    """
    if members < 2:
        raise ValueError(f"an ensemble needs at least two members, got {members}")
    models, fits = [], []
    for k in range(members):
        # The first member is the model that `fit` alone would give.
        own = seed if k == 0 else seed_of(seed, 1_000_000 + k)
        model = make_seeded(make, own)
        folder = None if out is None else out / f"member-{k}"
        fits.append(fit(model, parts, settings, seed=own, out=folder, note=note, **arguments))
        models.append(model)
    ensemble = Ensemble(models)
    progress = bool(arguments.get("progress", True))
    with joined(pick_device(arguments.get("device", "auto"))) as ranks:
        first = ranks.first
        ensemble.calibrations = ranks.from_first(lambda: calibrate(ensemble, parts.valid, progress=progress))
    if out is not None and first:
        save_model(ensemble, out / BEST, {**noted_split(parts), **(note or {}), "seed": seed, "members": members})
    return ensemble, fits
