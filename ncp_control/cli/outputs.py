"""Files that a command writes: those that it could not write are refused before its work begins."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


def check_outputs(outputs: Mapping[str, Path | None], read: Iterable[Path | None] = ()) -> None:
    """Refuses files that cannot be written, that the command reads, or that are one.

    :param outputs: by the options that name them; None for those that were not asked for
    :param read: the files that the command reads
    """
    for path in outputs.values():
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(f"the folder {path.parent} does not exist: create it first")
        if path is not None and path.is_dir():
            raise IsADirectoryError(f"{path} is a folder: name a file")
    kept = {path.resolve() for path in read if path is not None}
    for option, path in outputs.items():
        if path is not None and path.resolve() in kept:
            raise ValueError(f"{option} would overwrite {path}, which is read: name another file")
    written = [path.resolve() for path in outputs.values() if path is not None]
    if len(set(written)) < len(written):
        *first, last = outputs
        raise ValueError(f"{', '.join(first)} and {last} need different files")


def save_picture(draw: Callable[[], Any], path: Path) -> str | None:
    """Writes a picture that is drawn beside a result, and returns its path; says so where matplotlib is missing.

    :param draw: returns a matplotlib Figure
    :param path: the file
    """
    from ncp_control.base.pages import save_figure

    try:
        save_figure(draw(), path, dpi=130)
    except ImportError:
        print('there is no picture without matplotlib: pip install "ncp-control[plot]"', file=sys.stderr)
        return None
    return str(path)
