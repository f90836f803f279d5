"""A body whose task this package does not know starts, senses and moves in a page as in Python, and shows no reward."""

import base64
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.registration import EnvSpec

import ncp_control as nc
from helpers.bench import press, rows, status, untrained
from helpers.browser_page import Page
from helpers.laboratories import opened, write
from helpers.own_bodies import Pole, SinglePole
from helpers.simulator import open_worlds, played
from helpers.worlds import actions_for
from ncp_control.activity import Activity
from ncp_control.activity.laboratory import Exhibit
from ncp_control.activity.laboratory.recognised import STARTS
from ncp_control.rl.controller import Controller
from ncp_control.rl.recipes.env_making import make_env

pytestmark = pytest.mark.browser

NAMES = ("pole", "single", "Reacher-v5", "Pusher-v5", "Humanoid-v5")


@pytest.fixture(scope="module")
def envs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("model")
    made = {name: make_env(name) for name in NAMES if name.endswith("v5")}
    return {"pole": Pole(folder), "single": SinglePole(folder)} | made


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory, envs: dict[str, Any]) -> Page:
    return open_worlds(browser, tmp_path_factory.mktemp("worlds"), envs)


@pytest.mark.parametrize("name", NAMES)
def test_it_starts_senses_and_moves_as_in_python(page: Page, envs: dict[str, Any], name: str) -> None:
    env = envs[name]
    for seed in (0, 7, STARTS - 1):
        actions = actions_for(env, 10, seed)
        found = played(page, name, seed, actions)["observations"]
        expected = [env.reset(seed=seed)[0], *(env.step(action.astype(np.float32))[0] for action in actions)]
        # Contact forces of a humanoid are some thousands of newtons.
        np.testing.assert_allclose(found, np.array(expected, float), rtol=1e-6, atol=1e-6)
    first, again = (played(page, name, seed, actions)["observations"] for seed in (7, STARTS + 7))
    assert (first == again).all()


@pytest.fixture
def exhibit(tmp_path: Path) -> Exhibit:
    env = gym.wrappers.TimeLimit(Pole(tmp_path), 400)
    env.unwrapped.spec = EnvSpec("Pole-v0")
    return untrained(tmp_path, "agent", env, wiring=nc.AutoNCP(9, 1, seed=1))


def test_the_circuit_moves_it_as_in_python(browser: Any, tmp_path: Path, exhibit: Exhibit) -> None:
    page = opened(Page(browser, write(tmp_path, exhibit)), address="#seed=3")
    page.ask("ncp.advance(9)")
    controller = Controller(exhibit.agent, "reference").double()
    env, expected, state = exhibit.env, [], controller.initial_state()
    observation, _ = env.reset(seed=3)
    for _ in range(10):
        expected.append(observation)
        action, state = controller(torch.as_tensor(observation)[None], state)
        observation = env.step(action[0].detach().numpy())[0]
    np.testing.assert_allclose(rows(page, "observations", 10), expected, atol=1e-5)
    assert page.errors() == []


def test_the_page_shows_no_reward_and_the_tour_measures_the_actions(
    browser: Any, tmp_path: Path, exhibit: Exhibit
) -> None:
    page = opened(Page(browser, write(tmp_path, exhibit)), address="#seed=3")
    assert page.find("#returns-title").text == "Speed"
    page.find("#tour-start").click()
    said = ""
    for number in range(5):
        if number:
            press(page, "Next")
        press(page, "Show the result at once")
        said += page.find("#tour-panel").text
    assert "This page does not know the reward" in said
    assert len(re.findall(r"the actions change by [\d.]+", said)) > 5
    press(page, "End the tour")
    page.ask("(ncp.putBeside(0), ncp.advance(1000), ncp.oneStep())")
    assert (
        status(page) == "A: the episode's time is over after 400 steps; B: the episode's time is over after 400 steps"
    )
    facts = page.ask("document.getElementById('facts').textContent")
    assert "the same again from seed 32 on" in facts
    assert "not known to this page, because Pole" in facts
    assert "NaN" not in page.ask("document.body.innerText")
    file = tmp_path / "run.npz"
    file.write_bytes(base64.b64decode(page.ask("ncp.recording()")))
    assert Activity.load(file).extras.get("rewards") is None
    assert page.errors() == []
