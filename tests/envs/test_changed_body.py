"""A MuJoCo body is changed by factors, and pushed: what moves is MuJoCo's own body of that kind."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import ncp_envs
from ncp_control.distil.views import TeacherView
from ncp_envs import ChangedBody, Pushes
from ncp_envs.changed_body import FACTORS

RANGES = {"mass": (0.5, 2.0), "gear": (0.7, 1.4), "friction": (0.4, 2.0), "limbs": (0.9, 1.1)}


def body(env_id: str = "HalfCheetah-v5") -> Any:
    with ncp_envs.without_mass_warning():
        return gym.make(env_id, disable_env_checker=True)


def play(env: Any, seed: int | None, steps: int = 20) -> list[np.ndarray]:
    actions = np.random.default_rng(1).uniform(-1, 1, (steps, *env.action_space.shape)).astype(np.float32)
    seen = [env.reset(seed=seed)[0]]
    return [*seen, *(env.step(action)[0] for action in actions)]


@pytest.mark.parametrize("env_id", ["HalfCheetah-v5", "Hopper-v5", "Ant-v5", "Swimmer-v5", "InvertedPendulum-v5"])
def test_factors_of_one_change_nothing(env_id: str) -> None:
    np.testing.assert_array_equal(play(ChangedBody(body(env_id)), 3), play(body(env_id), 3))


def test_a_body_is_the_one_that_mujoco_compiles_with_longer_limbs() -> None:
    env = ChangedBody(body(), limbs=1.2)
    env.reset(seed=0)
    spec = mujoco.MjSpec.from_file(env.unwrapped.fullpath)
    for name in ("bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"):
        limb = spec.body(name)
        if not name.endswith("thigh"):  # which hangs on the trunk, whose length stays
            limb.pos = 1.2 * np.array(limb.pos)
        for geom in limb.geoms:
            geom.pos = 1.2 * np.array(geom.pos)
            geom.size = np.array(geom.size) * [1, 1.2, 1]
    with ncp_envs.without_mass_warning():
        wanted = spec.compile()
    for key in ("body_pos", "geom_pos", "geom_size", "geom_rbound", "geom_aabb"):
        np.testing.assert_allclose(getattr(env.unwrapped.model, key), getattr(wanted, key), atol=1e-12, err_msg=key)
    with ncp_envs.without_mass_warning():
        masses = body().unwrapped.model.body_mass
    np.testing.assert_array_equal(env.unwrapped.model.body_mass, masses)


def test_twice_the_mass_and_twice_the_motors_move_alike() -> None:
    """Without contacts and gravity, which a swimmer does not have, and without what resists at its joints."""

    def swim(**factors: float) -> list[np.ndarray]:
        env = ChangedBody(body("Swimmer-v5"), **factors)
        model = env.unwrapped.model
        model.opt.viscosity = model.opt.density = 0
        model.dof_armature[:] = 0
        return play(env, 0)

    np.testing.assert_allclose(swim(mass=2, gear=2), swim(), atol=1e-6)
    assert np.abs(np.array(swim(mass=2)) - swim()).max() > 0.01


def test_every_episode_draws_another_body_and_a_seed_repeats_it() -> None:
    env = ChangedBody(body(), **RANGES)
    factors = np.array([env.reset(seed=5 if k in (0, 50) else None)[1]["body_factors"] for k in range(51)])
    np.testing.assert_array_equal(factors[0], factors[50])
    for values, name in zip(factors.T, FACTORS, strict=True):
        low, high = RANGES[name]
        assert low <= values.min() < values.max() <= high
        middle = np.sqrt(low * high)
        assert 0.25 < np.mean(values > middle) < 0.75, "halving and doubling are equally likely"
    assert len(np.unique(factors[:50, 0])) == 50


def test_an_agent_can_be_told_the_factors() -> None:
    env = ChangedBody(body(), told=True, **RANGES)
    seen, info = env.reset(seed=2)
    np.testing.assert_allclose(seen[-4:], np.log(info["body_factors"]), atol=1e-12)
    assert env.observation_space.contains(env.step(env.action_space.sample())[0])
    assert ncp_envs.observation_names(env)[-4:] == [f"log {name} factor" for name in FACTORS]


def test_a_teacher_is_told_the_factors_of_its_students_body() -> None:
    student = ChangedBody(body("ncp/HalfCheetahNoVel-v0"), **RANGES)
    view = TeacherView(student, ChangedBody(body(), told=True, mass=(0.9, 1.1)))
    for seed in (1, None, 2):
        info = student.reset(seed=seed)[1]
        np.testing.assert_allclose(view.observation[-4:], np.log(info["body_factors"]), atol=1e-12)
        student.step(student.action_space.sample())
        np.testing.assert_allclose(view.observation[-4:], np.log(info["body_factors"]), atol=1e-12)


@pytest.mark.parametrize(("env_id", "across"), [("HalfCheetah-v5", 1), ("Swimmer-v5", 2), ("Ant-v5", 2)])
def test_a_push_points_anywhere_in_its_plane_and_passes(env_id: str, across: int) -> None:
    env = Pushes(body(env_id), strength=0.5, every=10, lasting=3)
    env.reset(seed=0)
    forces = np.array([env.step(np.zeros(env.action_space.shape, np.float32))[-1]["push"] for _ in range(300)])
    sizes = np.linalg.norm(forces, axis=1).reshape(30, 10)
    weight = 9.81 * env.unwrapped.model.body_mass.sum()
    assert ((sizes > 0).sum(axis=1) == 3).all()
    np.testing.assert_allclose(sizes[sizes > 0], 0.5 * weight)
    assert len({int(np.flatnonzero(row)[0]) for row in sizes}) > 3, "when it begins is drawn"
    assert (forces[:, across] == 0).all()
    assert all(forces[:, axis].min() < 0 < forces[:, axis].max() for axis in {0, 1, 2} - {across})


def test_a_push_moves_the_body_by_its_momentum() -> None:
    env = Pushes(body(), strength=1.0, every=4)
    calm = body()
    still = np.zeros(6, np.float32)
    env.reset(seed=1), calm.reset(seed=1)
    push = env.step(still)[-1]["push"]
    calm.step(still)
    model = env.unwrapped.model

    def momentum(of: Any) -> np.ndarray:
        data = of.unwrapped.data
        mujoco.mj_subtreeVel(model, data)
        return np.array(model.body_mass.sum() * data.subtree_linvel[0])

    gained = (momentum(env) - momentum(calm))[[0, 2]]
    wanted = push[[0, 2]] * env.unwrapped.dt
    assert np.dot(gained, wanted) > 0.5 * np.dot(wanted, wanted), "the ground may take a part of it"
    env.reset(seed=1)
    assert not env.unwrapped.data.xfrc_applied.any(), "a new episode begins without a force"


@pytest.mark.parametrize(
    ("wrap", "error", "sentence"),
    [
        (
            lambda env: ChangedBody(env, mass=0),
            ValueError,
            r"factor above 0 for mass, or a range \(low, high\), and got",
        ),
        (lambda env: ChangedBody(env, gear=(2, 1)), ValueError, "a range .* for gear|factor above 0 for gear"),
        (lambda env: ChangedBody(env, limbs="long"), ValueError, "factor above 0 for limbs"),
        (lambda env: Pushes(env, strength=-1), ValueError, "strength that is finite and not negative, and got -1"),
        (lambda env: Pushes(env, strength=1, every=2), ValueError, "every of at least 4, and got 2"),
        (lambda env: Pushes(env, strength=1, lasting=0), ValueError, "lasting of at least 1"),
    ],
)
def test_odd_arguments_are_refused(wrap: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        wrap(body())


def test_other_environments_are_refused() -> None:
    for wrap in (ChangedBody, lambda env: Pushes(env, 1.0)):
        with pytest.raises(TypeError, match="needs an environment of a MuJoCo body, and got CartPoleEnv"):
            wrap(gym.make("CartPole-v1"))


@pytest.mark.parametrize("wrap", [lambda env: ChangedBody(env, told=True, **RANGES), lambda env: Pushes(env, 1.0)])
def test_the_spec_makes_it_again_and_a_seed_repeats_it(wrap: Any) -> None:
    env = wrap(body())
    with ncp_envs.without_mass_warning():
        again = gym.make(env.spec)
    first = play(env, 7)
    np.testing.assert_array_equal(first, play(env, 7))
    np.testing.assert_array_equal(first, play(again, 7))
