"""A web page that is open in a browser."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--force-device-scale-factor=1"]  # fmt: skip

# Puts a clock of its own in the place of the page's: `clock.frame` lets time pass, runs the timers that are due, and
# draws a frame; a reading of the time takes `clock.reading` milliseconds, at first none.
CLOCK = """
const own = { frames: [], timers: new Map(), now: 1000, number: 0, reading: 0 };
const names = ["requestAnimationFrame", "setTimeout", "clearTimeout", "setInterval", "clearInterval"];
const before = names.map((name) => window[name]);
const timer = (every) => (act, wait = 0) => {
  own.timers.set(++own.number, { act, at: own.now + wait, every: every ? wait : 0 });
  return own.number;
};
performance.now = () => (own.now += own.reading);
window.requestAnimationFrame = (act) => own.frames.push(act);
window.setTimeout = timer(false);
window.setInterval = timer(true);
window.clearTimeout = window.clearInterval = (number) => { own.timers.delete(number); };
own.frame = (milliseconds) => {
  own.now += milliseconds;
  for (const [number, due] of [...own.timers]) {
    if (due.at > own.now || !own.timers.has(number)) continue;
    if (due.every) due.at = own.now + due.every;
    else own.timers.delete(number);
    due.act();
  }
  for (const act of own.frames.splice(0)) act(own.now);
};
own.end = () => {
  names.forEach((name, k) => { window[name] = before[k]; });
  delete performance.now;
  delete window.clock;
  own.frames.forEach((act) => requestAnimationFrame(act));
  own.timers.forEach(({ act, every }) => (every ? setInterval(act, every) : setTimeout(act)));
};
window.clock = own;
"""


def running_browser(profile: Path) -> Iterator[Any]:
    """Chromium without a window, for a fixture; the tests are skipped where it is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install 'ncp-control[dev]'")
    chromium, driver = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in [*OPTIONS, f"--user-data-dir={profile}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    found.set_script_timeout(300)
    yield found
    found.quit()


class Page:
    """A page that is open in the browser."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.browser, self.path = browser, path

    def open(self, width: int = 1366, height: int = 768, scheme: str = "light", address: str = "") -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.browser.get("about:blank")
        for log in ("browser", "performance"):
            self.browser.get_log(log)  # what came before is not this page's
        self.browser.get(self.path.as_uri() + address)

    def ask(self, expression: str) -> Any:
        return self.browser.execute_script(f"return {expression}")

    def find(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def press(self, key: str, shift: bool = False) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        actions = ActionChains(self.browser)
        if shift:
            actions.key_down("\ue008")
        actions.send_keys(key)
        if shift:
            actions.key_up("\ue008")
        actions.perform()

    def click_on(self, neuron: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        canvas, place = self.find("#wiring"), self.ask(f"ncp.placeOf({json.dumps(neuron)})")
        across, down = place["x"] - canvas.size["width"] / 2, place["y"] - canvas.size["height"] / 2
        ActionChains(self.browser).move_to_element_with_offset(canvas, round(across), round(down)).click().perform()

    def pixels(self, canvas: str, places: list[tuple[float, float]]) -> np.ndarray:
        """Returns the colours at places of a canvas, (places, 3)."""
        found = self.browser.execute_script(
            "const c = document.getElementById(arguments[0]);"
            "const all = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
            "return arguments[1].map(([x, y]) => [0, 1, 2].map("
            "(channel) => all.data[(Math.round(y) * c.width + Math.round(x)) * 4 + channel]))",
            canvas,
            places,
        )
        return np.array(found)

    def count_of(self, canvas: str, colour: list[int]) -> int:
        """Returns how many points of a canvas have a colour, nearly."""
        found: int = self.browser.execute_script(
            "const c = document.getElementById(arguments[0]);"
            "const all = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "let count = 0;"
            "for (let k = 0; k < all.length; k += 4)"
            "  if (arguments[1].every((value, channel) => Math.abs(all[k + channel] - value) < 40)) count += 1;"
            "return count",
            canvas,
            colour,
        )
        return found

    def darkness(self, canvas: str, place: list[float]) -> int:
        """Returns how much the darkest colour within two pixels of a place differs from white, over all channels."""
        around = [(place[0] + dx, place[1] + dy) for dx in range(-2, 3) for dy in range(-2, 3)]
        return int((765 - self.pixels(canvas, around).sum(axis=1)).max())

    def colours(self, canvas: str) -> int:
        """Returns how many colours a canvas has."""
        return self.browser.execute_script(
            "const c = document.getElementById(arguments[0]);"
            "const all = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
            "return new Set(new Uint32Array(all.data.buffer)).size",
            canvas,
        )

    @contextmanager
    def own_clock(self, reading: float = 0) -> Iterator[Callable[[int, float], None]]:
        """Lets the page's time stand still in the block, at whose end the page must have been paused.

        It gives a function that draws so many frames, before each of which so many milliseconds pass.

        :param reading: milliseconds that pass whenever the page reads the time
        """
        self.browser.execute_script(CLOCK)
        self.ask(f"clock.reading = {reading}")

        def frames(count: int, milliseconds: float) -> None:
            self.browser.execute_script(f"for (let k = 0; k < {count}; k++) clock.frame({milliseconds})")

        try:
            yield frames
        finally:
            self.browser.execute_script("clock.end()")

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
