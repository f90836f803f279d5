"""Recurrent PPO and A2C whose memory is a neural circuit: sb3-contrib's `RecurrentPPO` on sequences of equal length."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule
from torch.optim import Optimizer

from ncp_control.base.callers import level_outside
from ncp_control.rl.algorithm import CircuitAlgorithm
from ncp_control.rl.arguments import A2CArguments, PPOArguments, hands_on_to
from ncp_control.rl.buffers.rollout import SequenceDictRolloutBuffer, SequenceRolloutBuffer, sequence_length
from ncp_control.rl.policies.recurrent import NCPPolicy
from ncp_control.rl.updates.ppo import SequencePPO

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing has it from Python 3.11 on


class RecurrentPPO(CircuitAlgorithm, SequencePPO):
    """PPO with a memory.

    Example::

        model = RecurrentPPO("NCPPolicy", "ncp/HalfCheetahNoVel-v0", policy_kwargs=dict(wiring=nc.AutoNCP(40, 16)))
        model.learn(100_000)
        action, state = model.predict(observation, state, episode_start)

    It takes the arguments of sb3-contrib's `RecurrentPPO`, `sequence` and `critic_warmup`. A minibatch consists of
    whole sequences, of about `batch_size` steps in all; the last one of a rollout has those that are left. For vectors
    of observations and continuous actions, the critic runs at the end of a rollout: until then, a callback finds None
    for `values` and `log_probs` among its `locals`.

    :param sequence: the largest number of steps that gradients flow back through; rollouts are cut into sequences of
        the largest length up to this number that divides `n_steps`
    :param critic_warmup: steps at the beginning in which only the critic learns, so that an actor that can act already
        is not spoilt by a critic that knows nothing yet
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"NCPPolicy": NCPPolicy}

    @hands_on_to(SequencePPO.__init__)
    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None,
        *args: Any,
        sequence: int = 64,
        critic_warmup: int = 0,
        **kwargs: Unpack[PPOArguments],
    ) -> None:
        if not isinstance(sequence, int) or sequence < 1:
            raise ValueError(f"a sequence is a whole number of steps, at least one, got {sequence!r}")
        if not isinstance(critic_warmup, int) or critic_warmup < 0:
            raise ValueError(f"critic_warmup is a whole number of steps, at least 0, got {critic_warmup!r}")
        self.sequence, self.critic_warmup = sequence, critic_warmup
        super().__init__(policy, env, *args, **kwargs)
        if kwargs.get("_init_setup_model", True):
            self._warn_of_a_smaller_batch()

    def _warn_of_a_smaller_batch(self) -> None:
        """Warns where the last minibatch of a rollout has fewer steps than the others."""
        sizes = self.rollout_buffer.batch_sizes(self.batch_size)
        if sizes[0] == sizes[-1]:
            return
        total = self.n_steps * self.n_envs
        length = self.rollout_buffer.sequence
        dividing = [size for size in range(length, total + 1, length) if total % size == 0 and size > 1]
        warnings.warn(
            f"a rollout of {total} steps, n_steps {self.n_steps} times n_envs {self.n_envs}, is cut into "
            f"minibatches of {sizes[0]} steps and a last one of {sizes[-1]}, whose steps count for more: choose a "
            f"batch_size that divides the rollout, such as {min(dividing, key=lambda size: abs(size - sizes[0]))}",
            stacklevel=level_outside(),
        )

    def _setup_model(self) -> None:
        super()._setup_model()
        if not isinstance(self.policy, NCPPolicy):
            kind = type(self).__name__
            raise TypeError(f"{kind} of ncp_control runs an NCPPolicy, not a {type(self.policy).__name__}")
        sizes = self.policy.state_sizes
        zeros = [(torch.zeros(1, self.n_envs, size, device=self.device),) * 2 for size in sizes]
        self._last_lstm_states: Any = RNNStates(*zeros)
        is_dict = isinstance(self.observation_space, spaces.Dict)
        # in the place of sb3-contrib's, which pads episodes to one length
        self.rollout_buffer: Any = (SequenceDictRolloutBuffer if is_dict else SequenceRolloutBuffer)(
            self.n_steps,
            self.observation_space,
            self.action_space,
            device=self.device,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            n_envs=self.n_envs,
            sequence=sequence_length(self.n_steps, self.sequence),
            state_sizes=sizes,
        )
        if self.normalize_advantage and self.rollout_buffer.batch_sizes(self.batch_size)[-1] == 1:
            raise ValueError(
                f"with n_steps {self.n_steps}, sequence {self.sequence} and batch_size {self.batch_size} one minibatch "
                "is one step alone, whose advantage cannot be normalised: choose larger ones, or "
                "normalize_advantage=False"
            )

    def _update_learning_rate(self, optimizers: list[Optimizer] | Optimizer) -> None:
        """Sets the learning rates; that of the actor is zero while the critic warms up."""
        super()._update_learning_rate(optimizers)
        if self.num_timesteps <= self.critic_warmup:
            actor, _ = self.policy.optimizer.param_groups  # in the order in which the policy makes them
            actor["lr"] = 0.0


class RecurrentA2C(RecurrentPPO):
    """A2C with a memory: PPO with one epoch, in which no probability ratio is ever clipped.

    The defaults are those of Stable-Baselines3's A2C, with two exceptions: a rollout has 16 steps instead of 5, because
    gradients flow back through no more steps than that, and the optimizer is Adam instead of RMSprop.
    """

    @hands_on_to(RecurrentPPO.__init__)
    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule = 7e-4,
        n_steps: int = 16,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        normalize_advantage: bool = False,
        *,
        batch_size: int | None = None,
        n_epochs: int = 1,
        **kwargs: Unpack[A2CArguments],
    ) -> None:
        super().__init__(
            policy,
            env,
            learning_rate=learning_rate,
            n_steps=n_steps,
            gamma=gamma,
            gae_lambda=gae_lambda,
            normalize_advantage=normalize_advantage,
            batch_size=batch_size,  # None is the whole rollout, so that the one epoch is one step
            n_epochs=n_epochs,
            **kwargs,
        )

    def learn(  # type: ignore[override]
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str = "RecurrentA2C",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        use_masking: bool | None = None,
    ) -> Any:
        """Trains as `RecurrentPPO` does, and names the log of TensorBoard after this algorithm."""
        return super().learn(
            total_timesteps,
            callback,
            log_interval,
            tb_log_name,
            reset_num_timesteps,
            progress_bar,
            use_masking=use_masking,
        )
