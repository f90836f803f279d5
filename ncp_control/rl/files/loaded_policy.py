"""A policy that was read from a file, ready to act.

It brings the normalisation of observations that it was trained with, without Stable-Baselines3's environments. If its
file holds the actor alone, `NoCritic` stands in the place of its critics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import nn

from ncp_control.data.masks import takes_masks
from ncp_control.rl.policies.checks import check_observation
from ncp_control.rl.policies.numpy_actor import numpy_actor

Array = NDArray[Any]
NO_CRITICS = (
    "the critics of this policy are not in its file, which holds the actor only: load a file that was saved with them, "
    "such as those in the folder of a training"
)


class LoadedPolicy:
    """A policy that acts on raw observations, with the `predict` of Stable-Baselines3's models.

    :param policy: the Stable-Baselines3 policy, which reads normalised observations
    :param normalizer: normalises the observations; None if the policy was trained without
    :param name: the name of its file without the ending; of a run's `best`, the name of the folder
    :param sha256: the file's checksum
    :param note: the note that was saved with the policy
    """

    def __init__(
        self, policy: Any, normalizer: Normalizer | None, name: str, sha256: str, note: dict[str, Any]
    ) -> None:
        self.policy, self.name, self.sha256, self.note = policy, name, sha256, note
        self.normalizer = normalizer
        self._numpy_actor = numpy_actor(policy)

    def __getstate__(self) -> dict[str, Any]:
        """Returns what a copy or a pickle keeps; the NumPy form reads the weights of one policy in place."""
        return {name: value for name, value in self.__dict__.items() if name != "_numpy_actor"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._numpy_actor = numpy_actor(self.policy)

    @property
    def normalizes(self) -> bool:
        """Whether the policy normalises its observations."""
        return self.normalizer is not None

    @property
    def is_actor_only(self) -> bool:
        """Whether the file holds the actor without its critics; asking `policy` for these raises an error."""
        return isinstance(getattr(self.policy, "critic", None), NoCritic)

    @property
    def has_trained_critic(self) -> bool:
        """Whether the critic has learnt anything: distilling trains the actor alone, and others keep theirs."""
        is_distilled = "teacher" in self.note and "finetuned" not in self.note
        return not is_distilled and self.note.get("critic") != "untrained"

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The observation space of the environment that the policy was trained in."""
        space: spaces.Space[Any] = self.policy.observation_space
        return space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The action space of the environment that the policy was trained in."""
        space: spaces.Space[Any] = self.policy.action_space
        return space

    def normalize(self, observation: Any) -> Any:
        """Returns the observations as `policy` reads them."""
        return observation if self.normalizer is None else self.normalizer(observation)

    def predict(
        self,
        observation: Any,
        state: tuple[Array, ...] | None = None,
        episode_start: Array | None = None,
        deterministic: bool = True,
        action_masks: Any = None,
    ) -> tuple[Array, tuple[Array, ...] | None]:
        """Returns actions and, for a policy with a memory, the state to pass with the next observation.

        :param observation: one observation as the environment returns it, or a batch of n observations
        :param state: the state that the last call returned; None where episodes begin
        :param episode_start: (n,), true where an episode begins, so that the state is reset
        :param deterministic: return the deterministic action, which is the default here but not in
            Stable-Baselines3's own `predict`; False draws actions at random
        :param action_masks: which choices are allowed, (n, D) or (D,), as the environment's `action_masks()` says
        """
        check_observation(observation, self.observation_space)
        seen = self.normalize(observation)
        if action_masks is not None:
            if not takes_masks(self.policy):
                raise ValueError(
                    f"a {type(self.policy).__name__} reads no action_masks: leave them out, or train with RecurrentPPO"
                )
            prediction: tuple[Array, Any] = self.policy.predict(seen, state, episode_start, deterministic, action_masks)
            return prediction
        # for a batch alone; single observations are left to the policy
        if deterministic and self._numpy_actor and np.shape(seen)[1:] == self.observation_space.shape:
            return self._numpy_actor(seen), state
        actions, after = self.policy.predict(seen, state, episode_start, deterministic)
        return actions, after


class Normalizer:
    """Normalises observations as `VecNormalize` does: `clip((x - mean) / sqrt(var + epsilon))`.

    :param statistics: the mean and the variance for every normalised entry of a dictionary; for vectors the one key ""
    :param epsilon: added to the variances
    :param clip: normalised numbers are clipped to [-clip, clip]
    :ivar statistics: as given
    :ivar scales: for every key of `statistics` the mean, and the standard deviation that the difference is divided by
    """

    def __init__(self, statistics: dict[str, tuple[Array, Array]], epsilon: float, clip: float) -> None:
        self.statistics, self.epsilon, self.clip = statistics, epsilon, clip
        self.scales = {key: (mean, np.sqrt(var + epsilon)) for key, (mean, var) in statistics.items()}

    @classmethod
    def read(cls, described: dict[str, Any], tensors: dict[str, torch.Tensor], space: Any) -> Normalizer:
        """Makes a normaliser from the contents of a policy file.

        :param described: the JSON values that `normalization_of` gave
        :param tensors: the file's tensors by name
        :param space: the policy's observation space
        """
        statistics = {}
        keys = described.get("keys", [""])
        if not isinstance(space, spaces.Dict) and keys != [""]:
            raise ValueError(f"it normalises the entries {keys} of dictionaries, and the observations are vectors")
        for key in keys:
            suffix = f".{key}" if key else ""
            mean, var = (tensors[f"normalize.{name}{suffix}"].numpy() for name in ("mean", "var"))
            shape = (space[key] if key else space).shape
            if mean.shape != shape or var.shape != shape:
                raise ValueError(
                    f"it normalises observations of shape {shape} by statistics of shapes {mean.shape} and {var.shape}"
                )
            statistics[key] = mean, var
        return cls(statistics, float(described["epsilon"]), float(described["clip"]))

    def __call__(self, observation: Any) -> Any:
        """Returns normalised observations."""
        if not isinstance(observation, dict):
            return self._scaled("", observation)
        return {key: self._scaled(key, value) if key in self.scales else value for key, value in observation.items()}

    def _scaled(self, key: str, values: Array) -> Array:
        mean, scale = self.scales[key]
        scaled = (values - mean) / scale
        return np.minimum(np.maximum(scaled, -self.clip), self.clip).astype(np.float32)  # as VecNormalize does


# An AttributeError for `hasattr`, and a ValueError for the command line, which shows it as a sentence.
class MissingCritic(AttributeError, ValueError):
    """Somebody asked for a critic that was not saved."""

    def __init__(self) -> None:
        super().__init__(NO_CRITICS)


class NoCritic(nn.Module):
    """Raises an error wherever a critic is used, so that untrained weights are never taken for a critic's."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Raises the error."""
        raise MissingCritic

    def set_training_mode(self, mode: bool) -> None:
        """Does nothing; a policy calls this for all its networks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for such names when it copies, and does without them
            raise AttributeError(name)
        raise MissingCritic


def without_critics(policy: Any) -> Any:
    """Returns a policy with `NoCritic` in the place of its critics."""
    for name in ("critic", "critic_target"):
        if hasattr(policy, name):
            setattr(policy, name, NoCritic())
    return policy
