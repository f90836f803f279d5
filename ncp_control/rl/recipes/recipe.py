"""Recipes: how an agent is trained, as YAML in the style of rl-zoo.

A recipe names an environment (`env`), an algorithm (`algo`) and how long to train (`n_timesteps`). The keys `n_envs`,
`env_kwargs`, `env_wrapper`, `normalize`, `policy` and `policy_kwargs` mean the same as in rl-zoo, except that
`env_wrapper` names wrappers of `ncp_envs` only, without their module. `also_evaluate` and `updates_per_step` exist here
only. All other keys are arguments of the algorithm.
`lin_3e-3` is a rate that falls linearly to zero. A recipe may be `based_on` another, and then contains only the
differences. Nothing in a recipe is ever run as code, and no module that it names is imported.
"""

from __future__ import annotations

import copy
import math
import re
import warnings
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from ncp_control.base.callers import level_outside
from ncp_control.base.plain_yaml import read_yaml
from ncp_control.base.values import Linear as Linear
from ncp_control.base.values import read_number as read_number
from ncp_control.base.values import shortened
from ncp_control.rl.recipes.limits import read_limited

OFF_POLICY = ("RecurrentSAC", "RecurrentTD3", "SAC", "TQC", "CrossQ", "TD3", "DQN")
ALGORITHMS = ("RecurrentPPO", "RecurrentA2C", "PPO", "A2C", *OFF_POLICY)
# The recipes for any environment, by their algorithms; the first one is for a training that names none.
DEFAULTS = {"RecurrentPPO": "default", "RecurrentSAC": "default-sac", "PPO": "default-mlp", "SAC": "default-sac-mlp"}
OWN_MODULES = ("", "ncp_envs")  # of an environment's id, which no user has to name
FORMER = ("-novel", "-positions")  # a part of recipes' names, as it was and as it is
NUMBERS = ("n_timesteps", "n_envs", "updates_per_step")
KINDS: dict[str, tuple[Any, str]] = {
    "env": (str, "text"),
    "env_kwargs": (dict, "a dictionary"),
    "env_wrapper": (list, "a list"),
    "normalize": ((bool, dict), "true, false or a dictionary"),
    "policy": (str, "text"),
    "policy_kwargs": (dict, "a dictionary"),
    "also_evaluate": (dict, "a dictionary from names, such as undisturbed, to lists of wrappers"),
}


@dataclass
class Recipe:
    """How an agent is trained.

    :param env: the environment's id
    :param algo: one of `ALGORITHMS`
    :param n_timesteps: steps of training, counted over all environments together
    :param n_envs: environments that run side by side
    :param env_kwargs: the environment's arguments
    :param env_wrapper: wrappers from `ncp_envs` around each environment, the innermost first: names, or dictionaries
        with one entry, from a name to the wrapper's arguments
    :param normalize: False, True, or arguments of `VecNormalize`, whose `gamma` is by default the algorithm's
    :param policy: the policy's name
    :param policy_kwargs: the policy's arguments; `wiring` is a plan as text or a number of neurons
    :param also_evaluate: further environments for the evaluations: the wrappers around each of them, by its name. The
        best policy is chosen in the environment of the training
    :param updates_per_step: for an algorithm with a replay buffer: updates for each step of an environment, instead of
        `gradient_steps`; so `n_envs` changes how many of them are made in a row, and not their number
    :param settings: the algorithm's own arguments
    """

    env: str
    algo: str
    n_timesteps: int
    n_envs: int = 1
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    env_wrapper: list[Any] = field(default_factory=list)
    normalize: bool | dict[str, Any] = False
    policy: str = "NCPPolicy"
    policy_kwargs: dict[str, Any] = field(default_factory=dict)
    also_evaluate: dict[str, list[Any]] = field(default_factory=dict)
    updates_per_step: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.algo not in ALGORITHMS:
            raise ValueError(f"unknown algo {self.algo!r} in a recipe: choose one of {', '.join(ALGORITHMS)}")
        for key, (kind, words) in KINDS.items():
            value = getattr(self, key)
            if not isinstance(value, kind) or (key == "also_evaluate" and not all(map(is_named_list, value.items()))):
                raise ValueError(f"a recipe's {key} must be {words}, not {shortened(value)}")
        for key in NUMBERS:  # of which YAML reads some, such as 1e6, as text
            setattr(self, key, read_limited(key, getattr(self, key), "a recipe's"))

    @property
    def algorithm_settings(self) -> dict[str, Any]:
        """The algorithm's own arguments, with the `gradient_steps` that `updates_per_step` asks for."""
        if self.updates_per_step is None:
            return self.settings
        if not self.is_off_policy:
            raise ValueError(f"updates_per_step is for algorithms with a replay buffer, and {self.algo} has none")
        taken = [key for key in ("gradient_steps", "train_freq") if key in self.settings]
        if taken:
            raise ValueError(f"a recipe has either updates_per_step or {taken[0]}: leave out one of them")
        updates = self.updates_per_step * self.n_envs
        if not math.isclose(updates, round(updates)):  # 0.28 * 25 is 7.000000000000001
            raise ValueError(
                f"updates_per_step {self.updates_per_step:g} with n_envs {self.n_envs} would be {updates:g} updates at "
                "a time, which is not a whole number: change n_envs"
            )
        return {**self.settings, "gradient_steps": round(updates)}

    @property
    def is_off_policy(self) -> bool:
        """Whether the algorithm learns from a replay buffer."""
        return self.algo in OFF_POLICY

    def to_json(self) -> dict[str, Any]:
        """Returns the recipe as one flat dictionary, as it is written in YAML."""
        # Without the newer keys that are not used, so that the record of an earlier version's run stays the same.
        unused = {"settings", *(key for key in ("also_evaluate", "updates_per_step") if not getattr(self, key))}
        named = {key: value for key, value in vars(self).items() if key not in unused}
        return {**named, **self.settings}


def is_named_list(item: tuple[str, Any]) -> bool:
    """Whether an entry of a dictionary is a list, with a name that can be that of a column."""
    return re.fullmatch("[a-z][a-z0-9_]*", item[0]) is not None and isinstance(item[1], list)


NAMED = tuple(key for key in Recipe.__dataclass_fields__ if key != "settings")


def shipped() -> list[str]:
    """Returns the names of the recipes that come with the package."""
    folder = resources.files("ncp_control.rl.recipes")
    return sorted(path.name.removesuffix(".yml") for path in folder.iterdir() if path.name.endswith(".yml"))


def about(name: str) -> str:
    """Returns what a shipped recipe is for: the comment in the first line of its file."""
    return text_of(name)[0].splitlines()[0].lstrip("# ")


def default_for(algo: str | None = None) -> str:
    """Returns the name of the recipe for any environment.

    :param algo: the algorithm; None for that of most trainings
    """
    name = DEFAULTS.get(algo or next(iter(DEFAULTS)))
    if name is None:
        raise ValueError(
            f"there are no settings of {algo} for any environment: choose {', '.join(DEFAULTS)}, or write a recipe "
            f"(`ncp-control train show {next(iter(DEFAULTS.values()))}` prints one to begin with)"
        )
    return name


def load_recipe(source: str | Path, changes: dict[str, Any] | None = None) -> Recipe:
    """Reads a recipe.

    An environment's id that makes Gymnasium import a module, `module:id`, is refused in a file, because a file must not
    choose which code runs; give it among the changes.

    :param source: the name of a shipped recipe, or the path of a `.yml` file
    :param changes: new values by key; a key such as "policy_kwargs.cell" reaches into a dictionary
    """
    flat = changed_values(source, changes or {})
    if source in DEFAULTS.values() and "env" not in flat:
        raise ValueError(f"the recipe {source} is for any environment: name one, such as --env InvertedPendulum-v5")
    missing = [key for key in ("env", "algo", "n_timesteps") if key not in flat]
    if missing:
        raise ValueError(f"the recipe {str(source)!r} needs {' and '.join(missing)}")
    named = {key: flat.pop(key) for key in NAMED if key in flat}
    return Recipe(**named, settings=flat)


def recipe_text(source: str | Path, changes: dict[str, Any]) -> str:
    """Returns a recipe as YAML to copy: with the values of the recipe that it is based on, and with changes.

    :param source: the name of a shipped recipe, or the path of a `.yml` file
    :param changes: new values by key, as for `load_recipe`
    """
    comments = takewhile(lambda line: line.startswith("#"), text_of(source)[0].splitlines())
    values = changed_values(source, changes)
    text = yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
    return "\n".join([*comments, text.rstrip()])


def changed_values(source: str | Path, changes: dict[str, Any]) -> dict[str, Any]:
    """Returns a recipe's keys and values after changes; see `load_recipe`."""
    flat = read_values(source)
    if "env" not in changes and isinstance(env := flat.get("env"), str):
        refuse_import(env, f"the recipe {str(source)!r} trains in {env}", f"--env {env}")
    # A whole dictionary comes before its entries, and a cell before its settings.
    order = {key: (key.count("."), not key.endswith(".cell")) for key in changes}
    for key, value in sorted(changes.items(), key=lambda change: order[change[0]]):
        set_value(flat, key, value)
    return flat


def refuse_import(env: str, what: str, fix: str) -> None:
    """Refuses an environment's id that was read from a file and makes Gymnasium import a module.

    :param env: the id
    :param what: the beginning of the sentence, such as "the policy was trained in module:id"
    :param fix: the word on the command line with which a user names the module
    """
    module = env.rpartition(":")[0]
    if module not in OWN_MODULES:
        raise ValueError(f"{what}: if importing {module} is safe, add {fix}")


def read_values(source: str | Path, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """Reads a recipe's keys and values, and those of the recipe that it is based on.

    :param source: a name or a path
    :param seen: the recipes that are based on this one
    """
    text, where = text_of(source)
    if where in seen:
        raise ValueError(f"the recipe {where} is based on itself")
    values = read_yaml(text, where)
    if not isinstance(values, dict):
        raise ValueError(f"{where} is not a recipe: it should consist of keys and values, such as env: CartPole-v1")
    base = values.pop("based_on", None)
    if base is not None and not isinstance(base, str):
        raise ValueError(f"{where} is based on {base!r}, which is not the name of a recipe")
    return values if base is None else merged(read_values(base, (*seen, where)), values)


def text_of(source: str | Path) -> tuple[str, str]:
    """Returns the YAML of a recipe, and its name for error messages."""
    path = Path(source)
    if path.suffix in (".yml", ".yaml"):
        if not path.is_file():
            raise FileNotFoundError(f"there is no recipe at {path}")
        try:
            return path.read_text(encoding="utf-8"), str(path)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not text: {error}") from error
    name = str(source).replace(*FORMER)
    if name not in shipped():
        near = get_close_matches(name, shipped(), 3, cutoff=0.7)
        advice = f"did you mean {' or '.join(near)}?" if near else f"give a .yml file, or one of {', '.join(shipped())}"
        if ":" in name or re.search(r"-v\d+$", name):
            advice = f"name an environment with `train --env {name}`, or with `sweep default --set env={name}`"
        raise ValueError(f"there is no recipe {str(source)!r}: {advice}")
    if name != source:
        warnings.warn(
            f"the recipe {source} is now {name}; the old name will go with 0.3", FutureWarning, level_outside()
        )
    file = resources.files("ncp_control.rl.recipes") / f"{name}.yml"
    return file.read_text(encoding="utf-8"), name


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Returns the base with the values of `over` in place of its own; dictionaries are merged entry by entry."""
    result = copy.deepcopy(base)
    if "cell" in over:  # first, because it may remove settings that `over` then sets anew
        set_cell(result, over["cell"])
    for key, value in over.items():
        both = isinstance(result.get(key), dict) and isinstance(value, dict)
        result[key] = merged(result[key], value) if both else value
    return result


def set_value(flat: dict[str, Any], key: str, value: Any) -> None:
    """Sets one value in a recipe, by a key such as "policy_kwargs.cell"; see `set_cell` for a cell."""
    *path, last = key.split(".")
    inner = flat
    for name in path:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{key} cannot be set: {name} is not a dictionary in this recipe")
    if last == "cell":
        set_cell(inner, value)
    else:
        inner[last] = value


def set_cell(arguments: dict[str, Any], cell: Any) -> None:
    """Sets the cell among a policy's arguments; another cell's settings, which it may not know, go."""
    if cell != arguments.get("cell"):
        arguments.pop("cell_kwargs", None)
    arguments["cell"] = cell
