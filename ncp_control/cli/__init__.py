"""The command `ncp-control`: one module a command, imported when that command runs and not before.

A command's module has a dataclass `Arguments`, which tyro fills from the command line, and `run(arguments)`, which
returns the exit code. Neither this module nor a help page imports torch, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from ncp_control._version import __version__
from ncp_control.base.progress import say, usable_streams
from ncp_control.base.text import shown

# The commands; each is a module of this folder.
COMMANDS = {
    "train": "train an agent, in any environment or from a recipe",
    "distil": "teach a circuit to imitate a policy or a dataset",
    "convert": "convert a model of Stable-Baselines3 to a policy file, or any recurrent network",
    "evaluate": "measure the return of a policy, or the errors of a model",
    "collect": "collect rollouts of a policy as a Minari dataset",
    "fit": "fit a dynamics model to rollouts, or a model of series to a table",
    "plan": "control a body by planning with a model",
    "compare": "fit many models to the same rollouts, and compare them in a table",
    "sweep": "run many trainings, fits or distillations, here or on a cluster",
    "record": "record every neuron, synapse and time constant of a rollout",
    "view": "show a recording as a page, a video or figures",
    "lab": "write a web page in which a circuit runs its body live, for experiments",
    "ablate": "silence one neuron after another, and measure the return",
    "audit": "prove what an agent can never do, by interval arithmetic",
    "prove": "prove that a circuit keeps its body safe, from every start and for ever",
    "dynamics": "analyse an agent and its body in closed loop: rest, cycles, chaos, attractors",
    "export": "export an agent as code for a robot: C99, ONNX or torch.export",
    "describe": "show what is in a file, a run, a dataset or a wiring plan",
    "bench": "measure how fast circuits train and act on this machine",
    "demo": "take a tour: an agent, its page and video, a fitted model",
    "doctor": "check what is installed and what can run, and how to fix what cannot",
}

OK = 0
REFUSED = 2
INTERRUPTED = 130  # 128 and the number of the signal, as shells count

TRACEBACK_VARIABLE = "NCP_CONTROL_TRACEBACK"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    An error that the user can correct (a wrong value, a missing file, a package that is not installed) becomes one line
    on stderr and exit code 2. With `--traceback` anywhere on the line, or NCP_CONTROL_TRACEBACK=1, Python shows where
    the error arose.

    :param argv: the words after `ncp-control`; by default those that this process was started with
    :return: the exit code
    """
    with usable_streams():
        return answer(list(sys.argv[1:] if argv is None else argv))


def answer(words: Sequence[str]) -> int:
    """Runs the command in `words` and puts its errors into sentences; returns the exit code."""
    wants_traceback = "--traceback" in words or os.environ.get(TRACEBACK_VARIABLE, "0") not in ("", "0")
    try:
        code = dispatch([word for word in words if word != "--traceback"])
        sys.stdout.flush()  # here, so that a closed pipe is noticed inside of this block
        return code
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output, such as `| head`, has closed the pipe. Python would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, ModuleNotFoundError) as error:
        if wants_traceback:
            raise
        message = explain(error)
        if message is None:
            raise
        complain(message)
        return REFUSED


def dispatch(words: Sequence[str]) -> int:
    """Does what the first word says, and returns the exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(overview())
    elif words[0] == "--version":
        print(f"ncp-control {__version__}")
    elif words[0] in COMMANDS:
        return run_command(words[0], words[1:])
    else:
        complain(unknown_command(words[0]))
        return REFUSED
    return OK


def run_command(name: str, words: Sequence[str]) -> int:
    """Imports a command's module, reads its arguments from `words`, and runs it."""
    from ncp_control.cli.arguments import read

    module = import_module(f"ncp_control.cli.{name}")
    arguments = read(module.Arguments, f"ncp-control {name}", words, getattr(module, "SELDOM", ()))
    return int(module.run(arguments))


def overview() -> str:
    """Writes the text of `ncp-control --help`."""
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {does}" for name, does in COMMANDS.items())
    return f"""usage: ncp-control COMMAND [ARGUMENTS]

Small, sparse, bounded recurrent controllers.

commands:
{commands}

  ncp-control COMMAND --help  the arguments of one command
  --version                   which version this is
  --traceback                 after an error, also show where it happened (or set {TRACEBACK_VARIABLE}=1)"""


def unknown_command(word: str) -> str:
    """Says that there is no such command, and which commands have similar names."""
    near = [name for name in COMMANDS if name.startswith(word)] or get_close_matches(word, COMMANDS, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else f"the commands are {', '.join(COMMANDS)}"
    return f"there is no command {word!r}; {advice}"


def explain(error: ValueError | OSError | ModuleNotFoundError) -> str | None:
    """Puts an error into one line for the user; returns None for a missing module that no extra installs."""
    if isinstance(error, ModuleNotFoundError):
        from ncp_control.cli.packages import package_of

        package = package_of(error.name or "")
        return None if package is None else f"this needs {package.distribution}, which is missing: {package.fix}"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def complain(message: str) -> None:
    """Writes one line to stderr."""
    say(f"ncp-control: {shown(message)}")
