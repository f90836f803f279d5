"""Recipes of unfinished runs that version 0.1 began, where they meant something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ncp_control.base.run_folder import RECORD, read_record
from ncp_control.rl.policies.circuit import CELL_OF_0_1
from ncp_control.rl.recipes.recipe import Recipe


def with_cell_of_run(recipe: Recipe, folder: Path) -> Recipe:
    """Names the cell if the run in a folder is one of version 0.1, whose circuits without a named cell were LTCs.

    :param recipe: what is trained
    :param folder: the run's folder, which need not exist
    """
    record = folder / RECORD
    if recipe.policy != "NCPPolicy" or "cell" in recipe.policy_kwargs or not record.exists():
        return recipe
    begun = read_record(record).get("versions")
    if isinstance(begun, dict) and str(begun.get("ncp-control")).startswith("0.1."):
        return replace(recipe, policy_kwargs={"cell": CELL_OF_0_1, **recipe.policy_kwargs})
    return recipe
