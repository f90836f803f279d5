"""How large is a laboratory, how fast does it open and run in a browser, and does its agent do as well as in Python?

The page is opened in a headless Chromium, several times, and medians are told. The share of a core is that of all
processes of the browser (Linux counts it). The episodes of the page and those of
Python begin with the same seeds, and in both the same actions are random: the page has NumPy's random streams. The page
computes in float64 and Python's agent in float32, so the episodes drift apart after some tens of steps.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from needed import needed
from rich.console import Console
from rich.table import Table

from ncp_control.activity.laboratory import Exhibit, write_laboratory
from ncp_control.cli import trained_in
from ncp_control.rl import evaluate, load_policy

with needed():
    from selenium import webdriver

OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
# The first frame is the one after the circuit has taken its first step. The clock starts when the browser does.
OPENED = """
const done = arguments[0];
const look = () => window.ncp ? requestAnimationFrame(() => done(performance.now())) : setTimeout(look, 5);
look();
"""
UNDRAWN = """
ncp.restart(0);
const start = performance.now(), steps = ncp.advance(arguments[0]);
return steps / (performance.now() - start) * 1000;
"""


@dataclass
class Arguments:
    """Measure a laboratory in a headless Chromium: size, first frame, speed, share of a core, and returns.

    Example: python scripts/benchmark_laboratory.py checkpoints/halfcheetah-positions.safetensors --episodes 20
    """

    checkpoints: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT ...")] = (
        Path("checkpoints/halfcheetah-positions.safetensors"),
    )
    """The .safetensors files of policies with a circuit."""

    repeats: int = 5
    """How often each figure is measured; the median counts."""

    seconds: float = 10.0
    """How long the page plays while its share of a core is measured."""

    episodes: int = 20
    """How many episodes are compared with Python's."""

    seed: int = 1000
    """Seed of the first episode."""

    json: bool = False
    """Print one JSON object last."""


@contextmanager
def browser(profile: Path) -> Iterator[Any]:
    """A Chromium without a window."""
    driver = shutil.which("chromedriver")
    if driver is None:
        raise SystemExit("this needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    for option in (*OPTIONS, f"--user-data-dir={profile}"):
        options.add_argument(option)
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    found.set_script_timeout(600)
    try:
        yield found
    finally:
        found.quit()


def main(arguments: Arguments) -> None:
    """Measures every checkpoint and prints a table."""
    torch.set_num_threads(1)
    found = {}
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder) / "profile") as page:
        for path in arguments.checkpoints:
            found[path.stem] = measure(path, page, Path(folder) / "lab.html", arguments)
    names = list(next(iter(found.values())))
    table = Table("", *found)
    for name in names:
        table.add_row(name, *(str(one[name]) for one in found.values()))
    Console().print(table)
    if arguments.json:
        print(json.dumps(found))


def measure(path: Path, page: Any, html: Path, arguments: Arguments) -> dict[str, str]:
    """Returns what was measured of one agent, by name."""
    agent = load_policy(path)
    name = trained_in.env_name(path, agent.note, None)
    env = trained_in.make(name, agent.note)
    write_laboratory([Exhibit(agent, env, path.stem, str(path))], html)
    frames, speeds, shares = [], [], []
    for _ in range(arguments.repeats):
        page.get(html.as_uri())
        frames.append(page.execute_async_script(OPENED) / 1000)
        speeds.append(page.execute_script(UNDRAWN, 999) * env.unwrapped.dt)
        page.execute_script("ncp.restart(0)")
        shares.append(share_of_a_core(page, arguments.seconds))
    returns = page.execute_script(
        "return arguments[0].map((seed) => { ncp.runLine(`seed=${seed}`); ncp.advance(10000); return ncp.return(); })",
        [arguments.seed + k for k in range(arguments.episodes)],
    )
    in_python = evaluate(agent, partial(trained_in.make, name, agent.note), arguments.episodes, arguments.seed)
    env.close()
    return {
        "size": f"{html.stat().st_size / 1e6:.2f} MB",
        "first frame": f"{statistics.median(frames):.2f} s (slowest {max(frames):.2f})",
        "not drawn": f"{statistics.median(speeds):.0f} times real time",
        "drawn in real time": f"{100 * statistics.median(shares):.0f} % of a core (most {100 * max(shares):.0f})",
        f"return of {arguments.episodes} episodes here": spread(returns),
        f"return of {arguments.episodes} episodes in Python": spread(in_python.returns),
    }


def share_of_a_core(page: Any, seconds: float) -> float:
    """Returns how long all processes of the browser work, as a share of the time, while the page plays in real time."""
    page.execute_script("ncp.play()")
    time.sleep(1)
    before, start = worked(page.service.process.pid), time.perf_counter()
    time.sleep(seconds)
    share = (worked(page.service.process.pid) - before) / (time.perf_counter() - start)
    page.execute_script("ncp.pause()")
    return share


def worked(root: int) -> float:
    """Returns the seconds that a process and all those below it have worked, as Linux counts them."""
    parents, seconds = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended in the meantime
            continue
        number = int(stat.parent.name)
        parents[number], seconds[number] = int(words[1]), int(words[11]) + int(words[12])

    def is_below(number: int) -> bool:
        return number == root or (number in parents and is_below(parents[number]))

    return sum(own for number, own in seconds.items() if is_below(number)) / os.sysconf("SC_CLK_TCK")


def spread(returns: Any) -> str:
    """Returns mean, standard deviation (n - 1) and least of returns in words."""
    values = np.asarray(returns, np.float64)
    return f"{values.mean():.0f} ± {values.std(ddof=1):.0f} (lowest {values.min():.0f})"


if __name__ == "__main__":
    main(tyro.cli(Arguments))
