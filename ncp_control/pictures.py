"""Making and keeping a matplotlib figure, tied to no window. Nothing here loads matplotlib before it draws."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncp_control.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float, layout: Any = "constrained") -> Figure:
    """An empty Figure of that many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def save_figure(figure: Figure, path: Path, dpi: int) -> None:
    """Writes a figure in the format of the file's suffix, whole or not at all; the same figure is the same file."""
    buffer = io.BytesIO()
    kind = path.suffix.lower()[1:]
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    figure.savefig(buffer, format=kind, dpi=dpi, metadata=undated)
    write_atomically(path, buffer.getvalue())


def plain(axes: Any) -> None:
    """Without the lines that frame nothing."""
    axes.spines[["top", "right"]].set_visible(False)
