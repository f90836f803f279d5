"""Making and keeping a matplotlib figure, tied to no window. Nothing here loads matplotlib before it draws."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncp_control.storage.atomic_writes import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of Okabe and Ito's palette, whose colours the colour-blind can tell apart.
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777",
)  # fmt: skip


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
