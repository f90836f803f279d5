"""What a circuit does with points of sets is in the sets that it makes, in float32 and in float64."""

import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from ncp_control.loop.proof.circuit import CircuitOnSets
from ncp_control.loop.proof.sets import Sets
from ncp_control.neurons import LTC, Cell, DualLTC
from ncp_control.rl import load_policy
from ncp_control.rl.controller import Controller
from ncp_control.rl.files.policy_file import write_policy
from ncp_control.rl.policies.recurrent import policy_around
from ncp_control.wiring import AutoNCP


def controller_of(cell: Cell, tmp_path: Path, hidden: tuple[int, ...] = (), limit: float = 1.0) -> Controller:
    """An agent with a circuit, hidden layers and an action layer, of random weights."""
    sizes = [cell.outputs, *hidden, 2]
    layers = [nn.Linear(*pair) for pair in pairwise(sizes)]
    seen, acted = (spaces.Box(-end, end, (size,), np.float32) for end, size in ((np.inf, cell.inputs), (limit, 2)))
    policy = policy_around(cell, layers, seen, acted, nn.Tanh)
    write_policy(policy, tmp_path / "agent.safetensors", {"env": "none"})
    return Controller(load_policy(tmp_path / "agent.safetensors"))


CELLS = {
    "one layer": lambda: DualLTC(2, 6),
    "no brakes": lambda: DualLTC(2, 6, brake=False),
    "layers": lambda: DualLTC(2, AutoNCP(14, 4, seed=1)),
    "fast and slow": lambda: DualLTC(2, AutoNCP(10, 3, seed=2), time_constants=(0.01, 1000.0)),
}


@pytest.mark.parametrize("hidden", [(), (5,)], ids=["linear", "hidden layer"])
@pytest.mark.parametrize("name", CELLS)
def test_no_step_leaves_the_sets(name: str, hidden: tuple[int, ...], tmp_path: Path) -> None:
    torch.manual_seed(3)
    cell: Any = CELLS[name]()
    with torch.no_grad():
        for weights in (cell.weight, cell.sensory_weight):
            weights.mul_(2.0)
    controller = controller_of(cell, tmp_path, hidden, limit=0.3)
    circuit, random = CircuitOnSets(controller), np.random.default_rng(4)
    m, rows, points, errors = 3, 4, 400, np.array([0.02, 0.1])
    size = m + circuit.size
    spread = np.array([1e-4, 0.01, 0.1, 0.4])[:, None, None]
    sets = Sets(random.uniform(-0.4, 0.4, (rows, size)), spread * random.normal(size=(rows, size, 5)) / 5)
    found = circuit.step(sets, [2, 0], errors, m)
    e = np.sign(random.uniform(-1, 1, (rows, points, 5))) * random.uniform(0, 1, (rows, points, 1)) ** 0.2
    before = sets.center[:, None] + e @ np.moveaxis(sets.generators, 1, 2)
    # The state of an agent in float32 is a number of float32.
    before[..., m:] = before[..., m:].astype(np.float32)
    wrong = errors * np.sign(random.uniform(-1, 1, (rows, points, 2)))
    directions = np.concatenate([random.normal(size=(500, found.center.shape[1])), np.eye(found.center.shape[1])])
    for exact in (False, True):
        agent = copy.deepcopy(controller).double() if exact else controller
        kind = torch.float64 if exact else torch.float32
        seen = torch.as_tensor(before[..., [2, 0]] + wrong).flatten(0, 1).to(kind)
        neurons = torch.as_tensor(before[..., m:]).flatten(0, 1).to(kind)
        with torch.no_grad():
            action, after = agent(seen, neurons)
        reached = np.concatenate([before[..., :m].reshape(rows * points, m), after.double(), action.double()], axis=1)
        along = np.abs((reached.reshape(rows, points, -1) - found.center[:, None]) @ directions.T)
        room = 1e-7 * np.abs(directions).sum(axis=1)  # the state was rounded to float32 after it was drawn
        assert (along <= np.abs(directions @ found.generators).sum(axis=2)[:, None] + room).all()
    # The smallest sets stay small: the bounds are no trivial ones.
    assert found.radius[0].max() < 0.2


def test_float32_is_within_what_it_may_lose(tmp_path: Path) -> None:
    torch.manual_seed(5)
    cell = DualLTC(2, AutoNCP(14, 4, seed=1))
    controller = controller_of(cell, tmp_path)
    circuit = CircuitOnSets(controller)
    sets = Sets(np.zeros((1, 2 + circuit.size)), np.zeros((1, 2 + circuit.size, 1)))
    found = circuit.step(sets, [0, 1], np.zeros(2), 2)
    assert 1e-7 < found.radius[0, 2:].max() < 1e-3


def test_what_nothing_is_known_about_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="what a LTC does with sets of states is not known, only what a DualLTC does"):
        CircuitOnSets(controller_of(LTC(2, AutoNCP(9, 2)), tmp_path))
