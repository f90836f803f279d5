"""Makes and saves matplotlib figures without a window; matplotlib is imported only when something is drawn."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncp_control.storage.atomic_writes import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# From the palette of Okabe and Ito, whose colours colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777",
)  # fmt: skip


def new_figure(width: float, height: float, layout: Any = "constrained") -> Figure:
    """Returns an empty figure; width and height are in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def save_figure(figure: Figure, path: Path, dpi: int) -> None:
    """Writes a figure, whole or not at all, in the format of the file's suffix; equal figures give equal files."""
    buffer = io.BytesIO()
    kind = path.suffix.lower()[1:]
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    figure.savefig(buffer, format=kind, dpi=dpi, metadata=undated)
    write_atomically(path, buffer.getvalue())


def plain(axes: Any) -> None:
    """Removes the lines above and to the right of the axes."""
    axes.spines[["top", "right"]].set_visible(False)
