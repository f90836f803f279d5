"""MuJoCo's WebAssembly build for tests, and worlds that are open in a browser."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.browser_page import Page
from helpers.laboratory_scripts import open_scripts
from ncp_control.activity.laboratory.simulator import SimulatorBuild, simulator, simulator_parts
from ncp_control.activity.laboratory.world import world_data
from ncp_control.activity.laboratory.write import WORLD_SCRIPTS

# `run` plays actions after the settings of a case, and returns all that the world says.
RUN = """
window.run = ({ name, seed, actions, settings, means, changes, pushes }) => {
  const world = new lab.World(mujoco, { ...data.worlds[name], means });
  world.set(settings);
  const found = { observations: [world.reset(seed)], ends: [world.ends()], places: [world.places()], rewards: [],
    terminated: [], truncated: [], executed: [], random: [], elapsed: [1], speeds: [world.speed()] };
  actions.forEach((action, step) => {
    if (changes[step]) world.set(changes[step]);
    if (pushes[step]) world.push(...pushes[step]);
    const { observation, reward, terminated, truncated, executed, isRandom, elapsed } = world.step(action);
    found.observations.push(observation);
    found.rewards.push(reward);
    found.terminated.push(terminated);
    found.truncated.push(truncated);
    found.executed.push(executed);
    found.random.push(isRandom);
    found.elapsed.push(elapsed);
    found.ends.push(world.ends());
    found.places.push(world.places());
    found.speeds.push(world.speed());
  });
  world.delete();
  const plain = (row) => row.length === undefined ? row : Array.from(row);
  return Object.fromEntries(Object.entries(found).map(([key, rows]) => [key, rows.map(plain)]));
};
"""


@cache
def _found() -> SimulatorBuild | str:
    try:
        return simulator()
    except ValueError as error:
        return str(error)


def simulator_or_skip() -> SimulatorBuild:
    """Returns MuJoCo's WebAssembly build from the user's cache or from npm; the test is skipped without either."""
    found = _found()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def open_worlds(browser: Any, folder: Path, envs: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Page:
    """Opens a page with the simulator, in which `run` plays actions in worlds.

    :param envs: environments by the names under which `played` finds them
    :param more: further data of the page
    """
    data = {
        "simulator": simulator_parts(simulator_or_skip()),
        "worlds": {name: world_data(env) for name, env in envs.items()},
        **(more or {}),
    }
    scripts = ["numbers.js", *WORLD_SCRIPTS]
    page = open_scripts(browser, folder, scripts, ["openSimulator", "World", "MASSES"], data)
    page.ask(
        f"""(async () => {{
          {RUN}
          window.mujoco = await lab.openSimulator(data.simulator.script, data.simulator.wasm);
        }})()"""
    )
    assert page.errors() == []
    return page


def played(
    page: Page,
    name: str,
    seed: int,
    actions: Any,
    settings: Mapping[str, Any] | None = None,
    means: list[float] | None = None,
    changes: Mapping[int, Any] | None = None,
    pushes: Mapping[int, Any] | None = None,
) -> dict[str, np.ndarray]:
    """Returns what a world of the page says about an episode, one row a step.

    :param actions: (T, m)
    :param settings: of `World.set`, before the start
    :param means: what hidden observations read
    :param changes: settings before a step, by its number
    :param pushes: arguments of `World.push` before a step, by its number
    """
    asked = {
        "name": name,
        "seed": seed,
        "actions": np.asarray(actions, float).tolist(),
        "settings": dict(settings or {}),
        "means": means,
        "changes": dict(changes or {}),
        "pushes": dict(pushes or {}),
    }
    found = page.ask(f"run({json.dumps(asked)})")
    return {key: np.array(rows) for key, rows in found.items()}
