"""Bodies that compiled code moves, against those that Gymnasium moves: every number is equal."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")

from ncp_envs import physics, without_mass_warning  # noqa: E402
from ncp_envs.mujoco_bodies import MujocoStepper  # noqa: E402
from ncp_envs.mujoco_tasks import TASKS  # noqa: E402
from ncp_envs.physics import Physics  # noqa: E402

IDS = sorted(f"{name.rpartition('.')[2].removesuffix('Env')}-v5" for name in TASKS)
FIELDS = ("qpos", "qvel", "qacc", "qacc_warmstart", "ctrl", "cfrc_ext", "xpos", "time", "sensordata", "ncon")

pytestmark = pytest.mark.skipif(not physics.LIBRARY.exists(), reason="the library was not built")


def make(task: str, count: int) -> list[Any]:
    with without_mass_warning():
        bodies: list[Any] = [gym.make(task).unwrapped for _ in range(count)]
    for seed, body in enumerate(bodies):
        body.reset(seed=seed)
    return bodies


def actions_of(body: Any, count: int, steps: int = 60) -> Any:
    space = body.action_space
    random = np.random.default_rng(0)
    return random.uniform(space.low, space.high, (steps, count, *space.shape)).astype(np.float32)


def assert_same(one: Any, other: Any) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one.data, name), getattr(other.data, name), err_msg=name)


def test_the_library_is_used() -> None:
    assert physics._library() is not None


@pytest.mark.parametrize("task", IDS)
@pytest.mark.parametrize("threads", [1, 3])
def test_bodies_are_where_gymnasium_moves_them(task: str, threads: int) -> None:
    theirs, ours = make(task, 25), make(task, 25)
    together = Physics(ours, threads)
    for action in actions_of(theirs[0], 25):
        for body, own in zip(theirs, action, strict=True):
            body.do_simulation(own, body.frame_skip)
        before = np.array([body.data.qpos for body in ours])
        found = together.step(range(25), action)
        np.testing.assert_array_equal(found.before, before)
    for one, other in zip(theirs, ours, strict=True):
        assert_same(one, other)
    np.testing.assert_array_equal(found.positions, [body.data.qpos for body in theirs])
    np.testing.assert_array_equal(found.velocities, [body.data.qvel for body in theirs])


def test_some_bodies_move_and_the_others_stay() -> None:
    theirs, ours = make("Hopper-v5", 4), make("Hopper-v5", 4)
    together = Physics(ours)
    for action in actions_of(theirs[0], 2):
        for place, own in zip((3, 1), action, strict=True):
            theirs[place].do_simulation(own, theirs[place].frame_skip)
        assert together.step((3, 1), action).data == [ours[3].data, ours[1].data]
    for one, other in zip(theirs, ours, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_the_simulator_is_raised_as_its_own_calls_raise_it(threads: int) -> None:
    bodies = make("Hopper-v5", 16)
    together, (action, *_) = Physics(bodies, threads), actions_of(bodies[0], 16)
    handler = ctypes.c_void_p.from_address(physics._library().of_mujoco[2])  # type: ignore[union-attr]
    before = handler.value
    bodies[15].model.opt.integrator = 77
    with pytest.raises(mujoco.FatalError, match="mj_step: invalid integrator"):
        together.step(range(16), action)
    with pytest.raises(mujoco.FatalError, match="mj_step: invalid integrator"):
        mujoco.mj_step(bodies[15].model, bodies[15].data)
    assert handler.value == before
    bodies[15].model.opt.integrator = 0
    assert np.isfinite(together.step(range(16), action).positions).all()


def test_a_function_of_pythons_in_the_simulator_is_called_and_its_error_is_raised() -> None:
    bodies = make("Hopper-v5", 2)
    together, (action, *_) = Physics(bodies, 2), actions_of(bodies[0], 2)
    calls: list[Any] = []

    def control(model: Any, data: Any) -> None:
        calls.append(data)
        if len(calls) > 4:
            raise RuntimeError("no more")

    mujoco.set_mjcb_control(control)
    try:
        with pytest.raises(RuntimeError, match="no more"):
            together.step(range(2), action)
    finally:
        mujoco.set_mjcb_control(None)
    assert len(calls) == 5


def test_several_threads_of_python_step_bodies_of_their_own() -> None:
    groups, (alone,) = [make("Hopper-v5", 8) for _ in range(4)], [make("Hopper-v5", 8)]
    actions = actions_of(alone[0], 8)

    def run(bodies: list[Any]) -> None:
        together = Physics(bodies, 2)
        for action in actions:
            together.step(range(8), action)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, groups))
    run(alone)
    for bodies in groups:
        for one, other in zip(bodies, alone, strict=True):
            assert_same(one, other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_steps_on() -> None:
    bodies = make("Hopper-v5", 16)
    together, actions = Physics(bodies, 2), actions_of(bodies[0], 16)
    together.step(range(16), actions[0])
    child = os.fork()
    if child == 0:
        os._exit(0 if np.isfinite(together.step(range(16), actions[1]).positions).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_bodies_of_another_size_are_not_stepped_together() -> None:
    shown = {"exclude_current_positions_from_observation": False, "disable_env_checker": True}
    with without_mass_warning():
        envs = [gym.make("HalfCheetah-v5", xml_file=file, **shown) for file in ("half_cheetah.xml", "hopper.xml")]
    with pytest.raises(ValueError, match="environment 1 has another size than the first one"):
        MujocoStepper([env.unwrapped for env in envs])


def test_without_the_library_the_numbers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = make("Walker2d-v5", 3), make("Walker2d-v5", 3)
    together = Physics(ours)
    monkeypatch.setattr(physics, "_library", lambda: None)
    alone = Physics(theirs)
    for action in actions_of(ours[0], 3):
        for one, other in zip(together.step(range(3), action)[:3], alone.step(range(3), action)[:3], strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(theirs, ours, strict=True):
        assert_same(one, other)
