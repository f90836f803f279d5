"""Parts of a network that learn at another rate than the rest."""

from __future__ import annotations

from collections.abc import Iterable

from torch.optim import Optimizer


def scale_learning_rates(optimizers: Optimizer | Iterable[Optimizer]) -> None:
    """Multiplies the rate that was just set in each group of parameters with the group's own `lr_scale`."""
    for optimizer in [optimizers] if isinstance(optimizers, Optimizer) else optimizers:
        for group in optimizer.param_groups:
            group["lr"] *= group.get("lr_scale", 1.0)
