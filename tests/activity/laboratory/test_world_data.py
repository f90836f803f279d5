"""What a page knows of an environment, and which environments it cannot build."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs import mujoco as bodies
from gymnasium.wrappers import ClipAction

import ncp_envs
from ncp_control.activity.laboratory.world import world_data
from ncp_control.activity.laboratory.world_model import body_names, free_turns
from ncp_control.rl.recipes.env_making import make_env

CHEETAH, ANT = "HalfCheetah-v5", "Ant-v5"
ASSETS = Path(bodies.__file__).parent / "assets"


def cheetah(folder: Path, before: str, after: str, **options: Any) -> Any:
    """Makes a half-cheetah from a file with one change."""
    text = (ASSETS / "half_cheetah.xml").read_text(encoding="utf-8")
    assert before in text
    path = folder / "own.xml"
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    return make_env(CHEETAH, (), {"xml_file": str(path), **options})


def test_data_are_json_and_small() -> None:
    for name in ("HalfCheetah-v5", "Ant-v5", "ncp/HopperNoVel-v0"):
        text = json.dumps(world_data(make_env(name, ["RandomActionOverwrite"])), allow_nan=False)
        assert len(text) < 20_000


def test_a_wrapper_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="a laboratory cannot build the wrapper ClipAction"):
        world_data(ClipAction(make_env(CHEETAH)))
    with pytest.raises(ValueError, match="a laboratory cannot build the wrapper History"):
        world_data(make_env(CHEETAH, [{"History": {"window": 3}}]))


def test_a_subclass_of_a_known_wrapper_is_refused_because_it_may_do_anything() -> None:
    class Louder(ncp_envs.ObservationNoise):
        pass

    with pytest.raises(ValueError, match="cannot build the wrapper Louder"):
        world_data(Louder(make_env(CHEETAH), 0.1))


def test_a_task_without_a_body_of_mujoco_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"a laboratory cannot build this environment: .* is none of .*, and no MujocoEnv"
    ):
        world_data(gym.make("Pendulum-v1"))


def test_a_gymnasium_that_begins_episodes_in_another_way_gives_its_starts_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reset_model(self: Any) -> Any:
        self.set_state(self.init_qpos, self.init_qvel)
        return self._get_obs()

    monkeypatch.setattr(bodies.half_cheetah_v5.HalfCheetahEnv, "reset_model", reset_model)
    data = world_data(make_env(CHEETAH))
    assert data["task"] == "Recognised"
    assert data["unknown"] == "this version of Gymnasium begins the episodes of HalfCheetahEnv in another way"


def test_a_model_that_needs_other_files_is_refused_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "more.xml").write_text("<mujocoinclude><worldbody><site name='here'/></worldbody></mujocoinclude>")
    env = cheetah(tmp_path, "<asset>", '<include file="more.xml"/><asset>')
    with pytest.raises(ValueError, match=r"because its <include> needs the file 'more\.xml'"):
        world_data(env)


def test_a_model_with_a_mesh_is_refused(tmp_path: Path) -> None:
    mesh = '<asset><mesh name="tooth" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/>'
    with pytest.raises(ValueError, match="because it has meshes"):
        world_data(cheetah(tmp_path, "<asset>", mesh))


def test_a_model_that_is_not_that_of_its_file_is_refused(tmp_path: Path) -> None:
    env = make_env(CHEETAH)
    env.unwrapped.model.jnt_limited[4] = False
    with pytest.raises(ValueError, match="because its jnt_limited is not that of"):
        world_data(env)
    env = cheetah(tmp_path, 'name="head"', 'name="skull"')
    path = Path(env.unwrapped.fullpath)
    path.write_text(path.read_text().replace("<worldbody>", '<worldbody><site name="more"/>', 1))
    with pytest.raises(ValueError, match="a laboratory cannot build the model of the environment, because its"):
        world_data(env)
    path.write_text("<mujoco")
    with pytest.raises(ValueError, match="a laboratory cannot read the model"):
        world_data(env)


def test_only_what_was_changed_in_a_model_is_sent() -> None:
    env = make_env(CHEETAH)
    assert {part: world_data(env)["model"][part] for part in ("model", "opt", "stat")} == {
        "model": {},
        "opt": {},
        "stat": {},
    }
    env.unwrapped.model.body_mass[1] = 3
    env.unwrapped.model.opt.timestep = 0.005
    model = world_data(env)["model"]
    assert list(model["model"]) == ["body_mass"]
    assert list(model["opt"]) == ["timestep"]


def test_disturbances_come_around_the_environment_as_it_was_made() -> None:
    data = world_data(make_env("ncp/HalfCheetahNoVel-v0", ["RandomActionOverwrite", "PreviousAction"]))
    kinds = [layer["kind"] for layer in data["layers"]]
    assert kinds == ["keep", "limit", "finite", "random", "previous"]
    assert data["below"] == 3
    assert len(data["observationNames"]) == 8 + 6


def test_every_part_of_a_body_has_a_name_of_its_own() -> None:
    for name in (ANT, CHEETAH, "Walker2d-v5", "InvertedDoublePendulum-v5"):
        model: Any = make_env(name).unwrapped.model
        names = body_names(model)
        assert len(set(names)) == len(names) == model.nbody - 1
        assert all(names)


def test_only_bodies_that_turn_freely_are_stepped_by_the_page_itself() -> None:
    assert free_turns(make_env(CHEETAH).unwrapped.model) == []
    import mujoco

    newer = int(mujoco.__version__.split(".")[0]) >= 4
    assert free_turns(make_env(ANT).unwrapped.model) == ([3] if newer else [])


def test_names_in_a_model_are_data(tmp_path: Path) -> None:
    odd = "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"
    env = cheetah(tmp_path, 'body name="bfoot"', f'body name="{odd}"')
    data = world_data(env)
    assert "</script><img src=x onerror=alert(1)>" in data["bodies"]


def test_making_data_changes_nothing_of_the_environment() -> None:
    env = make_env(ANT)
    env.reset(seed=4)
    before = np.concatenate([env.unwrapped.data.qpos, env.unwrapped.data.qvel, env.unwrapped.data.xpos.ravel()])
    state = env.unwrapped.np_random.bit_generator.state
    world_data(env)
    after = np.concatenate([env.unwrapped.data.qpos, env.unwrapped.data.qvel, env.unwrapped.data.xpos.ravel()])
    assert (before == after).all()
    assert env.unwrapped.np_random.bit_generator.state == state
