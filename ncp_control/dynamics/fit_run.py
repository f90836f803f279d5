"""A fit in its folder: what its record says, and the epochs that are left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from ncp_control.base.ranks import Ranks
from ncp_control.dynamics.earlier_files import settings_of_run
from ncp_control.dynamics.fit_loop import EpochLoop, Fitted, M
from ncp_control.dynamics.settings import FitSettings
from ncp_control.runs.run import STATE, Run

PACKAGES = ("ncp-control", "torch", "numpy")
RANKS = "processes"  # how many share the fit, in the record if there are several
DEVICE = "device"  # what it computes on, in the record if this is not a CPU, which rounds otherwise


def run_fit(
    make_loop: Callable[..., EpochLoop[M]],
    model: M,
    recorded: Callable[[dict[str, Any]], dict[str, Any]],
    data: dict[str, Any],
    unit: str,
    settings: FitSettings,
    run: Run,
    *,
    device: torch.device,
    note: dict[str, Any],
    on_epoch: Callable[[int], None] | None,
    ranks: Ranks | None = None,
    graph: bool | None = False,
) -> Fitted:
    """Does all epochs of a fit that are left, in its folder; the model then has its best weights.

    :param make_loop: makes the loop, from the arguments of `EpochLoop` from the settings on
    :param model: the model that is fitted
    :param recorded: returns what the record says of the model, given the record of the fit that goes on, which is empty
        for a new one
    :param data: the entry of the record that tells the data from any others
    :param unit: the unit of the work whose rate is shown
    :param settings: how the model is fitted; this and the others are those of `EpochLoop`
    """
    ranks = ranks or Ranks()
    settings = ranks.from_first(lambda: settings_of_run(settings, run.before))
    with ExitStack() as held:

        def open_run() -> None:
            check_same_place(run, ranks.count, device.type)
            about = {
                "model": recorded(run.before), "settings": settings.recorded(), "seed": run.seed, **data,
                "threads": torch.get_num_threads(), **({RANKS: ranks.count} if ranks.count > 1 else {}),
                **({DEVICE: device.type} if device.type != "cpu" else {}),
            }  # fmt: skip
            held.enter_context(run.open(about, PACKAGES, results=(STATE,)))

        ranks.from_first(open_run)
        held.enter_context(run.doing("fitting", settings.epochs, unit=unit, kept="the model has its best weights"))
        held.callback(model.to, next(model.parameters()).device)
        model.to(device)
        loop = make_loop(settings, run, note, on_epoch, ranks, graph)
        try:
            loop.run_epochs()
        finally:
            loop.finish()
    return loop.fitted()


def check_same_place(run: Run, count: int, device: str) -> None:
    """Refuses to resume a fit with another number of processes or on another kind of device.

    It would not end with the same weights.
    """
    if not run.before:
        return
    ranks, kind = run.before.get(RANKS, 1), run.before.get(DEVICE, "cpu")
    if ranks != count:
        raise ValueError(
            f"{run.out} holds a fit whose number of processes is {ranks}, and now it is {count}: start as many, "
            "with torchrun if there are several, or choose another folder"
        )
    if kind != device:
        raise ValueError(
            f"{run.out} holds a fit whose device is {kind}, and now it is {device}: use --device {kind}, or "
            "choose another folder"
        )
