"""Each entry of an observation has a name, whichever wrappers the environment has."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")

import ncp_envs  # noqa: E402
from ncp_envs import observation_names  # noqa: E402

CART_POLE = ["cart position", "cart velocity", "pole angle", "pole angular velocity"]


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("CartPole-v1", CART_POLE),
        ("Pendulum-v1", ["cosine of the angle", "sine of the angle", "angular velocity"]),
        ("MountainCarContinuous-v0", ["position", "velocity"]),
        ("MountainCar-v0", ["position", "velocity"]),
        ("Acrobot-v1", [f"observation {index}" for index in range(6)]),
        ("ncp/CartPoleNoVel-v0", ["cart position", "pole angle"]),
        ("ncp/PendulumNoVel-v0", ["cosine of the angle", "sine of the angle"]),
        ("ncp/MountainCarContinuousNoVel-v0", ["position"]),
    ],
)
def test_the_names_of_known_environments(task: str, names: list[str]) -> None:
    assert observation_names(gym.make(task)) == names
    assert observation_names(gym.make(task).unwrapped)[0] in names


def test_half_cheetah_entries_are_where_the_simulator_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moving a joint changes the entry that is named after it, and no other."""
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    with ncp_envs.without_mass_warning():
        env = gym.make("HalfCheetah-v5", exclude_current_positions_from_observation=False)
    names = observation_names(env)
    body = env.unwrapped
    joints = {"rootx": "front tip x", "rootz": "front tip z", "rooty": "torso"}
    joints |= {f"{side[0]}{part}": f"{side} {part}" for side in ("back", "front") for part in ("thigh", "shin", "foot")}
    assert len(set(names)) == len(names) == 2 * len(joints)
    env.reset(seed=0)
    for place in range(body.model.njnt):
        joint = joints[body.model.joint(place).name]
        for values, kind in ((body.data.qpos, "position"), (body.data.qvel, "velocity")):
            before = body._get_obs()
            values[place] += 0.125
            (moved,) = np.flatnonzero(body._get_obs() != before)
            assert names[moved].startswith(joint)
            assert ("velocity" in names[moved]) == (kind == "velocity")
    assert observation_names(gym.make("ncp/HalfCheetahNoVel-v0")) == names[1:9]
    assert observation_names(gym.make("ncp/HalfCheetahNoPos-v0")) == names[9:]


def test_wrappers_remove_and_add_names() -> None:
    env = gym.make("CartPole-v1")
    timed = ncp_envs.IrregularTime(ncp_envs.ObservationNoise(env, 0.1), 3, observe_elapsed=True)
    assert observation_names(timed) == [*CART_POLE, "elapsed time"]
    assert observation_names(ncp_envs.IrregularTime(env, 3)) == CART_POLE
    assert observation_names(ncp_envs.KeepObservations(timed, (4, 1))) == ["elapsed time", "cart velocity"]
    assert observation_names(ncp_envs.History(timed, 5)) == [*CART_POLE, "elapsed time"]
    assert observation_names(gym.wrappers.NormalizeObservation(timed)) == [*CART_POLE, "elapsed time"]


def test_entries_are_numbered_where_a_wrapper_changes_how_many_there_are() -> None:
    env = gym.wrappers.TimeAwareObservation(gym.make("CartPole-v1"))
    assert observation_names(env) == [f"observation {index}" for index in range(5)]


def test_an_environment_may_name_its_own_entries() -> None:
    env = gym.make("Acrobot-v1")
    env.unwrapped.observation_names = ("a", "b", "c", "d", "e", "f")
    assert observation_names(gym.wrappers.ClipReward(env, 0.0)) == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize("mode", ["sync", "async", "vector_entry_point"])
def test_a_vector_environment_has_the_names_of_one_environment(mode: str) -> None:
    with_vector: Any = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode=mode)
    assert observation_names(with_vector) == CART_POLE
    assert observation_names(ncp_envs.VectorHistory(ncp_envs.VectorObservationNoise(with_vector, 0.1), 3)) == CART_POLE
    with_vector.close()


@pytest.mark.parametrize("kind", ["DummyVecEnv", "SubprocVecEnv"])
def test_a_vec_env_of_stable_baselines_has_the_names_of_one_environment(kind: str) -> None:
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    options = {"start_method": "fork"} if kind == "SubprocVecEnv" else {}
    envs = getattr(vec_env, kind)([partial(gym.make, "ncp_envs:ncp/CartPoleNoVel-v0")] * 2, **options)
    assert observation_names(envs) == ["cart position", "pole angle"]
    assert observation_names(vec_env.VecNormalize(envs)) == ["cart position", "pole angle"]
    assert observation_names(vec_env.VecFrameStack(envs, 2)) == [f"observation {index}" for index in range(4)]
    envs.close()
