"""The epochs of a fit in its folder: the record, the passes over the windows, and the state from which they go on."""

from __future__ import annotations

import copy
import json
import math
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from ncp_control.base.muon import Muon
from ncp_control.base.notes import read_object
from ncp_control.base.ranks import Ranks
from ncp_control.base.tensors import check_optimizer, described_in, pack, read_tensors, unpack, write_tensors
from ncp_control.dynamics.captured_step import CapturedStep
from ncp_control.dynamics.earlier_files import settings_of_run
from ncp_control.dynamics.settings import FitSettings
from ncp_control.runs.curve import LearningCurve
from ncp_control.runs.run import BEST, STATE, Run

PACKAGES = ("ncp-control", "torch", "numpy")
RANKS = "processes"  # how many share the fit, in the record if there are several
DEVICE = "device"  # what it computes on, in the record if this is not a CPU, which rounds otherwise
FORMAT, VERSION, DESCRIBED = "ncp_control.fit", 1, ("state",)
SECONDS_BETWEEN_CHECKPOINTS = 10.0
SECONDS_VARIABLE = "NCP_CONTROL_FIT_SECONDS"  # the environment variable that changes them


M = TypeVar("M", bound=nn.Module)  # what is fitted


class DivergedError(ValueError):
    """A loss or a validation error was not finite; the best weights from before are kept."""


@dataclass
class Fitted:
    """The results of a fit. The model itself then has its best weights.

    :param curve: training loss and validation error of every epoch
    :param best: the epoch with the lowest validation error, where 1 is the first, and that error
    :param seconds: the duration, including all resumptions
    """

    curve: list[tuple[float, float]] = field(default_factory=list)
    best: tuple[int, float] | None = None
    seconds: float = 0.0


class EpochLoop(ABC, Generic[M]):
    """The epochs of a fit, whatever is fitted.

    Several processes may share it. Each has the same model and windows, and computes the gradients of its share of
    every batch, which are then averaged; so the models remain the same. Only the first process has a folder.

    :param model: the model that is fitted
    :param windows: the number of training windows
    :param device: where the windows are
    :param settings: how the model is fitted
    :param run: the run; the order of the windows follows from its seed
    :param note: kept in the model's file
    :param on_epoch: called after each epoch with the number of epochs done
    :param ranks: the processes that share the fit
    :param graph: replay the steps of whole batches from a CUDA graph, in a single process on a GPU; None does so if
        they can be captured
    """

    unit = "windows"  # of the work whose rate is shown

    def __init__(
        self,
        model: M,
        windows: int,
        device: torch.device,
        settings: FitSettings,
        run: Run,
        note: dict[str, Any],
        on_epoch: Callable[[int], None] | None = None,
        ranks: Ranks | None = None,
        graph: bool | None = False,
    ) -> None:
        self.model, self.windows, self.device, self.run = model, windows, device, run
        self.note, self.on_epoch, self.ranks, self.graph = note, on_epoch, ranks or Ranks(), graph
        self.settings = self.ranks.from_first(lambda: settings_of_run(settings, run.before))
        self.steps = -(-windows // settings.batch)
        self.curve: LearningCurve[tuple[int, float, float]] = LearningCurve(
            ("epoch", "loss", "valid"), "valid", least=True
        )
        self.best: dict[str, Tensor] = {}  # the weights after the best epoch
        self.unwritten: dict[str, Any] | None = None  # the state after the last epoch, until it is written
        self.written = time.monotonic()

    @abstractmethod
    def recorded(self) -> dict[str, Any]:
        """Returns what the record says of the model and of the data, which tells them from any others."""

    @abstractmethod
    def batches(self, numbers: Iterable[Tensor]) -> Iterator[Any]:
        """Yields a batch of training windows for each tensor of their numbers."""

    @abstractmethod
    def draw(self, horizon: int, generator: torch.Generator) -> Tensor | None:
        """Draws what is random about the loss of a batch."""

    @abstractmethod
    def loss(self, batch: Any, horizon: int, drawn: Tensor | None) -> Tensor:
        """Returns the mean loss of the model on a batch."""

    @abstractmethod
    def valid_error(self) -> float:
        """Returns the error of the validated model on the validation part."""

    @abstractmethod
    def save(self, model: M, path: Path, note: dict[str, Any]) -> None:
        """Writes a model with a note."""

    def fit(self) -> Fitted:
        """Does all epochs that are left, in the run's folder; the model then has its best weights."""
        with ExitStack() as held:
            self.ranks.from_first(lambda: held.enter_context(self.run.open(self.about(), PACKAGES, results=(STATE,))))
            held.enter_context(
                self.run.doing("fitting", self.settings.epochs, unit=self.unit, kept="the model has its best weights")
            )
            held.callback(self.model.to, next(self.model.parameters()).device)
            self.begin()
            try:
                self.run_epochs()
            finally:
                self.finish()
        return self.fitted()

    def begin(self) -> None:
        """Brings the model to its device, makes its optimizer, and goes on from the state if there is one."""
        settings, run = self.settings, self.run
        self.model.to(self.device)
        # the model that is validated and kept: the running average of the weights, or the model itself
        self.validated = copy.deepcopy(self.model) if settings.average else self.model
        self.optimizer = make_optimizer(self.model, settings)
        self.captured: CapturedStep | None = None
        if self.graph is not False:
            size = min(settings.batch, self.windows)
            self.captured = CapturedStep(self.update, self.optimizer, size, self.device, needed=bool(self.graph))
        state = self.ranks.from_first(lambda: read_state(run.path(STATE)) if run.has(STATE) else None)
        if state is not None:
            self.go_on(*state)
        elif run.out is not None:
            shutil.rmtree(run.path("board"), ignore_errors=True)
        self.board: Any = None if run.out is None else make_board(run.path("board"))

    def run_epochs(self) -> None:
        """Does all epochs that are left."""
        patience = self.settings.patience
        for epoch in range(len(self.curve.rows), self.settings.epochs):
            if patience and self.curve.best is not None and epoch > self.curve.best + patience:
                break
            loss = self.epoch(epoch)
            self.validate(epoch, loss)
            if self.on_epoch is not None:
                self.on_epoch(epoch + 1)

    def epoch(self, epoch: int) -> float:
        """Does one pass over the training windows, and returns the mean loss."""
        settings, model = self.settings, self.model
        generator = torch.Generator().manual_seed(self.run.seed_of(epoch))
        # The order follows from the seed and the epoch alone, so that a resumed fit has the same.
        order = torch.randperm(self.windows, generator=generator).to(self.device)
        wholes = order.split(settings.batch)
        shares = [self.ranks.share(whole) for whole in wholes]
        horizon = settings.horizon_at(epoch)
        total = torch.zeros((), device=self.device)
        model.train()
        # A process without a share computes a window whose weight is 0, so that all draw the same random numbers.
        read = (share if len(share) else whole[:1] for share, whole in zip(shares, wholes, strict=True))
        for k, batch in enumerate(self.batches(read)):
            share, whole = len(shares[k]), len(wholes[k])
            for group in self.optimizer.param_groups:
                group["lr"] = settings.rate((epoch * self.steps + k) / (settings.epochs * self.steps))
            drawn = self.draw(horizon, generator)
            if self.captured is not None:
                loss = self.captured(batch, horizon, drawn)
            else:
                loss = self.update(batch, horizon, drawn, share / whole)
            total += loss * share  # a sum on the device: reading each loss would wait for the GPU
            if settings.average:
                self.update_average(epoch * self.steps + k)
            self.run.tracker.advance(work=whole)
        return float(self.ranks.sum(total)) / self.windows

    def update(self, batch: Any, horizon: int, drawn: Tensor | None, weight: float = 1.0) -> Tensor:
        """Takes a step down the loss of a batch, and returns the loss. A CUDA graph can hold all of it.

        :param weight: of this process's share of the batch
        """
        parameters = list(self.model.parameters())
        loss = self.loss(batch, horizon, drawn)
        self.optimizer.zero_grad()
        loss.backward()
        self.ranks.average([parameter.grad for parameter in parameters if parameter.grad is not None], weight)
        torch.nn.utils.clip_grad_norm_(parameters, self.settings.max_grad_norm)
        self.optimizer.step()
        return loss.detach()

    def update_average(self, step: int) -> None:
        """Moves the running average towards the weights, faster in the first steps."""
        # The first weights are random, and must not linger in the average.
        share = min(self.settings.average, 1 - 1 / (1 + step / 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.validated.parameters()), list(self.model.parameters()), 1 - share)

    def validate(self, epoch: int, loss: float) -> None:
        """Computes the validation error after an epoch with this loss, and keeps the best weights and the state."""
        valid = self.valid_error()
        if not (math.isfinite(loss) and math.isfinite(valid)):
            what, best = "validation error" if math.isfinite(loss) else "loss", self.curve.best_row
            kept = "nothing was kept" if best is None else f"the weights of epoch {best[0]} are kept"
            raise DivergedError(
                f"the {what} of epoch {epoch + 1} is not a finite number: lower the learning rate "
                f"({self.settings.learning_rate:g} now); {kept}"
            )
        row = (epoch + 1, loss, valid)
        if self.curve.add(row):
            self.best = {name: value.detach().clone() for name, value in self.validated.state_dict().items()}
        best_epoch, _, error = self.curve.best_row or row
        note = f"loss {loss:.4g}, valid {valid:.4g}, best {error:.4g} (epoch {best_epoch})"
        self.run.tracker.advance(done=1, note=note)
        if self.board is not None:
            self.board.add_scalar("loss", loss, epoch + 1)
            self.board.add_scalar("valid", valid, epoch + 1)
        if self.run.out is not None:
            # A copy, because the next epoch changes the weights, and Ctrl-C must find a whole state.
            self.unwritten = self.state()
            if time.monotonic() - self.written > float(os.environ.get(SECONDS_VARIABLE, SECONDS_BETWEEN_CHECKPOINTS)):
                self.write()

    def about(self) -> dict[str, Any]:
        """Returns what makes the result, for the record; refuses to resume a fit elsewhere, which would change it."""
        count, device, before = self.ranks.count, self.device.type, self.run.before
        begun_by, begun_on = (before.get(RANKS, 1), before.get(DEVICE, "cpu")) if before else (count, device)
        if begun_by != count:
            raise ValueError(
                f"{self.run.out} holds a fit whose number of processes is {begun_by}, and now it is {count}: start as "
                "many, with torchrun if there are several, or choose another folder"
            )
        if begun_on != device:
            raise ValueError(
                f"{self.run.out} holds a fit whose device is {begun_on}, and now it is {device}: use --device "
                f"{begun_on}, or choose another folder"
            )
        return {
            **self.recorded(), "settings": self.settings.recorded(), "seed": self.run.seed,
            "threads": torch.get_num_threads(), **({RANKS: count} if count > 1 else {}),
            **({DEVICE: device} if device != "cpu" else {}),
        }  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Returns a copy of everything that is needed to resume the fit."""
        tensors: dict[str, Tensor] = {}
        fitted = self.fitted()
        state = {
            "model": pack(self.model.state_dict(), tensors),
            "judged": pack(self.validated.state_dict(), tensors) if self.settings.average else None,
            "best": pack(self.best, tensors),
            "optimizer": pack(self.optimizer.state_dict(), tensors),
            "curve": fitted.curve,
            "best_at": fitted.best,
            "seconds": fitted.seconds,
        }
        return {"state": json.dumps(state), "tensors": tensors}

    def write(self) -> None:
        """Writes the best model, the curve and, last, the state: a resumed fit writes the other two again."""
        best = self.curve.best_row
        if self.unwritten is None or best is None:
            return
        model = copy.deepcopy(self.model)  # the model itself goes on with its present weights
        model.load_state_dict(self.best)
        note = {**self.note, "seed": self.run.seed, "epoch": best[0], "valid": best[2]}
        self.save(model, self.run.path(BEST), note)
        self.curve.write(self.run.folder)
        described = {"state": self.unwritten["state"]}
        write_tensors(self.run.path(STATE), FORMAT, VERSION, described, self.unwritten["tensors"])
        self.unwritten, self.written = None, time.monotonic()

    def go_on(self, path: Path, state: str, tensors: dict[str, Tensor]) -> None:
        """Continues from a state, as `read_state` returns it."""
        with described_in(path, "a fit that cannot go on"):
            kept = read_object(state)
            self.best = unpack(kept["best"], tensors)
            self.model.load_state_dict(self.best)  # weights that do not fit are refused now, and not at the end
            self.model.load_state_dict(unpack(kept["model"], tensors))
            if self.settings.average:
                self.validated.load_state_dict(unpack(kept["judged"], tensors))
            self.optimizer.load_state_dict(unpack(kept["optimizer"], tensors))
            check_optimizer(self.optimizer)
            for epoch, (loss, valid) in enumerate(kept["curve"], 1):
                self.curve.add((epoch, float(loss), float(valid)))
            self.run.earlier = float(kept["seconds"])
        self.run.tracker.advance(done=len(self.curve.rows))

    def finish(self) -> None:
        """Writes the last state, and gives the model its best weights."""
        self.captured = None  # which takes memory of the GPU
        self.write()
        if self.board is not None:
            self.board.close()
        if self.best:
            self.model.load_state_dict(self.best)
        self.model.eval()

    def fitted(self) -> Fitted:
        """Returns the results so far."""
        best = self.curve.best_row
        curve = [(loss, valid) for _, loss, valid in self.curve.rows]
        return Fitted(curve, None if best is None else (best[0], best[2]), self.run.seconds())


def make_optimizer(model: nn.Module, settings: FitSettings) -> torch.optim.Optimizer:
    """Returns the optimizer of a fit, at its first learning rate."""
    if settings.optimizer == "muon":
        return Muon(model, settings.rate(0), settings.weight_decay)
    return torch.optim.AdamW(model.parameters(), lr=settings.rate(0), weight_decay=settings.weight_decay, fused=True)


def read_state(path: Path) -> tuple[Path, str, dict[str, Tensor]]:
    """Reads the state of a fit that was written; returns it with its path."""
    metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp-control fit")
    return path, metadata["state"], tensors


def make_board(folder: Path) -> Any:
    """Returns a TensorBoard writer, or None if TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder))
