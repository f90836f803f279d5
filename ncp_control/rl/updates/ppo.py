"""sb3-contrib's recurrent PPO with less work around each step and each minibatch.

`CriticPass` runs the critic over a whole rollout at its end, with the numbers that it would have given step by step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib import RecurrentPPO
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import explained_variance, obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from ncp_control.rl.masking import MaskedTraining
from ncp_control.rl.policies import gaussian
from ncp_control.rl.updates.sac import fused

LOGGED = ("policy_gradient_loss", "value_loss", "entropy_loss", "clip_fraction", "loss", "approx_kl")


class SequencePPO(MaskedTraining, RecurrentPPO):
    """sb3-contrib's `RecurrentPPO` on sequences of equal length, which need no padding.

    What it collects and what it learns is the same up to rounding. It needs a policy and a rollout buffer that know
    sequences: `NCPPolicy` and `SequenceRolloutBuffer`. Where the policy `acts_alone`, the critic runs at the end of the
    rollout.
    """

    rollout_buffer: Any
    policy: Any
    _last_lstm_states: Any
    _last_obs: Any

    def collect_rollouts(self, env: VecEnv, callback: BaseCallback, rollout_buffer: Any, n_rollout_steps: int) -> bool:
        """Collects steps with the current policy, as the method of sb3-contrib does.

        :param env: the environments
        :param callback: called at the beginning and the end and at every step, with this method's variables in its
            `locals`
        :param rollout_buffer: takes the steps
        :param n_rollout_steps: steps of each environment
        :return: False if the callback ended the training
        """
        policy, device, space = self.policy, self.device, self.action_space
        policy.set_training_mode(False)
        rollout_buffer.reset()
        if self.use_sde:
            policy.reset_noise(env.num_envs)
        callback.on_rollout_start()
        lstm_states, n_steps, is_box = self._last_lstm_states, 0, isinstance(space, spaces.Box)
        later = CriticPass(self, rollout_buffer) if policy.acts_alone else None
        while n_steps < n_rollout_steps:
            if self.use_sde and self.sde_sample_freq > 0 and n_steps % self.sde_sample_freq == 0:
                policy.reset_noise(env.num_envs)
            obs_tensor: Any = obs_as_tensor(self._last_obs, device)
            episode_starts = torch.as_tensor(self._last_episode_starts, dtype=torch.float32, device=device)
            action_masks = self.allowed_actions()
            masks = {} if action_masks is None else {"action_masks": torch.as_tensor(action_masks, device=device)}
            with torch.no_grad():
                if later is None:
                    actions, values, log_probs, lstm_states = policy(obs_tensor, lstm_states, episode_starts, **masks)
                else:
                    values = log_probs = None
                    actions, lstm_states = later.act(obs_tensor, lstm_states, episode_starts)
            actions = actions.cpu().numpy()
            # the buffer keeps the actions as they were drawn, because their log-probabilities are of these
            clipped_actions = np.minimum(np.maximum(actions, space.low), space.high) if is_box else actions  # type: ignore[attr-defined]
            new_obs, rewards, dones, infos = env.step(clipped_actions)
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())  # callbacks look for these variables by the names that sb3-contrib uses
            if not callback.on_step():
                if later is not None:
                    later.finish()  # the critic's state must be that of the steps taken, should the training go on
                return False
            self._update_info_buffer(infos, dones)
            n_steps += 1
            for idx, done in enumerate(dones.tolist()):
                last_seen = infos[idx].get("terminal_observation") if done else None
                if last_seen is not None and infos[idx].get("TimeLimit.truncated", False):
                    if later is None:
                        self.look_ahead(rewards, idx, last_seen, [state[:, idx : idx + 1] for state in lstm_states.vf])
                    else:
                        later.note_limit(idx, last_seen)
            rollout_buffer.add(
                self._last_obs,
                actions,
                rewards,
                self._last_episode_starts,
                values,
                log_probs,
                lstm_states=self._last_lstm_states,
                action_masks=action_masks,
            )
            self._last_obs, self._last_episode_starts, self._last_lstm_states = new_obs, dones, lstm_states
        if later is not None:
            later.finish()  # before the returns, because it changes rewards at time limits
        episode_starts = torch.as_tensor(dones, dtype=torch.float32, device=device)
        with torch.no_grad():
            seen: Any = obs_as_tensor(new_obs, device)  # type: ignore[arg-type]
            values = policy.predict_values(seen, self._last_lstm_states.vf, episode_starts)
        rollout_buffer.compute_returns_and_advantage(last_values=values, dones=dones)
        callback.on_rollout_end()
        return True

    def look_ahead(self, rewards: Any, idx: int, observation: Any, states: Any) -> None:
        """Adds the critic's value of what would have followed a time limit to the reward of the last step before it.

        :param rewards: the rewards of a step, (B,)
        :param idx: the episode's environment
        :param observation: the last observation
        :param states: the states of the critic after the step
        """
        seen, _ = self.policy.obs_to_tensor(observation)
        states = tuple(state.contiguous() for state in states)
        with torch.no_grad():
            rewards[idx] += self.gamma * self.policy.predict_values(seen, states, torch.zeros(1, device=self.device))[0]

    def train(self) -> None:
        """Updates the policy from the rollout, as the method of sb3-contrib does."""
        policy, optimizer = self.policy, self.policy.optimizer
        policy.set_training_mode(True)
        self._update_learning_rate(optimizer)
        parameters, is_near = list(policy.parameters()), True
        before: list[Tensor] = []  # the numbers of all epochs but the last one, which alone counts for the divergence
        last: list[Tensor] = []
        with fused([optimizer]):
            for epoch in range(self.n_epochs):
                before, last = before + last, []
                for data in self.rollout_buffer.get(self.batch_size):
                    loss, numbers = self._loss(data)
                    last.append(numbers)
                    # float waits for a GPU, so it is called only if there is a target; 1.5 is as in sb3-contrib
                    is_near = self.target_kl is None or float(numbers[-1]) <= 1.5 * self.target_kl
                    if not is_near:
                        break
                    for parameter in parameters:
                        parameter.grad = None
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(parameters, self.max_grad_norm)
                    optimizer.step()
                self._n_updates += 1
                if not is_near:
                    if self.verbose >= 1:
                        print(f"Early stopping at step {epoch} due to reaching max kl: {float(last[-1][-1]):.2f}")
                    break
        self._log(torch.stack(before + last).cpu().numpy(), len(last))

    def _loss(self, data: Any) -> tuple[Tensor, Tensor]:
        """Returns the loss of a minibatch, and the numbers of `LOGGED`.

        With the ratio r of the new and the old probability of an action, its advantage A, the value V and the return
        R, and c as the clip range, it is the mean of::

            -min(r A, clip(r, 1 - c, 1 + c) A) + vf_coef (R - V)^2 - ent_coef entropy
        """
        clip = self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        is_discrete = isinstance(self.action_space, spaces.Discrete)
        values, log_prob, entropy = self.policy.evaluate_actions(
            data.observations,
            data.actions.long().flatten() if is_discrete else data.actions,
            data.lstm_states,
            data.episode_starts,
            data.action_masks,
        )
        values, advantages = values.flatten(), data.advantages
        if self.normalize_advantage:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)  # in case all are equal
        log_ratio = log_prob - data.old_log_prob
        ratio = log_ratio.exp()
        policy_loss = -torch.min(advantages * ratio, advantages * ratio.clamp(1 - clip, 1 + clip)).mean()
        if self.clip_range_vf is not None:
            most = self.clip_range_vf(self._current_progress_remaining)  # type: ignore[operator]
            values = data.old_values + (values - data.old_values).clamp(-most, most)
        value_loss = (data.returns - values).square().mean()
        # a distribution without a formula for its entropy gives None; the mean of -log p is an estimate of it
        entropy_loss = log_prob.mean() if entropy is None else -entropy.mean()
        loss = policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss
        with torch.no_grad():
            clipped = ((ratio - 1).abs() > clip).float().mean()
            kl = (ratio - 1 - log_ratio).mean()  # of lower variance than -log_ratio, and never negative
            return loss, torch.stack([policy_loss, value_loss, entropy_loss, clipped, loss, kl])

    def _log(self, numbers: Any, last: int) -> None:
        """Logs what sb3-contrib logs.

        :param numbers: the numbers of `LOGGED` of every minibatch, (M, 6)
        :param last: the number of minibatches in the last epoch
        """
        kept: dict[str, Any] = dict(zip(LOGGED, numbers.mean(axis=0), strict=True))
        # as sb3-contrib does: the loss of the last minibatch alone, and the divergence of the last epoch
        kept |= {"loss": numbers[-1, 4], "approx_kl": numbers[-last:, 5].mean()}
        kept["explained_variance"] = explained_variance(
            self.rollout_buffer.values.flatten(), self.rollout_buffer.returns.flatten()
        )
        if hasattr(self.policy, "log_std"):
            kept["std"] = self.policy.log_std.exp().mean().item()
        kept["clip_range"] = self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        if self.clip_range_vf is not None:
            kept["clip_range_vf"] = self.clip_range_vf(self._current_progress_remaining)  # type: ignore[operator]
        for name, value in kept.items():
            self.logger.record(f"train/{name}", value)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")


class CriticPass:
    """Fills in values, log-probabilities and rewards at time limits, for a rollout in which only the actor ran.

    Between two steps of a few rows, a circuit's weights leave the processor's cache; over a whole sequence they stay.

    :param model: a model of recurrent PPO whose policy `acts_alone`
    :param buffer: its rollout buffer, empty
    """

    def __init__(self, model: Any, buffer: Any) -> None:
        self.model, self.policy, self.buffer = model, model.policy, buffer
        self._drawn: list[tuple[Tensor, Tensor, Tensor]] = []  # each step's actions, means and standard deviation
        self._limits: list[tuple[int, int, Any]] = []

    def act(self, obs: Tensor, lstm_states: RNNStates, episode_starts: Tensor) -> tuple[Tensor, RNNStates]:
        """Returns actions, and the states with the actor's new one."""
        actions, mean, std, pi = self.policy.act(obs, lstm_states.pi, episode_starts)
        self._drawn.append((actions, mean, std))
        return actions, RNNStates(pi, lstm_states.vf)

    def note_limit(self, idx: int, observation: Any) -> None:
        """Notes that a time limit has ended the episode of an environment in the coming step of the buffer."""
        self._limits.append((self.buffer.pos, idx, observation))

    def finish(self) -> None:
        """Fills in the buffer, and sets the model's state of the critic."""
        buffer, states = self.buffer, self.model._last_lstm_states
        count, vf = buffer.pos, states.vf
        with torch.no_grad():
            if count:
                # A callback may have ended the rollout between a step and its row in the buffer.
                actions, means, stds = (torch.stack(each) for each in zip(*self._drawn[:count], strict=True))
                # One for all steps, unless a callback has changed it between two of them.
                std = stds[0] if (stds == stds[0]).all() else stds[:, None]
                log_probs = gaussian.log_probabilities(actions.view_as(means), means, std)
                buffer.log_probs[:count] = log_probs.numpy(force=True)
            for first in range(0, count, buffer.sequence):
                vf = self._run(slice(first, min(first + buffer.sequence, count)), vf)
        self.model._last_lstm_states = RNNStates(states.pi, vf)

    def _run(self, steps: slice, states: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Runs the critic over some steps of every environment, and returns its states after them."""
        buffer, policy, (state, unused) = self.buffer, self.policy, states
        # `add` has stored the state before the rollout here, because the critic had not run yet.
        buffer.states_vf[steps.start // buffer.sequence] = state[0].numpy(force=True)
        seen = torch.as_tensor(buffer.observations[steps], device=policy.device)
        features = policy.extract_features(seen.flatten(0, 1)).unflatten(0, seen.shape[:2]).transpose(0, 1)
        starts = torch.as_tensor(buffer.episode_starts[steps], device=policy.device).bool().t()
        outputs, after = policy.lstm_critic.run(features, state[0], starts)
        heads = policy.mlp_extractor.forward_critic
        # Each step lies in memory as if it had been taken alone: products of other layouts may be rounded otherwise.
        each = [outputs[:, k].contiguous() for k in range(outputs.shape[1])]
        values = [policy.value_net(heads(row)) for row in each]
        buffer.values[steps] = torch.cat(values, dim=1).t().numpy(force=True)
        for step, idx, observation in self._limits:
            if steps.start <= step < steps.stop:
                before = after[None, idx : idx + 1, step - steps.start].contiguous()
                self.model.look_ahead(buffer.rewards[step], idx, observation, (before, unused))
        return after[None, :, -1], unused
