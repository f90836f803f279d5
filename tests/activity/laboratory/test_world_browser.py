"""The worlds of a page move, sense and reward as the environments of Python that they were made from."""

import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.envs import mujoco as bodies

from helpers.browser_page import Page
from helpers.simulator import open_worlds, played
from helpers.worlds import (
    BODIES,
    CHEETAH,
    DELAY,
    DISTURBED,
    OPTIONS,
    STEPS,
    TRAININGS,
    actions_for,
    check,
    environments,
    in_python,
    steps_of,
)
from ncp_control.cli.trained_in import disturbances
from ncp_control.rl.recipes.env_making import make_env

pytestmark = pytest.mark.browser

ODD = "</script><script>window.hit = 1</script>${window.hit = 2}'\"\\ \u202e"


@pytest.fixture(scope="module")
def envs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return environments() | {"odd": oddly_named(tmp_path_factory.mktemp("model"))}


def oddly_named(folder: Path) -> Any:
    """Makes a Hopper whose torso has a name that would be a script in a careless page."""
    text = (Path(bodies.__file__).parent / "assets" / "hopper.xml").read_text(encoding="utf-8")
    path = folder / "odd.xml"
    path.write_text(text.replace('"torso"', f'"{html.escape(ODD)}"'), encoding="utf-8")
    return make_env("Hopper-v5", (), {"xml_file": str(path)})


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory, envs: dict[str, Any]) -> Page:
    return open_worlds(browser, tmp_path_factory.mktemp("worlds"), envs)


@pytest.mark.parametrize("name", BODIES)
def test_a_start_has_every_bit_of_that_in_python(page: Page, envs: dict[str, Any], name: str) -> None:
    env = envs[f"{name}-v5"]
    for seed in (0, 1, 17, 123456, 2**32 + 5):
        found = page.ask(
            f"""(() => {{
              const world = new lab.World(mujoco, data.worlds["{name}-v5"]), first = world.reset({seed});
              const found = [first, world.physics.data.qpos, world.physics.data.qvel].map((row) => Array.from(row));
              world.delete();
              return found;
            }})()"""
        )
        observation, _ = env.reset(seed=seed)
        body = env.unwrapped.data
        assert found[1] == body.qpos.tolist()
        assert found[2] == body.qvel.tolist()
        if name == "InvertedDoublePendulum":  # two libraries may round a sine in another way
            assert np.abs(np.array(found[0]) - observation).max() < 1e-15
        else:
            assert found[0] == observation.tolist()


@pytest.mark.parametrize("name", BODIES)
def test_a_body_moves_as_in_python(page: Page, envs: dict[str, Any], name: str) -> None:
    env = envs[f"{name}-v5"]
    for seed in (0, 17):
        actions = actions_for(env, seed=seed)
        check(played(page, f"{name}-v5", seed, actions), in_python(env, seed, actions))


@pytest.mark.parametrize("name", TRAININGS)
def test_the_wrappers_of_a_training_act_as_in_python(page: Page, envs: dict[str, Any], name: str) -> None:
    env = envs[name]
    actions = actions_for(env, steps_of(name))
    found, expected = played(page, name, 17, actions), in_python(env, 17, actions)
    # What a random action costs is computed in float32 in Python.
    check(found, expected)
    if name in ("twice", "delayed", "queued"):
        assert expected["random"].any()


@pytest.mark.parametrize("name", OPTIONS)
def test_the_options_of_an_environment_count(page: Page, envs: dict[str, Any], name: str) -> None:
    env = envs[name]
    actions = actions_for(env, 5 if name == "short" else STEPS)
    found, expected = played(page, name, 3, actions), in_python(env, 3, actions)
    check(found, expected)
    assert found["truncated"][-1] == (name == "short")


@pytest.mark.parametrize("name", [f"{name}-v5" for name in BODIES])
def test_disturbances_are_those_of_python(page: Page, name: str) -> None:
    for seed in (0, 17):
        random, noise, dropout = disturbances(noise=0.1, dropout=0.2, random=0.3)
        env = make_env(name, [random, DELAY, noise, dropout])
        actions = actions_for(env, seed=seed)
        found, expected = played(page, name, seed, actions, DISTURBED), in_python(env, seed, actions)
        check(found, expected)
        assert expected["random"].any()
        assert (expected["observations"] == 0).all(axis=1).any()


def test_disturbances_come_inside_of_the_wrappers_of_the_training(page: Page) -> None:
    for name in ("noisy", "holes", "remembered", "apart"):
        random, noise, dropout = disturbances(noise=0.1, dropout=0.2, random=0.3)
        kept = [one for one in TRAININGS[name] if one != "RandomActionOverwrite"]
        env = make_env(CHEETAH, [random, DELAY, noise, dropout, *kept])
        actions = actions_for(env, steps_of(name))
        check(played(page, name, 5, actions, DISTURBED), in_python(env, 5, actions))


def test_the_share_of_random_actions_of_the_training_can_be_taken_away(page: Page, envs: dict[str, Any]) -> None:
    actions = actions_for(envs["random"], 60)
    without = played(page, "random", 4, actions, {"random": 0})
    assert not without["random"].any()
    assert (without["executed"] == actions).all()
    as_trained = played(page, "random", 4, actions, {"random": 0.05})
    assert (as_trained["executed"] == played(page, "random", 4, actions)["executed"]).all()
    assert as_trained["random"].any()
    share = page.ask("['plain', 'random', 'twice'].map((name) => new lab.World(mujoco, data.worlds[name]).share)")
    assert share == pytest.approx([0, 0.05, 0.44], abs=1e-12)


def test_places_are_those_of_the_moment_within_a_step_too(page: Page) -> None:
    ends, last = page.ask(
        f"""(() => {{
          const world = new lab.World(mujoco, data.worlds["{CHEETAH}"]), ends = [];
          world.reset(0);
          world.onSubstep = () => {{ ends.push(Array.from(world.ends())); }};
          world.step([1, 1, 1, 1, 1, 1]);
          return [ends, Array.from(world.ends())];
        }})()"""
    )
    assert len(ends) == 5
    assert ends[-1] == last
    moved = np.abs(np.diff(np.array(ends), axis=0)).max(axis=1)
    assert (moved > 0).all()
    several = page.ask(
        """(() => {
          const world = new lab.World(mujoco, data.worlds.unseen), all = [];
          world.reset(0);
          world.onSubstep = () => { all[all.length - 1]++; };
          for (let k = 0; k < 8; k++) { all.push(0); world.step([0, 0, 0, 0, 0, 0]); }
          return all;
        })()"""
    )
    assert set(several) > {5}
    assert all(count % 5 == 0 for count in several)


def test_the_speed_is_that_of_the_root(page: Page, envs: dict[str, Any]) -> None:
    for name in ("Ant-v5", "Swimmer-v5", CHEETAH, "InvertedPendulum-v5"):
        env, actions = envs[name], actions_for(envs[name], 10)
        found = played(page, name, 0, actions)
        env.reset(seed=0)
        for action in actions:
            env.step(action)
        body: Any = env.unwrapped
        assert found["speeds"][-1] == pytest.approx(body.data.qvel[0], abs=1e-8)


def test_an_action_of_another_size_is_refused(page: Page) -> None:
    with pytest.raises(Exception, match="An action of this body has 6 numbers, not 2"):
        played(page, CHEETAH, 0, [[0, 0]])


def test_episodes_without_a_seed_go_on_with_the_streams(page: Page, envs: dict[str, Any]) -> None:
    env = envs["noisy"]
    expected = [env.reset(seed=3)[0], env.reset()[0], env.reset()[0]]
    found = page.ask(
        """(() => { const world = new lab.World(mujoco, data.worlds.noisy);
          return [3, undefined, undefined].map((seed) => Array.from(world.reset(seed))); })()"""
    )
    assert np.array_equal(np.array(found), np.array(expected))


def test_a_name_in_a_model_is_only_a_name(page: Page, envs: dict[str, Any]) -> None:
    actions = actions_for(envs["odd"])
    found = played(page, "odd", 0, actions, pushes={2: [ODD, [1, 0, 0]]})
    check(played(page, "odd", 0, actions), in_python(envs["odd"], 0, actions))
    assert len(found["rewards"]) == STEPS
    assert page.ask("data.worlds.odd.bodies[0]") == ODD
    assert page.ask("window.hit") is None


def test_a_model_that_the_page_cannot_read_is_said_in_one_sentence(page: Page) -> None:
    with pytest.raises(Exception, match=r"The simulator of this page cannot read the model of the body: .*springyield"):
        page.ask(
            """(() => { const given = data.worlds["Hopper-v5"];
              const xml = given.model.xml.replace("<joint ", '<joint springyield="1" ');
              new lab.World(mujoco, { ...given, model: { ...given.model, xml } }); })()"""
        )


def test_a_world_survives_that_the_memory_of_the_simulator_moves(page: Page, envs: dict[str, Any]) -> None:
    actions = actions_for(envs["Ant-v5"], 4)
    moved, found = page.ask(
        f"""(() => {{
          const world = new lab.World(mujoco, data.worlds["Ant-v5"]), [first, ...later] = {actions.tolist()};
          world.reset(5);
          world.step(first);
          const before = world.physics.data.qpos.buffer, kept = [];
          for (let k = 0; k < 60; k++) kept.push(new mujoco.MjData(world.physics.model));
          const moved = world.physics.data.qpos.buffer !== before;
          const found = later.map((action) => Array.from(world.step(action).observation));
          kept.forEach((one) => one.delete());
          return [moved, found];
        }})()"""
    )
    assert moved
    assert (np.array(found) == played(page, "Ant-v5", 5, actions)["observations"][2:]).all()


def test_nothing_is_loaded_and_nothing_is_complained_about(page: Page) -> None:
    assert page.errors() == []
    assert page.ask("performance.getEntriesByType('resource').map((entry) => entry.name)") == []
