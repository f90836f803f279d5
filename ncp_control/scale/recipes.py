"""The recipes of a sweep: they are checked before anything runs, and kept in the sweep's folder."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from ncp_control.base.files import write_atomically
from ncp_control.base.processes import INPUTS
from ncp_control.scale.plan import Setting

SUFFIXES = (".yml", ".yaml")
STEPS, EVAL_EVERY = "--steps", "--eval-every"


def check_trainings(settings: Sequence[Setting], options: Sequence[str]) -> None:
    """Raises ValueError if a training could not begin: makes the environments and the networks of each setting.

    :param options: the further words of every run
    """
    from ncp_control.base.plain_yaml import read_changes
    from ncp_control.rl.recipes.building import built
    from ncp_control.rl.recipes.recipe import load_recipe

    given = dict(pairwise(options))
    if int(given.get(EVAL_EVERY, 1)) < 1:
        raise ValueError(f"{EVAL_EVERY} must be at least 1, got {given[EVAL_EVERY]}")
    steps = {"n_timesteps": int(given[STEPS])} if STEPS in given else {}
    for setting in settings:
        changes = read_changes([f"{key}={value}" for key, value in (*setting.common, *setting.values)])
        recipe = load_recipe(setting.subject, changes | steps)
        with built(recipe):
            pass


def bring_recipe(source: str, root: Path) -> str:
    """Writes a recipe of one's own into the folder of a sweep, with what it is based on; returns its path there.

    It stays what it was when the sweep began, even if the file is changed later.

    :param source: a .yml file; the name of a shipped recipe is returned as it is
    :param root: the sweep's folder
    """
    import yaml

    from ncp_control.rl.recipes.recipe import read_values

    path = Path(source)
    if path.suffix not in SUFFIXES:
        return source
    recipe = read_values(path)
    kept = root / INPUTS / path.name
    if kept.exists():
        if read_values(kept) != recipe:
            raise ValueError(f"{source} is not what it was when this sweep began ({kept}): use another folder")
    else:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True).encode())
    return f"{INPUTS}/{path.name}"
