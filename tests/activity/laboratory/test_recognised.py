"""What an environment observes is recognised in the simulator's state, or the environment is refused with a reason."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

import ncp_envs
from helpers.own_bodies import FilteredPole, FlagPole, GeneralPole, PlanarPole, Pole, SinglePole, StrongPole
from ncp_control.activity.laboratory.recognised import FUNCTIONS, STARTS, recognised
from ncp_control.activity.laboratory.world import world_data

# The tip's height is the third number of the only site, and the goal's is that of the body 3.
SOURCES = [
    ["sin", "qpos", 1],
    ["clipped", "qvel", 1],
    ["same", "xpos", 11, "site_xpos", 2],
    ["cos", "qpos", 1],
    ["same", "qvel", 0],
    ["same", "qpos", 0],
]


def state_of(body: Any) -> Any:
    data = body.data
    return np.concatenate([data.qpos, data.qvel, data.xpos.ravel(), body.init_qpos, [data.time]]).tobytes()


def test_sines_clipped_velocities_and_distances_are_recognised_in_any_order(tmp_path: Path) -> None:
    assert recognised(Pole(tmp_path))["settings"] == {"sources": SOURCES, "single": False}
    assert recognised(SinglePole(tmp_path))["settings"] == {"sources": SOURCES, "single": True}


def test_a_place_in_a_plane_is_recognised_with_the_number_that_is_always_0(tmp_path: Path) -> None:
    sources = recognised(PlanarPole(tmp_path))["settings"]["sources"]
    assert sources[3:6] == [["same", "site_xpos", entry] for entry in range(3)]
    assert sources[6:] == [["same", "xpos", 9 + axis, "site_xpos", axis] for axis in range(3)]


def test_the_reacher_is_recognised_and_its_starts_are_those_of_its_seeds() -> None:
    env: Any = gym.make("Reacher-v5")
    found = recognised(env.unwrapped)
    sources = found["settings"]["sources"]
    assert sources[:4] == [["cos", "qpos", 0], ["cos", "qpos", 1], ["sin", "qpos", 0], ["sin", "qpos", 1]]
    assert sources[4:8] == [["same", "qpos", 2], ["same", "qpos", 3], ["same", "qvel", 0], ["same", "qvel", 1]]
    assert sources[8:] == [["same", "xpos", 9, "xpos", 12], ["same", "xpos", 10, "xpos", 13]]
    seen, _ = env.reset(seed=7)
    data = env.unwrapped.data
    for _ in range(5):
        values = []
        for how, field, entry, *less in sources:
            taken = getattr(data, less[0]).flat[less[1]] if less else 0.0
            values.append(FUNCTIONS[how](np.asarray(getattr(data, field).flat[entry])) - taken)
        assert np.array(values) == pytest.approx(seen, abs=1e-15)
        seen = env.step(np.array([0.5, -0.5], np.float32))[0]
    assert found["start"]["count"] == STARTS


@pytest.mark.parametrize("name", ["Pusher-v5", "Humanoid-v5", "HumanoidStandup-v5"])
def test_other_bodies_of_gymnasium_are_recognised(name: str) -> None:
    env: Any = gym.make(name)
    sources = world_data(env)["settings"]["sources"]
    assert len(sources) == env.observation_space.shape[0]


def test_the_environment_stays_as_it_is(tmp_path: Path) -> None:
    for env in (Pole(tmp_path), gym.make("Pusher-v5").unwrapped):
        env.reset(seed=5)
        before, generator = state_of(env), env.np_random.bit_generator.state
        recognised(env)
        assert state_of(env) == before
        assert env.np_random.bit_generator.state == generator


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (FilteredPole, "'observation 4', number 4 of what FilteredPole observes, is no entry of the state of MuJoCo"),
        (FlagPole, "'observation 5', number 5 of what FlagPole observes, is always the same"),
        (GeneralPole, "GeneralPole changes body_mass of its model when an episode begins"),
        (StrongPole, "StrongPole moves in another way than frame_skip steps of MuJoCo"),
    ],
)
def test_what_a_page_cannot_compute_is_refused_with_the_reason(tmp_path: Path, kind: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"a laboratory cannot build this environment: {words}"):
        world_data(kind(tmp_path))


def test_a_body_without_anything_to_draw_is_refused(tmp_path: Path) -> None:
    env: Any = Pole(tmp_path)
    env.model.geom_rgba[:2, 3] = 0  # those of the cart and the pole, and not that of the goal
    with pytest.raises(ValueError, match="Pole has nothing to draw that moves"):
        world_data(env)


def test_an_environment_that_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    env: Any = Pole(tmp_path)
    env.rows = (row for row in range(3))
    with pytest.raises(ValueError, match=r"Pole cannot be copied .*generator"):
        world_data(env)


def test_the_reward_as_an_observation_is_refused_where_it_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="cannot build PreviousAction with the reward, which it does not know: Pole of"
    ):
        world_data(ncp_envs.PreviousAction(Pole(tmp_path), reward=True))


def test_a_known_body_with_rules_of_its_own_runs_without_a_reward() -> None:
    class Flying(HalfCheetahEnv):
        def control_cost(self, action: Any) -> Any:
            return 0.0

    class Rested(HalfCheetahEnv):
        def reset_model(self) -> Any:
            return super().reset_model()

    with ncp_envs.without_mass_warning():
        flying, rested = world_data(Flying()), world_data(Rested())
    assert (flying["task"], flying["unknown"]) == ("Recognised", "Flying has a control_cost of its own")
    assert (rested["task"], rested["unknown"]) == ("Recognised", "Rested has a reset_model of its own")
    assert flying["settings"]["sources"][:2] == [["same", "qpos", 1], ["same", "qpos", 2]]
