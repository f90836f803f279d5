"""Recurrent SAC and TD3 whose memory is a neural circuit: Stable-Baselines3's `train` on windows of a replay buffer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy

from ncp_control.rl.buffers.replay import SequenceDictReplayBuffer, SequenceReplayBuffer
from ncp_control.rl.policies.elapsed import TimedAlgorithm
from ncp_control.rl.policies.learning_rates import scale_learning_rates
from ncp_control.rl.policies.sequence import SACSequencePolicy, SequencePolicy, TD3SequencePolicy


class SequenceTraining(TimedAlgorithm, OffPolicyAlgorithm):
    """What makes SAC or TD3 recurrent, around a `train` that is Stable-Baselines3's own.

    The replay buffer gives it windows instead of observations; the networks know what to do with them. While
    collecting, the actor's state is carried from step to step.
    """

    def __init__(self, policy: Any, env: Any, *args: Any, sequence: int = 32, burn_in: int = 16, **kwargs: Any) -> None:
        self.sequence, self.burn_in = sequence, burn_in
        super().__init__(policy, env, *args, **kwargs)

    def _get_policy_from_name(self, policy_name: str) -> type[BasePolicy]:
        if policy_name not in self.policy_aliases:
            raise ValueError(f'unknown policy {policy_name!r}: {type(self).__name__} of ncp_control runs "NCPPolicy"')
        return super()._get_policy_from_name(policy_name)

    def _setup_model(self: Any) -> None:
        kind = type(self).__name__
        if not issubclass(self.policy_class, SequencePolicy):
            raise TypeError(f"{kind} of ncp_control runs an NCPPolicy, not a {self.policy_class.__name__}")
        if self.n_steps != 1:
            raise ValueError(
                f"{kind} of ncp_control learns from one step at a time: leave n_steps 1, not {self.n_steps}"
            )
        if self.replay_buffer_class is None:
            is_dict = isinstance(self.observation_space, spaces.Dict)
            self.replay_buffer_class = SequenceDictReplayBuffer if is_dict else SequenceReplayBuffer
        elif not issubclass(self.replay_buffer_class, SequenceReplayBuffer):
            raise TypeError(
                f"{kind} of ncp_control learns from windows: replay_buffer_class must be a SequenceReplayBuffer, not a "
                f"{self.replay_buffer_class.__name__}"
            )
        given = {"sequence": self.sequence, "burn_in": self.burn_in}
        self.replay_buffer_kwargs = {**self.replay_buffer_kwargs, **given}
        super()._setup_model()
        if self._last_obs is None:  # else this is a model from a file that goes on where it was
            self._last_state = None

    def _sample_action(self: Any, learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> Any:
        """As Stable-Baselines3 does, with the state carried on, also while actions are drawn at random."""
        at_random = self.num_timesteps < learning_starts and not (self.use_sde and self.use_sde_at_warmup)
        action, self._last_state = self.policy.predict(
            self._last_obs, self._last_state, self._last_episode_starts, deterministic=at_random
        )
        if at_random:
            action = np.array([self.action_space.sample() for _ in range(n_envs)])
        scaled = self.policy.scale_action(action)
        if action_noise is not None:
            scaled = np.clip(scaled + action_noise(), -1, 1)
        return self.policy.unscale_action(scaled), scaled

    def _store_transition(
        self: Any, replay_buffer: Any, buffer_action: Any, new_obs: Any, reward: Any, dones: Any, infos: Any
    ) -> None:
        """As Stable-Baselines3 does, which sets `_last_episode_starts` at resets only; here also where episodes end."""
        replay_buffer.starting |= self._last_episode_starts
        super()._store_transition(replay_buffer, buffer_action, new_obs, reward, dones, infos)
        self._last_episode_starts = np.array(dones, dtype=bool)

    def train(self: Any, gradient_steps: int, batch_size: int = 64) -> None:
        """Stable-Baselines3's `train`, as soon as there is a window to train on."""
        if self.replay_buffer.windows():
            super().train(gradient_steps, batch_size)

    def _update_learning_rate(self, optimizers: Any) -> None:
        """The schedule's rate, times each group's own factor."""
        super()._update_learning_rate(optimizers)
        scale_learning_rates(optimizers)

    def load_replay_buffer(self: Any, path: Any, truncate_last_traj: bool = True) -> None:
        """Goes on with a buffer from a file, with this model's windows.

        What comes next is taken for the beginning of an episode, as nobody knows whether it continues the last one.
        """
        before = self.replay_buffer
        super().load_replay_buffer(path, truncate_last_traj)
        loaded, self.replay_buffer = self.replay_buffer, before
        if not isinstance(loaded, SequenceReplayBuffer):
            raise TypeError(f"the file has a {type(loaded).__name__}, which does not know where episodes begin")
        loaded.cut_windows(self.sequence, self.burn_in)
        loaded.starting = np.ones(loaded.n_envs, dtype=bool)
        self.replay_buffer = loaded


class RecurrentSAC(SequenceTraining, SAC):
    """SAC with a memory.

    Example::

        model = RecurrentSAC("NCPPolicy", "ncp/PendulumNoVel-v0", policy_kwargs=dict(wiring=nc.AutoNCP(40, 16)))
        model.learn(20_000)
        action, state = model.predict(observation, state, episode_start)

    The arguments are those of Stable-Baselines3's `SAC`, and two more. A batch is `batch_size // sequence` windows.

    :param sequence: steps of a window that are trained; gradients flow back through no more than these
    :param burn_in: steps before them over which the state is warmed up, from zero, without gradients
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"NCPPolicy": SACSequencePolicy}


class RecurrentTD3(SequenceTraining, TD3):
    """TD3 with a memory; its arguments are those of Stable-Baselines3's `TD3`, and the two of `RecurrentSAC`."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"NCPPolicy": TD3SequencePolicy}
