"""How long does the page of a recorded rollout take to show another step, with 200 neurons and 5,000 steps in it?

An untrained circuit runs a half-cheetah, and its page is opened in a headless Chromium. Steps from all over the rollout
are shown one after another, as when its slider is dragged, once with a window of 100 steps in the graphs and once with
all of them. Two figures are told: the time that passes until the pictures are drawn, and the time that the page's own
thread works, which other work on the machine changes little.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
import tyro
from benchmark_laboratory import browser
from rich.console import Console
from rich.table import Table

import ncp_control as nc
from ncp_control.activity import record
from ncp_control.activity.page import write_page
from ncp_control.rl import RecurrentPPO, load_policy, save_policy

ENV = "HalfCheetah-v5"
# Reading a pixel back waits until the picture is really drawn.
SHOWN = """
const [count, size] = arguments, wiring = document.getElementById("wiring").getContext("2d");
const menu = document.getElementById("window");
menu.value = size;
menu.dispatchEvent(new Event("change"));
return Array.from({ length: count }, (_, k) => {
  const began = performance.now();
  ncp.setStep(k * 997 % ncp.steps());
  wiring.getImageData(0, 0, 1, 1);
  return performance.now() - began;
});
"""


@dataclass
class Arguments:
    """Measure how fast the page of a recorded rollout shows another step.

    Example: python scripts/benchmark_page.py --neurons 200 --steps 5000
    """

    neurons: int = 200
    """Neurons of the circuit."""

    steps: int = 5000
    """Recorded steps."""

    shown: int = 200
    """How many steps are shown."""

    json: bool = False
    """Print one JSON object last."""


def write(arguments: Arguments, folder: Path) -> Path:
    """Records a circuit and writes its page."""
    env = gym.make(ENV)
    policy = {"wiring": nc.AutoNCP(arguments.neurons, 10, sparsity=0.87, seed=1)}
    model = RecurrentPPO("NCPPolicy", env, seed=0, n_steps=8, batch_size=8, device="cpu", policy_kwargs=policy)
    save_policy(model, folder / "agent.safetensors", {"env": ENV})
    agent = load_policy(folder / "agent.safetensors")
    activity = record(agent, env, folder / "rollout.npz", arguments.steps, seed=0)
    env.close()
    write_page(activity, folder / "page.html")
    return folder / "page.html"


def worked(page: Any) -> float:
    """Returns the seconds that the page's thread has worked."""
    metrics = page.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def main(arguments: Arguments) -> None:
    """Shows the steps and prints a table."""
    torch.set_num_threads(1)
    found = {}
    with tempfile.TemporaryDirectory() as name, browser(Path(name) / "profile") as page:
        page.get(write(arguments, Path(name)).as_uri())
        for window, title in (("100", "100 steps"), ("0", "all steps")):
            page.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
            before = worked(page)
            times = page.execute_script(SHOWN, arguments.shown, window)
            busy = 1000 * (worked(page) - before) / arguments.shown
            page.execute_cdp_cmd("Performance.disable", {})
            found[title] = {"median ms": statistics.median(times), "slowest ms": max(times), "ms of work": busy}
    table = Table("in the graphs", *next(iter(found.values())))
    for title, row in found.items():
        table.add_row(title, *(f"{value:.1f}" for value in row.values()))
    Console().print(table)
    if arguments.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
