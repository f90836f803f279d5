"""Agents as C: normalisation, layers, actions and elapsed times, from the agents' files to their test vectors."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sb3_contrib.common.torch_layers import BatchRenorm1d
from torch import nn

import ncp_control as nc
from helpers.c_programs import BareController, compiled, exported, greatest_difference, needs_compiler
from helpers.cells import build
from helpers.small_agents import KINDS, agent_of, small_agent
from ncp_control.export import export_c
from ncp_control.rl import Controller, LoadedPolicy
from ncp_control.rl.controller import Normalize
from ncp_control.rl.files.loaded_policy import Normalizer
from ncp_control.wiring import Wiring

pytestmark = needs_compiler
CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
SHIPPED = ("halfcheetah", "halfcheetah-positions", "hopper-teacher")


def checked(folder: Path, double: bool) -> list[float]:
    """Builds the program and returns the greatest differences that `--check` prints: of an action and of a state."""
    flags = ["-DCONTROLLER_DOUBLE"] if double else []
    compiled(["gcc", "-std=c99", "-O1", *flags, "-o", "program", "controller.c", "main.c", "-lm"], folder)
    done = subprocess.run(["./program", "--check", "vectors.csv"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(
        r"200 steps: the greatest difference is (\S+) in an action and (\S+) in a state\n", done.stdout
    )
    assert found
    return [float(one) for one in found.groups()]


def check_both(agent: LoadedPolicy, folder: Path) -> None:
    assert export_c(agent, folder) == folder
    assert sorted(path.name for path in folder.iterdir()) == ["controller.c", "controller.h", "main.c", "vectors.csv"]
    assert max(checked(folder, double=True)) < 1e-12
    assert max(checked(folder, double=False)) < 5e-5


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_in_c_passes_its_own_test_vectors(kind: str, tmp_path: Path) -> None:
    check_both(small_agent(kind, tmp_path), tmp_path / "robot")


@pytest.mark.system
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_agent_in_c_passes_its_own_test_vectors(name: str, tmp_path: Path) -> None:
    check_both(nc.load(CHECKPOINTS / f"{name}.safetensors"), tmp_path / "robot")


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_circuit_that_diverges_passes_its_own_test_vectors(activation: str, tmp_path: Path) -> None:
    wiring = Wiring.from_edges(1, motor=1, sensory=[(0, 0)], synapses=[(0, 0)])
    cell = nc.CTRNN(1, wiring, unfolds=2, time_constants=(0.1, 0.1), activation=activation)
    with torch.no_grad():
        cell.gamma_r.fill_(30.0)
    agent = agent_of(cell)
    actions = Controller(agent, "reference").rnn(torch.ones(1, 200, 1))[0]
    assert not actions.isfinite().all()
    check_both(agent, tmp_path / "robot")


def test_a_circuit_that_diverges_at_once_is_refused(tmp_path: Path) -> None:
    cell = nc.CTRNN(1, 2, unfolds=30, time_constants=(1e-5, 1e-5))
    with pytest.raises(ValueError, match=r"its circuit diverges: a state is \S+ after one step"):
        export_c(agent_of(cell), tmp_path / "robot")
    assert not (tmp_path / "robot").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_in_c_acts_as_its_controller(kind: str, tmp_path: Path) -> None:
    controller = Controller(small_agent(kind, tmp_path), "reference")
    assert greatest_difference(controller, exported(controller, tmp_path / "c", double=True)) < 1e-12
    assert greatest_difference(controller, exported(controller, tmp_path / "c", double=False)) < 1e-5


def test_the_test_vectors_hold_resets_the_clip_and_every_number_of_the_state(tmp_path: Path) -> None:
    agent = small_agent("circuit", tmp_path)
    lines = (export_c(agent, tmp_path / "robot") / "vectors.csv").read_text().splitlines()
    titles = lines[0].split(",")
    assert titles == ["reset", "elapsed", *(f"observation{k}" for k in range(3)), "action0",
                      *(f"state{k}" for k in range(9))]  # fmt: skip
    rows = np.array([[float(word) for word in line.split(",")] for line in lines[1:]])
    assert np.flatnonzero(rows[:, 0]).tolist() == [0, 120]
    assert agent.normalizer is not None
    mean, scale = agent.normalizer.scales[""]
    beyond = np.abs((rows[:, 2:5] - mean) / scale) > agent.normalizer.clip
    assert beyond[9::10].any(axis=0).all()
    assert not beyond.all(axis=1)[::10].any()
    assert (rows[:, 2:5] == rows[:, 2:5].astype(np.float32)).all()
    controller, state = Controller(agent, "reference").double(), torch.zeros(1, 9, dtype=torch.float64)
    for row in rows:
        action, state = controller(torch.as_tensor(row[None, 2:5]), state * (1 - row[0]), row[1])
        np.testing.assert_allclose(row[5:], np.concatenate([action[0], state[0]]), rtol=0, atol=1e-12)


@pytest.mark.system
def test_the_same_agent_gives_the_same_files(tmp_path: Path) -> None:
    agent = small_agent("timed", tmp_path)
    one, other = (export_c(agent, tmp_path / name) for name in ("one", "other"))
    for path in one.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes()


def normalized(controller: BareController, clip: float) -> BareController:
    """The same controller with statistics of sensors of very different sizes."""
    count = len(controller.sensors)
    mean, var = 10.0 ** np.arange(count) - 5, 100.0 ** -np.arange(count)
    controller.normalize = Normalize(Normalizer({"": (mean, var)}, 1e-8, clip))
    return controller


def test_the_normalisation_clips_where_the_agent_clips(tmp_path: Path) -> None:
    controller = normalized(BareController(build("lagged-mlp")), clip=0.7)
    stepper = exported(controller, tmp_path, double=True)
    assert greatest_difference(controller, stepper) < 1e-12
    stepper.step([1e30, -1e30])
    np.testing.assert_array_equal(stepper.state[-2:], [0.7, -0.7])


def test_a_large_mean_costs_no_digits_in_float(tmp_path: Path) -> None:
    controller = BareController(build("lagged-mlp"))
    mean, var = np.array([101_325.3, -1e6 / 3]), np.array([0.04, 0.25])
    controller.normalize = Normalize(Normalizer({"": (mean, var)}, 0.0, 10.0))
    stepper, state = exported(controller, tmp_path, double=False), controller.initial_state()
    for seen in ([101_325.0, -333_333.0], [101_325.5, -333_334.0], [101_324.0, -333_330.0]):
        stepper.step(seen)
        _, state = controller(torch.tensor([seen]), state)
        np.testing.assert_allclose(stepper.state, state[0], rtol=1e-6)


@pytest.mark.parametrize("cell", ["lstm", "lagged-mlp", None])
def test_a_circuit_that_counts_steps_reads_the_elapsed_time_as_its_last_input(cell: str | None, tmp_path: Path) -> None:
    if cell is None:
        controller = BareController(None, nn.Linear(3, 2), sensors=2, reads_elapsed=True)
    else:
        circuit = build(cell)
        controller = BareController(circuit, sensors=circuit.inputs - 1, reads_elapsed=True)
    assert greatest_difference(controller, exported(controller, tmp_path, double=True)) < 1e-12


def renorm(size: int, **settings: Any) -> nn.Module:
    layer: Any = BatchRenorm1d(size, **settings)
    for tensor in (layer.ra_mean, layer.ra_var, layer.scale.data, layer.bias.data):
        tensor.uniform_(0.5, 2.0)
    return layer.eval()


LAYERS = {
    "none": nn.Sequential(),
    "an activation first": nn.Sequential(nn.SiLU(), nn.Linear(3, 2)),
    "all": nn.Sequential(
        nn.Linear(3, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 4, bias=False), nn.ELU(0.7)), nn.Linear(4, 9), nn.Tanh(),
        nn.Linear(9, 2), nn.Hardtanh(-0.3, 0.4),
    ),
    "renorm": nn.Sequential(renorm(3), nn.Linear(3, 4), renorm(4, affine=False), nn.Tanh()),
}  # fmt: skip


PAIRS = [(cell, layers) for cell in ("ltc-no-maps", None) for layers in LAYERS if cell or layers != "none"]


@pytest.mark.parametrize(("cell", "layers"), PAIRS)
def test_layers_with_and_without_a_circuit_act_alike(cell: str | None, layers: str, tmp_path: Path) -> None:
    circuit = None if cell is None else build(cell)
    controller = BareController(circuit, LAYERS[layers], sensors=5 if cell else 3)
    assert greatest_difference(controller, exported(controller, tmp_path, double=True)) < 1e-12


def test_actions_are_clipped_or_squashed_into_their_range(tmp_path: Path) -> None:
    low, high = torch.tensor([-1.0, 0.25, -torch.inf]), torch.tensor([-0.9, 3.0, torch.inf])
    clips = BareController(None, nn.Linear(2, 3), sensors=2, low=low, high=high)
    stepper = exported(clips, tmp_path / "clips", double=True)
    assert greatest_difference(clips, stepper) < 1e-12
    for sign in (1, -1):
        stepper.step([sign * 1e3, -sign * 1e3])
        assert -1 <= stepper.action[0] <= np.float32(-0.9)
        assert 0.25 <= stepper.action[1] <= 3
    squashes = BareController(
        None, nn.Sequential(nn.Linear(2, 2), nn.Tanh()), sensors=2, low=low[:2], high=high[:2], squashes=True
    )
    stepper = exported(squashes, tmp_path / "squashes", double=True)
    assert greatest_difference(squashes, stepper) < 1e-12
    for sign in (1, -1):
        stepper.step([sign * 1e3, -sign * 1e3])
        at_an_end = np.isclose(stepper.action, low[:2], atol=1e-6) | np.isclose(stepper.action, high[:2], atol=1e-6)
        assert at_an_end.all()


@pytest.mark.parametrize("first", [0, -3, 4])
def test_a_choice_is_the_first_of_the_best(first: int, tmp_path: Path) -> None:
    layer = nn.Linear(4, 4, bias=False)
    torch.nn.init.eye_(layer.weight)
    controller = BareController(None, layer, sensors=4, chooses=True, first=first)
    stepper = exported(controller, tmp_path, double=True)
    for seen, best in (([1, 2, 3, 0], 2), ([5, 5, 1, 5], 0), ([-4, -3, -2, -2], 2), ([-1, -1, -2, 0], 3)):
        stepper.step(seen)
        assert stepper.action[0] == first + best
        assert stepper.action[0] == controller(torch.tensor([seen]).float(), torch.zeros(1, 0))[0][0]


def test_a_large_agent_has_no_more_on_the_stack_than_two_layers(tmp_path: Path) -> None:
    layers = [layer for _ in range(6) for layer in (nn.Linear(32, 32), nn.ReLU())]
    controller = BareController(None, nn.Sequential(*layers), sensors=32)
    exported(controller, tmp_path, double=False)
    compiled(["gcc", "-std=c99", "-O2", "-fstack-usage", "-c", "controller.c"], tmp_path)
    used = [int(line.split("\t")[1]) for line in (tmp_path / "controller.su").read_text().splitlines()]
    assert sum(used) < 2 * 32 * 4 + 400
