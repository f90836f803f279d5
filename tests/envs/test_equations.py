"""Bodies that are a few equations, against other solvers and other simulators of the same bodies."""

import gymnasium as gym
import mujoco
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from scipy.integrate import solve_ivp

from ncp_envs.equations import BODIES

LINK = '<geom type="sphere" size=".01" mass=".5" pos="0 0 .5"/>'
ONE = f"""
<mujoco><option timestep="0.001" integrator="RK4" gravity="0 0 -1"/><worldbody>
<body><joint name="a" type="hinge" axis="0 1 0"/>{LINK}</body>
</worldbody><actuator><motor joint="a"/></actuator></mujoco>"""
TWO = f"""
<mujoco><option timestep="0.001" integrator="RK4" gravity="0 0 -1"/><worldbody>
<body><joint name="a" type="hinge" axis="0 1 0"/>{LINK}
<body pos="0 0 .5"><joint name="b" type="hinge" axis="0 1 0"/>{LINK}</body></body>
</worldbody><actuator><motor joint="a"/><motor joint="b"/></actuator></mujoco>"""


@pytest.mark.parametrize("name", BODIES)
def test_a_period_is_what_a_precise_solver_finds(name: str) -> None:
    body = BODIES[name]
    random = np.random.default_rng(0)
    for _ in range(5):
        start = random.uniform(body.low, body.high)
        action = random.uniform(-body.strongest, body.strongest, body.actions)
        precise = solve_ivp(
            lambda _, state, held=action: body.slope(tuple(state), tuple(held), np),
            (0, body.period), start, method="DOP853", rtol=1e-12, atol=1e-13,
        )  # fmt: skip
        np.testing.assert_allclose(body.moved(tuple(start), tuple(action)), precise.y[:, -1], rtol=0, atol=1e-7)
        tensors = (tuple(torch.as_tensor(part)) for part in (start, action))
        np.testing.assert_allclose(body.moved(*tensors, torch), precise.y[:, -1], rtol=0, atol=1e-7)


@pytest.mark.parametrize(("name", "text"), [("single-pendulum", ONE), ("double-pendulum", TWO)])
def test_the_pendulums_are_those_of_mujoco(name: str, text: str) -> None:
    body, model = BODIES[name], mujoco.MjModel.from_xml_string(text)
    # A ball of radius .01 is no point: its own inertia is taken away.
    model.body_inertia[:] = 1e-12
    mujoco.mj_setConst(model, mujoco.MjData(model))
    data = mujoco.MjData(model)
    random = np.random.default_rng(1)
    for _ in range(5):
        start = random.uniform(body.low, body.high)
        torques = random.uniform(-1, 1, body.actions)
        half = len(start) // 2
        # MuJoCo's second joint turns against the first link, and so does its motor.
        data.qpos[:], data.qvel[:] = np.diff(start[:half], prepend=0), np.diff(start[half:], prepend=0)
        data.ctrl[:] = np.cumsum(torques[::-1])[::-1]
        for _ in range(round(body.period / model.opt.timestep)):
            mujoco.mj_step(model, data)
        found = np.concatenate([np.cumsum(data.qpos), np.cumsum(data.qvel)])
        np.testing.assert_allclose(body.moved(tuple(start), tuple(torques)), found, rtol=0, atol=1e-6)


def test_the_weak_pendulum_is_that_of_gymnasium() -> None:
    body, other = BODIES["weak-pendulum"], gym.make("Pendulum-v1").unwrapped
    other.dt = 1e-5  # Gymnasium's own steps of .05 s are one step of Euler's method each
    random = np.random.default_rng(2)
    for _ in range(3):
        start, torque = random.uniform(body.low, body.high), random.uniform(-2, 2, 1)
        other.reset(seed=0)
        other.state = start.copy()
        for _ in range(round(body.period / other.dt)):
            other.step(torque)
        np.testing.assert_allclose(body.moved(tuple(start), tuple(torque)), other.state, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", BODIES)
def test_an_environment_follows_the_equations(name: str) -> None:
    body = BODIES[name]
    env = gym.make(body.env)
    check_env(env.unwrapped, skip_render_check=True)
    seen, _ = env.reset(seed=3)
    state = env.unwrapped.state.copy()  # type: ignore[attr-defined]
    assert (np.array(body.low) <= state).all()
    assert (state <= body.high).all()
    np.testing.assert_array_equal(seen, state[list(body.seen)].astype(np.float32))
    strong = np.full(body.actions, 1e3, np.float32)
    seen, reward, ended, cut, _ = env.step(strong)
    moved = body.moved(tuple(state), (body.strongest,) * body.actions)
    np.testing.assert_array_equal(env.unwrapped.state, np.array(moved))  # type: ignore[attr-defined]
    assert reward < 0
    assert not ended
    steps = 1
    while not cut:
        cut = env.step(0 * strong)[3]
        steps += 1
    assert steps == round(body.horizon / body.period)
