"""Features without a memory of their own: the last few observations, and the actions between them."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_action_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

from ncp_control.rl.buffers.replay import NextObservations, ReplayWindows
from ncp_control.rl.policies.sequence_extractor import SequenceExtractor


class WindowExtractor(BaseFeaturesExtractor):
    """The last K observations o and the K - 1 actions a between them, at every step t, as one vector::

        [o_t, o_(t-1), a_(t-1), ..., o_(t-K+1), a_(t-K+1)]

    with zeros for what came before the episode. Where a few positions and the actions between them tell nearly
    everything about a body, a critic that reads them has nothing to learn about what to remember.

    :param row: reads the features of single observations, F; a `SequenceExtractor` without a circuit
    :param action_space: the space of the actions
    :param window: K
    """

    circuit = None

    def __init__(self, row: SequenceExtractor, action_space: spaces.Space[Any], window: int) -> None:
        self.window, actions = window, get_action_dim(action_space)
        super().__init__(row._observation_space, window * row.features_dim + (window - 1) * actions)
        self.row = row

    def forward(self, observations: Any) -> Tensor:
        """Returns the features (B T, O) of the trained steps of windows, or of the observations after them."""
        if isinstance(observations, NextObservations):
            windows = observations.windows
            after = self.row.read(observations.observations, slice(None))
            return torch.cat([after, self._past(windows, 0)], dim=1)
        now = self.row.read(observations.observations, slice(observations.burn_in, None))
        return torch.cat([now, self._past(observations, 1)], dim=1)

    def _past(self, windows: ReplayWindows, first: int) -> Tensor:
        """Returns the K - 1 observations before each trained step, or before the one after it, and their actions.

        :param first: how many steps before the trained step the latest of them is
        :return: (B T, (K - 1) (F + actions))
        """
        begun = windows.burn_in
        seen = self.row.read(windows.observations, slice(None)).unflatten(0, windows.starts.shape)
        steps = torch.cat([seen, windows.actions], dim=2)
        present = torch.ones_like(windows.starts[:, begun:])
        found = []
        for back in range(first, first + self.window - 1):
            here = slice(begun - back, steps.shape[1] - back)
            if back:  # the step after this one must not begin an episode
                present = present & ~windows.starts[:, begun - back + 1 : steps.shape[1] - back + 1]
            found.append(steps[:, here] * present[..., None])
        return torch.cat(found, dim=2).flatten(0, 1) if found else steps.new_zeros(present.numel(), 0)
