"""Recipes as YAML: how they are read, changed and based on one another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.small_recipes import recipe_file
from ncp_control.base.plain_yaml import read_changes
from ncp_control.cli import main
from ncp_control.rl.recipes.recipe import ALGORITHMS, Recipe, load_recipe, shipped


def test_a_recipe_may_build_on_another(tmp_path: Path) -> None:
    base = recipe_file(tmp_path)
    child = tmp_path / "child.yml"
    child.write_text(f"based_on: {base}\nn_timesteps: 99\npolicy_kwargs: {{cell: cfc}}\n")
    found, whole = load_recipe(child), load_recipe(base)
    assert (found.n_timesteps, found.policy_kwargs["cell"]) == (99, "cfc")
    assert found.policy_kwargs["wiring"] == whole.policy_kwargs["wiring"]
    assert found.settings == whole.settings
    base.write_text(f"based_on: {child}\n")
    with pytest.raises(ValueError, match="is based on itself"):
        load_recipe(child)


def test_wrong_recipes_and_changes_are_refused_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["train", "half-cheetah"]) == 2
    assert "there is no recipe 'half-cheetah': did you mean halfcheetah or" in capsys.readouterr().err
    assert main(["train", "zzz"]) == 2
    assert "there is no recipe 'zzz': give a .yml file, or one of" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "none.yml")]) == 2
    assert "there is no recipe at" in capsys.readouterr().err
    assert main(["train", shipped()[0], "--set", "gamma:1"]) == 2
    assert "write a change as KEY=VALUE" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    assert main(["train", str(recipe_file(tmp_path)), "--out", str(tmp_path / "full")]) == 2
    assert "is not empty, and holds no run" in capsys.readouterr().err
    assert main(["train", "list"]) == 0
    recipes, algorithms = (part.splitlines() for part in capsys.readouterr().out.split("\n\n"))
    assert [line.split()[0] for line in recipes if line[0] != " "] == shipped()
    assert max(map(len, [*recipes, *algorithms])) <= 80
    assert set(ALGORITHMS) <= set(" ".join(algorithms).replace(",", "").rstrip(".").split())


@pytest.mark.parametrize(
    "word",
    [
        "policy_kwargs.cell_kwargs.time_constants=(0.05, 4)",
        "policy_kwargs.cell_kwargs={time_constants: (0.05, 4)}",
        "policy_kwargs={cell_kwargs: {time_constants: [0.05, 4]}}",
    ],
)
def test_a_range_in_the_settings_of_a_cell_may_be_a_tuple(word: str, tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path), read_changes([word]))
    assert recipe.policy_kwargs["cell_kwargs"]["time_constants"] == [0.05, 4]


def test_a_recipes_former_name_warns() -> None:
    with pytest.warns(FutureWarning, match="pendulum-novel-sac is now pendulum-positions-sac; the old name will go"):
        assert load_recipe("pendulum-novel-sac") == load_recipe("pendulum-positions-sac")


def test_a_recipe_is_json() -> None:
    for name in shipped():
        json.dumps(load_recipe(name, {"env": "CartPole-v1"}).to_json())
    flat = load_recipe("halfcheetah-positions").to_json()
    assert flat["gae_lambda"] == 0.95
    assert isinstance(load_recipe("halfcheetah-positions"), Recipe)


def test_another_cell_drops_the_settings_of_the_one_before(tmp_path: Path) -> None:
    base = {"activation": "tanh", "signed": True, "init": "calibrated"}
    assert load_recipe("halfcheetah-positions").policy_kwargs["cell_kwargs"] == base
    assert "cell_kwargs" not in load_recipe("halfcheetah-positions", {"policy_kwargs.cell": "cfc"}).policy_kwargs
    assert (
        load_recipe("halfcheetah-positions", {"policy_kwargs.cell": "neuralltc"}).policy_kwargs["cell_kwargs"] == base
    )
    changes = {"policy_kwargs.cell_kwargs.unfolds": 2, "policy_kwargs.cell": "ltc"}
    for given in (changes, dict(reversed(changes.items()))):
        assert load_recipe("halfcheetah-positions", given).policy_kwargs["cell_kwargs"] == {"unfolds": 2}
    own = tmp_path / "own.yml"
    own.write_text("based_on: halfcheetah-positions\npolicy_kwargs:\n  cell: cfc\n  cell_kwargs: {mode: pure}\n")
    assert load_recipe(own).policy_kwargs["cell_kwargs"] == {"mode": "pure"}


def test_a_change_of_an_entry_holds_beside_a_change_of_its_whole_dictionary() -> None:
    changes = {"policy_kwargs": {"cell": "gru", "wiring": 8}, "policy_kwargs.cell": "ltc"}
    for given in (changes, dict(reversed(changes.items()))):
        assert load_recipe("recall", given).policy_kwargs == {"cell": "ltc", "wiring": 8}
