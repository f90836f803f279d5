"""What somebody does in a laboratory with the pointer, and small laboratories to do it in."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from helpers.browser_page import Page
from helpers.laboratories import opened
from helpers.small_agents import moved
from ncp_control.activity.laboratory import Exhibit
from ncp_control.rl import RecurrentPPO, load_policy, save_policy

QUIET = "seed=0 0:random=0"


def untrained(folder: Path, name: str, env: Any, share: float = 0.0, **policy: Any) -> Exhibit:
    """An untrained agent of an environment, whose training had this share of random actions."""
    path = folder / f"{name}.safetensors"
    model = RecurrentPPO("NCPPolicy", env, seed=0, n_steps=8, batch_size=8, device="cpu", policy_kwargs=policy)
    save_policy(moved(model, 2), path, {"env": env.spec.id})
    return Exhibit(load_policy(path), env, name, str(path), share)


def bench(browser: Any, path: Path, line: str = QUIET) -> Page:
    """A laboratory with its first circuit alone, at the first step of an experiment; it is only opened once."""
    page = Page(browser, path)
    if browser.current_url.partition("#")[0] != path.as_uri():
        opened(page, address="#seed=0")
    page.ask("(ncp.pause(), ncp.sides().length > 1 && ncp.putBeside(null), ncp.deselect(), scrollTo(0, 0))")
    run(page, line)
    return page


def run(page: Page, line: str, steps: int = 0) -> None:
    """Begins an experiment, takes so many steps after its first one, and draws the last of them."""
    page.ask(f"(ncp.runLine({json.dumps(line)}), ncp.advance({steps}), ncp.lookAt())")


def last_word(page: Page) -> str:
    return page.ask("ncp.line()").split(" ")[-1]


def status(page: Page) -> str:
    return page.ask("document.getElementById('status').textContent")


def press(page: Page, name: str) -> None:
    """Clicks the button of this name that can be seen."""
    found = page.browser.find_elements("xpath", f"//button[normalize-space()={name!r}]")
    button = next(one for one in found if one.is_displayed())
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()


def slide(page: Page, selector: str, value: Any) -> None:
    """Moves a slider, or chooses from a menu."""
    page.browser.execute_script(
        "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change'))",
        selector,
        str(value),
    )


def number(text: str) -> float:
    """A number as the page writes it, with a true minus sign."""
    return float(text.replace("\u2212", "-"))


def key(page: Page, name: str, on: str = "body", **held: bool) -> None:
    """Presses a key while an element has the focus; `held` are keys such as ctrlKey."""
    event = json.dumps({"key": name, "bubbles": True, "cancelable": True, **held})
    page.ask(f"document.querySelector({on!r}).dispatchEvent(new KeyboardEvent('keydown', {event}))")


def picture(page: Page, canvas: str) -> int:
    """A number that is another one when the picture is another one."""
    return page.browser.execute_script(
        "const c = document.getElementById(arguments[0]);"
        "const all = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);"
        "return all.reduce((sum, colour) => (Math.imul(sum, 31) + colour) | 0, 0)",
        canvas,
    )


def rows(page: Page, name: str, steps: int, side: str = "a") -> np.ndarray:
    return np.array(
        page.ask(f"Array.from({{ length: {steps} }}, (_, step) => ncp.row({json.dumps(name)}, step, {side!r}))")
    )
