"""Teachers: how a word on the command line names one, and what its student's file says about it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm

from ncp_control.base.imports import import_named, search_working_folder
from ncp_control.data.batch_policies import FunctionPolicy, PredictPolicy
from ncp_control.data.minari_files import minari_folder
from ncp_control.data.sources import SUFFIXES, TABLES
from ncp_control.distil.recorded import Recorded
from ncp_control.distil.rsl_rl_files import load_rsl_rl
from ncp_control.distil.stock_files import load_model
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_file import load_policy

KINDS = (
    "a policy's .safetensors file, a .zip of Stable-Baselines3 with --algo NAME, a model_*.pt of rsl_rl, "
    "MODULE:FUNCTION, a function from observations (B, n) to actions (B, m), or a Minari dataset, its id or its folder"
)


def load_teacher(word: str, algo: str | None = None, normalize: str | Path | None = None) -> Any:
    """Returns the teacher that a word names: a model with `predict`, a function, or recorded episodes.

    Example::

        load_teacher("checkpoints/halfcheetah-teacher.safetensors")
        load_teacher("model.zip", algo="TQC", normalize="vecnormalize.pkl")
        load_teacher("my_controllers:swing_up")
        load_teacher("ncp/halfcheetah/expert-v0")

    :param word: a policy's `.safetensors` file; a `.zip` of Stable-Baselines3, of sb3-contrib, or of a recurrent
        algorithm of this package, from which loading runs code; a checkpoint `model_*.pt` of rsl_rl; `module:function`;
        or the Minari id or the folder of a dataset
    :param algo: the name of the algorithm that a `.zip` was trained with, such as "PPO"
    :param normalize: the file of the `VecNormalize` that the model in a `.zip` was trained under
    """
    path = Path(word)
    if path.suffix.lower() == ".zip":
        search_working_folder()
        return load_model(path, algo, None if normalize is None else Path(normalize))
    for option, value in (("--algo", algo), ("--normalize", normalize)):
        if value is not None:
            raise ValueError(f"{option} goes with a .zip of Stable-Baselines3, and {word!r} is none: leave it out")
    if path.suffix.lower() == ".safetensors":
        return load_policy(path)
    if path.suffix.lower() == ".pt":
        return load_rsl_rl(path)
    if (path / "best.safetensors").is_file():
        raise ValueError(f"{word!r} is a folder: name a file in it, such as {path / 'best.safetensors'}")
    if path.is_file() and path.suffix.lower() in TABLES:
        raise ValueError(
            f"{word!r} is a table, which does not say its environment, actions and rewards: record episodes with "
            "ncp-control collect, and name that dataset"
        )
    if holds_episodes(path) or (word and minari_folder(word)):
        return Recorded.load(word)
    module, colon, name = word.partition(":")
    if not (colon and module and name) or path.exists():
        raise ValueError(f"{word!r} is no teacher: give {KINDS}")
    return imported(module, name)


def holds_episodes(path: Path) -> bool:
    """Whether a path is that of a Minari dataset, or of traces of episodes."""
    if path.is_dir():
        kept = (path / "metadata.json", path / "data" / "metadata.json")
        return any(one.is_file() for one in kept) or any(one.suffix.lower() in SUFFIXES for one in path.iterdir())
    return path.is_file() and path.suffix.lower() in SUFFIXES


def imported(module: str, name: str) -> Any:
    """Imports a function, or an object with `predict`, from a module.

    :param module: the module
    :param name: the name of the function in the module
    """
    member = import_named(module, name, "teacher")
    if isinstance(member, type) or not is_teacher(member):
        what = "a class" if isinstance(member, type) else f"of the type {type(member).__name__}"
        raise ValueError(
            f"{module}:{name} is {what}: name a function from observations (B, n) to actions (B, m), or an object with "
            "Stable-Baselines3's predict"
        )
    return member


def is_teacher(teacher: Any) -> bool:
    """Whether something can act: a function, or a model with `predict`."""
    return callable(teacher) or callable(getattr(teacher, "predict", None))


def about_teacher(teacher: Any) -> dict[str, Any]:
    """Returns what is noted about a teacher, as JSON values; `Recorded.about` says it of recorded episodes.

    :param teacher: a policy of `load_policy`, a model of Stable-Baselines3, another object with `predict`, or a
        function
    :return: its `name`, its `kind`, the class of its `algorithm`, its `sha256`, and the id of the `env` that it was
        trained in; None for what is not known
    """
    if isinstance(teacher, str) or not is_teacher(teacher):
        raise TypeError(f"a teacher is a model with predict or a function, not {teacher!r}: load_teacher reads {KINDS}")
    algorithm = env = None
    if isinstance(teacher, LoadedPolicy):
        kind, algorithm, env = "policy file", teacher.note.get("algo"), teacher.note.get("env")
    elif isinstance(teacher, BaseAlgorithm):
        own = type(teacher)
        kind, algorithm, env = "Stable-Baselines3", f"{own.__module__.split('.')[0]}.{own.__name__}", env_of(teacher)
    elif hasattr(teacher, "predict"):
        kind, algorithm = "object with predict", f"{type(teacher).__module__}.{type(teacher).__qualname__}"
    else:
        kind = "function"
    policy: Any = FunctionPolicy(teacher) if kind == "function" else PredictPolicy(teacher)
    about = {
        "name": function_name(teacher) or policy.name,
        "kind": kind,
        "algorithm": algorithm,
        "sha256": policy.sha256,
        "env": env,
    }
    return {key: value if isinstance(value, str) else None for key, value in about.items()}


def function_name(function: Any) -> str | None:
    """Returns `module:function`, by which `load_teacher` finds a function again; None for a function without a place
    of its own in a module.
    """
    module, name = (getattr(function, key, None) for key in ("__module__", "__qualname__"))
    if not isinstance(name, str) or not module or module == "__main__" or "<" in name:
        return None
    return f"{module}:{name}"


def env_of(model: BaseAlgorithm) -> str | None:
    """Returns the id of the environment that a model has; None for a model that has none, or one without an id."""
    envs = model.get_env()
    if envs is not None:
        with suppress(AttributeError, NotImplementedError):  # vector environments of others need not have `get_attr`
            return getattr(envs.get_attr("spec")[0], "id", None)
    return None
