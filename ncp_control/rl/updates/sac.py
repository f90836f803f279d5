"""Stable-Baselines3's SAC with a faster update on CPUs: its layers run forward and backward into buffers that stay."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN, SACPolicy
from torch import Tensor, nn

import ncp_envs  # noqa: F401 (registers its environments)
from ncp_control.rl.algorithm import warn_without_gpu
from ncp_control.rl.arguments import hands_on_to

TINY = 1e-6  # added by Stable-Baselines3 before the logarithm of 1 - a^2
_masked = torch.ops.aten.threshold_backward.grad_input  # the gradient of ReLU, written into a given tensor
_normalised = torch.ops.aten.native_layer_norm.out
_norm_backward = torch.ops.aten.native_layer_norm_backward


class SAC(stable_baselines3.SAC):
    """Stable-Baselines3's `SAC`, whose updates take about two thirds of the time on a CPU.

    The numbers are the same up to rounding, and either class loads the other's files. What makes an update faster: the
    gradients are written by hand, into buffers that stay in the processor's cache; the critics' weights get no
    gradients from the actor's loss; and Adam is fused. This applies to an `MlpPolicy` with ReLU on a CPU, without gSDE.
    Anything else is trained by Stable-Baselines3's own code.

    :param actor_sees: the actor reads this many entries of an observation, the first ones, and the critics read all:
        what the actor must do without, such as observations without noise, helps the critics to judge it
    :param critic_warmup: steps in which only the critics learn, for an actor that was trained before
    """

    actor_sees: int | None
    critic_warmup: int

    if not TYPE_CHECKING:  # a type checker knows the arguments from Stable-Baselines3

        @hands_on_to(stable_baselines3.SAC.__init__)
        def __init__(self, *args: Any, actor_sees: int | None = None, critic_warmup: int = 0, **kwargs: Any) -> None:
            self.actor_sees, self.critic_warmup = actor_sees, critic_warmup
            super().__init__(*args, **kwargs)
            warn_without_gpu(self, kwargs.get("device", "auto"))

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.critic_warmup and not is_plain(self):
            raise ValueError("critic_warmup is for an MlpPolicy with ReLU on a CPU: leave it out")
        if self.actor_sees is None:
            return
        first = next((layer for layer, _ in layers_in(self.actor.latent_pi) or ()), None) if is_plain(self) else None
        if first is None or not 0 < self.actor_sees <= first.in_features:
            raise ValueError(
                f"actor_sees is for an MlpPolicy with hidden layers of ReLU on a CPU, and takes 1 to "
                f"{spaces.flatdim(self.observation_space)} entries of an observation, not {self.actor_sees}"
            )
        with torch.no_grad():
            first.weight[:, self.actor_sees :] = 0.0

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Updates the networks, as the method of Stable-Baselines3 does.

        :param gradient_steps: the number of updates
        :param batch_size: the number of steps that each of them learns from
        """
        if not is_plain(self):
            super().train(gradient_steps, batch_size)
            return
        Update.of(self, batch_size).run(gradient_steps)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_update"]


def is_plain(model: stable_baselines3.SAC) -> bool:
    """Whether `Update` can train a model's networks."""
    policy, space = model.policy, model.observation_space
    return (
        type(policy) is SACPolicy
        and model.device.type == "cpu"
        and not model.use_sde
        and isinstance(space, spaces.Box)
        and len(space.shape) == 1
        and all(type(part.features_extractor) is FlattenExtractor for part in (policy.actor, policy.critic))
        and all(layers_in(part) is not None for part in networks_of(policy, policy.actor))
    )


def networks_of(policy: SACPolicy, actor: Any) -> list[Any]:
    """Returns the networks that an update of an actor and the policy's critics runs."""
    return [actor.latent_pi, actor.mu, actor.log_std, *policy.critic.q_networks, *policy.critic_target.q_networks]


class UpdateBatch(NamedTuple):
    """What an update learns from.

    :param seen: what the critics see, (B, F)
    :param after: the same of the next observations
    :param read: what the actor's layers read, (B, G)
    :param read_after: the same of the next observations
    :param data: the rest: actions, rewards and ends of episodes
    """

    seen: Tensor
    after: Tensor
    read: Tensor
    read_after: Tensor
    data: Any


class Update:
    """One update of SAC's networks from a batch of the replay buffer.

    With actions a = tanh(u), u = mu(s) + exp(l(s)) e and e standard normal, and with the entropy coefficient alpha:

    - critics: the squared error to y = r + gamma (min_k Q'_k(s', a') - alpha log p(a' | s')), halved
    - actor: the mean of alpha log p(a | s) - min_k Q_k(s, a)
    - alpha: the mean of -log alpha (log p(a | s) + target entropy)

    :param model: the algorithm
    :param batch: steps in a batch, B
    """

    def __init__(self, model: Any, batch: int) -> None:
        self.model, self.policy, self.batch, self.actor = model, model.policy, batch, model.actor
        self.sees: int | None = getattr(model, "actor_sees", None)
        self.critic_warmup: int = getattr(model, "critic_warmup", 0)
        actor, critic, target = model.actor, model.critic, model.critic_target
        self.trunk = Layers(layers_in(actor.latent_pi) or [], batch, relu_at_end=True)
        self.mean, self.log_std = (Layers(layers_in(head) or [], batch) for head in (actor.mu, actor.log_std))
        self.critics = [Layers(layers_in(network) or [], batch) for network in critic.q_networks]
        self.targets = [Layers(layers_in(network) or [], batch) for network in target.q_networks]
        self.followed = list(zip(target.parameters(), critic.parameters(), strict=True))
        self.optimizers = [actor.optimizer, critic.optimizer]

    @classmethod
    def of(cls, model: Any, batch: int) -> Update:
        """Returns the update that a model has, or a new one if it has other networks or another batch is wanted."""
        now: Update | None = getattr(model, "_update", None)
        rows = cls.rows(model, batch)
        wanted = model, model.policy, model.actor.optimizer, rows
        if now is None or (now.model, now.policy, now.optimizers[0], now.batch) != wanted:
            model._update = now = cls(model, rows)
        return now

    @staticmethod
    def rows(model: Any, batch: int) -> int:
        """Returns the steps in a batch if a user asks for so many."""
        return batch

    def run(self, times: int) -> None:
        """Makes updates, and logs the means of their losses."""
        model, losses = self.model, []
        model.policy.set_training_mode(True)
        tuned = model.ent_coef_optimizer
        # one number gains nothing from fusing
        model._update_learning_rate([*self.optimizers, *([] if tuned is None else [tuned])])
        with torch.no_grad(), fused(self.optimizers):
            for k in range(times):
                losses.append(self(k))
                model._n_updates += 1
        model.logger.record("train/n_updates", model._n_updates, exclude="tensorboard")
        for name in dict.fromkeys(name for each in losses for name in each):
            model.logger.record(f"train/{name}", np.mean([each[name] for each in losses if name in each]))

    def sample(self) -> UpdateBatch:
        """Returns what this update learns from."""
        model = self.model
        data: Any = model.replay_buffer.sample(self.batch, env=model._vec_normalize_env)
        seen, after = data.observations.float(), data.next_observations.float()
        return UpdateBatch(seen, after, seen, after, data)

    def __call__(self, k: int) -> dict[str, float]:
        """Makes the k-th update of a call, and returns its losses by name."""
        model = self.model
        seen, after, read, read_after, data = self.sample()
        # In the order in which Stable-Baselines3 draws them.
        noise, noise_after = (torch.normal(torch.zeros_like(data.actions), 1.0) for _ in range(2))
        tuned = model.ent_coef_optimizer is not None
        # before its own update, as in Stable-Baselines3
        alpha = float(model.log_ent_coef.exp() if tuned else model.ent_coef_tensor)

        actions, log_p = self.act(read_after, noise_after)[:2]
        values = self.values(self.targets, after, actions).min(dim=1, keepdim=True).values
        discounts = model.gamma if data.discounts is None else data.discounts
        wanted = data.rewards + (1 - data.dones) * discounts * (values - alpha * log_p)

        # After the run on the next observations, because the actor's gradients need the results of this one.
        actions, log_p, std, raw = self.act(read, noise)
        losses = {"ent_coef": alpha}
        warm = model.num_timesteps >= self.critic_warmup
        if tuned and warm:
            above = float(log_p.mean()) + float(model.target_entropy)
            # the loss is linear in log alpha, so this is its gradient
            model.log_ent_coef.grad = torch.full_like(model.log_ent_coef, -above)
            losses["ent_coef_loss"] = -above * float(model.log_ent_coef)
            model.ent_coef_optimizer.step()

        errors = self.values(self.critics, seen, data.actions) - wanted
        losses["critic_loss"] = float(0.5 * errors.square().mean(0).sum())
        for layers, error in zip(self.critics, errors.split(1, dim=1), strict=True):
            layers.backward(error / self.batch, to_inputs=False)  # the gradient of half the mean square
        model.critic.optimizer.step()

        if warm:
            # by the critics as they are after their step, as in Stable-Baselines3
            least = self.values(self.critics, seen, actions).min(dim=1, keepdim=True)
            losses["actor_loss"] = float((alpha * log_p - least.values).mean())
            self.follow_actor(actions, noise, std, raw, alpha, least.indices)
            self.actor.optimizer.step()

        if k % model.target_update_interval == 0:  # counted anew in each call of `train`, as in Stable-Baselines3
            for target, source in self.followed:
                target.lerp_(source, model.tau)
        return losses

    def act(self, read: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns sampled actions (B, m), log p (B, 1), the standard deviations, and log_std before it is clamped."""
        latent = self.trunk.forward(read)
        mean, raw = self.mean.forward(latent), self.log_std.forward(latent)
        log_std = raw.clamp(LOG_STD_MIN, LOG_STD_MAX)
        std = log_std.exp()
        actions = torch.tanh(mean + std * noise)
        log_p = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi) - torch.log(1 - actions.square() + TINY)
        return actions, log_p.sum(dim=1, keepdim=True), std, raw

    def values(self, networks: list[Layers], observations: Tensor, actions: Tensor) -> Tensor:
        """Returns each critic's values, (B, number of critics)."""
        both = torch.cat([observations, actions], dim=1)
        return torch.cat([network.forward(both) for network in networks], dim=1)

    def follow_actor(
        self, actions: Tensor, noise: Tensor, std: Tensor, raw: Tensor, alpha: float, chosen: Tensor
    ) -> None:
        """Sets the gradients of the actor's loss with respect to the actor's weights.

        :param actions: the actor's actions, for which the critics have just been run
        :param noise: the noise e in them
        :param std: the standard deviations
        :param raw: log_std before it was clamped
        :param alpha: the entropy coefficient
        :param chosen: which critic gives the least value, (B, 1)
        """
        share, m = 1 / self.batch, actions.shape[1]
        squash = 1 - actions.square()
        # For fixed noise, log p depends on an action through -log(1 - a^2 + TINY) alone.
        by_action = 2 * alpha * share * actions / (squash + TINY)
        for k, layers in enumerate(self.critics):
            by_value = torch.where(chosen == k, -share, 0.0)
            by_action += layers.backward(by_value, to_weights=False)[:, -m:]  # a critic reads the actions last
        by_mean = by_action * squash
        # the second factor is the gradient of the clamp
        by_log_std = (by_mean * std * noise - alpha * share) * ((raw >= LOG_STD_MIN) & (raw <= LOG_STD_MAX))
        by_latent = self.mean.backward(by_mean).add_(self.log_std.backward(by_log_std))
        self.train_reader(by_latent)

    def train_reader(self, by_latent: Tensor) -> None:
        """Sets the gradients of the layers before the actor's last ones, given that of the latter's inputs."""
        self.trunk.backward(by_latent, to_inputs=False)
        if self.sees is not None:
            gradient_of(self.trunk.layers[0].weight)[:, self.sees :] = 0.0  # what is zero stays zero


def steps_to_weights(optimizer: torch.optim.Optimizer) -> None:
    """Moves the counts of steps of an optimizer to its weights: torch loads them to the CPU, where a fused Adam of
    weights on a GPU cannot use them.
    """
    for parameter, state in optimizer.state.items():
        step = state.get("step")
        if isinstance(step, torch.Tensor) and step.device != parameter.device:
            state["step"] = step.to(parameter.device)


@contextmanager
def fused(optimizers: list[torch.optim.Optimizer]) -> Iterator[None]:
    """Makes Adam step in one pass over all weights, unless it was told how to step; files keep what it was told."""
    chosen = ("fused", "foreach", "capturable", "differentiable")
    groups = [
        group
        for optimizer in optimizers
        for group in optimizer.param_groups
        if isinstance(optimizer, torch.optim.Adam) and not any(group[key] for key in chosen)
    ]
    before = [group["fused"] for group in groups]
    try:
        for group in groups:
            group["fused"] = True
        for optimizer in optimizers:
            steps_to_weights(optimizer)
        yield
    finally:
        for group, value in zip(groups, before, strict=True):
            group["fused"] = value


class Layers:
    """Several `Linear` layers, h_k = relu(norm(W_k h_(k-1) + b_k)), and their gradients.

    Autograd gives each result new memory, and so many of them leave the processor's cache before they are read again.
    Here every result has one place. Each call overwrites the results of the call before.

    :param layers: the layers as `layers_in` returns them, each with its norm or None; may be empty
    :param batch: rows of a batch, B
    :param relu_at_end: whether a ReLU follows the last layer as well
    """

    def __init__(
        self, layers: list[tuple[nn.Linear, nn.LayerNorm | None]], batch: int, relu_at_end: bool = False
    ) -> None:
        self.layers = [layer for layer, _ in layers]
        self._relus = [k < len(layers) - 1 or relu_at_end for k in range(len(layers))]
        self._results = [layer.weight.new_empty(batch, layer.out_features) for layer in self.layers]
        self._gradients = [layer.weight.new_empty(batch, layer.in_features) for layer in self.layers]
        self._norms = [
            None if norm is None else Norm(norm, result)
            for (_, norm), result in zip(layers, self._results, strict=True)
        ]

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns the last layer's results, (B, n), for inputs (B, m)."""
        self._inputs = inputs
        hidden = inputs
        for k, layer in enumerate(self.layers):
            norm, result = self._norms[k], self._results[k]
            hidden = torch.addmm(layer.bias, hidden, layer.weight.t(), out=result if norm is None else norm.inputs)
            if norm is not None:
                hidden = norm.forward()
            if self._relus[k]:
                hidden.relu_()
        return hidden

    def backward(self, gradient: Tensor, to_inputs: bool = True, to_weights: bool = True) -> Tensor:
        """Returns the gradient with respect to the inputs of the last `forward`.

        :param gradient: the gradient with respect to the last layer's results, (B, n); overwritten if a ReLU follows
            that layer
        :param to_inputs: without it, the gradient is not followed through the first layer, and what is returned is the
            gradient with respect to that layer's results
        :param to_weights: also set `grad` of each weight and bias
        """
        for k in reversed(range(len(self.layers))):
            layer, norm = self.layers[k], self._norms[k]
            if self._relus[k]:
                _masked(gradient, self._results[k], 0, grad_input=gradient)
            if norm is not None:
                gradient = norm.backward(gradient, to_weights)
            if to_weights:
                before = self._inputs if k == 0 else self._results[k - 1]
                torch.mm(gradient.t(), before, out=gradient_of(layer.weight))
                torch.sum(gradient, 0, out=gradient_of(layer.bias))
            if k or to_inputs:
                gradient = torch.mm(gradient, layer.weight, out=self._gradients[k])
        return gradient


class Norm:
    """The `LayerNorm` after a layer, and its gradients.

    :param norm: the module
    :param results: where its results go, (B, n)
    :ivar inputs: where the layer's results go, (B, n)
    """

    def __init__(self, norm: nn.LayerNorm, results: Tensor) -> None:
        self.norm, self.results, self.inputs = norm, results, torch.empty_like(results)
        self._means, self._scales = results.new_empty(len(results), 1), results.new_empty(len(results), 1)

    def forward(self) -> Tensor:
        """Returns the results for the present inputs."""
        norm = self.norm
        _normalised(
            self.inputs, norm.normalized_shape, norm.weight, norm.bias, norm.eps,
            out0=self.results, out1=self._means, out2=self._scales,
        )  # fmt: skip
        return self.results

    def backward(self, gradient: Tensor, to_weights: bool) -> Tensor:
        """Returns the gradient with respect to the inputs, given that of the results; see `Layers.backward`."""
        norm, wanted = self.norm, [True, to_weights, to_weights]
        of_norm = norm.normalized_shape, self._means, self._scales, norm.weight, norm.bias
        by_inputs: Tensor
        by_inputs, *own = _norm_backward(gradient, self.inputs, *of_norm, wanted)
        if to_weights:
            norm.weight.grad, norm.bias.grad = own
        return by_inputs


def gradient_of(parameter: Tensor) -> Tensor:
    """Returns a parameter's `grad`, which is made if there is none."""
    if parameter.grad is None:
        parameter.grad = torch.empty_like(parameter)  # whoever asks for it overwrites it
    return parameter.grad


def layers_in(network: nn.Module) -> list[tuple[nn.Linear, nn.LayerNorm | None]] | None:
    """Returns the layers of a network in which `Linear` and `ReLU` take turns, with or without `LayerNorm` between.

    :return: each layer with the norm that follows it, or None; None for any other network
    """
    parts = list(network) if isinstance(network, nn.Sequential) else [network]
    layers: list[tuple[nn.Linear, nn.LayerNorm | None]] = []
    for part, before in zip(parts, [nn.ReLU(), *parts], strict=False):
        follows = type(before)
        if type(part) is nn.Linear and follows is nn.ReLU:
            layers.append((part, None))
        elif type(part) is nn.LayerNorm and follows is nn.Linear:
            layers[-1] = (layers[-1][0], part)
        elif type(part) is not nn.ReLU or follows is nn.ReLU:
            return None
    weights = [own for pair in layers for part in pair if part is not None for own in (part.weight, part.bias)]
    return layers if all(own is not None and own.dtype == torch.float32 for own in weights) else None
