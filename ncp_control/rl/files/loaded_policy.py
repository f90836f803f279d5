"""A policy that was read from a file, ready to act."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ncp_control.data.masks import takes_masks
from ncp_control.rl.files.no_critic import NoCritic
from ncp_control.rl.files.normalizer import Normalizer
from ncp_control.rl.policies.numpy_actor import numpy_actor
from ncp_control.rl.policies.predict_checks import check_observation

Array = NDArray[Any]


class LoadedPolicy:
    """A policy that acts on raw observations, with the `predict` of Stable-Baselines3's models.

    :param policy: the Stable-Baselines3 policy, which reads normalised observations
    :param normalizer: normalises the observations; None if the policy was trained without
    :param name: the file's name without its ending
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
        """Whether the critic has learnt anything: distilling trains the actor alone."""
        return "teacher" not in self.note or "finetuned" in self.note

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The observation space of the environment that the policy was trained in."""
        found: spaces.Space[Any] = self.policy.observation_space
        return found

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The action space of the environment that the policy was trained in."""
        found: spaces.Space[Any] = self.policy.action_space
        return found

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
            found: tuple[Array, Any] = self.policy.predict(seen, state, episode_start, deterministic, action_masks)
            return found
        if deterministic and self._numpy_actor and np.shape(seen)[1:] == self.observation_space.shape:
            return self._numpy_actor(seen), state
        actions, after = self.policy.predict(seen, state, episode_start, deterministic)
        return actions, after
