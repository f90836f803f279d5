"""Runs of an agent's controller on given observations: by Python, and by the laboratory's page."""

import base64
import copy
from typing import Any

import numpy as np
import torch

from helpers.browser_page import Page
from ncp_control.activity.laboratory.controllers import controller_data
from ncp_control.base.pages import packed
from ncp_control.rl.controller import Controller

# Runs the agent `data[name]` on its observations, and returns the actions and the last features in base64.
RUN = """
const { agent, observations, elapsed } = data[arguments[0]], controller = new lab.PageController(agent);
const { cell, timed } = controller, seen = lab.unpacked(observations), times = lab.unpacked(elapsed), found = [];
const wide = seen.length / times.length;
let state = cell.initial(), features;
for (let k = 0; k < times.length; k++) {
  features = controller.features(seen.slice(k * wide, (k + 1) * wide), times[k]);
  state = cell.step(features, state, timed ? times[k] : 1);
  found.push(...controller.act(cell.motor(state)));
}
const text = (numbers) => {
  const bytes = new Uint8Array(new Float64Array(numbers).buffer);
  let found = "";
  for (let k = 0; k < bytes.length; k += 8192) found += String.fromCharCode(...bytes.subarray(k, k + 8192));
  return btoa(found);
};
return { actions: text(found), features: text(features), timed };
"""


def given_observations(controller: Controller, steps: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Observations (T, n) as often seen as in the training, some of them beyond the clipping, and times (T,)."""
    random = np.random.default_rng(seed)
    standard = random.normal(0, 1, (steps, len(controller.sensors)))
    normalize: Any = controller.normalize
    seen = standard * normalize.scale.numpy() + normalize.mean.numpy() if hasattr(normalize, "mean") else standard
    return seen, random.integers(1, 4, steps).astype(float) if controller.timed else np.ones(steps)


def agent_page_data(controller: Controller, observations: np.ndarray, elapsed: np.ndarray) -> dict[str, Any]:
    """An agent and its observations for `run_agent_in_page`."""
    return {"agent": controller_data(controller), "observations": packed(observations), "elapsed": packed(elapsed)}


def run_agent_in_page(page: Page, name: str) -> dict[str, Any]:
    """The actions (T * A,) and the last features of an agent on the page, and whether it is timed."""
    found = page.browser.execute_script(RUN, name)
    return {**found, **{what: np.frombuffer(base64.b64decode(found[what])) for what in ("actions", "features")}}


@torch.no_grad()
def run_agent_in_python(
    controller: Controller, observations: np.ndarray, elapsed: np.ndarray, exact: bool
) -> dict[str, np.ndarray]:
    """The same in Python.

    :param exact: in float64, with torch's own operations; otherwise in the agent's own type
    """
    found: Any = copy.deepcopy(controller)
    if exact:
        found = found.double()
        found.rnn.backend = "reference"
    state, actions = found.initial_state(), []
    for row, time in zip(torch.from_numpy(observations), elapsed.tolist(), strict=True):
        action, state = found(row[None], state, time)
        actions.append(action[0])
    features = found.features(row[None], time)[0]
    return {"actions": torch.cat(actions).double().numpy(), "features": features.double().numpy()}
