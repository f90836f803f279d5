"""MuJoCo's warning about Gymnasium's model file is hidden, its other warnings are not, and no file is left behind."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gymnasium")
mujoco = pytest.importorskip("mujoco")

import gymnasium as gym  # noqa: E402

import ncp_envs  # noqa: E402
from ncp_control.data.env_specs import make  # noqa: E402
from ncp_envs.mujoco_bodies import MujocoStepper  # noqa: E402

# Since MuJoCo 4, compiling this gives another warning beside the one about settotalmass.
TWO_WARNINGS = """
<mujoco>
  <compiler settotalmass="1"/>
  <statistic meaninertia="1"/>
  <worldbody><body><freejoint/><geom size="1"/></body></worldbody>
</mujoco>
"""
UNWANTED = "settotalmass"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compile_model() -> list[str]:
    """Returns MuJoCo's warnings about the model above."""
    messages: list[str] = []
    mujoco.set_mju_user_warning(messages.append)
    try:
        mujoco.MjModel.from_xml_string(TWO_WARNINGS)
    finally:
        mujoco.set_mju_user_warning(None)
    return messages


@pytest.fixture
def others() -> list[str]:
    """The warnings that must not be hidden."""
    found = [message for message in compile_model() if UNWANTED not in message]
    if not found:
        pytest.skip("this version of MuJoCo has nothing to say about the model")
    return found


BODIES = ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Swimmer", "InvertedDoublePendulum")


@pytest.mark.parametrize(
    "task", sorted(name for name in gym.registry if name.startswith(tuple(f"ncp/{b}" for b in BODIES)))
)
def test_making_a_task_prints_nothing(task: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    gym.make(task).reset(seed=0)
    assert capfd.readouterr() == ("", "")
    assert list(folder.iterdir()) == []
    assert mujoco.get_mju_user_warning() is None


def test_making_the_base_inside_prints_nothing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ncp_envs.without_mass_warning():
        gym.make("HalfCheetah-v5")
    assert capfd.readouterr() == ("", "")
    assert list(folder.iterdir()) == []


def test_other_warnings_become_warnings_of_python(others: list[str]) -> None:
    with pytest.warns(RuntimeWarning) as seen, ncp_envs.without_mass_warning():
        mujoco.MjModel.from_xml_string(TWO_WARNINGS)
    assert [str(warning.message) for warning in seen] == [f"MuJoCo: {message}" for message in others]


def test_other_warnings_reach_a_handler_that_was_there(others: list[str]) -> None:
    every, seen = compile_model(), list[str]()
    mujoco.set_mju_user_warning(seen.append)
    try:
        with ncp_envs.without_mass_warning():
            mujoco.MjModel.from_xml_string(TWO_WARNINGS)
        assert seen == others
        mujoco.MjModel.from_xml_string(TWO_WARNINGS)
        assert seen == others + every
    finally:
        mujoco.set_mju_user_warning(None)


def test_an_error_inside_is_raised_and_the_handler_is_restored() -> None:
    with pytest.raises(ValueError, match="XML"), ncp_envs.without_mass_warning():
        mujoco.MjModel.from_xml_string("no model")
    assert mujoco.get_mju_user_warning() is None


@pytest.fixture
def log() -> Iterator[Any]:
    """MuJoCo's settings of its log as they are at first, restored after the test."""
    if not hasattr(mujoco, "MjLogConfig"):
        pytest.skip("this version of MuJoCo always writes its file")
    before, fresh = mujoco.MjLogConfig.get(), mujoco.MjLogConfig.get()
    fresh.logto_file, fresh.logfile = True, "MUJOCO_LOG.TXT"
    fresh.set()
    yield fresh
    before.set()


def make_stepper() -> gym.Env:
    env = gym.make("Hopper-v5", disable_env_checker=True)
    MujocoStepper([env])
    return env


def make_for_recipe(env: str) -> gym.Env:
    pytest.importorskip("stable_baselines3")
    from ncp_control.rl.recipes.env_making import make_env

    return make_env(env, (), {})


MADE = {
    "a task": lambda: gym.make("ncp/HopperNoVel-v0"),
    "the half-cheetah": lambda: gym.make("ncp/HalfCheetahNoVel-v0"),
    "a stepper": make_stepper,
    "for rollouts": lambda: make(gym.spec("Hopper-v5")),
    "of a recipe": lambda: make_for_recipe("Hopper-v5"),
}


@pytest.mark.parametrize("name", MADE)
def test_a_warning_of_the_simulation_is_printed_and_leaves_no_file(
    name: str, log: Any, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env = MADE[name]()
    env.reset(seed=0)
    env.unwrapped.data.qvel[:] = 1e12
    mujoco.mj_step(env.unwrapped.model, env.unwrapped.data)
    assert "unstable" in "".join(capfd.readouterr())
    assert list(folder.iterdir()) == []


def test_a_file_that_somebody_has_chosen_is_written(log: Any, folder: Path) -> None:
    log.logfile = str(folder / "mine.txt")
    log.set()
    env = gym.make("ncp/HalfCheetahNoVel-v0")
    env.reset(seed=0)
    env.unwrapped.data.qvel[:] = 1e12
    mujoco.mj_step(env.unwrapped.model, env.unwrapped.data)
    assert "unstable" in (folder / "mine.txt").read_text()


def test_importing_the_environments_imports_no_simulator() -> None:
    code = "import sys, ncp_envs; sys.exit('mujoco' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_mujoco_the_context_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)  # an import of it now fails
    with ncp_envs.without_mass_warning():
        inside = True
    assert inside
