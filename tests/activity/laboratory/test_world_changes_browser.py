"""What an experiment changes in a world of a page is what the same change does in Python."""

from typing import Any

import numpy as np
import pytest

from helpers.browser_page import Page
from helpers.simulator import open_worlds, played
from helpers.worlds import BODIES, CHEETAH, actions_for, change_model, check, environments, in_python
from ncp_control.rl.recipes.env_making import make_env

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def envs() -> dict[str, Any]:
    return environments()


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory, envs: dict[str, Any]) -> Page:
    return open_worlds(browser, tmp_path_factory.mktemp("worlds"), envs)


@pytest.mark.parametrize("name", [f"{name}-v5" for name in BODIES])
@pytest.mark.parametrize("factors", [(0.2, 1, 1), (1, 0.4, 1), (1, 1, 3), (2, 1.5, 0.5)])
def test_friction_gravity_and_mass_are_those_of_a_changed_model(page: Page, name: str, factors: Any) -> None:
    env = make_env(name)
    change_model(env.unwrapped.model, *factors)
    actions = actions_for(env, 30)
    settings = dict(zip(("friction", "gravity", "mass"), factors, strict=True))
    check(played(page, name, 1, actions, settings), in_python(env, 1, actions))


def test_factors_of_one_put_a_model_back_bit_for_bit(page: Page, envs: dict[str, Any]) -> None:
    for name in ("changed", "Ant-v5", "Walker2d-v5"):
        actions = actions_for(envs[name])
        strange = {"friction": 0.1, "gravity": 3, "mass": 7}
        before = played(page, name, 2, actions)
        after = played(page, name, 2, actions, strange, changes={0: {}})
        # The start itself is the same, because nothing has moved yet.
        assert (after["observations"][1:] == before["observations"][1:]).all()


def test_all_that_a_mass_changes_is_known_to_the_page(page: Page) -> None:
    known = set(page.ask("lab.MASSES"))
    for name in BODIES:
        before, after = (make_env(f"{name}-v5").unwrapped.model for _ in range(2))
        change_model(after, 1, 1, 3)
        changed = {
            field
            for field in dir(before)
            if isinstance(getattr(before, field), np.ndarray)
            and not np.allclose(getattr(before, field), getattr(after, field), rtol=1e-12)
        }
        looks = {field for field in changed if field.startswith(("cam_", "light_"))}
        assert "body_subtreemass" in changed
        assert changed - looks <= known, name


def test_a_model_that_was_changed_in_python_is_changed_in_the_page(page: Page, envs: dict[str, Any]) -> None:
    actions = actions_for(envs["changed"])
    found = played(page, "changed", 0, actions)
    check(found, in_python(envs["changed"], 0, actions))
    assert np.abs(found["observations"] - played(page, CHEETAH, 0, actions)["observations"]).max() > 0.1


def test_settings_change_in_the_middle_of_an_episode(page: Page, envs: dict[str, Any]) -> None:
    env = make_env(CHEETAH)
    actions = actions_for(env)

    def before(step: int) -> None:
        if step in (6, 12):
            env.unwrapped.model.opt.gravity[:] *= 3 if step == 6 else 1 / 3

    found = played(page, CHEETAH, 8, actions, changes={6: {"gravity": 3}, 12: {}})
    check(found, in_python(env, 8, actions, before))


def test_a_delay_that_begins_late_repeats_the_last_action_and_one_that_ends_leaves_actions_out(
    page: Page, envs: dict[str, Any]
) -> None:
    actions = actions_for(envs[CHEETAH], 9)
    found = played(page, CHEETAH, 8, actions, changes={3: {"delay": 2}, 7: {}})["executed"]
    assert (found == actions[[0, 1, 2, 2, 2, 3, 4, 7, 8]]).all()


def test_a_push_is_a_force_during_four_steps(page: Page) -> None:
    env = make_env("Ant-v5")
    unwrapped: Any = env.unwrapped
    actions = actions_for(env)
    part = unwrapped.model.body("aux_3").id

    def before(step: int) -> None:
        unwrapped.data.xfrc_applied[part, :3] = (30, -40, 5) if 5 <= step < 9 else 0

    found = played(page, "Ant-v5", 8, actions, pushes={5: ["aux_3", [30, -40, 5]]})
    check(found, in_python(env, 8, actions, before))
    with pytest.raises(Exception, match="no part tail of the body"):
        played(page, "Ant-v5", 8, actions, pushes={5: ["tail", [1, 0, 0]]})


def test_a_second_push_takes_the_place_of_the_first(page: Page) -> None:
    env = make_env("Hopper-v5")
    unwrapped: Any = env.unwrapped
    actions = actions_for(env, 12, size=0.2)

    def before(step: int) -> None:
        unwrapped.data.xfrc_applied[1, 0] = 20 if 2 <= step < 4 else -10 if 4 <= step < 8 else 0

    found = played(page, "Hopper-v5", 8, actions, pushes={2: ["torso", [20, 0, 0]], 4: ["torso", [-10, 0, 0]]})
    check(found, in_python(env, 8, actions, before))


def test_hidden_observations_read_their_means(page: Page, envs: dict[str, Any]) -> None:
    actions, means = actions_for(envs[CHEETAH]), [k / 10 for k in range(17)]
    plain = played(page, CHEETAH, 8, actions)["observations"]
    hidden = played(page, CHEETAH, 8, actions, {"hidden": [2, 16]}, means)["observations"]
    assert (hidden[:, [2, 16]] == [0.2, 1.6]).all()
    assert (np.delete(hidden, [2, 16], axis=1) == np.delete(plain, [2, 16], axis=1)).all()
    assert (played(page, CHEETAH, 8, actions, {"hidden": [2]})["observations"][:, 2] == 0).all()
