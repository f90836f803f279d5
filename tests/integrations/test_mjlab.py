"""Tasks of mjlab with a circuit as actor, on the CPU, against the real package: `python scripts/clients.py mjlab`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

pytestmark = pytest.mark.clients
pytest.importorskip("mjlab")
onnxruntime = pytest.importorskip("onnxruntime")

FEW = (  # noqa: SIM905
    "--env.scene.num-envs 8 --agent.max-iterations 2 --agent.num-steps-per-env 8 --agent.logger tensorboard "
    "--agent.upload-model False --gpu-ids None"
).split()
TASKS = {
    "Mjlab-Cartpole-Balance-Circuit": ("cartpole", 1),
    "Mjlab-Velocity-Flat-Unitree-G1-Circuit": ("g1_velocity", 29),
}


def train(task: str, folder: Path, *words: str) -> Path:
    """mjlab's own command, as it is typed, which finds the task by the entry point; returns the run's folder."""
    code = "from mjlab.scripts.train import main; main()"
    subprocess.run([sys.executable, "-c", code, task, *FEW, *words], cwd=folder, check=True, timeout=500)
    (run,) = (folder / "logs" / "rsl_rl" / TASKS[task][0]).iterdir()
    return run


@pytest.mark.timeout(600)
@pytest.mark.parametrize("task", TASKS)
def test_mjlabs_command_trains_a_circuit(task: str, tmp_path: Path) -> None:
    run = train(task, tmp_path, "--agent.actor.wiring", "AutoNCP(96, 40)")
    assert (run / "model_1.pt").is_file()
    configuration = yaml.safe_load((run / "params" / "agent.yaml").read_text().replace("!!python/tuple", ""))
    assert configuration["actor"]["class_name"] == "ncp_control.integrations.rsl_rl:CircuitModel"
    assert configuration["actor"]["wiring"] == "AutoNCP(96, 40)"
    for exported in run.glob("*.onnx"):  # which its walking robots write with each checkpoint
        session = onnxruntime.InferenceSession(exported)
        shapes = {value.name: value.shape for value in session.get_inputs()}
        assert shapes["h_in"] == [1, 1, 96]
        given = {"obs": np.zeros(shapes["obs"], np.float32), "h_in": np.zeros((1, 1, 96), np.float32)}
        actions, after = session.run(["actions", "h_out"], given)
        assert actions.shape == (1, TASKS[task][1])
        assert np.abs(after).max() > 0


def test_tasks_with_images_are_left_as_they_are() -> None:
    from mjlab.tasks.registry import list_tasks, load_rl_cfg

    from ncp_control.integrations.mjlab import SUFFIX, register_with_circuit

    ours = [task for task in list_tasks() if task.endswith(SUFFIX)]
    assert len(ours) >= 6
    assert not any("Rgb" in task or "Depth" in task for task in ours)
    with pytest.raises(ValueError, match="already registered"):
        register_with_circuit("Mjlab-Cartpole-Swingup")
    assert load_rl_cfg("Mjlab-Cartpole-Swingup-Circuit").actor.hidden_dims == ()
