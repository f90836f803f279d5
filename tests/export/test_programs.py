"""An agent as a program of torch and as an ONNX file: both act as the agent does, alone and in batches."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sb3_contrib")

from helpers.c_programs import BareController
from helpers.slow_neurons import implied, slow_neuron
from helpers.small_agents import KINDS, make, small_agent
from ncp_control.export import checking
from ncp_control.export.checking import ActedSteps, act, greatest_difference, onnx_step, play, program_step
from ncp_control.export.onnx_file import export_onnx
from ncp_control.export.program_file import export_program
from ncp_control.rl import Controller, load_policy, save_policy
from ncp_control.rl.monitor import ELAPSED, NOT_FINITE, OBSERVATION, STATE, Monitor

pytestmark = pytest.mark.system

PLACES = re.compile(rb"site-packages|ncp_control/|\.py\b")


def needs_onnx() -> Any:
    pytest.importorskip("onnxscript")
    return pytest.importorskip("onnxruntime")


def written(to: str, agent: Any, folder: Path, monitor: Monitor | None = None) -> tuple[Path, Any]:
    """Exports an agent; returns the file, and its step from arrays to arrays."""
    if to == "onnx":
        runtime = needs_onnx()
        path = export_onnx(agent, folder / "out", monitor) / "controller.onnx"
        session = runtime.InferenceSession(path)

        def step(*given: Any) -> list[Any]:
            return list(session.run(None, dict(zip(("observation", "state", "elapsed"), given, strict=True))))

        return path, step
    path = export_program(agent, folder / "out", monitor) / "controller.pt2"
    module = torch.export.load(path).module()
    return path, lambda *given: [one.numpy() for one in module(*map(torch.as_tensor, given))]


def given(controller: Controller, rows: int, seed: int = 0) -> tuple[Any, Any, Any]:
    generator = np.random.default_rng(seed)
    return (
        generator.normal(size=(rows, len(controller.sensors))).astype(np.float32),
        generator.uniform(-0.5, 0.5, (rows, controller.state_size)).astype(np.float32),
        generator.uniform(0, 3, rows).astype(np.float32),
    )


@pytest.mark.parametrize(
    ("to", "kind"),
    [
        pytest.param(to, kind, marks=() if kind == "timed" else pytest.mark.slow)
        for to in ("pt2", "onnx")
        for kind in KINDS
    ],
)
def test_an_export_does_what_the_agent_does_for_any_batch(to: str, kind: str, tmp_path: Path) -> None:
    agent = small_agent(kind, tmp_path)
    controller = Controller(agent, "reference")
    path, step = written(to, agent, tmp_path)
    spread = []
    for rows in (1, 2, 7):
        values = given(controller, rows)
        found, wanted = step(*values), controller(*map(torch.as_tensor, values))
        assert len(found) == 2
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.numpy().dtype
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other.numpy(), rtol=0, atol=1e-5)
        spread.append(np.ptp(found[0]))
    assert max(spread) > 0
    assert [other.name for other in path.parent.iterdir()] == [path.name]
    assert PLACES.search(path.read_bytes()) is None


def test_the_names_of_sensors_and_actions_are_in_the_onnx_file(tmp_path: Path) -> None:
    runtime = needs_onnx()
    agent = small_agent("plain", tmp_path)
    controller = Controller(agent, "reference", sensors=("cos", "sin", "velocity"), actions=('"torque"\n',))
    session = runtime.InferenceSession(export_onnx(controller, tmp_path / "out") / "controller.onnx")
    kept = session.get_modelmeta().custom_metadata_map
    assert json.loads(kept["sensors"]) == ["cos", "sin", "velocity"]
    assert json.loads(kept["actions"]) == ['"torque"\n']
    assert [(one.name, one.shape) for one in session.get_inputs()] == [
        ("observation", ["batch", 3]),
        ("state", ["batch", 0]),
        ("elapsed", ["batch"]),
    ]


def test_a_slow_neuron_moves_by_its_time_constant_in_onnx(tmp_path: Path) -> None:
    runtime = needs_onnx()
    controller, zero = BareController(slow_neuron(1e8)), np.zeros((1, 1), np.float32)
    session = runtime.InferenceSession(export_onnx(controller, tmp_path / "out") / "controller.onnx")
    given = {"observation": zero, "state": zero, "elapsed": np.ones(1, np.float32)}
    (state,) = session.run(["new_state"], given)
    assert implied(float(state[0, 0]), 1.0) == pytest.approx(1e8, rel=1e-3)


@pytest.mark.parametrize("to", ["pt2", "onnx"])
def test_a_monitor_travels_with_the_export(to: str, tmp_path: Path) -> None:
    agent = small_agent("circuit", tmp_path)
    size = Controller(agent).state_size
    monitor = Monitor([-2.0] * 3, [2.0] * 3, [-50.0] * size, [50.0] * size, 0.5, 2.0)
    _, step = written(to, agent, tmp_path, monitor)
    seen, state, elapsed = np.zeros((5, 3), np.float32), np.zeros((5, size), np.float32), np.ones(5, np.float32)
    seen[1, 2], seen[2, 0], elapsed[3], state[4] = 3, np.nan, 5, 1e9
    _, after, flags = step(seen, state, elapsed)
    assert flags.tolist() == [0, OBSERVATION, NOT_FINITE, ELAPSED, STATE]
    assert (after[2] == state[2]).all()


@pytest.mark.parametrize(
    ("to", "step_of"), [("pt2", program_step), pytest.param("onnx", onnx_step, marks=pytest.mark.slow)]
)
def test_an_export_is_compared_with_what_the_agent_did(to: str, step_of: Any, tmp_path: Path) -> None:
    import gymnasium as gym

    agent = small_agent("circuit", tmp_path)
    path, _ = written(to, agent, tmp_path)
    acted = act(agent, gym.make("Pendulum-v1", max_episode_steps=25), 60)
    assert acted.starts.nonzero()[0].tolist() == [0, 25, 50]
    initial = Controller(agent).initial_state().numpy()
    np.testing.assert_allclose(play(step_of(path), initial, acted), acted.actions, rtol=0, atol=1e-5)
    forgetful = acted._replace(starts=np.zeros(60, bool))
    assert np.abs(play(step_of(path), initial, forgetful) - acted.actions).max() > 1e-4


def acted_steps(actions: Any) -> ActedSteps:
    count = len(actions)
    return ActedSteps(np.zeros((count, 3), np.float32), np.ones(count, np.float32), np.zeros(count, bool), actions)


def test_more_than_rounding_is_refused() -> None:
    low, high = np.array([-2.0]), np.array([2.0])
    steps = acted_steps(np.linspace(-2, 2, 1000, dtype=np.float32)[:, None])
    assert greatest_difference(steps, steps.actions + np.float32(1e-4), low, high) == pytest.approx(1e-4, rel=1e-2)
    for wrong in (steps.actions + 0.01, np.where(steps.actions > 1.99, np.nan, steps.actions)):
        with pytest.raises(ValueError, match="the export's actions differ from the agent's by up to"):
            greatest_difference(steps, wrong, low, high)
    chosen = acted_steps(np.arange(1000) % 3)
    found = chosen.actions.copy()
    found[7] += 1
    assert greatest_difference(chosen, found, low, high) == 1
    found[8] += 1
    with pytest.raises(ValueError, match="chooses differently from its agent in 2 of 1000 steps"):
        greatest_difference(chosen, found, low, high)


def test_without_onnxruntime_nothing_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "find_spec", lambda name: None)
    controller = Controller(small_agent("plain", tmp_path), "reference")
    found = checking.compare("onnx", tmp_path, controller, acted_steps(np.zeros((3, 1), np.float32)))
    assert (found.steps, found.refused) == (0, 'onnxruntime is missing: pip install "ncp-control[export]"')


@pytest.mark.slow
@pytest.mark.parametrize(("to", "imports"), [("pt2", "torch"), ("onnx", "onnxruntime")])
def test_an_export_runs_without_this_package(to: str, imports: str, tmp_path: Path) -> None:
    agent = small_agent("timed", tmp_path)
    path, _ = written(to, agent, tmp_path)
    values = given(Controller(agent), 3)
    wanted = Controller(agent, "reference")(*map(torch.as_tensor, values))
    np.savez(tmp_path / "values.npz", *values, *(one.numpy() for one in wanted))
    uses = {
        "pt2": "[one.numpy() for one in torch.export.load(path).module()(*map(torch.as_tensor, values))]",
        "onnx": "onnxruntime.InferenceSession(path).run(None, dict(zip(('observation', 'state', 'elapsed'), values)))",
    }
    code = f"""
import sys, numpy as np, {imports}
path, values = {str(path)!r}, list(np.load({str(tmp_path / "values.npz")!r}).values())
values, wanted = values[:3], values[3:]
for one, other in zip({uses[to]}, wanted): np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
assert not {{"ncp_control", "stable_baselines3"}} & set(sys.modules)
assert {to == "pt2"} or "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_cannot_be_exported_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    needs_onnx()
    save_policy(make("circuit", cell_kwargs={"solver": "dopri5"}), tmp_path / "adaptive.safetensors")
    adaptive, agent = load_policy(tmp_path / "adaptive.safetensors"), small_agent("plain", tmp_path)
    with pytest.raises(ValueError, match='"dopri5" chooses its steps while it runs, which ONNX cannot'):
        export_onnx(adaptive, tmp_path / "out")
    with pytest.raises(ValueError, match="this monitor is for 1 observations"):
        export_program(agent, tmp_path / "out", Monitor([0], [1], [], []))
    with pytest.raises(FileNotFoundError, match="nowhere does not exist: create it first"):
        export_program(agent, tmp_path / "nowhere" / "out")
    compiled = small_agent("circuit", tmp_path)
    with pytest.raises(ValueError, match="make the Controller with backend='reference', not 'auto'"):
        export_program(Controller(compiled), tmp_path / "out")
    with pytest.raises(ValueError, match="a Controller brings its monitor"):
        export_program(Controller(agent, "reference"), tmp_path / "out", Monitor([0] * 3, [1] * 3, [], []))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "own.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="full is not empty"):
        export_program(agent, tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "adaptive.safetensors", "circuit.safetensors", "full", "plain.safetensors",
    ]  # fmt: skip


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert (export_program(small_agent("plain", tmp_path), tmp_path / "out") / "controller.pt2").is_file()
