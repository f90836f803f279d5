"""Some scripts of the laboratory alone on a page, so that their functions can be called."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers.browser_page import Page
from ncp_control.activity.laboratory.write import static_text
from ncp_control.base.pages import script_json

POLICY = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; img-src data:"


def open_scripts(browser: Any, folder: Path, scripts: Sequence[str], names: Sequence[str], data: Any = None) -> Page:
    """Opens a page with scripts of a laboratory, in this order.

    :param browser: from `running_browser`
    :param folder: gets the page's file
    :param scripts: names of files
    :param names: what the scripts define and `window.lab` shall have; `page.ask("lab.NAME")` awaits promises
    :param data: JSON values, which the page has as `window.data`
    """
    path = folder / "scripts.html"
    path.write_text(
        f"""<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,"><script type="application/json" id="data">{script_json(data)}</script>
<script>(() => {{ "use strict"; window.data = JSON.parse(document.getElementById("data").textContent);
{static_text(*scripts)}
window.lab = {{ {", ".join(names)} }}; }})();</script>""",
        encoding="utf-8",
    )
    page = Page(browser, path)
    page.open()
    errors = page.errors()
    assert errors == [], errors
    return page
