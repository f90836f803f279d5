"""Fine-tuning a distilled student by recurrent PPO, which learns from rewards and not from the teacher.

The critic, which distilling does not train, learns alone at first. The actor explores with the standard deviation that
distilling gave it, a part of the error that was left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ncp_control.distil.environments import EnvRecipe
from ncp_control.distil.lessons import LAST_SEED, share_of
from ncp_control.distil.settings import DistilSettings
from ncp_control.rl.evaluation import evaluate
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_file import load_policy, with_note
from ncp_control.rl.recipes.recipe import Recipe
from ncp_control.rl.training import train
from ncp_control.runs.run import BEST, Run

FOLDER = "finetuned"
CRITIC = {"critic": "lstm", "critic_units": 64}
PPO = {
    "learning_rate": "lin_1e-3", "n_steps": 512, "batch_size": 1024, "n_epochs": 5, "gamma": 0.99, "gae_lambda": 0.95,
    "clip_range": 0.1, "max_grad_norm": 0.8,
}  # fmt: skip
WARM_UP = 20_000  # steps in which only the critic learns, but at most a fifth of all


@dataclass
class Finetuned:
    """The outcome of a fine-tuning.

    :param agent: the best agent, whose note has the `steps` after which it was best, and all steps as `finetuned`
    :param returns: its returns over the same new episodes as the student's
    :param steps: the steps of the fine-tuning
    :param seconds: its duration
    """

    agent: LoadedPolicy
    returns: list[float]
    steps: int
    seconds: float


def recipe_of(note: dict[str, Any], steps: int, settings: DistilSettings) -> Recipe:
    """Returns the recipe of a fine-tuning.

    :param note: the note in the student's file, which describes its environment
    :param steps: the steps of the fine-tuning
    :param settings: how the student was taught
    """
    return Recipe(
        env=note["env"],
        algo="RecurrentPPO",
        n_timesteps=steps,
        n_envs=settings.envs,
        env_kwargs=note["env_kwargs"],
        env_wrapper=note["env_wrapper"],
        normalize=True,
        policy_kwargs=dict(CRITIC),
        settings={**PPO, "critic_warmup": min(WARM_UP, steps // 5)},
    )


def finetune(student: LoadedPolicy, steps: int, settings: DistilSettings, run: Run, episodes: int) -> Finetuned:
    """Trains a distilled student further, by the rewards of its own environment.

    :param student: the student, with the note that distilling gave it
    :param steps: how many steps
    :param settings: how the student was taught
    :param run: the run of the distillation, in whose folder `finetuned` `ncp_control.rl.train` works
    :param episodes: the number of new episodes in which the best agent is evaluated
    """
    folder = run.path(FOLDER)
    recipe = recipe_of(student.note, steps, settings)
    result = train(
        recipe, folder, run.seed, run.resume, eval_episodes=settings.eval_episodes, command=run.command,
        progress=run.progress, start=student,
    )  # fmt: skip
    best = load_policy(folder / BEST)
    own = EnvRecipe(recipe.env, recipe.env_wrapper, recipe.env_kwargs)
    returns = evaluate(best, own.make, episodes, run.seed_of(LAST_SEED)).returns
    note = {
        **student.note,
        **best.note,
        "finetuned": result.steps,
        "seconds": student.note["seconds"] + result.seconds,
        "share": share_of(float(np.mean(returns)), student.note["teacher_return"]),
        "return": float(np.mean(returns)),
        "return_std": float(np.std(returns, ddof=1)),
        "return_min": min(returns),
        "curve": [[step, mean] for step, mean, _ in result.curve],
    }
    with_note(folder / BEST, folder / BEST, note)
    return Finetuned(load_policy(folder / BEST), returns, result.steps, result.seconds)
