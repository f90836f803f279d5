"""The tour: what this package does, in three minutes, with the commands that do it.

1. A circuit of 48 neurons runs the half-cheetah from its positions alone; everything in it is recorded.
2. The recording becomes a page and a video.
3. Another controller's rollouts are collected, 5 % of its actions overwritten by random ones.
4. A small liquid circuit learns the half-cheetah's dynamics from them.
5. Its error is put beside those of models without a network.

Each step prints the command line that it runs, so that you can run it yourself. Files that exist already are kept.

Example: python scripts/tour.py --out runs/demo
"""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from ncp_control.cli import main as ncp_control

CHECKPOINTS = Path(__file__).resolve().parents[1] / "checkpoints"


@dataclass
class Arguments:
    """What `--help` shows."""

    out: Path = Path("runs/demo")
    """The folder for everything that the tour makes."""

    rollouts: int = 10
    """How many rollouts are collected."""

    epochs: int = 40
    """Epochs of the fit."""

    video_steps: int = 200
    """Steps of the recording that become a video."""


def main() -> int:
    """Runs the steps of the tour and returns the exit code."""
    arguments = tyro.cli(Arguments, description=__doc__)
    out, started = arguments.out, time.monotonic()
    episode, page, video = out / "episode.npz", out / "episode.html", out / "episode.mp4"
    rollouts, model = out / "rollouts", out / "model"
    agent, teacher = (shorter(CHECKPOINTS / f"halfcheetah-{name}.safetensors") for name in ("novel", "teacher"))
    out.mkdir(parents=True, exist_ok=True)
    collecting = ("--rollouts", arguments.rollouts, "--random", 0.05, "--out", rollouts, "--resume")
    fitting = ("--actions", "--units", 24, "--epochs", arguments.epochs, "--out", model, "--resume")
    steps: tuple[tuple[str, Path, tuple[object, ...]], ...] = (
        (
            "A circuit of 48 neurons runs the half-cheetah from its eight positions; everything in it is recorded",
            episode,
            ("record", agent, "--steps", 1000, "--out", episode),
        ),
        ("The recording as one HTML page", page, ("view", episode, "--html", page)),
        (
            "and as a video",
            video,
            ("view", episode, "--video", video, "--start", 300, "--steps", arguments.video_steps),
        ),
        ("A controller's rollouts, 5 % of its actions random", rollouts, ("collect", "--policy", teacher, *collecting)),
        ("A liquid circuit of 24 neurons learns the dynamics", model, ("fit", rollouts, *fitting)),
    )
    for number, (title, result, words) in enumerate(steps, 1):
        print(f"\n{number}. {title}\n   $ ncp-control {shlex.join(map(str, words))}", flush=True)
        if result.exists() and words[0] != "fit":  # a fit's folder exists before the fit has ended; --resume goes on
            print(f"exists already: {result}")
        elif code := ncp_control([str(word) for word in words]):
            return code
    print("\n6. How good is that? The next observation on rollouts that no model has seen:\n", flush=True)
    print(table(rollouts, model / "best.safetensors"))
    print(
        f"\nDone in {time.monotonic() - started:.0f} s. What to do now:\n"
        f"- open {page} in a browser: press play, click a neuron; watch {video}\n"
        f"- ncp-control evaluate {model / 'best.safetensors'} --data {rollouts} --figures {out / 'pictures'}\n"
        f"- ncp-control record {agent} --silence command0 --out {out / 'silenced.npz'}    # without one neuron\n"
        f"- ncp-control train pendulum-novel --out runs/pendulum    # an agent of your own, in a few minutes\n"
        "- read on in README.md and docs/"
    )
    return 0


def shorter(path: Path) -> str:
    """Returns the path relative to the current folder if it lies inside, and as it is otherwise."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def table(rollouts: Path, model: Path) -> str:
    """Returns a table of test errors: the model's, and those of models without a network."""
    from ncp_control.data import Rollouts
    from ncp_control.dynamics import load_model, one_step_error
    from ncp_control.dynamics.comparison import Comparison, baseline_results
    from ncp_control.dynamics.table import RowResult, table_text

    found = Rollouts.load(rollouts)
    fitted = load_model(model)
    error = one_step_error(fitted, found.split().test)
    size = sum(parameter.numel() for parameter in fitted.parameters())
    lines = [
        RowResult("LTC, 24 neurons", [error], size),
        *baseline_results(found, Comparison(str(rollouts), 1, 1, actions=True)),
    ]
    return table_text(sorted(lines, key=lambda line: line.mean))


if __name__ == "__main__":
    sys.exit(main())
