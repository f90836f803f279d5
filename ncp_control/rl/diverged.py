"""What a training says when its weights have grown beyond all numbers."""

from __future__ import annotations

from pathlib import Path

import torch
from stable_baselines3.common.base_class import BaseAlgorithm


class Diverged(ValueError):
    """A training's weights, or the actions that follow from them, have become NaN or infinite.

    :param model: the algorithm
    :param out: the folder of the run, whose files are from before
    """

    def __init__(self, model: BaseAlgorithm, out: Path) -> None:
        files = [name for name in ("best.safetensors", "last.safetensors") if (out / name).exists()]
        left = f"{out} keeps {' and '.join(files)} from before" if files else "no evaluation was done before"
        super().__init__(
            f"the policy has become NaN or infinite after step {model.num_timesteps:,}: the learning rate is probably "
            f"too large (try a smaller learning_rate or max_grad_norm, and rewards of moderate size); {left}"
        )


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
