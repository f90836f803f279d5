"""Reading the `.zip` files of Stable-Baselines3, whose models may be teachers.

Such a file holds pickles, so that loading it runs code from it. What the file is, its settings tell before that.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import sb3_contrib
import stable_baselines3
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from ncp_control.base.progress import say
from ncp_control.base.safe_arrays import BROKEN
from ncp_control.rl.off_policy import RecurrentSAC, RecurrentTD3
from ncp_control.rl.on_policy import RecurrentA2C, RecurrentPPO

Settings = dict[str, Any]
Kind = type[BaseAlgorithm]
ALGORITHMS: dict[str, Kind] = {
    kind.__name__: kind
    for kind in (
        stable_baselines3.PPO, stable_baselines3.A2C, stable_baselines3.SAC, stable_baselines3.TD3,
        stable_baselines3.DDPG, stable_baselines3.DQN, sb3_contrib.TQC, sb3_contrib.CrossQ, sb3_contrib.QRDQN,
        sb3_contrib.TRPO, sb3_contrib.ARS, sb3_contrib.RecurrentPPO, RecurrentA2C, RecurrentSAC, RecurrentTD3,
    )
}  # fmt: skip
OURS = "sequence"  # a setting of our RecurrentPPO, which sb3-contrib's does not have
# Algorithms whose policies are of the same classes are told apart by a setting that only the one has.
TELLING = {"PPO": "clip_range", "TRPO": "cg_max_steps", "RecurrentSAC": "ent_coef", "RecurrentTD3": "policy_delay"}


def load_model(path: Path, algo: str | None, normalize: Path | None = None) -> Any:
    """Loads a model, with its observations' normalisation; says first that this runs code.

    :param path: the `.zip`, of Stable-Baselines3, of sb3-contrib, or of a recurrent algorithm of this package
    :param algo: the name of the algorithm; capitals do not matter
    :param normalize: the file of the `VecNormalize` that the model was trained under
    """
    settings = read_settings(path)
    kind = algorithm_of(path, settings, algo)
    if normalize is not None and not normalize.is_file():
        raise FileNotFoundError(f"there is no VecNormalize at {normalize}")
    warn_of_code(path, normalize)
    try:
        with torch.random.fork_rng(devices=[]):
            model: Any = kind.load(path, device="cpu", custom_objects=without_training(settings))
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{path} cannot be loaded, because there is no module {error.name!r}: run this in the folder of "
            f"{error.name}.py, or set PYTHONPATH to that folder"
        ) from error
    except Exception as error:  # unpickling runs code of others, which can raise anything
        raise ValueError(
            f"{path} cannot be loaded as a model of {kind.__name__}, or is damaged ({words_of(error)}): save it again "
            "with the versions of its packages that are installed here"
        ) from error
    model.name = path.stem
    if normalize is not None:
        add_normalization(model, path, normalize)
    return model


def warn_of_code(path: Path, normalize: Path | None) -> None:
    """Says that loading a model, and its `VecNormalize` if it has one, runs code from the files."""
    files, them = (path, "it") if normalize is None else (f"{path} and {normalize}", "them")
    say(f"loading {files} runs code from {them}: load only files whose origin you know")


def read_settings(path: Path) -> Settings:
    """Returns the settings of a model as they stand in its file, pickles unread."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no model at {path}")
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            missing = {"data", "policy.pth"} - set(archive.namelist())
            if missing:
                raise ValueError(f"it has no {' and no '.join(sorted(missing))}")
            settings = json.loads(archive.read("data"))
        if not isinstance(settings, dict):
            raise ValueError("its data are no settings")
    except PermissionError:
        raise
    except BROKEN as error:
        raise ValueError(
            f"{path} is no file that a model of Stable-Baselines3 was saved in, or was cut short ({words_of(error)}): "
            "name such a file, or copy it again"
        ) from error
    return settings


def algorithm_of(path: Path, settings: Settings, algo: str | None) -> Kind:
    """Returns the class of an algorithm, if the file's settings may be of this algorithm.

    :param path: the file, for messages
    :param settings: the settings in it
    :param algo: the name of the algorithm
    """
    writers = writers_of(settings)
    if algo is None:
        given = " or ".join(writers) if writers else "NAME"
        raise ValueError(f"add the algorithm that {path} was trained with, --algo {given}: one of {every_name()}")
    name = {name.lower(): name for name in ALGORITHMS}.get(algo.lower())
    if name is None:
        raise ValueError(f"there is no algorithm {algo!r} to load {path} with: choose one of {every_name()}")
    if writers and name not in writers:
        raise ValueError(f"{path} was saved by {' or '.join(writers)}, not by {name}: add --algo {writers[0]}")
    return class_of(name, settings)


def every_name() -> str:
    """Returns the names of all algorithms, as messages list them."""
    return ", ".join(ALGORITHMS)


def class_of(name: str, settings: Settings) -> Kind:
    """Returns the class of an algorithm; of the two RecurrentPPO, the one that has the file's settings."""
    return RecurrentPPO if name == "RecurrentPPO" and OURS in settings else ALGORITHMS[name]


def writers_of(settings: Settings) -> list[str]:
    """Returns the algorithms that may have saved a file with these settings; none if the policy's class is nobody's.

    The settings name the module of the policy's class as a plain text beside its pickle.
    """
    policy = settings.get("policy_class")
    module = policy.get("__module__") if isinstance(policy, dict) else None
    same = [name for name in ALGORITHMS if module in modules_of(class_of(name, settings))]
    return [name for name in same if TELLING.get(name) in settings] or [name for name in same if name not in TELLING]


def modules_of(kind: Kind) -> set[str]:
    """Returns the modules of an algorithm's own policies."""
    return {policy.__module__ for policy in kind.policy_aliases.values()}


def without_training(settings: Settings) -> dict[str, Any]:
    """Returns plain values for what only training needs, and what takes memory or cannot be unpickled elsewhere.

    The seed is among them because a model that is loaded with one sets everybody's random numbers.
    """
    window = settings.get(OURS, 1), settings.get("burn_in", 0), settings.get("n_envs", 1)
    steps = (window[0] + window[1]) * window[2] if all(isinstance(one, int) for one in window) else 1
    return {
        "learning_rate": 0.0,
        "lr_schedule": None,
        "clip_range": 0.0,
        "clip_range_vf": None,
        "exploration_schedule": None,
        "action_noise": None,
        "replay_buffer_class": None,
        "replay_buffer_kwargs": {},
        "optimize_memory_usage": False,
        "buffer_size": steps,
        "seed": None,
        "tensorboard_log": None,
    }


class Spaces(gym.Env[Any, Any]):
    """Stands for the environment of a model that only acts: it has the spaces, and cannot be stepped.

    :param model: the model
    """

    def __init__(self, model: Any) -> None:
        self.observation_space, self.action_space = model.observation_space, model.action_space


def add_normalization(model: Any, path: Path, normalize: Path) -> None:
    """Gives a model the `VecNormalize` that it was trained under, whose statistics stay as they are.

    :param model: the model
    :param path: the model's file, for messages
    :param normalize: the file of the `VecNormalize`
    """
    env = DummyVecEnv([lambda: Spaces(model)] * model.n_envs)
    try:
        wrapper = VecNormalize.load(str(normalize), env)
    except AssertionError as error:
        raise misfit(path, normalize, error) from error
    except Exception as error:  # unpickling runs code of others, which can raise anything
        raise ValueError(
            f"{normalize} cannot be loaded as a VecNormalize ({words_of(error)}): name the file that its save wrote"
        ) from error
    wrapper.training = wrapper.norm_reward = False
    try:
        model.set_env(wrapper)
    except (ValueError, AssertionError) as error:
        raise misfit(path, normalize, error) from error


def misfit(path: Path, normalize: Path, error: Exception) -> ValueError:
    """Returns the error that a `VecNormalize` is not that of the model."""
    return ValueError(
        f"{normalize} does not fit {path}, whose observations are others ({words_of(error)}): name the VecNormalize "
        "that was saved with this model"
    )


def words_of(error: Exception) -> str:
    """Returns the message of an error on one line, or the name of its class."""
    return " ".join(str(error).split())[:400] or type(error).__name__
