"""What pages that hold all they show have in common: a template, data that no parser mistakes, arrays in base64."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ncp_control.base.files import write_atomically
from ncp_control.base.text import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Nothing but what the page itself holds is allowed.
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{{policy}}">
<link rel="icon" href="data:,">
<title>{{title}}</title>
<style>
{{style}}
</style>
</head>"""


def page_head(title: str, style: str, more_scripts: str = "") -> str:
    """Returns the head of a page that holds all it shows; its policy lets the browser ask for nothing else.

    :param title: escaped
    :param style: the CSS
    :param more_scripts: further sources of the policy's `script-src`, beside the page's own scripts
    """
    scripts = f"'unsafe-inline' {more_scripts}".strip()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; img-src data:"
    return filled(HEAD, {"policy": policy, "title": title, "style": style})


def page_end(script: str) -> str:
    """Returns the end of such a page: its script, with names of its own."""
    return f'<script>\n(() => {{\n"use strict";\n{script}\n}})();\n</script>\n</body>\n</html>'


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Returns a template with a part in each place `{{name}}`.

    All places are filled in one pass, so that text which was filled in is never searched for places.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def all_shown(value: Any) -> Any:
    """Returns JSON values with `shown` applied to their texts: a browser obeys marks that reverse the writing."""
    if isinstance(value, dict):
        return {key: all_shown(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [all_shown(own) for own in value]
    return shown(value) if isinstance(value, str) else value


def script_json(data: object) -> str:
    """Returns JSON in which no HTML parser can find the end of the script around it."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# From the palette of Okabe and Ito, whose colours colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777",
)  # fmt: skip


def new_figure(width: float, height: float, layout: Any = "constrained") -> Figure:
    """Returns an empty figure; width and height are in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def save_figure(figure: Figure, path: Path, dpi: int) -> None:
    """Writes a figure, whole or not at all, in the format of the file's suffix."""
    write_atomically(path, figure_bytes(figure, path.suffix.lower()[1:], dpi))


def figure_bytes(figure: Figure, kind: str, dpi: int) -> bytes:
    """Returns a figure as a file of the format `kind`; equal figures give equal files."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with rc_context({"svg.hashsalt": "ncp_control"}):  # without one, the names in an SVG are drawn at random
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=undated)
    return buffer.getvalue()


def plain(axes: Any) -> None:
    """Removes the lines above and to the right of the axes."""
    axes.spines[["top", "right"]].set_visible(False)


def packed(values: ArrayLike) -> dict[str, str]:
    """Returns an array for `unpacked` of `numbers.js`, row after row: numbers as float64, whole numbers as int32.

    A laboratory computes in float64, and a weight in float32 is the same number there.
    """
    given: Any = values
    array = np.asarray(given.detach().cpu().numpy() if hasattr(given, "detach") else given)
    kind = "<i4" if array.dtype.kind in "biu" else "<f8"
    return {"type": kind[1:], "data": base64_of(array.astype(kind))}


def base64_of(values: NDArray[Any]) -> str:
    """Returns the bytes of an array, row after row, in base64."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
