"""Writes an agent as C99."""

from __future__ import annotations

import copy
from pathlib import Path

from ncp_control.export.c.header import header_text
from ncp_control.export.c.program import program_text
from ncp_control.export.c.source import source_text
from ncp_control.export.c.vectors import vectors_text
from ncp_control.export.shared import as_controller, new_folder
from ncp_control.rl.controller import Controller
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.monitor import Monitor


def export_c(agent: LoadedPolicy | Controller, folder: str | Path, monitor: Monitor | None = None) -> Path:
    """Writes an agent as C99: `controller.h`, `controller.c`, a program `main.c` and its test vectors `vectors.csv`.

    The code allocates nothing, needs no library but math.h, and checks the observations and the certified ranges. It
    computes in float, and compiled with `-DCONTROLLER_DOUBLE` in double.

    Example::

        export_c(nc.load("checkpoints/halfcheetah.safetensors"), "robot")
        # cc -std=c99 -O2 -o controller robot/controller.c robot/main.c -lm
        # ./controller --check robot/vectors.csv

    :param agent: a policy loaded from a file of `save_policy`, or a `Controller`
    :param folder: the folder to make
    :param monitor: the certified ranges
    :return: the folder
    """
    controller = as_controller(agent, monitor)
    named = () if isinstance(agent, Controller) else (agent.name, agent.sha256)
    with new_folder(folder) as made:
        write_c(controller, made, *named)
    return Path(folder)


def write_c(controller: Controller, folder: Path, name: str = "", sha256: str = "") -> None:
    """Writes the four files into an existing folder.

    :param controller: the agent
    :param folder: the folder
    :param name: the agent's name, for comments
    :param sha256: the checksum of its file, for comments
    """
    for file, text in texts_of(controller, name, sha256).items():
        # The same bytes on every system; names were freed of other characters before.
        (folder / file).write_text(text, encoding="ascii", newline="\n")


def texts_of(controller: Controller, name: str = "", sha256: str = "") -> dict[str, str]:
    """Returns the text of every file by its name; refuses an agent that has no C form."""
    exact = exact_form(controller)
    return {
        "controller.h": header_text(exact, name, sha256),
        "controller.c": source_text(exact, name, sha256),
        "main.c": program_text(),
        "vectors.csv": vectors_text(exact),
    }


def check_form(controller: Controller) -> None:
    """Refuses an agent that has no C form."""
    source_text(exact_form(controller), "", "")


def exact_form(controller: Controller) -> Controller:
    """Returns a copy in float64 that computes with torch's own operations, one after the other."""
    exact = copy.deepcopy(controller).double()
    if exact.rnn is not None:
        exact.rnn.backend = "reference"
    return exact
