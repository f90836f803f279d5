"""Environments for collecting: by id, from a module of one's own, and environments that are refused."""

import multiprocessing
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from stable_baselines3 import PPO

from helpers.collecting import same, short
from helpers.sign_environment import Sign
from ncp_control.data import Rollouts, collect
from ncp_control.data.env_specs import check_policy
from ncp_envs import History

HELPER = Sign.__module__


def test_a_policy_of_another_environment_is_refused() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", device="cpu")
    with pytest.raises(ValueError, match="the policy was made for observations in"):
        collect(model, short(), 2, progress=False)


def test_unknown_and_unsuitable_environments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no environment 'HalfCheeta-v5'"):
        collect("random", "HalfCheeta-v5", 1, progress=False)
    with pytest.raises(ValueError, match=r"'nowhere:Thing-v0', because .* folder of nowhere\.py, or set PYTHONPATH"):
        collect("random", "nowhere:Thing-v0", 1, progress=False)
    with pytest.raises(ValueError, match="flatten them first"):
        collect("random", History(gym.make("Pendulum-v1"), 3), 1, keep=tmp_path / "keep", progress=False)
    assert not (tmp_path / "keep").exists()


OWN = """
import gymnasium as gym
import numpy as np

class Walk(gym.Env):
    observation_space = gym.spaces.Box(-9, 9, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.left = self.np_random.normal(size=1).astype(np.float32), 5
        return self.place, {}

    def step(self, action):
        self.place, self.left = (self.place + action).astype(np.float32), self.left - 1
        return self.place, 1.0, self.left == 0, False, {}

gym.register("Walk-v0", entry_point=f"{__name__}:Walk")
"""


@pytest.mark.system
def test_every_process_finds_the_users_own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "walking.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    one, several = (collect("random", "walking:Walk-v0", 4, group=1, workers=k, progress=False) for k in (1, 2))
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    spawned = collect("random", "walking:Walk-v0", 4, group=1, workers=2, progress=False)
    assert same(one, several)
    assert same(one, spawned)
    assert one.about["env"] == "Walk-v0"
    assert one.steps == 20
    gym.registry.pop("Walk-v0")


@pytest.mark.system
def test_the_command_finds_a_module_in_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "strolling.py").write_text(OWN)
    words = ["collect", "--env", "strolling:Walk-v0", "--episodes", "2", "--out", "./walk-v0"]
    code = f"import sys; from ncp_control.cli import main; sys.exit(main({words}))"
    # isolated, as an installed command is: Python does not search the working folder
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(Rollouts.load(tmp_path / "walk-v0")) == 2


def test_an_environment_that_cannot_be_made_again_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r'its entry_point cannot be written as JSON: .* entry_point="module:Class"'):
        collect("random", f"{HELPER}:SignClass-v0", 2, progress=False)
    with pytest.raises(ValueError, match="its arguments cannot be written as JSON"):
        collect("random", EnvSpec("A-v0", f"{HELPER}:Sign", kwargs={"x": np.zeros(2)}), 2, progress=False)
    with pytest.raises(ValueError, match=r"this Sign has no spec: register it and make it with gymnasium\.make"):
        collect("random", Sign(), 2, progress=False)
    with pytest.raises(TypeError, match="not a function that makes it: call the function first"):
        collect("random", lambda: gym.make("Pendulum-v1"), 2, progress=False)  # type: ignore[arg-type]
    (tmp_path / "needy.py").write_text("import something_not_installed")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    with pytest.raises(ValueError, match=r"needy, which registers .* cannot be imported: No module named 'something"):
        collect("random", "needy:Thing-v0", 2, progress=False)
    with pytest.raises(ValueError, match=f"there is no environment '{re.escape(HELPER)}:Sing-v0'"):
        collect("random", f"{HELPER}:Sing-v0", 2, progress=False)


class OwnBox(gym.spaces.Box):
    """A space of somebody's own, as some collections of environments have them."""


def test_a_space_of_ones_own_class_is_what_it_derives_from() -> None:
    given = {"low": -1.0, "high": 1.0, "shape": (3,)}
    env = gym.make("Pendulum-v1")
    env.observation_space = OwnBox(-8.0, 8.0, (3,))
    policy = SimpleNamespace(observation_space=gym.spaces.Box(**given), action_space=OwnBox(-2.0, 2.0, (1,)))
    check_policy(policy, env)
    for wrong in (OwnBox(-1.0, 1.0, (4,)), gym.spaces.Discrete(3), gym.spaces.MultiBinary(3)):
        env.observation_space = wrong
        with pytest.raises(ValueError, match="the policy was made for observations in"):
            check_policy(policy, env)
