"""Finding texts and artists in a matplotlib figure."""

from itertools import combinations
from typing import Any

import numpy as np


def boxes_of(figure: Any) -> dict[str, np.ndarray]:
    """Returns every text that is drawn and its box (left, bottom, right, top) in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return {
        f"{text.get_text()} #{k}": np.asarray(text.get_window_extent(renderer).extents) for k, text in enumerate(shown)
    }


def overlaps(boxes: dict[str, np.ndarray]) -> list[tuple[str, str]]:
    """Returns the pairs of texts whose boxes overlap by more than half a pixel in both directions."""
    return [
        (one, other)
        for (one, a), (other, b) in combinations(boxes.items(), 2)
        if min(a[2], b[2]) - max(a[0], b[0]) > 0.5 and min(a[3], b[3]) - max(a[1], b[1]) > 0.5
    ]


def artist_of(figure: Any, gid: str) -> Any:
    """Returns the artist with this id."""
    return figure.findobj(lambda artist: artist.get_gid() == gid)[0]
