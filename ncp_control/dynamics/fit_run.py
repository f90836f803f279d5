"""A fit in its folder: its record, its progress, and what is said and kept when it ends or is interrupted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from ncp_control.base.progress import tracked
from ncp_control.base.ranks import Ranks
from ncp_control.base.run_folder import RECORD, prepare_run, read_record, versions
from ncp_control.dynamics.earlier_files import settings_of_run
from ncp_control.dynamics.fit_loop import BEST, EpochLoop, Fitted, M
from ncp_control.dynamics.settings import FitSettings

PACKAGES = ("ncp-control", "torch", "numpy")
RANKS = "processes"  # how many share the fit, in the record if there are several
DEVICE = "device"  # what it computes on, in the record if this is not a CPU, which rounds otherwise


def run_fit(
    make_loop: Callable[..., EpochLoop[M]],
    model: M,
    recorded: Callable[[Path | None], dict[str, Any]],
    data: dict[str, Any],
    unit: str,
    settings: FitSettings,
    *,
    seed: int,
    out: str | Path | None,
    resume: bool,
    device: torch.device,
    command: str,
    note: dict[str, Any],
    progress: bool,
    on_epoch: Callable[[int], None] | None,
    ranks: Ranks | None = None,
    graph: bool | None = False,
) -> Fitted:
    """Does all epochs of a fit that are left, in its folder; the model then has its best weights.

    :param make_loop: makes the loop, from the arguments of `EpochLoop` from the settings on
    :param model: the model that is fitted
    :param recorded: returns what the record says of the model, given the record of the fit that goes on or None
    :param data: the entry of the record that tells the data from any others
    :param unit: the unit of the work whose rate is shown
    :param settings: how the model is fitted; this and the others are those of `fit` and `EpochLoop`
    """
    ranks = ranks or Ranks()
    folder = None if out is None else Path(out)
    begun = folder / RECORD if folder is not None and resume else None
    settings = ranks.from_first(lambda: settings_of_run(settings, begun))
    with ExitStack() as held:

        def prepare() -> None:
            if folder is None:
                return
            if begun is not None:
                check_place(begun, ranks.count, device.type)
            about = {
                "model": recorded(begun), "settings": settings.recorded(), "seed": seed, **data,
                "threads": torch.get_num_threads(), **({RANKS: ranks.count} if ranks.count > 1 else {}),
                **({DEVICE: device.type} if device.type != "cpu" else {}),
            }  # fmt: skip
            held.enter_context(prepare_run(folder, about, resume, command=command, versions=versions(PACKAGES)))

        ranks.from_first(prepare)
        tracker = held.enter_context(tracked("fitting", settings.epochs, unit=unit, shown=progress and ranks.first))
        held.callback(model.to, next(model.parameters()).device)
        model.to(device)
        loop = make_loop(settings, seed, folder if ranks.first else None, note, tracker, on_epoch, ranks, graph)
        try:
            loop.run()
        except KeyboardInterrupt:
            words = "its best weights are in the model"
            if folder is not None:
                words = f"--resume continues it, and the best weights are in {folder / BEST}"
            if loop.fitted.best is None:
                words = "nothing is kept yet"
            if ranks.first:
                print(f"\ninterrupted after {len(loop.fitted.curve)} epochs: {words}", file=sys.stderr)
            raise
        finally:
            loop.finish()
    return loop.fitted


def check_place(record: Path, count: int, device: str) -> None:
    """Refuses to resume a fit with another number of processes or on another kind of device.

    It would not end with the same weights.
    """
    if not record.exists():
        return
    before = read_record(record)
    ranks, place = before.get(RANKS, 1), before.get(DEVICE, "cpu")
    if ranks != count:
        raise ValueError(
            f"{record.parent} holds a fit whose number of processes is {ranks}, and now it is {count}: start as many, "
            "with torchrun if there are several, or choose another folder"
        )
    if place != device:
        raise ValueError(
            f"{record.parent} holds a fit whose device is {place}, and now it is {device}: use --device {place}, or "
            "choose another folder"
        )
