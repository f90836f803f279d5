"""Agents act on the laboratory's page as they do in Python."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sb3_contrib.common.torch_layers import BatchRenorm1d
from torch import nn
from torch.nn.utils import parametrizations

import ncp_control as nc
from helpers.agent_runs import agent_page_data, given_observations, run_agent_in_page, run_agent_in_python
from helpers.browser_page import Page
from helpers.laboratory_scripts import open_scripts
from helpers.small_agents import make, small_agent
from ncp_control.activity.laboratory.controllers import CIRCUIT_SCRIPTS, head_layer
from ncp_control.rl import load_policy, save_policy
from ncp_control.rl.controller import Controller

pytestmark = pytest.mark.browser

CHECKPOINTS = Path(__file__).resolve().parents[3] / "checkpoints"
TRAINED = ("halfcheetah", "halfcheetah-positions", "halfcheetah-positions-acyclic")
STEPS = 1000


def renorm(wide: int, affine: bool) -> BatchRenorm1d:
    """A normalisation as after a training."""
    layer: Any = BatchRenorm1d(wide, affine=affine)
    for values in (layer.ra_mean, layer.ra_var, layer.scale, layer.bias):
        nn.init.uniform_(values, 0.5, 1.5)
    return layer


def layers() -> dict[str, nn.Module]:
    """Every kind of layer that can stand behind a circuit, as after a training, on three numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return {
            "linear": nn.Linear(3, 5),
            "no bias": nn.Linear(3, 2, bias=False),
            "weight norm": parametrizations.weight_norm(nn.Linear(3, 4)),
            "tanh": nn.Tanh(),
            "relu": nn.ReLU(),
            "elu": nn.ELU(0.7),
            "silu": nn.SiLU(),
            "hardtanh": nn.Hardtanh(-0.5, 2.0),
            "affine renorm": renorm(3, True),
            "renorm": renorm(3, False),
        }


def made_agents(folder: Path) -> dict[str, Controller]:
    """Agents for every way in which one sees and acts."""
    found = {kind: Controller(small_agent(kind, folder)) for kind in ("circuit", "squashed", "timed")}
    # Layers inside of layers, and some that only pass numbers on.
    inner = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Sequential(nn.Linear(6, 3), nn.Identity(), nn.SiLU()))
    found["nested"] = Controller(small_agent("circuit", folder))
    found["nested"].head = nn.Sequential(nn.Flatten(), inner, found["circuit"].head).eval().requires_grad_(False)
    # An LSTM has no use for the elapsed time, and reads it as one more input.
    save_policy(make("timed", cell="lstm", wiring=5, cell_kwargs={}), folder / "reads.safetensors", {"env": "any"})
    found["reads"] = Controller(load_policy(folder / "reads.safetensors"), actions=["torque"])
    return found


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Controller]:
    trained = {name: Controller(nc.load(CHECKPOINTS / f"{name}.safetensors")) for name in TRAINED}
    return {**made_agents(tmp_path_factory.mktemp("agents")), **trained}


@pytest.fixture(scope="module")
def page(browser: Any, agents: dict[str, Controller], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    data = {name: agent_page_data(agent, *given_observations(agent, STEPS)) for name, agent in agents.items()}
    data["layers"] = {name: head_layer(layer.double()) for name, layer in layers().items()}
    names, scripts = ["PageController", "headLayer", "unpacked"], ["numbers.js", *CIRCUIT_SCRIPTS]
    found = open_scripts(browser, tmp_path_factory.mktemp("page"), scripts, names, data)
    yield found
    assert found.errors() == []


@pytest.mark.parametrize("name", ["circuit", "squashed", "timed", "nested", "reads", *TRAINED])
def test_an_agent_acts_on_the_page_as_its_weights_in_float64_do(
    name: str, page: Page, agents: dict[str, Controller]
) -> None:
    agent = agents[name]
    given = given_observations(agent, STEPS)
    found, wanted = run_agent_in_page(page, name), run_agent_in_python(agent, *given, exact=True)
    assert found["timed"] == agent.timed == (name in ("timed", "reads"))
    assert wanted["actions"].std() > 1e-4
    np.testing.assert_allclose(found["features"], wanted["features"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["actions"], wanted["actions"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", layers())
def test_a_layer_behind_a_circuit_is_that_of_python(name: str, page: Page) -> None:
    given = np.random.default_rng(0).normal(0, 1.5, (50, 3))
    with torch.no_grad():
        wanted = layers()[name].eval().double()(torch.from_numpy(given)).numpy()
    rows = json.dumps(given.tolist())
    found = page.ask(f"{rows}.map((row) => [...lab.headLayer(data.layers['{name}'])(new Float64Array(row))])")
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


# In float32 an agent itself differs from its weights in float64 by 4e-6 and 4e-6, and by 1.5e-5 for the one without
# velocities, whose circuit answers more strongly to small differences.
@pytest.mark.parametrize(("name", "rounding"), list(zip(TRAINED, (1e-5, 3e-5, 1e-5), strict=True)))
def test_a_trained_agent_differs_from_its_own_float32_by_rounding_only(
    name: str, rounding: float, page: Page, agents: dict[str, Controller]
) -> None:
    wanted = run_agent_in_python(agents[name], *given_observations(agents[name], STEPS), exact=False)
    apart = np.abs(run_agent_in_page(page, name)["actions"] - wanted["actions"]).max()
    assert 0 < apart < rounding


def test_actions_stay_within_their_limits_and_what_is_not_a_number_stays_none(page: Page) -> None:
    found = page.ask(
        """[-50, 0, 50, NaN].map((x) => {
          const clipped = new lab.PageController({ ...data.circuit.agent, head: [] });
          const squashed = new lab.PageController({ ...data.squashed.agent, head: [] });
          return [clipped, squashed].map((agent) => String(agent.act(new Float64Array([x]))[0]));
        })"""
    )
    assert found == [["-2", "-2"], ["0", "0"], ["2", "2"], ["NaN", "NaN"]]
    clipped = page.ask(
        """[-1e9, 1e9, NaN].map((x) => String(new lab.PageController(data.circuit.agent)
          .features(new Float64Array([x, 0, 0]))[0]))"""
    )
    assert clipped == ["-1.5", "1.5", "NaN"]
