"""The error of a training whose numbers are no longer finite: it says whose fault that is, and what to change."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from stable_baselines3.common.base_class import BaseAlgorithm

from ncp_control.rl.named_weights import largest_weight, weights_not_finite
from ncp_control.rl.wrong_steps import wrong_step

USUAL_GRAD_NORM = 0.5  # the default of PPO and A2C in Stable-Baselines3


class Diverged(ValueError):
    """A training's weights, or the actions that follow from them, have become NaN or infinite.

    The message names the environment if it gave the first number that is not finite. Otherwise it names the parameters,
    and what to change.

    :param model: the algorithm
    :param out: the folder of the run, whose files are from before; None for a training without one
    """

    def __init__(self, model: BaseAlgorithm, out: Path | None = None) -> None:
        step = f"step {model.num_timesteps:,}"
        wrong = wrong_step(model)
        if wrong is not None:
            sentence = f"{wrong} before {step}, from which no policy can learn: correct the environment"
        else:
            bad = weights_not_finite(model.policy)
            what = f"not finite: {bad}" if bad else f"finite, the largest is {largest_weight(model.policy)}"
            sentence = (
                f"the policy has become NaN or infinite after {step}: the learning rate is probably too large "
                f"({advice(model)}); its weights are {what}"
            )
        super().__init__(sentence if out is None else f"{sentence}; {kept_in(out)}")


def advice(model: BaseAlgorithm) -> str:
    """Returns what to change, with the values in use and better ones."""
    rate = float(model.lr_schedule(model._current_progress_remaining))
    words = [f"learning_rate was {rate:.3g}, try {rate / 3:.2g} or {rate / 10:.2g}"]
    norm = getattr(model, "max_grad_norm", None)
    if norm is not None:
        words.append(f"max_grad_norm was {norm:.3g}, try {min(USUAL_GRAD_NORM, norm / 3):.2g}")
    return "; ".join([*words, "rewards should be of moderate size"])


def kept_in(out: Path) -> str:
    """Returns which policies a run's folder keeps."""
    files = [name for name in ("best.safetensors", "last.safetensors") if (out / name).exists()]
    return f"{out} keeps {' and '.join(files)} from before" if files else "no evaluation was done before"


def check_training(model: BaseAlgorithm) -> None:
    """Raises `Diverged` if weights are not finite; the check is cheap enough to follow every call of `train`.

    Off policy, an update takes little longer than a look at all weights. So the last loss of the critic is looked at
    first: weights that are not finite make the next loss not finite, too.
    """
    loss = model.logger.name_to_value.get("train/critic_loss")
    if loss is None or not math.isfinite(loss):
        check_weights(model)


def check_weights(model: BaseAlgorithm) -> None:
    """Raises `Diverged` if weights are not finite."""
    if not is_finite(model):
        raise Diverged(model)


def has_diverged(model: BaseAlgorithm, error: Exception) -> bool:
    """Whether an error of a training follows from weights that are not finite, or so large that the actions are not."""
    return "to satisfy the constraint" in str(error) or not is_finite(model)  # the words are of torch's distributions


def is_finite(model: BaseAlgorithm) -> bool:
    """Whether all weights of a model are finite."""
    values = [value.detach() for value in model.policy.parameters() if value.is_floating_point()]
    # One sum over all norms is quick; a norm of finite weights may overflow, so a sum that does is looked into.
    with torch.no_grad():
        total = torch.stack(torch._foreach_norm(values)).sum() if values else torch.zeros(())
    return bool(total.isfinite()) or all(bool(value.isfinite().all()) for value in values)
