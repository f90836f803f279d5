"""Several models of the same dynamics: their mean, and how far they are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.simulator import Array, Simulator


class Ensemble(Simulator):
    """Models fitted from different seeds. Its prediction is their mean; `predict_each` shows where they disagree.

    Each member goes on from its own prediction, so that the spread grows with the horizon as the uncertainty does.

    :param members: models of the same observations and inputs; cells and sizes may differ
    """

    def __init__(self, members: Sequence[DynamicsModel]) -> None:
        super().__init__()
        if not members:
            raise ValueError("an ensemble needs at least one model")
        first = members[0]
        for member in members:
            if (member.features, member.actions, member.timed) != (first.features, first.actions, first.timed):
                raise ValueError(
                    f"the members of an ensemble predict the same from the same, but one has {member.features} "
                    f"observations and {member.actions} actions, another {first.features} and {first.actions}"
                )
        self.members = nn.ModuleList(members)
        self.features, self.actions, self.timed = first.features, first.actions, first.timed
        self.observation_names = first.observation_names
        self.sizes = [member.state_size for member in members]

    @property
    def mean(self) -> Tensor:  # type: ignore[override]
        """Of the observations, (n,)."""
        return self.models[0].mean

    @property
    def std(self) -> Tensor:  # type: ignore[override]
        """Of the observations, (n,)."""
        return self.models[0].std

    @property
    def starts(self) -> Tensor:  # type: ignore[override]
        """First observations of episodes, (S, n)."""
        return self.models[0].starts

    @property
    def action_range(self) -> Array:  # type: ignore[override]
        """Of the actions, (2, m)."""
        return self.models[0].action_range

    @property
    def models(self) -> list[DynamicsModel]:
        """The members."""
        return cast("list[DynamicsModel]", list(self.members))

    def forward(
        self, observations: Tensor, actions: Tensor | None = None, state: Tensor | None = None,
        ahead: Tensor | float | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The members' mean prediction; the states of all of them side by side."""
        if state is not None and state.shape[-1] != sum(self.sizes):
            raise ValueError(f"state must have {sum(self.sizes)} entries, those of all members, got {state.shape[-1]}")
        states = [None] * len(self.sizes) if state is None else list(state.split(self.sizes, dim=-1))
        found = [model(observations, actions, own, ahead) for model, own in zip(self.models, states, strict=True)]
        return torch.stack([one for one, _ in found]).mean(0), torch.cat([own for _, own in found], dim=-1)

    def continued(self, history: Tensor, horizon: int, actions: Tensor | None, ahead: Tensor | float | None) -> Tensor:
        """The mean of the members' own continuations."""
        return torch.stack([model.continued(history, horizon, actions, ahead) for model in self.models]).mean(0)

    @torch.no_grad()
    def predict_each(
        self, history: Tensor, horizon: int, actions: Tensor | None = None, ahead: Tensor | float | None = None
    ) -> Tensor:
        """`predict` of every member, (K, B, H, n), or (K, H, n) for one history; its spread over K is theirs."""
        return torch.stack([model.predict(history, horizon, actions, ahead) for model in self.models])
