"""Several models of the same dynamics: their mean prediction, and how much they disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.simulator import Array, Simulator


class Ensemble(Simulator):
    """Models fitted from different seeds. It predicts their mean; `predict_each` shows where they disagree.

    Each member continues from its own prediction, so that their spread grows with the horizon as the uncertainty does.

    :param members: models that read and predict the same; their cells and sizes may differ
    """

    def __init__(self, members: Sequence[DynamicsModel]) -> None:
        super().__init__()
        if not members:
            raise ValueError("an ensemble needs at least one model")
        first = members[0]
        for member in members:
            if (member.features, member.action_size, member.timed) != (first.features, first.action_size, first.timed):
                raise ValueError(
                    f"the members of an ensemble predict the same from the same, but one has {member.features} "
                    f"observations and {member.action_size} actions, another {first.features} and {first.action_size}"
                )
        self.members = nn.ModuleList(members)
        self.features, self.action_size, self.timed = first.features, first.action_size, first.timed
        self.observation_names = first.observation_names
        self.sizes = [member.state_size for member in members]

    @property
    def mean(self) -> Tensor:  # type: ignore[override]
        """The mean of the observations, (n,)."""
        return self.models[0].mean

    @property
    def std(self) -> Tensor:  # type: ignore[override]
        """The standard deviation of the observations, (n,)."""
        return self.models[0].std

    @property
    def starts(self) -> Tensor:  # type: ignore[override]
        """First observations of episodes, (S, n)."""
        return self.models[0].starts

    @property
    def action_range(self) -> Array:  # type: ignore[override]
        """The smallest and the largest value of each action, (2, m)."""
        return self.models[0].action_range

    @property
    def models(self) -> list[DynamicsModel]:
        """The members."""
        return cast("list[DynamicsModel]", list(self.members))

    def forward(
        self, observations: Tensor, actions: Tensor | None = None, state: Tensor | None = None,
        ahead: Tensor | float | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Returns the members' mean prediction, and their states side by side."""
        if state is not None and state.shape[-1] != sum(self.sizes):
            raise ValueError(
                f"state must have {sum(self.sizes)} entries, the members' states side by side, got {state.shape[-1]}"
            )
        states = [None] * len(self.sizes) if state is None else list(state.split(self.sizes, dim=-1))
        found = [model(observations, actions, own, ahead) for model, own in zip(self.models, states, strict=True)]
        return torch.stack([one for one, _ in found]).mean(0), torch.cat([own for _, own in found], dim=-1)

    def continued(self, history: Tensor, horizon: int, actions: Tensor | None, ahead: Tensor | float | None) -> Tensor:
        """Returns the mean of the members' predictions, each continued from its own."""
        return torch.stack([model.continued(history, horizon, actions, ahead) for model in self.models]).mean(0)

    @torch.no_grad()
    def predict_each(
        self, history: Tensor, horizon: int, actions: Tensor | None = None, ahead: Tensor | float | None = None
    ) -> Tensor:
        """Returns what `predict` returns for each of K members: (K, B, H, n), or (K, H, n) for a single history."""
        return torch.stack([model.predict(history, horizon, actions, ahead) for model in self.models])
