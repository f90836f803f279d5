"""Laboratories of small and of shipped agents, and what Python says about the same experiments."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from helpers.browser_page import Page
from helpers.command_line import ROOT
from helpers.simulator import simulator_or_skip
from helpers.waiting import wait_until
from ncp_control.activity.laboratory import Exhibit, write_laboratory
from ncp_control.activity.recording.environment import action_names, vector_names
from ncp_control.activity.recording.interventions import intervened
from ncp_control.cli import trained_in
from ncp_control.rl import load_policy
from ncp_control.rl.controller import Controller

NOVEL = ROOT / "checkpoints" / "halfcheetah-positions.safetensors"


def exhibit_of(path: Path = NOVEL, name: str = "") -> Exhibit:
    """An agent and the environment that it was trained in, without random actions."""
    agent = load_policy(path)
    env = trained_in.make(trained_in.env_name(path, agent.note, None), agent.note, random=0.0)
    return Exhibit(agent, env, name or path.stem, str(path), trained_in.strength(agent.note, "random"))


def write(folder: Path, *exhibits: Exhibit) -> Path:
    """Writes a laboratory; the test is skipped where the simulator cannot be had."""
    path = folder / "lab.html"
    write_laboratory(exhibits or [exhibit_of()], path, build=simulator_or_skip())
    return path


def opened(page: Page, address: str = "", **how: Any) -> Page:
    """Opens a laboratory and waits until it can be used."""
    page.open(address=address, **how)
    wait_until(lambda: page.ask("Boolean(window.ncp)"), "a laboratory that can be used")
    return page


def rollout(
    path: Path, steps: int, seed: int = 0, hold: dict[str, float] | None = None, cut: tuple[str, ...] = ()
) -> dict[str, np.ndarray]:
    """What an agent does in Python, in float64: observations, neurons, actions, rewards; a row for each step."""
    exhibit = exhibit_of(path)
    env = exhibit.env
    controller = Controller(exhibit.agent, "reference", sensors=vector_names(env), actions=action_names(env)).double()
    rows: dict[str, list[Any]] = {name: [] for name in ("observations", "neurons", "actions", "rewards")}
    with torch.no_grad(), intervened(controller, hold or {}, cut):
        observation, _ = env.reset(seed=seed)
        state = controller.initial_state()
        for _ in range(steps):
            rows["observations"].append(np.array(observation))
            action, state = controller(torch.as_tensor(np.asarray(observation, np.float64))[None], state)
            rows["neurons"].append(controller.rnn.cell.neurons(state)[0].numpy())
            rows["actions"].append(action[0].numpy())
            observation, reward, _, truncated, _ = env.step(action[0].numpy())
            rows["rewards"].append(float(reward))
            if truncated:
                break
    env.close()
    return {name: np.stack(values) for name, values in rows.items()}
