"""`ncp-control fit`: fits a model of the dynamics to rollouts."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from ncp_control.dynamics.settings import FitSettings

SELDOM = (
    "threads", "length", "stride", "schedule", "weight_decay", "max_grad_norm", "robust", "average", "horizon",
    "patience",
)  # fmt: skip


@dataclass
class Arguments:
    """Fit a model that predicts the next observation, in a folder from which the fit can be resumed.

    Example: ncp-control fit ./cheetah-v0 --actions --cell neuralltc --units 64 --out runs/cheetah
    """

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """A Minari id, a Minari folder, or a folder of .npy or .npz traces."""

    cell: str = "ltc"
    """ltc, neuralltc, cfc, ctrnn, neuralode, ctgru, lstm, gru; or mlp, on the last five inputs."""

    units: int = 32
    """Number of neurons, fully connected."""

    wiring: Annotated[str | None, tyro.conf.arg(metavar="PLAN")] = None
    """A plan such as "AutoNCP(32, 8)" instead of fully connected neurons."""

    actions: bool = False
    """Read the actions as well as the observations."""

    residual: bool = False
    """Predict the change of the observation instead of the observation."""

    members: int = 1
    """Fit an ensemble with this many members."""

    seed: int = 0
    """Everything random follows from it."""

    out: Path | None = None
    """The folder for this fit; by default runs/fit-CELL-sSEED."""

    resume: bool = False
    """Continue the fit in the folder, or start it if there is none yet."""

    device: str = "auto"
    """cpu, cuda, or auto, which chooses a GPU if there is one."""

    threads: int = 1
    """Number of threads for torch; small networks gain little from more than one."""

    json: bool = False
    """Print one JSON object last."""

    settings: Annotated[FitSettings, tyro.conf.arg(name="")] = field(default_factory=FitSettings)


def run(arguments: Arguments) -> int:
    """Fits a model and prints the result."""
    from ncp_control.data import Rollouts
    from ncp_control.dynamics import DynamicsModel, Simulator, fit, one_step_error
    from ncp_control.dynamics.earlier_files import split_of_run
    from ncp_control.dynamics.ensemble_fit import fit_ensemble, make_seeded
    from ncp_control.dynamics.fit_loop import BEST
    from ncp_control.dynamics.model import READS
    from ncp_control.support.devices import pick_device, use_threads
    from ncp_control.wiring.plan_text import parse_plan

    use_threads(arguments.threads)
    pick_device(arguments.device)  # refused before the rollouts are read
    if arguments.members < 1:
        raise ValueError(f"members must be at least 1, got {arguments.members}")
    settings = arguments.settings
    rollouts = Rollouts.load(arguments.data)
    rollouts = rollouts.one_hot() if arguments.actions else rollouts
    out = arguments.out or Path("runs") / f"fit-{arguments.cell}-s{arguments.seed}"
    parts = split_of_run(rollouts, out, arguments.resume)
    wiring = arguments.units if arguments.wiring is None else parse_plan(arguments.wiring)

    def make() -> DynamicsModel:
        reads = READS[arguments.actions]
        return DynamicsModel.of(parts.train, arguments.cell, wiring, reads=reads, residual=arguments.residual)

    words = ["ncp-control", *(word for word in sys.argv[1:] if word != "--resume")]
    common: dict[str, Any] = {
        "seed": arguments.seed, "out": out, "resume": arguments.resume, "device": arguments.device,
        "command": shlex.join(words), "note": {"data": arguments.data, "command": shlex.join(words)},
    }  # fmt: skip
    model: Simulator
    if arguments.members > 1:
        model, fits = fit_ensemble(make, parts, settings, arguments.members, **common)
    else:
        model = make_seeded(make, arguments.seed)
        fits = [fit(model, parts, settings, **common)]
    length = min(settings.length, min(rollout.steps for rollout in parts.test))
    found: dict[str, Any] = {
        "out": str(out),
        "test_mse": one_step_error(model, parts.test, length),
        "test_normalised_mse": one_step_error(model, parts.test, length, scale=model.std),
        "valid_mse": sum(one.best[1] for one in fits if one.best) / len(fits),
        "epochs": sum(len(one.curve) for one in fits),
        "best_epoch": [one.best[0] for one in fits if one.best],
        "seconds": sum(one.seconds for one in fits),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    if arguments.json:
        print(json.dumps(found))
    else:
        print(
            f"{arguments.cell}, {found['parameters']:,} parameters, {found['epochs']} epochs in "
            f"{found['seconds'] / 60:.1f} minutes\n"
            f"mean squared error of the next observation on the test rollouts: {found['test_mse']:.4g} "
            f"(normalised {found['test_normalised_mse']:.4g})\n"
            f"written to {out}\n"
            f"evaluate it with:  {shlex.join(['ncp-control', 'evaluate', str(out / BEST), '--data', arguments.data])}"
        )
    return 0
