"""Files that several tests of the command line read."""

from pathlib import Path

import pytest

import ncp_control as nc

# A teacher of the pendulum: its torque opposes the velocity.
BRAKE = "import numpy as np\n\n\ndef brake(observations):\n    return np.clip(-observations[:, 2:], -2, 2)\n"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a network."""
    path = tmp_path_factory.mktemp("checkpoints") / "small.safetensors"
    nc.save(nc.RNN(nc.LTC(4, nc.AutoNCP(12, 2))), path, note={"seed": 3})
    return path


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a policy for CartPole."""
    from stable_baselines3 import PPO

    from ncp_control.rl import save_policy

    path = tmp_path_factory.mktemp("policies") / "upright.safetensors"
    save_policy(PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu"), path, {"score": 21.5, "command": "train it"})
    return path


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Minari's datasets, for one test alone."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a teacher in a module."""
    (tmp_path / "braking.py").write_text(BRAKE)
    monkeypatch.chdir(tmp_path)
    return tmp_path
