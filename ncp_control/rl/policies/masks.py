"""Masks of actions, which choices an environment allows in its present state; and a recurrent policy that reads them.

A mask is laid out as in sb3-contrib: D flags, true where a choice is allowed. A `Discrete` space of n choices has
D = n, a `MultiDiscrete` space the sum of its `nvec`, choice after choice, and a `MultiBinary` space of n switches
D = 2 n: for each switch whether it may be off, and whether it may be on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.distributions import Distribution
from torch import Tensor

from ncp_control.rl.policies.checks import rows_of

Array = NDArray[Any]
FORBIDDEN = -1e8  # a logit so low that its probability is exactly zero, and finite, so that no gradient is NaN


def choices_of_mask(space: spaces.Space[Any]) -> list[int]:
    """Returns how many flags of a mask each choice of an action has; refuses actions without choices."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return [int(count) for count in space.nvec]
    if isinstance(space, spaces.MultiBinary) and isinstance(space.n, int):
        return [2] * space.n
    raise ValueError(
        f"masks are for actions that are choices, Discrete, MultiDiscrete or MultiBinary of one dimension, and these "
        f"are {space}"
    )


def read_masks(masks: Any, space: spaces.Space[Any], rows: int) -> NDArray[np.bool_]:
    """Returns the masks of several environments as one array (B, D).

    :param masks: (B, D), or (D,) for one environment
    :param space: the action space
    :param rows: the number of environments, B
    """
    choices = choices_of_mask(space)
    flags, wanted = np.asarray(masks), (rows, sum(choices))
    # of one environment the number of flags is enough, whatever their shape
    if flags.shape != wanted and (rows > 1 or flags.size != sum(choices)):
        raise ValueError(
            f"action_masks have shape {flags.shape}, and actions of {space} in {rows} environments need {wanted}"
        )
    flags = flags.reshape(wanted).astype(bool)
    allowed = np.add.reduceat(flags, np.cumsum([0, *choices[:-1]]), axis=1, dtype=np.int64)
    if not allowed.all():
        row, choice = np.argwhere(allowed == 0)[0].tolist()
        which = f"the action of environment {row}" if len(choices) == 1 else f"choice {choice} of environment {row}"
        raise ValueError(f"action_masks leave nothing for {which}: at least one flag of each choice must be true")
    return flags


def draw_allowed(masks: NDArray[np.bool_], space: Any) -> NDArray[np.int64]:
    """Returns random actions among those that masks (B, D) allow, drawn from the space's random stream."""
    choices = choices_of_mask(space)
    ends = np.cumsum(choices)[:-1]
    drawn = [[space.np_random.choice(np.flatnonzero(part)) for part in np.split(row, ends)] for row in masks]
    return np.reshape(drawn, (len(masks), *space.shape)) + getattr(space, "start", 0)


def masked(logits: Tensor, masks: Tensor, space: spaces.Space[Any]) -> Tensor:
    """Returns logits by which a choice that is not allowed has probability zero; if all are allowed, the same logits.

    :param logits: (B, A), as the action layer returns them; a switch has one, which is that of being on
    :param masks: (B, D) bool
    :param space: the action space
    """
    if not isinstance(space, spaces.MultiBinary):
        return logits.masked_fill(~masks, FORBIDDEN)
    off, on = masks[:, 0::2], masks[:, 1::2]
    # a switch that may not be off is on for certain
    return logits.masked_fill(~on, FORBIDDEN).masked_fill(~off, -FORBIDDEN)


def as_float(values: Any, device: torch.device) -> Tensor:
    """Returns numbers as a float32 tensor that is only read: without a copy where that is possible."""
    if type(values) is np.ndarray and values.flags.writeable:  # of others torch warns
        shared = torch.from_numpy(values)
        return shared if shared.dtype is torch.float32 and device.type == "cpu" else shared.to(device, torch.float32)
    return torch.tensor(values, dtype=torch.float32, device=device)


class MaskedPolicy(RecurrentActorCriticPolicy):
    """Adds `action_masks` to `predict` and to the distribution of actions, as sb3-contrib's `MaskablePPO` has them."""

    reads_vectors: bool
    """Whether observations are vectors that the circuits read as they are."""

    def predict(
        self,
        observation: Any,
        state: tuple[Array, ...] | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Array, tuple[Array, ...] | None]:
        """Returns actions, and the state to pass with the next observation.

        :param observation: one observation or a batch of n observations
        :param state: the state that the last call returned; None where episodes begin
        :param episode_start: (n,), true where an episode begins, so that the state is reset
        :param deterministic: return the most probable action rather than a sample
        :param action_masks: which choices are allowed, (n, D) or (D,), see `ncp_control.rl.policies.masks`
        """
        self.set_training_mode(False)
        device, space = self.device, self.action_space
        seen, is_batch = self._seen(observation, device)
        rows = rows_of(seen)
        if state is None:
            layers, _, size = self.lstm_hidden_state_shape
            state = (np.zeros((layers, rows, size)),) * 2
        if episode_start is None:
            episode_start = np.zeros(rows, dtype=bool)
        masks = None if action_masks is None else torch.as_tensor(read_masks(action_masks, space, rows)).to(device)
        with torch.no_grad():
            before, unused, starts = (as_float(values, device) for values in (*state, episode_start))
            choose: Any = self._predict
            chosen, after = choose(seen, (before, unused), starts, deterministic, masks)
        actions = chosen.cpu().numpy().reshape(-1, *space.shape)  # type: ignore[misc]
        if isinstance(space, spaces.Box):
            # A squashed action is scaled to the bounds; another may exceed them, and is clipped.
            if self.squash_output:
                actions = self.unscale_action(actions)
            else:
                actions = np.minimum(np.maximum(actions, space.low), space.high)  # np.clip takes three times as long
        return actions if is_batch else actions.squeeze(axis=0), tuple(values.cpu().numpy() for values in after)

    def _seen(self, observation: Any, device: torch.device) -> tuple[Any, bool]:
        """Returns observations as tensors, and whether they are a batch, as `obs_to_tensor` does."""
        shape = self.observation_space.shape
        if self.reads_vectors and type(observation) is np.ndarray and observation.shape[1:] == shape:
            return as_float(observation, device), True
        return self.obs_to_tensor(observation)

    def _get_action_dist_from_latent(self, latent_pi: Tensor, action_masks: Tensor | None = None) -> Distribution:
        """Returns the distribution of actions.

        :param latent_pi: the inputs of the action layer, (B, ...)
        :param action_masks: (B, D) bool
        """
        if action_masks is None:
            return super()._get_action_dist_from_latent(latent_pi)
        logits = masked(self.action_net(latent_pi), action_masks, self.action_space)
        made: Distribution = self.action_dist.proba_distribution(action_logits=logits)
        return made
