"""Mutated recipes: each is refused with a sentence or gives a recipe of plain values."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from helpers.command_line import ROOT
from helpers.fuzzing import examine
from helpers.mutations import altered, damaged

RECIPES = (
    """
env: ncp/PendulumNoVel-v0
algo: RecurrentPPO
n_timesteps: 512
n_envs: 2
normalize: {norm_reward: false, clip_obs: 5.0}
env_wrapper:
- ObservationNoise: {std: 0.1}
policy_kwargs:
  wiring: AutoNCP(9, 3)
  critic: lstm
  features_extractor_kwargs: {wiring: "GapJunctions(AutoNCP(9, 3), 2)"}
learning_rate: lin_3e-3
""",
    "based_on: halfcheetah-positions\nn_timesteps: 100000\npolicy_kwargs: &them {cell: cfc}\nmore: *them\n",
)
BOMB = "a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join(['*' + before] * 9)}], {name}: 1}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
WRONG_YAML = (
    BOMB, MERGES, "a: &a [*a]", "a: &a {b: *a}", "[" * 600, "a: " * 400, "a: 2001-99-99", "a: !!timestamp x",
    "a: !!binary x", "a: " + "9" * 5000, "a: .nan", "? [1]\n: 2", "1: 2", "a: {1: 2}", "a: !!set {b, c}",
    "a: !!python/name:os.system", "env: 5", "algo: [PPO]", "n_timesteps: .inf", "policy: {}", "normalize: 3",
    "based_on: 7", "based_on: [a]", "policy_kwargs: {features_extractor_kwargs: 3}",
    "policy_kwargs: {activation_fn: [1]}",
    "\ud800", "\x00",
)  # fmt: skip


def read_recipe(path: Path) -> Any:
    """Reads a recipe, and builds everything from it that needs no environment."""
    pytest.importorskip("sb3_contrib")
    from ncp_control.rl.recipes.building import policy_arguments
    from ncp_control.rl.recipes.recipe import load_recipe

    try:
        recipe = load_recipe(path)
        policy_arguments(recipe.policy_kwargs)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error  # some errors name a value, not the file
    return recipe


def test_a_mutated_recipe(times: int, place: Path) -> None:
    def mutate(random: Random) -> bytes:
        text = random.choice(RECIPES)
        change = random.random()
        if change < 0.1:
            return (text + random.choice(WRONG_YAML)).encode("utf-8", "surrogatepass")
        if change < 0.2:
            return random.choice(WRONG_YAML).encode("utf-8", "surrogatepass")
        if change < 0.6:
            return yaml.safe_dump(altered(yaml.safe_load(text), random)).encode("utf-8", "surrogatepass")
        return damaged(text.encode(), random, random.choice(RECIPES).encode())

    def whole(recipe: Any) -> bool:
        return len(json.dumps(recipe.to_json())) < 10**6

    found = examine(300 * times, place / "mutated.yml", mutate, read_recipe, whole)
    assert min(found.values()) > 0


def test_odd_values_end_in_a_training_or_in_one_sentence(times: int) -> None:
    """A small version of what scripts/stress/recipes.py runs."""
    pytest.importorskip("sb3_contrib")
    path = ROOT / "scripts" / "stress" / "recipes.py"
    spec = importlib.util.spec_from_file_location("stress_recipes", path)
    assert spec is not None
    assert spec.loader is not None
    stress = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stress)
    counts, faults = stress.stress(range(40 * times))
    assert not faults, "\n".join(faults)
    assert counts["trained"] > 0
    assert counts["refused"] > 0
