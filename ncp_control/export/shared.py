"""How every kind of export begins: with a controller of the agent, and a folder that appears once it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ncp_control.base.files import errors_name, temporary_folder
from ncp_control.rl.controller import Controller
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.monitor import Monitor


def as_controller(agent: LoadedPolicy | Controller, monitor: Monitor | None) -> Controller:
    """Returns the agent as a `Controller`, made of torch's own operations if it has to be made."""
    if not isinstance(agent, Controller):
        return Controller(agent, "reference", monitor)
    if monitor is not None:
        raise ValueError("a Controller brings its monitor: give it as Controller(agent, monitor=...)")
    return agent


@contextmanager
def new_folder(out: str | Path) -> Iterator[Path]:
    """Gives a temporary folder, which becomes `out` at the end of the block; an error leaves nothing behind.

    :param out: a name that is free, or an empty folder
    """
    out = Path(out)
    check_free(out)
    with temporary_folder(out) as temporary:
        made = temporary / "made"
        made.mkdir()
        yield made
        with errors_name(out):
            if out.is_dir():
                out.rmdir()  # it is empty, and some systems rename no folder to a name that is taken
            made.rename(out)


def check_free(out: Path) -> None:
    """Refuses a name that is taken, or whose parent folder does not exist."""
    if not out.parent.is_dir():
        raise FileNotFoundError(f"the folder {out.parent} does not exist: create it first")
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise FileExistsError(f"{out} exists already and is no folder: choose another one (--out), or remove it first")
    if out.is_dir() and any(out.iterdir()):
        raise FileExistsError(f"the folder {out} is not empty: choose another one (--out), or remove it first")
