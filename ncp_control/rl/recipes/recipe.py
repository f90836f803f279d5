"""Recipes: how an agent is trained, as YAML in the style of rl-zoo.

A recipe names an environment (`env`), an algorithm (`algo`) and how long to train (`n_timesteps`); `n_envs`,
`env_kwargs`, `env_wrapper`, `normalize`, `policy` and `policy_kwargs` mean what they mean there, and what is left are
the algorithm's own arguments. `lin_3e-3` is a rate that falls linearly to zero. A recipe may be `based_on` another, of
which it says what differs. Nothing in a recipe is ever run as code.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any

from ncp_control.rl.recipes.plain_yaml import read_yaml
from ncp_control.wiring.plan_text import parse_plan

ALGORITHMS = ("RecurrentPPO", "RecurrentA2C", "RecurrentSAC", "RecurrentTD3", "PPO", "A2C", "SAC", "TD3", "DQN")
OFF_POLICY = ("RecurrentSAC", "RecurrentTD3", "SAC", "TD3", "DQN")
LINEAR = "lin_"


@dataclass
class Recipe:
    """How an agent is trained.

    :param env: the environment's id
    :param algo: one of `ALGORITHMS`
    :param n_timesteps: steps of training, of all environments together
    :param n_envs: environments side by side
    :param env_kwargs: arguments of the environment
    :param env_wrapper: wrappers of `ncp_envs` around each environment, the innermost first: names, or one-entry
        dictionaries from a name to its arguments
    :param normalize: False, True, or arguments of `VecNormalize`; its `gamma` is the algorithm's
    :param policy: the policy's name
    :param policy_kwargs: its arguments; `wiring` is a plan as text or a number of neurons
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
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.algo not in ALGORITHMS:
            raise ValueError(f"unknown algo {self.algo!r} in a recipe: choose one of {', '.join(ALGORITHMS)}")
        for key in ("env", "policy"):
            if not isinstance(getattr(self, key), str):
                raise ValueError(f"a recipe's {key} is text, and not {getattr(self, key)!r}")
        if not isinstance(self.normalize, bool | dict):
            raise ValueError(f"a recipe's normalize is true, false or a dictionary, and not {self.normalize!r}")
        for key in ("n_timesteps", "n_envs"):
            value = getattr(self, key)
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            if isinstance(value, bool) or not whole or value < 1:
                raise ValueError(f"a recipe's {key} is a whole number, at least 1, and not {value!r}")
            setattr(self, key, int(value))

    @property
    def is_off_policy(self) -> bool:
        """Whether the algorithm learns from a replay buffer."""
        return self.algo in OFF_POLICY

    def to_json(self) -> dict[str, Any]:
        """As it would be written in YAML: flat."""
        named = {key: value for key, value in vars(self).items() if key != "settings"}
        return {**named, **self.settings}


NAMED = tuple(key for key in Recipe.__dataclass_fields__ if key != "settings")


def shipped() -> list[str]:
    """The names of the recipes that come with the package."""
    folder = resources.files("ncp_control.rl.recipes")
    return sorted(path.name.removesuffix(".yml") for path in folder.iterdir() if path.name.endswith(".yml"))


def about(name: str) -> str:
    """What a recipe that comes with the package is for: the first line of its file."""
    return text_of(name)[0].splitlines()[0].lstrip("# ")


def load_recipe(source: str | Path, changes: dict[str, Any] | None = None) -> Recipe:
    """Reads a recipe.

    :param source: the name of a shipped one, or the path of a `.yml` file
    :param changes: values by key that replace the recipe's; "policy_kwargs.cell" reaches into a dictionary
    """
    flat = read(source)
    for key, value in (changes or {}).items():
        change(flat, key, value)
    missing = [key for key in ("env", "algo", "n_timesteps") if key not in flat]
    if missing:
        raise ValueError(f"the recipe {str(source)!r} does not say its {' and '.join(missing)}")
    named = {key: flat.pop(key) for key in NAMED if key in flat}
    for key, kind in (("env_kwargs", dict), ("policy_kwargs", dict), ("env_wrapper", list)):
        if not isinstance(named.get(key, kind()), kind):
            what = "list" if kind is list else "dictionary"
            raise ValueError(f"{key} of the recipe {str(source)!r} is a {what}, and not {named[key]!r}")
    return Recipe(**named, settings=flat)


def read(source: str | Path, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """A recipe's keys and values, those of the recipe that it is based on included."""
    text, where = text_of(source)
    if where in seen:
        raise ValueError(f"the recipe {where} is based on itself")
    found = read_yaml(text, where)
    if not isinstance(found, dict):
        raise ValueError(f"{where} is no recipe: it should be a list of keys and values, such as env: CartPole-v1")
    base = found.pop("based_on", None)
    if base is not None and not isinstance(base, str):
        raise ValueError(f"{where} is based on {base!r}, which is no recipe's name")
    return found if base is None else merged(read(base, (*seen, where)), found)


def text_of(source: str | Path) -> tuple[str, str]:
    """The YAML of a recipe, and what to call it."""
    path = Path(source)
    if path.suffix in (".yml", ".yaml"):
        if not path.is_file():
            raise FileNotFoundError(f"there is no recipe at {path}")
        try:
            return path.read_text(encoding="utf-8"), str(path)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not text: {error}") from error
    if str(source) not in shipped():
        near = get_close_matches(str(source), shipped(), 3, cutoff=0.7)
        advice = f"did you mean {' or '.join(near)}?" if near else f"give a .yml file, or one of {', '.join(shipped())}"
        raise ValueError(f"there is no recipe {str(source)!r}: {advice}")
    file = resources.files("ncp_control.rl.recipes") / f"{source}.yml"
    return file.read_text(encoding="utf-8"), str(source)


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The base, with what the other says in its place; dictionaries are merged entry by entry."""
    found = copy.deepcopy(base)
    for key, value in over.items():
        both = isinstance(found.get(key), dict) and isinstance(value, dict)
        found[key] = merged(found[key], value) if both else value
    return found


def change(flat: dict[str, Any], key: str, value: Any) -> None:
    """Sets one value, by a key such as "policy_kwargs.cell"."""
    *path, last = key.split(".")
    inner = flat
    for name in path:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{key} cannot be set: {name} is not a dictionary in this recipe")
    inner[last] = value


def read_changes(words: list[str]) -> dict[str, Any]:
    """Changes written as KEY=VALUE, the value as in YAML."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ValueError(f"a change is KEY=VALUE, such as policy_kwargs.cell=cfc, and not {word!r}")
        found[key] = read_yaml(value, word)
    return found


def number(value: Any) -> Any:
    """A number that YAML takes for text, such as 3e-4; a falling rate; or the value itself; also in dictionaries."""
    if isinstance(value, dict):
        return {key: number(own) for key, own in value.items()}
    if not isinstance(value, str):
        return value
    is_linear = value.startswith(LINEAR)
    try:
        first = float(value.removeprefix(LINEAR))
    except ValueError:
        return value
    return Linear(first) if is_linear else first


@dataclass(frozen=True)
class Linear:
    """A rate that falls linearly to zero, as a function of the share of training that is left."""

    first: float

    def __call__(self, left: float) -> float:
        return left * self.first


def policy_arguments(described: dict[str, Any]) -> dict[str, Any]:
    """A policy's arguments from a recipe's: plans built, classes looked up by name."""
    from ncp_control.rl.files.policy_file import ACTIVATIONS
    from ncp_control.rl.policies.extractor import NCPExtractor

    found: dict[str, Any] = number(copy.deepcopy(described))
    classes: dict[str, dict[str, Any]] = {
        "activation_fn": ACTIVATIONS,
        "features_extractor_class": {"NCPExtractor": NCPExtractor},
    }
    for key, known in classes.items():
        if key in found:
            if not isinstance(found[key], str) or found[key] not in known:
                raise ValueError(f"unknown {key} {found[key]!r} in a recipe: choose one of {', '.join(known)}")
            found[key] = known[found[key]]
    given = found.get("features_extractor_kwargs", {})
    if not isinstance(given, dict):
        raise ValueError(f"features_extractor_kwargs of a recipe is a dictionary, and not {given!r}")
    for where in (found, given):
        if isinstance(where.get("wiring"), str):
            where["wiring"] = parse_plan(where["wiring"])
    return found
