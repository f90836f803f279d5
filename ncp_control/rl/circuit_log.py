"""Logs a circuit's neurons, time constants and gradients to TensorBoard while it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor

from ncp_control.base.liveliness import saturated, still
from ncp_control.rl.buffers.replay import SequenceReplayBuffer
from ncp_control.rl.buffers.rollout import RolloutSequences
from ncp_control.rl.policies.circuit import Circuit, actor_circuit

STEPS = 2048  # of experience, over which the statistics are computed


class CircuitLog(BaseCallback):
    """Logs the actor's neurons, time constants and gradients while a recurrent algorithm trains.

    - `circuit/dead`: the number of neurons whose state hardly changes,
    - `circuit/saturated`: the number of neurons that stay at one of their bounds nearly all of the time,
    - `circuit/tau_min`, `tau_median`, `tau_max`: time constants, over neurons and steps,
    - `gradients/...`: the norm of the last gradient of each part of the policy, after clipping.

    Stable-Baselines3 itself logs the exploration noise, as `train/std` or `train/ent_coef`.

    :param every: steps between two entries of the log
    """

    def __init__(self, every: int = 20_000) -> None:
        super().__init__()
        self.every = every
        self._next = 0

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        if self.num_timesteps < self._next:
            return
        self._next = self.num_timesteps + self.every
        circuit = actor_circuit(self.model.policy)
        if circuit is None:
            return
        recent = self._recent(circuit)
        if recent is not None:
            for name, value in statistics(circuit, *recent).items():
                self.logger.record(f"circuit/{name}", value)
        for name, value in gradient_norms(self.model.policy).items():
            self.logger.record(f"gradients/{name}", value)

    def _recent(self, circuit: Circuit) -> tuple[Tensor, Tensor, Tensor] | None:
        """Returns a recent batch: features (S, T, F), states before them (S, N) and starts (S, T); None without one."""
        model: Any = self.model
        rollout, replay = getattr(model, "rollout_buffer", None), getattr(model, "replay_buffer", None)
        if isinstance(rollout, RolloutSequences):
            return self._of_rollout(rollout.cut_all(STEPS), circuit)
        if isinstance(replay, SequenceReplayBuffer) and replay.count_windows():
            before = np.random.get_state()
            samples = replay.sample(STEPS, env=model.get_vec_normalize_env())
            np.random.set_state(before)  # so that logging does not change the training
            return self._of_windows(samples.observations, circuit)
        return None

    def _of_rollout(self, samples: Any, circuit: Circuit) -> tuple[Tensor, Tensor, Tensor]:
        policy: Any = self.model.policy
        with torch.no_grad():
            extracted = policy.extract_features(samples.observations)
        features = extracted if policy.share_features_extractor else extracted[0]
        sequences = samples.lstm_states.pi[0].shape[1]
        starts = (samples.episode_starts != 0).reshape(sequences, -1)
        state = samples.lstm_states.pi[0][0, :, : circuit.hidden_size]
        return features.reshape(sequences, -1, circuit.input_size), state, starts

    def _of_windows(self, windows: Any, circuit: Circuit) -> tuple[Tensor, Tensor, Tensor]:
        policy: Any = self.model.policy
        with torch.no_grad():
            features = policy.actor.features_extractor.read(windows.observations, slice(None))
        state = circuit.cell.initial_state(len(windows.starts))
        return features.reshape(*windows.starts.shape, circuit.input_size), state, windows.starts


def statistics(circuit: Circuit, features: Tensor, state: Tensor, starts: Tensor) -> dict[str, float]:
    """Counts dead and saturated neurons and measures time constants over sequences.

    :param circuit: runs over the sequences
    :param features: (S, T, F)
    :param state: the state before the first step, (S, N)
    :param starts: (S, T) bool, true where an episode begins
    :return: values by their names in the log, without "circuit/"
    """
    cell = circuit.cell
    with torch.no_grad():
        _, states = circuit.run(features, state, starts)
        flat = states.reshape(-1, states.shape[-1])
        inputs = features[..., :-1] if circuit.timed else features
        tau = cell.time_constants(inputs.reshape(-1, cell.inputs), flat)
        seen = [cell.neurons(values).cpu().numpy() for values in (flat, *cell.state_bounds())]
    return {
        "dead": float(still(*seen).sum()),
        "saturated": float(saturated(*seen).sum()),
        "tau_min": float(tau.min()),
        "tau_median": float(tau.median()),
        "tau_max": float(tau.max()),
    }


def gradient_norms(policy: torch.nn.Module) -> dict[str, float]:
    """Returns the gradient's norm for every named part of a policy that has a gradient."""
    squares: dict[str, float] = {}
    for name, parameter in policy.named_parameters():
        if parameter.grad is not None and parameter.numel():
            part = name.split(".")[0]
            squares[part] = squares.get(part, 0.0) + float(parameter.grad.square().sum())
    return {part: total**0.5 for part, total in squares.items()}
