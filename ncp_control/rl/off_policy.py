"""Recurrent SAC and TD3 whose memory is a neural circuit: Stable-Baselines3 trains them on windows of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from gymnasium import spaces
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv

from ncp_control.rl.algorithm import CircuitAlgorithm
from ncp_control.rl.arguments import SACArguments, TD3Arguments, hands_on_to
from ncp_control.rl.buffers.replay import SequenceDictReplayBuffer, SequenceReplayBuffer
from ncp_control.rl.policies.sequence import SACSequencePolicy, SequencePolicy, TD3SequencePolicy
from ncp_control.rl.updates.sac import fused
from ncp_control.rl.updates.windows import WindowTraining

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing has it from Python 3.11 on


class SequenceTraining(CircuitAlgorithm, OffPolicyAlgorithm):
    """Makes SAC or TD3 recurrent, and leaves the losses in `train` to the classes after it.

    The replay buffer returns windows in the place of observations, and the networks' features extractor runs over
    them. While the algorithm collects steps, the actor's state is carried from step to step.
    """

    def __init__(self, policy: Any, env: Any, *args: Any, sequence: int = 32, burn_in: int = 16, **kwargs: Any) -> None:
        self.sequence, self.burn_in = sequence, burn_in
        super().__init__(policy, env, *args, **kwargs)

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
        window_sizes = {"sequence": self.sequence, "burn_in": self.burn_in}
        self.replay_buffer_kwargs = {**self.replay_buffer_kwargs, **window_sizes}
        super()._setup_model()
        settings = self.policy.circuit_kwargs
        if settings["critic"] == "window" and self.burn_in < settings["critic_window"] - 1:
            raise ValueError(
                f"critics that read {settings['critic_window']} observations need a burn_in of at least "
                f"{settings['critic_window'] - 1}, not {self.burn_in}"
            )
        if self._last_obs is None:  # otherwise a model was loaded that continues from its last observation
            self._last_state = None

    def _sample_action(self: Any, learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> Any:
        """Chooses actions as Stable-Baselines3 does, and carries the state along even while actions are random."""
        at_random = self.num_timesteps < learning_starts and not (self.use_sde and self.use_sde_at_warmup)
        # deterministic where the action is thrown away, so that no random number is spent on it
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
        """Stores a step as Stable-Baselines3 does, and sets `_last_episode_starts` where episodes end.

        Stable-Baselines3 itself sets these flags at resets only.
        """
        # Stable-Baselines3 resets environments between two calls of `learn`, and no step says so.
        replay_buffer.starting |= self._last_episode_starts
        super()._store_transition(replay_buffer, buffer_action, new_obs, reward, dones, infos)
        self._last_episode_starts = np.array(dones, dtype=bool)

    def train(self: Any, gradient_steps: int, batch_size: int = 64) -> None:
        """Trains as Stable-Baselines3 does, as soon as the replay buffer holds a window."""
        if self.replay_buffer.count_windows():
            with fused([self.actor.optimizer, self.critic.optimizer]):
                super().train(gradient_steps, batch_size)

    def load_replay_buffer(self: Any, path: Any, truncate_last_traj: bool = True) -> None:
        """Loads a buffer from a file, from which windows of this model's size are sampled.

        The next step that is added counts as the beginning of an episode, because it may not continue the last one in
        the file.

        :param path: a file of `save_replay_buffer`
        :param truncate_last_traj: as in Stable-Baselines3
        """
        before = self.replay_buffer
        super().load_replay_buffer(path, truncate_last_traj)
        loaded, self.replay_buffer = self.replay_buffer, before  # until the loaded one has passed all checks
        if not isinstance(loaded, SequenceReplayBuffer):
            raise TypeError(f"the file holds a {type(loaded).__name__}, which does not know where episodes begin")
        if loaded.n_envs != self.n_envs:
            raise ValueError(
                f"the file holds steps of {loaded.n_envs} environments side by side, and this model has {self.n_envs}: "
                f"load the model with {loaded.n_envs} environments, or go on with an empty buffer"
            )
        for what in ("observation_space", "action_space"):
            in_file, in_model = getattr(loaded, what), getattr(self, what)
            if in_file != in_model:
                raise ValueError(f"the file holds steps of the {what} {in_file}, and this model has {in_model}")
        loaded.cut_windows(self.sequence, self.burn_in)
        loaded.starting = np.ones(loaded.n_envs, dtype=bool)
        self.replay_buffer = loaded


class RecurrentSAC(WindowTraining, SequenceTraining, SAC):
    """SAC with a memory.

    Example::

        model = RecurrentSAC("NCPPolicy", "ncp/PendulumNoVel-v0", policy_kwargs=dict(wiring=nc.AutoNCP(40, 16)))
        model.learn(20_000)
        action, state = model.predict(observation, state, episode_start)

    It takes the arguments of Stable-Baselines3's `SAC`, and two more. A batch consists of `batch_size // sequence`
    windows.

    :param sequence: the number of a window's trained steps; gradients flow back through no more steps than these
    :param burn_in: the number of steps before them over which the state is warmed up, from zero and without gradients
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"NCPPolicy": SACSequencePolicy}

    @hands_on_to(SAC.__init__, SequenceTraining.__init__)
    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None,
        *args: Any,
        **kwargs: Unpack[SACArguments],
    ) -> None:
        super().__init__(policy, env, *args, **kwargs)


class RecurrentTD3(SequenceTraining, TD3):
    """TD3 with a memory; it takes the arguments of Stable-Baselines3's `TD3`, and the two more of `RecurrentSAC`."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"NCPPolicy": TD3SequencePolicy}

    @hands_on_to(TD3.__init__, SequenceTraining.__init__)
    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None,
        *args: Any,
        **kwargs: Unpack[TD3Arguments],
    ) -> None:
        super().__init__(policy, env, *args, **kwargs)
