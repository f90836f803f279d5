"""The epochs of a fit, and the state from which they can be resumed."""

from __future__ import annotations

import copy
import json
import math
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from ncp_control.base.files import write_atomically
from ncp_control.base.muon import Muon
from ncp_control.base.notes import read_object
from ncp_control.base.progress import Tracker
from ncp_control.base.ranks import Ranks
from ncp_control.base.run_folder import seed_of
from ncp_control.base.tensors import check_optimizer, described_in, pack, read_tensors, unpack, write_tensors
from ncp_control.data import Windows
from ncp_control.dynamics.captured_step import CapturedStep
from ncp_control.dynamics.errors import free_errors, robust_error, window_errors
from ncp_control.dynamics.loss import draw_starts, fit_loss
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.model_file import save_model
from ncp_control.dynamics.settings import ASTRAY, FitSettings

STATE, BEST, CURVE = "state.safetensors", "best.safetensors", "curve.csv"
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
    """The epochs of a fit, whatever is fitted; it continues from the state in its folder if there is one.

    Several processes may share it. Each has the same model and windows, and computes the gradients of its share of
    every batch, which are then averaged; so the models remain the same. Only the first process has a folder.

    :param model: the model that is fitted
    :param windows: the number of training windows
    :param place: the device of the windows
    :param settings: how the model is fitted
    :param seed: the order of the windows follows from it
    :param out: the fit's folder, or None
    :param note: kept in the model's file
    :param tracker: shows the progress
    :param on_epoch: called after each epoch with the number of epochs done
    :param ranks: the processes that share the fit
    :param graph: replay the steps of whole batches from a CUDA graph, in a single process on a GPU; None does so if
        they can be captured
    """

    def __init__(
        self,
        model: M,
        windows: int,
        place: torch.device,
        settings: FitSettings,
        seed: int,
        out: Path | None,
        note: dict[str, Any],
        tracker: Tracker,
        on_epoch: Callable[[int], None] | None = None,
        ranks: Ranks | None = None,
        graph: bool | None = False,
    ) -> None:
        self.model, self.settings, self.seed, self.out, self.tracker = model, settings, seed, out, tracker
        self.note, self.on_epoch, self.ranks = note, on_epoch, ranks or Ranks()
        self.windows, self.place = windows, place
        # the model that is validated and kept: the running average of the weights, or the model itself
        self.validated = copy.deepcopy(model) if settings.average else model
        self.optimizer = make_optimizer(model, settings)
        size = min(settings.batch, windows)
        self.captured: CapturedStep | None = None
        if graph is not False:
            self.captured = CapturedStep(self.update, self.optimizer, size, place, needed=bool(graph))
        self.steps = -(-windows // settings.batch)
        self.fitted = Fitted()
        self.best: dict[str, Tensor] = {}
        self.unwritten: dict[str, Any] | None = None  # the state after the last epoch, until it is written
        self.began, self.before = time.monotonic(), 0.0
        self.written = self.began
        self.board: Any = None
        state = self.ranks.from_first(lambda: None if out is None else read_state(out / STATE))
        if state is not None:
            self.go_on(*state)
        if out is not None:
            if state is None:
                shutil.rmtree(out / "board", ignore_errors=True)
            self.board = make_board(out / "board")

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

    def run(self) -> None:
        """Does all epochs that are left."""
        patience = self.settings.patience
        for epoch in range(len(self.fitted.curve), self.settings.epochs):
            if patience and self.fitted.best is not None and epoch - self.fitted.best[0] >= patience:
                break
            loss = self.epoch(epoch)
            self.validate(epoch, loss)
            if self.on_epoch is not None:
                self.on_epoch(epoch + 1)

    def epoch(self, epoch: int) -> float:
        """Does one pass over the training windows, and returns the mean loss."""
        settings, model = self.settings, self.model
        generator = torch.Generator().manual_seed(seed_of(self.seed, epoch))
        order = torch.randperm(self.windows, generator=generator).to(self.place)
        wholes = order.split(settings.batch)
        shares = [self.ranks.share(whole) for whole in wholes]
        horizon = settings.horizon_at(epoch)
        total = torch.zeros((), device=self.place)
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
            total += loss * share
            if settings.average:
                self.update_average(epoch * self.steps + k)
            self.tracker.advance(work=whole)
        return float(self.ranks.sum(total)) / self.windows

    def update(self, batch: Any, horizon: int, drawn: Tensor | None, weight: float = 1.0) -> Tensor:
        """Takes a step down the loss of a batch, and returns the loss. A CUDA graph can hold all of it.

        :param weight: of this process's share of the batch
        """
        parameters = list(self.model.parameters())
        loss = self.loss(batch, horizon, drawn)
        self.optimizer.zero_grad()
        loss.backward()
        self.ranks.average([one.grad for one in parameters if one.grad is not None], weight)
        torch.nn.utils.clip_grad_norm_(parameters, self.settings.max_grad_norm)
        self.optimizer.step()
        return loss.detach()

    def update_average(self, step: int) -> None:
        """Moves the running average towards the weights, faster in the first steps."""
        share = min(self.settings.average, 1 - 1 / (1 + step / 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.validated.parameters()), list(self.model.parameters()), 1 - share)

    def validate(self, epoch: int, loss: float) -> None:
        """Computes the validation error after an epoch with this loss, and keeps the best weights and the state."""
        valid = self.valid_error()
        before = self.fitted.best
        if not (math.isfinite(loss) and math.isfinite(valid)):
            what = "validation error" if math.isfinite(loss) else "loss"
            kept = "nothing was kept" if before is None else f"the weights of epoch {before[0]} are kept"
            raise DivergedError(
                f"the {what} of epoch {epoch + 1} is not a finite number: lower the learning rate "
                f"({self.settings.learning_rate:g} now); {kept}"
            )
        self.fitted.curve.append((loss, valid))
        if self.fitted.best is None or valid < self.fitted.best[1]:
            self.fitted.best = epoch + 1, valid
            self.best = {name: value.detach().clone() for name, value in self.validated.state_dict().items()}
        best, error = self.fitted.best
        self.tracker.advance(done=1, note=f"loss {loss:.4g}, valid {valid:.4g}, best {error:.4g} (epoch {best})")
        if self.board is not None:
            self.board.add_scalar("loss", loss, epoch + 1)
            self.board.add_scalar("valid", valid, epoch + 1)
        if self.out is not None:
            self.unwritten = self.state()
            if time.monotonic() - self.written > float(os.environ.get(SECONDS_VARIABLE, SECONDS_BETWEEN_CHECKPOINTS)):
                self.write()

    def seconds(self) -> float:
        """Returns the duration so far, including all resumptions."""
        return self.before + time.monotonic() - self.began

    def state(self) -> dict[str, Any]:
        """Returns a copy of everything that is needed to resume the fit."""
        tensors: dict[str, Tensor] = {}
        state = {
            "model": pack(self.model.state_dict(), tensors),
            "judged": pack(self.validated.state_dict(), tensors) if self.settings.average else None,
            "best": pack(self.best, tensors),
            "optimizer": pack(self.optimizer.state_dict(), tensors),
            "curve": list(self.fitted.curve),
            "best_at": self.fitted.best,
            "seconds": self.seconds(),
        }
        return {"state": json.dumps(state), "tensors": tensors}

    def write(self) -> None:
        """Writes the best model, the curve and, last, the state: a resumed fit writes the other two again."""
        if self.out is None or self.unwritten is None:
            return
        best = copy.deepcopy(self.model)
        best.load_state_dict(self.best)
        epoch, valid = self.fitted.best or (0, float("nan"))
        self.save(best, self.out / BEST, {**self.note, "seed": self.seed, "epoch": epoch, "valid": valid})
        rows = "".join(f"{k + 1},{loss},{valid}\n" for k, (loss, valid) in enumerate(self.fitted.curve))
        write_atomically(self.out / CURVE, f"epoch,loss,valid\n{rows}".encode())
        described = {"state": self.unwritten["state"]}
        write_tensors(self.out / STATE, FORMAT, VERSION, described, self.unwritten["tensors"])
        self.unwritten, self.written = None, time.monotonic()

    def go_on(self, path: Path, state: str, tensors: dict[str, Tensor]) -> None:
        """Continues from a state, as `read_state` returns it."""
        with described_in(path, "a fit that cannot go on"):
            found = read_object(state)
            self.best = unpack(found["best"], tensors)
            self.model.load_state_dict(self.best)  # weights that do not fit are refused now, and not at the end
            self.model.load_state_dict(unpack(found["model"], tensors))
            if self.settings.average:
                self.validated.load_state_dict(unpack(found["judged"], tensors))
            self.optimizer.load_state_dict(unpack(found["optimizer"], tensors))
            check_optimizer(self.optimizer)
            self.fitted.curve = [(float(loss), float(valid)) for loss, valid in found["curve"]]
            best = found["best_at"]
            self.fitted.best = None if best is None else (int(best[0]), float(best[1]))
            self.before = float(found["seconds"])
        self.tracker.advance(done=len(self.fitted.curve))

    def finish(self) -> None:
        """Writes the last state, and gives the model its best weights."""
        self.fitted.seconds = self.seconds()
        self.captured = None  # which takes memory of the GPU
        self.write()
        if self.board is not None:
            self.board.close()
        if self.best:
            self.model.load_state_dict(self.best)
        self.model.eval()


class FitLoop(EpochLoop[DynamicsModel]):
    """The epochs of the fit of a model of the dynamics.

    :param model: the model that is fitted
    :param train: windows of the training part
    :param valid: windows of the validation part
    :param settings: how the model is fitted; this and the others are those of `EpochLoop`
    """

    def __init__(
        self, model: DynamicsModel, train: Windows, valid: Windows, settings: FitSettings, *others: Any
    ) -> None:
        self.train, self.valid = train, valid
        self.weight = 1 / model.std.square() if settings.loss == "normalised" else None
        # a state that has parted from the recorded one has nothing to teach: without a limit it would drown the rest
        usual = 1.0 if settings.loss == "normalised" else float(model.std.square().mean())
        self.astray = settings.robust or ASTRAY * usual
        super().__init__(model, len(train), train.device, settings, *others)

    def batches(self, numbers: Iterable[Tensor]) -> Iterator[Any]:
        """Yields a batch of training windows for each tensor of their numbers."""
        return self.train.batches(numbers)

    def draw(self, horizon: int, generator: torch.Generator) -> Tensor | None:
        """Draws the steps from which the model continues on its own."""
        return draw_starts(self.train.length, horizon, generator, self.place)

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


def make_optimizer(model: nn.Module, settings: FitSettings) -> torch.optim.Optimizer:
    """Returns the optimizer of a fit, at its first learning rate."""
    if settings.optimizer == "muon":
        return Muon(model, settings.rate(0), settings.weight_decay)
    return torch.optim.AdamW(model.parameters(), lr=settings.rate(0), weight_decay=settings.weight_decay, fused=True)


def read_state(path: Path) -> tuple[Path, str, dict[str, Tensor]] | None:
    """Reads the state of a fit that was written, with its path; None if there is none."""
    if not path.exists():
        return None
    metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp-control fit")
    return path, metadata["state"], tensors


def make_board(folder: Path) -> Any:
    """Returns a TensorBoard writer, or None if TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder))
