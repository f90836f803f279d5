"""Fitting a model, in a folder from which the fit can be resumed."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ncp_control.data import Rollouts, Split, Windows
from ncp_control.dynamics.errors import robust_error, squared_errors
from ncp_control.dynamics.loss import fit_loss
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.model_file import save_model
from ncp_control.dynamics.settings import FitSettings
from ncp_control.storage.atomic_writes import write_atomically
from ncp_control.storage.descriptions import described_in, read_object
from ncp_control.storage.packing import check_optimizer, pack, unpack
from ncp_control.storage.run_folder import prepare_run, seed_of, versions
from ncp_control.storage.safe_tensors import hash_of_tensors, read_tensors, write_tensors
from ncp_control.support.devices import pick_device
from ncp_control.support.progress import Tracker, tracked

PACKAGES = ("ncp-control", "torch", "numpy")
STATE, BEST, CURVE = "state.safetensors", "best.safetensors", "curve.csv"
FORMAT, VERSION, DESCRIBED = "ncp_control.fit", 1, ("state",)
SECONDS_BETWEEN_CHECKPOINTS = 10.0
SECONDS_VARIABLE = "NCP_CONTROL_FIT_SECONDS"  # other than these, for whoever wants to lose less, or write less


class DivergedError(ValueError):
    """A fit whose loss left all bounds; the best weights before that are kept."""


@dataclass
class Fitted:
    """What came of a fit; the model itself now has its best weights.

    :param curve: training loss and validation error of every epoch
    :param best: the epoch with the best validation, 1 the first, and its error
    :param seconds: over all resumptions
    """

    curve: list[tuple[float, float]] = field(default_factory=list)
    best: tuple[int, float] | None = None
    seconds: float = 0.0


def fit(
    model: DynamicsModel,
    rollouts: Rollouts | Split,
    settings: FitSettings | None = None,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    device: str | torch.device = "auto",
    command: str = "",
    note: dict[str, Any] | None = None,
    progress: bool = True,
    on_epoch: Callable[[int], None] | None = None,
) -> Fitted:
    """Fits a model to the training part, and gives it the weights that were best on the validation part.

    Every epoch's order is drawn from the seed and the epoch, so a fit that was stopped and resumed ends with the same
    weights as one that was not. The validation error is the median over rollouts (see `robust_error`).

    Into the folder `out` go `best.safetensors`, for `load_model`; `curve.csv`; `run.json`, the record; `board/`, for
    TensorBoard where it is installed; and `state.safetensors`, from which the fit goes on.

    :param model: a new one; see `DynamicsModel.of`
    :param rollouts: split here if they are not already
    :param settings: how (see `FitSettings`)
    :param seed: the order of the windows follows from it
    :param out: a folder for this fit alone; None keeps nothing
    :param resume: go on with the fit in `out`, or begin it if nothing of it is there
    :param device: "auto" is a GPU where there is one
    :param command: kept in the record
    :param note: kept in the model's file
    :param progress: show a progress bar on stderr
    :param on_epoch: called with the number of epochs done, after each
    """
    settings = (settings or FitSettings()).of_cell(model.cell_name)
    parts = rollouts if isinstance(rollouts, Split) else rollouts.split()
    check(model, parts)
    where = pick_device(device)
    train = Windows(parts.train, settings.length, settings.stride, device=where)
    valid = Windows(parts.valid, min(settings.length, longest(parts.valid)), 10, device=where)
    folder = None if out is None else Path(out)
    with ExitStack() as held:
        if folder is not None:
            about = {
                "model": recorded_model(model), "settings": asdict(settings), "seed": seed,
                "data": {"steps": [part.steps for part in parts]}, "threads": torch.get_num_threads(),
            }  # fmt: skip
            held.enter_context(prepare_run(folder, about, resume, command=command, versions=versions(PACKAGES)))
        tracker = held.enter_context(tracked("fitting", settings.epochs, unit="windows", shown=progress))
        run = Fit(model.to(where), train, valid, settings, seed, folder, note or {}, tracker, on_epoch)
        try:
            run.run()
        except KeyboardInterrupt:
            words = "its best weights are in the model"
            if folder is not None:
                words = f"--resume goes on from there, and the best weights are in {folder / BEST}"
            if run.fitted.best is None:
                words = "nothing is kept yet"
            print(f"\ninterrupted after {len(run.fitted.curve)} epochs: {words}", file=sys.stderr)
            raise
        finally:
            run.finish()
    return run.fitted


class Fit:
    """One fit under way."""

    def __init__(
        self,
        model: DynamicsModel,
        train: Windows,
        valid: Windows,
        settings: FitSettings,
        seed: int,
        out: Path | None,
        note: dict[str, Any],
        tracker: Tracker,
        on_epoch: Callable[[int], None] | None = None,
    ) -> None:
        self.model, self.settings, self.seed, self.out, self.tracker = model, settings, seed, out, tracker
        self.note, self.on_epoch = note, on_epoch
        self.train, self.valid = train, valid
        self.judged = copy.deepcopy(model) if settings.average else model
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=settings.rate(0), weight_decay=settings.weight_decay, fused=True
        )
        self.weight = 1 / model.std.square() if settings.loss == "normalised" else None
        self.steps = -(-len(self.train) // settings.batch)
        self.fitted = Fitted()
        self.best: dict[str, Tensor] = {}
        self.kept: dict[str, Any] | None = None  # the state at the end of the last epoch, until it is written
        self.began, self.before = time.monotonic(), 0.0
        self.written = self.began
        self.board: Any = None
        if out is not None:
            if (out / STATE).exists():
                self.recall(out / STATE)
            else:
                shutil.rmtree(out / "board", ignore_errors=True)
            self.board = make_board(out / "board")

    def run(self) -> None:
        """All epochs that are left."""
        patience = self.settings.patience
        for epoch in range(len(self.fitted.curve), self.settings.epochs):
            if patience and self.fitted.best is not None and epoch - self.fitted.best[0] >= patience:
                break
            loss = self.epoch(epoch)
            self.judge(epoch, loss)
            if self.on_epoch is not None:
                self.on_epoch(epoch + 1)

    def epoch(self, epoch: int) -> float:
        """One walk through the training windows; the mean loss."""
        settings, model = self.settings, self.model
        generator = torch.Generator().manual_seed(seed_of(self.seed, epoch))
        order = torch.randperm(len(self.train), generator=generator).to(self.train.starts.device)
        horizon = settings.horizon_at(epoch)
        total = torch.zeros((), device=order.device)
        model.train()
        parameters = list(model.parameters())
        for k in range(self.steps):
            batch = self.train[order[k * settings.batch : (k + 1) * settings.batch]]
            for group in self.optimizer.param_groups:
                group["lr"] = settings.rate((epoch * self.steps + k) / (settings.epochs * self.steps))
            loss = fit_loss(model, batch, self.weight, settings.robust, horizon, generator)
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
            self.optimizer.step()
            total += loss.detach() * len(batch.targets)
            if settings.average:
                self.follow(epoch * self.steps + k)
            self.tracker.advance(work=len(batch.targets))
        return float(total) / len(self.train)

    def follow(self, step: int) -> None:
        """Moves the running average; in the first steps it follows faster."""
        share = min(self.settings.average, 1 - 1 / (1 + step / 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.judged.parameters()), list(self.model.parameters()), 1 - share)

    def judge(self, epoch: int, loss: float) -> None:
        """Validation; the best weights and the state are kept."""
        errors = squared_errors(self.judged, self.valid)
        valid = robust_error(errors if self.weight is None else errors * self.weight, self.valid)
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
            self.best = {name: value.detach().clone() for name, value in self.judged.state_dict().items()}
        best, error = self.fitted.best
        self.tracker.advance(done=1, note=f"loss {loss:.4g}, valid {valid:.4g}, best {error:.4g} (epoch {best})")
        if self.board is not None:
            self.board.add_scalar("loss", loss, epoch + 1)
            self.board.add_scalar("valid", valid, epoch + 1)
        if self.out is not None:
            self.kept = self.state()
            if time.monotonic() - self.written > float(os.environ.get(SECONDS_VARIABLE, SECONDS_BETWEEN_CHECKPOINTS)):
                self.write()

    def seconds(self) -> float:
        """Over all resumptions."""
        return self.before + time.monotonic() - self.began

    def state(self) -> dict[str, Any]:
        """All that the fit needs to go on, copied."""
        tensors: dict[str, Tensor] = {}
        state = {
            "model": pack(self.model.state_dict(), tensors),
            "judged": pack(self.judged.state_dict(), tensors) if self.settings.average else None,
            "best": pack(self.best, tensors),
            "optimizer": pack(self.optimizer.state_dict(), tensors),
            "curve": list(self.fitted.curve),
            "best_at": self.fitted.best,
            "seconds": self.seconds(),
        }
        return {"state": json.dumps(state), "tensors": tensors}

    def write(self) -> None:
        """Writes what was kept last: the best model, the curve and, last, the state, from which those are not made."""
        if self.out is None or self.kept is None:
            return
        best = copy.deepcopy(self.model)
        best.load_state_dict(self.best)
        epoch, valid = self.fitted.best or (0, float("nan"))
        save_model(best, self.out / BEST, {**self.note, "seed": self.seed, "epoch": epoch, "valid": valid})
        rows = "".join(f"{k + 1},{loss},{valid}\n" for k, (loss, valid) in enumerate(self.fitted.curve))
        write_atomically(self.out / CURVE, f"epoch,loss,valid\n{rows}".encode())
        write_tensors(self.out / STATE, FORMAT, VERSION, {"state": self.kept["state"]}, self.kept["tensors"])
        self.kept, self.written = None, time.monotonic()

    def recall(self, path: Path) -> None:
        """Goes on from what was written."""
        metadata, tensors = read_tensors(path, FORMAT, VERSION, DESCRIBED, "ncp-control fit")
        with described_in(path, "a fit that cannot go on"):
            found = read_object(metadata["state"])
            self.best = unpack(found["best"], tensors)
            self.model.load_state_dict(self.best)  # refused now rather than at the end
            self.model.load_state_dict(unpack(found["model"], tensors))
            if self.settings.average:
                self.judged.load_state_dict(unpack(found["judged"], tensors))
            self.optimizer.load_state_dict(unpack(found["optimizer"], tensors))
            check_optimizer(self.optimizer)
            self.fitted.curve = [(float(loss), float(valid)) for loss, valid in found["curve"]]
            best = found["best_at"]
            self.fitted.best = None if best is None else (int(best[0]), float(best[1]))
            self.before = float(found["seconds"])
        self.tracker.advance(done=len(self.fitted.curve))

    def finish(self) -> None:
        """Writes what is left to write, and gives the model its best weights."""
        self.fitted.seconds = self.seconds()
        self.write()
        if self.board is not None:
            self.board.close()
        if self.best:
            self.model.load_state_dict(self.best)
        self.model.eval()


def recorded_model(model: DynamicsModel) -> dict[str, Any]:
    """What the record says of a model: enough to tell it from any other."""
    found = model.about()
    del found["action_range"]  # of the data, whose checksum is in the record: no part of what is fitted
    wiring = hashlib.sha256(json.dumps(found.pop("wiring")).encode()).hexdigest()
    return {**found, "wiring_sha256": wiring, "first_weights_sha256": hash_of_tensors(model.state_dict())}


def check(model: DynamicsModel, parts: Split) -> None:
    """Refuses rollouts that are not what the model predicts."""
    for name, part in zip(Split._fields, parts, strict=True):
        if part.features != model.features:
            raise ValueError(
                f"the {name} rollouts have {part.features} observations a step, and the model predicts {model.features}"
            )
        if model.actions and part[0].actions is None:
            raise ValueError(f"the model reads actions, and the {name} rollouts have none")


def longest(rollouts: Rollouts) -> int:
    """Steps of the longest rollout."""
    return max(rollout.steps for rollout in rollouts)


def make_board(folder: Path) -> Any:
    """A TensorBoard writer, or None where TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder))
