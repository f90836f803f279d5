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


@pytest.mark.parametrize(
    ("task", "joints"),
    [
        ("Hopper-v5", ["torso x", "torso height", "torso angle", "thigh angle", "leg angle", "foot angle"]),
        (
            "Walker2d-v5",
            ["torso x", "torso height", "torso angle", "thigh angle", "leg angle", "foot angle", "left thigh angle",
             "left leg angle", "left foot angle"],
        ),
        ("Swimmer-v5", ["torso x", "torso y", "torso angle", "motor 1 angle", "motor 2 angle"]),
    ],
)  # fmt: skip
def test_the_entries_of_a_body_have_the_names_of_its_joints(task: str, joints: list[str]) -> None:
    """Moving a joint changes the entry that is named after it, and no other."""
    pytest.importorskip("mujoco")
    env = gym.make(task, exclude_current_positions_from_observation=False)
    names, body = observation_names(env), env.unwrapped
    assert names[: len(joints)] == joints
    assert len(set(names)) == len(names) == 2 * len(joints)
    env.reset(seed=0)
    for place, joint in enumerate(joints):
        for values, kind in ((body.data.qpos, ""), (body.data.qvel, "velocity")):
            before = body._get_obs()
            values[place] += 0.125
            (moved,) = np.flatnonzero(body._get_obs() != before)
            assert names[moved].split()[0] == joint.split()[0]
            assert names[moved].endswith(kind)
            assert kind or names[moved] == joint
    if "torso height" in names:
        pytest.importorskip("mujoco").mj_kinematics(body.model, body.data)
        assert body.data.body("torso").xpos[2] == pytest.approx(body.data.qpos[1])
    # Where it is along the ground is left out by default.
    assert observation_names(gym.make(task)) == names[len(names) - gym.make(task).observation_space.shape[0] :]


def test_the_entries_of_the_ant_and_the_humanoid_have_names() -> None:
    pytest.importorskip("mujoco")
    names = observation_names(gym.make("Ant-v5"))
    assert len(set(names)) == len(names) == 105
    assert names[0] == "torso height"
    assert names[1:5] == [f"torso orientation {part}" for part in "wxyz"]
    assert names[5:7] == ["hip 1 angle", "ankle 1 angle"]
    assert names[13:20] == [
        "torso x velocity", "torso y velocity", "torso z velocity", "torso angular velocity x",
        "torso angular velocity y", "torso angular velocity z", "hip 1 angular velocity",
    ]  # fmt: skip
    assert names[27:33] == [f"torso contact {kind} {axis}" for kind in ("torque", "force") for axis in "xyz"]
    assert names[45] == "ankle 1 contact torque x"  # a body without a name has that of its joint
    assert observation_names(gym.make("ncp/AntNoVel-v0")) == names[:13]
    assert observation_names(gym.make("ncp/AntNoPos-v0")) == names[13:27]
    humanoid = observation_names(gym.make("Humanoid-v5"))
    assert len(set(humanoid)) == len(humanoid) == 348
    assert humanoid[5] == "abdomen z angle"
    assert humanoid[45] == "cinert 0"


def test_the_entries_of_the_inverted_pendulums_are_where_the_simulator_has_them() -> None:
    pytest.importorskip("mujoco")
    assert observation_names(gym.make("InvertedPendulum-v5")) == [
        "cart position", "pole angle", "cart velocity", "pole angular velocity",
    ]  # fmt: skip
    env = gym.make("InvertedDoublePendulum-v5")
    names, body = observation_names(env), env.unwrapped
    env.reset(seed=0)
    named = dict(zip(names, body._get_obs(), strict=True))
    cart, first, second = body.data.qpos
    assert named["cart position"] == cart
    for pole, angle in (("first", first), ("second", second)):
        seen = [named[f"{part} of the {pole} pole angle"] for part in ("sine", "cosine")]
        assert seen == [np.sin(angle), np.cos(angle)]
    speeds = [named[name] for name in ("cart velocity", "first pole angular velocity", "second pole angular velocity")]
    assert speeds == body.data.qvel.tolist()
    assert names[-1] == "constraint force on the cart"
    assert observation_names(gym.make("ncp/InvertedDoublePendulumNoVel-v0")) == names[:5]


def test_wrappers_remove_and_add_names() -> None:
    env = gym.make("CartPole-v1")
    timed = ncp_envs.IrregularTime(ncp_envs.ObservationNoise(env, 0.1), 3, observe_elapsed=True)
    assert observation_names(timed) == [*CART_POLE, "elapsed time"]
    assert observation_names(ncp_envs.IrregularTime(env, 3)) == CART_POLE
    assert observation_names(ncp_envs.IrregularTime(env, 3, observe_elapsed="apart")) == CART_POLE
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
