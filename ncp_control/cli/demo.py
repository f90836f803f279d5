"""`ncp-control demo`: a tour of this package, made of its own commands."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
SELDOM = ("episodes", "epochs", "video_steps", "distil_steps")

# A short lesson: fewer and shorter iterations than usual.
TEACHING = (
    "--iterations",
    "4",
    "--demonstrations",
    "0.4",
    "--handover",
    "3",
    "--batches",
    "600",
    "--eval-episodes",
    "4",
)
Step = tuple[str, Path, list[str]]  # title, result, and the words after `ncp-control`
RESUMED = ("fit", "distil")  # their folders exist before they have ended; --resume goes on

EXTRAS = (None, "envs", "rl", "data", "plot")  # whose packages the steps use; the extra "all" installs them


@dataclass
class Arguments:
    """Take a tour of a minute or two. A small circuit runs the half-cheetah and is recorded, and you get a page and a
    video of it. Another circuit learns to run from a teacher. A third one is fitted to the half-cheetah's dynamics, and
    a page shows its predictions beside the real body. At the end you get a page in which a circuit runs live, if npm
    can download MuJoCo's WebAssembly build.

    Each step prints its command, so that you can run it yourself. The folder also contains checkpoints/, the agents and
    models that the README's commands use. Existing files are kept.

    Example: ncp-control demo --out ncp-demo
    """

    out: Path = Path("ncp-demo")
    """The folder for all files of the demo."""

    only_checkpoints: bool = False
    """Only copy the checkpoints into the folder."""

    episodes: int = 10
    """Number of episodes to collect."""

    epochs: int = 40
    """Number of epochs of the fit."""

    video_steps: int = 200
    """Number of steps in the video."""

    distil_steps: int = 40_000
    """Number of environment steps of the distillation."""


def run(arguments: Arguments) -> int:
    """Runs the steps of the demo."""
    started = time.monotonic()
    if not arguments.only_checkpoints:
        require_packages()
    checkpoints = copy_checkpoints(arguments.out / "checkpoints")
    if arguments.only_checkpoints:
        print(f"the checkpoints are in {checkpoints}")
        return 0
    tour = steps(arguments, checkpoints)
    for number, step in enumerate(tour, 1):
        if code := take(number, step):
            return code
    rollouts, model = arguments.out / "rollouts", arguments.out / "model" / "best.safetensors"
    print(
        f"\n{len(tour) + 1}. How good is that? The next observation on rollouts that no model has seen:\n", flush=True
    )
    print(table(rollouts, model))
    # Where the simulator can neither be fetched nor found, the tour ends without a laboratory, and with the reason.
    take(len(tour) + 2, laboratory(arguments, checkpoints))
    print(closing_words(arguments.out, rollouts, model, time.monotonic() - started))
    return 0


def take(number: int, step: Step) -> int:
    """Takes a step of the tour, unless its result is there, and returns the exit code of its command."""
    title, result, words = step
    print(f"\n{number}. {title}\n   $ ncp-control {shlex.join(words)}", flush=True)
    if result.exists() and words[0] not in RESUMED:
        print(f"exists already: {result}")
        return 0
    return run_command(words)


def require_packages() -> None:
    """Raises ValueError where a package is missing that a step needs, before the first step."""
    from importlib.util import find_spec

    from ncp_control.cli.packages import PACKAGES

    needed = [package for package in PACKAGES if package.extra in EXTRAS]
    missing = [package.distribution for package in needed if find_spec(package.module) is None]
    if missing:
        names = ", ".join(missing)
        raise ValueError(f'the demo needs what is not installed here ({names}): pip install "ncp-control[all]"')


def copy_checkpoints(into: Path) -> Path:
    """Copies the shipped checkpoints and their cards into a folder, unless they are there, and returns the folder."""
    from ncp_control.base.files import write_atomically

    into.mkdir(parents=True, exist_ok=True)
    for path in sorted(shipped_checkpoints().iterdir()):
        if not (into / path.name).exists():
            write_atomically(into / path.name, path.read_bytes())
    return into


def shipped_checkpoints() -> Path:
    """Returns the folder of the shipped checkpoints: in the package from a wheel, beside the package in a checkout."""
    folders = (PACKAGE / "checkpoints", PACKAGE.parent / "checkpoints")
    for folder in folders:
        if (folder / "halfcheetah.safetensors").exists():
            return folder
    raise FileNotFoundError(f"the shipped checkpoints are missing in {folders[0]}: install ncp-control again")


def steps(arguments: Arguments, checkpoints: Path) -> list[Step]:
    """Returns the steps that are commands."""
    from ncp_control.distil.student import DEFAULT_WIRING

    out = arguments.out
    agent, teacher = (str(checkpoints / f"halfcheetah-{name}.safetensors") for name in ("positions", "teacher"))
    episode, page, video = out / "episode.npz", out / "episode.html", out / "episode.mp4"
    rollouts, model, student = out / "rollouts", out / "model", out / "student"
    predicted, predicted_page = out / "predicted.npz", out / "predicted.html"
    # The first fifth of the rollouts is for validation, and the next ones are for testing.
    unseen = ["--data", str(rollouts), "--rollout", str(max(1, arguments.episodes // 5)), "--steps", "300"]
    shown = ["--start", "300", "--steps", str(arguments.video_steps)]
    collecting = ["--episodes", str(arguments.episodes), "--random", "0.05", "--out", str(rollouts), "--resume"]
    teaching = ["--env", "HalfCheetah-v5", "--random", "0.05", "--steps", str(arguments.distil_steps), *TEACHING]
    fitting = ["--actions", "--units", "24", "--epochs", str(arguments.epochs), "--out", str(model), "--resume"]
    return [
        (
            f"A circuit of {neurons_of(agent)} neurons runs the half-cheetah from its eight positions; everything in "
            "it is recorded",
            episode,
            ["record", agent, "--steps", "1000", "--out", str(episode)],
        ),
        ("The recording as one HTML page", page, ["view", str(episode), "--html", str(page)]),
        ("and as a video", video, ["view", str(episode), "--video", str(video), *shown]),
        (
            f"A circuit of {DEFAULT_WIRING.units} liquid neurons learns to run from a teacher: watch its return grow",
            student,
            ["distil", teacher, *teaching, "--out", str(student), "--resume"],
        ),
        ("The teacher's rollouts, 5 % of its actions random", rollouts, ["collect", "--policy", teacher, *collecting]),
        ("A liquid circuit of 24 neurons learns the dynamics", model, ["fit", str(rollouts), *fitting]),
        (
            "It predicts a rollout that it was not fitted to, open loop",
            predicted,
            ["record", str(model / "best.safetensors"), *unseen, "--out", str(predicted)],
        ),
        (
            "Its body and the real one on a page, until they part",
            predicted_page,
            ["view", str(predicted), "--html", str(predicted_page)],
        ),
    ]


def neurons_of(agent: str) -> int:
    """Returns how many neurons the circuit in a policy file has."""
    from ncp_control.activity.recording.interventions import circuit_of
    from ncp_control.rl import load_policy

    return int(circuit_of(load_policy(agent).policy).rnn.wiring.units)


def laboratory(arguments: Arguments, checkpoints: Path) -> Step:
    """Returns the last step."""
    page = arguments.out / "laboratory.html"
    words = ["lab", str(checkpoints / "halfcheetah-positions.safetensors"), "--html", str(page)]
    return ("The same circuit runs the body live in a page: silence a neuron, cut a synapse, push it", page, words)


def run_command(words: list[str]) -> int:
    """Runs another command in this process; the command that its files note is its own, and not the demo."""
    from ncp_control.cli import main

    before = sys.argv
    sys.argv = ["ncp-control", *words]
    try:
        return main(words)
    finally:
        sys.argv = before


def table(rollouts: Path, model: Path) -> str:
    """Returns a table of test errors: the model's, and those of models without a network."""
    from ncp_control.data import Rollouts
    from ncp_control.dynamics import load_model, one_step_error
    from ncp_control.dynamics.comparison import Comparison, baseline_results
    from ncp_control.dynamics.table import RowResult, table_text

    data = Rollouts.load(rollouts)
    fitted = load_model(model)
    error = one_step_error(fitted, data.split().test)
    size = sum(parameter.numel() for parameter in fitted.parameters())
    lines = [
        RowResult("LTC, 24 neurons", [error], size),
        *baseline_results(data, Comparison(str(rollouts), 1, 1, actions=True)),
    ]
    return table_text(sorted(lines, key=lambda line: line.mean))


def laboratory_words(page: Path) -> str:
    """Says what to do with the laboratory, if it was written."""
    return f"- open {page} in a browser and experiment\n" if page.exists() else ""


def closing_words(out: Path, rollouts: Path, model: Path, seconds: float) -> str:
    """Says what to look at now and what to try next."""
    agent = out / "checkpoints" / "halfcheetah-positions.safetensors"
    robust = out / "checkpoints" / "halfcheetah-robust.safetensors"
    return f"""
Done in {seconds:.0f} s. What to do now:
- open {out / "episode.html"} in a browser: press play, click a neuron; watch {out / "episode.mp4"}
- open {out / "predicted.html"}: the real body, and the body that the model predicts open loop
{laboratory_words(out / "laboratory.html")}- ncp-control evaluate {model} --data {rollouts} --figures {out / "pictures"}
- ncp-control record {out / "student" / "best.safetensors"} --out {out / "student.npz"}    # what learnt just now
- ncp-control record {agent} --silence command0 --out {out / "silenced.npz"}    # without one neuron
- ncp-control evaluate {robust} --grid --beside {agent}    # in noise, pushed, heavier
- ncp-control train pendulum-positions --out {out / "pendulum"}    # an agent of your own, in a few minutes
- cd {out} and try the commands of the README: the checkpoints that it names are there"""
