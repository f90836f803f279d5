"""Training and evaluating with masks of actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from ncp_control.data.masks import CHOICES, takes_masks
from ncp_control.rl.policies.masks import choices_of_mask, read_masks

Array = NDArray[Any]


class MaskedTraining(BaseAlgorithm):
    """An algorithm on policy that asks its environments which actions are allowed."""

    masks_actions = False

    def learn(self, *args: Any, use_masking: bool | None = None, **kwargs: Any) -> Any:
        """Trains as Stable-Baselines3 does.

        :param args: the arguments of Stable-Baselines3
        :param use_masking: whether the policy chooses among the actions that the environments' `action_masks()` allow;
            None is yes if they have such a method
        :param kwargs: the keyword arguments of Stable-Baselines3
        """
        self.masks_actions = use_masking if use_masking is not None else supports_masks(self.env)
        if self.masks_actions:
            choices_of_mask(self.action_space)
            if not is_masking_supported(self.env):  # type: ignore[arg-type]
                raise ValueError(
                    "use_masking=True needs environments with a method action_masks(): add one, or wrap them in "
                    "sb3_contrib.common.wrappers.ActionMasker"
                )
        return super().learn(*args, **kwargs)  # type: ignore[safe-super]

    def predict(
        self,
        observation: Any,
        state: tuple[Array, ...] | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Array, tuple[Array, ...] | None]:
        """Returns actions and states; see `MaskedPolicy.predict`."""
        policy: Any = self.policy
        prediction: tuple[Array, tuple[Array, ...] | None] = policy.predict(
            observation, state, episode_start, deterministic, action_masks
        )
        return prediction

    def allowed_actions(self) -> NDArray[np.bool_] | None:
        """Returns which choices the environments allow now, (B, D); None in a training without masks."""
        if not self.masks_actions or self.env is None:
            return None
        return read_masks(get_action_masks(self.env), self.action_space, self.n_envs)


class MaskedModel:
    """A model that is asked for allowed actions only, with all other attributes of the model itself.

    :param model: has `predict` with `action_masks`
    :param envs: the environments that it acts in, which say what is allowed
    """

    def __init__(self, model: Any, envs: VecEnv) -> None:
        self.model, self.envs = model, envs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["model"], name)  # self.model would ask here again while a copy is being made

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Array, Any]:
        """Returns actions and states for the environments' present observations."""
        prediction: tuple[Array, Any] = self.model.predict(
            observation, state, episode_start, deterministic, action_masks=get_action_masks(self.envs)
        )
        return prediction


def with_masks(model: Any, envs: VecEnv) -> Any:
    """Returns a model that asks for masks at each step, for whatever calls `predict(observation, state, ...)`.

    Example::

        mean, spread = stable_baselines3.common.evaluation.evaluate_policy(with_masks(model, envs), envs)

    :param model: a model, or a policy of `load_policy`
    :param envs: the environments that it acts in
    :return: the model itself if these have no masks, or if it cannot read any
    """
    return MaskedModel(model, envs) if takes_masks(model) and supports_masks(envs) else model


def supports_masks(envs: Any) -> bool:
    """Whether environments of Stable-Baselines3 say which of their choices are allowed."""
    return envs is not None and isinstance(envs.action_space, CHOICES) and is_masking_supported(envs)
