"""Circuits in rl_zoo3, by the name `ncp_ppo`: training, watching, and its search for hyperparameters.

`python -m ncp_control.integrations.rl_zoo3 train --algo ncp_ppo --env ID` is `python -m rl_zoo3.train` with our
algorithm and our environments; other programs of rl_zoo3, such as `enjoy`, run in the same way. In a script of your
own, importing this module is enough.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from importlib.util import find_spec
from typing import Any

import optuna
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER, HYPERPARAMS_SAMPLER
from rl_zoo3.utils import ALGOS

import ncp_envs  # noqa: F401 (registers its environments)
from ncp_control.rl import RecurrentPPO
from ncp_control.rl.recipes.recipe import default_for, read_values

ALGO = "ncp_ppo"
HERE = "ncp_control.integrations.rl_zoo3"  # not __name__, which is __main__ in a program
# What rl_zoo3 reads from this module as from one of its files: the settings of `ncp-control train --env ID`.
hyperparams = {"default": {key: value for key, value in read_values(default_for()).items() if key != "algo"}}


def sample(trial: optuna.Trial, n_actions: int, n_envs: int, additional_args: dict[str, Any]) -> dict[str, Any]:
    """Draws the hyperparameters of a trial; rl_zoo3 gives the arguments."""
    trial.suggest_categorical("cell", ["dualltc", "cfc", "ltc"])
    trial.suggest_categorical("neurons", [16, 32, 64])
    trial.suggest_float("learning_rate", 3e-4, 1e-2, log=True)
    trial.suggest_int("n_steps_pow", 6, 10)
    trial.suggest_int("batch_size_pow", 7, 11)
    trial.suggest_categorical("n_epochs", [5, 10, 20])
    trial.suggest_float("one_minus_gamma", 1e-3, 1e-1, log=True)
    trial.suggest_float("one_minus_gae_lambda", 1e-3, 2e-1, log=True)
    trial.suggest_float("ent_coef", 1e-8, 1e-1, log=True)
    trial.suggest_float("max_grad_norm", 0.3, 2.0)
    return converted(trial.params)


def converted(drawn: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of the algorithm that the numbers of a trial stand for."""
    rest = dict(drawn)
    neurons = rest.pop("neurons")
    own = {"wiring": f"AutoNCP({neurons}, {neurons // 4})", "cell": rest.pop("cell")}
    powers = {name: 2 ** rest.pop(f"{name}_pow") for name in ("n_steps", "batch_size")}
    shares = {name: 1 - rest.pop(f"one_minus_{name}") for name in ("gamma", "gae_lambda")}
    return {**rest, **powers, **shares, "policy_kwargs": {**hyperparams["default"]["policy_kwargs"], **own}}


def main(words: list[str]) -> None:
    """Runs a program of rl_zoo3, such as `train`, with the arguments that follow its name."""
    name = f"rl_zoo3.{words[0]}" if words and words[0].isidentifier() else ""
    if not name or find_spec(name) is None:
        print(f"usage: python -m {HERE} train|enjoy|record_video|... [OPTIONS of this program of rl_zoo3]")
        sys.exit(2)
    options = words[1:]
    reader = argparse.ArgumentParser(add_help=False)
    reader.add_argument("--algo")
    if words[0] == "train" and reader.parse_known_args(options)[0].algo == ALGO:
        options = ["--conf-file", HERE, *options]  # another one among the options counts, as it comes later
    sys.argv = [name, *options]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


ALGOS[ALGO] = RecurrentPPO
HYPERPARAMS_SAMPLER[ALGO], HYPERPARAMS_CONVERTER[ALGO] = sample, converted

if __name__ == "__main__":
    main(sys.argv[1:])
