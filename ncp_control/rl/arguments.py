"""The arguments of algorithms and of their policy by their names, for editors, type checkers and `help`.

The algorithms hand most of their arguments on to Stable-Baselines3's, so their own constructors do not name these. The
dictionaries here name them for whoever reads types, and `hands_on_to` for whoever asks `inspect.signature`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar

import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import nn
from torch.optim import Optimizer

from ncp_control.rl.policies.circuit import CellLike, WiringLike

Constructor = TypeVar("Constructor", bound=Callable[..., None])
UNNAMED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class NCPPolicyKwargs(TypedDict, total=False):
    """The `policy_kwargs` of recurrent PPO and A2C, for an editor and a type checker.

    Example::

        settings = NCPPolicyKwargs(wiring=AutoNCP(40, 16), cell="ltc", cell_kwargs={"time_constants": (0.05, 20.0)})
        model = RecurrentPPO("NCPPolicy", env, policy_kwargs=settings)
    """

    wiring: WiringLike | str | None
    """The actor's plan, also as text, wiring or number of neurons."""

    cell: CellLike
    """The name of the actor's cell, or a class of cells of your own."""

    cell_kwargs: dict[str, Any] | None
    """The cell's settings."""

    critic: Literal["circuit", "lstm", "mlp", "linear", "shared"]
    """The critic: a second circuit, an LSTM, a network without a memory, or layers that read the actor's outputs."""

    critic_units: int
    """The number of units of an LSTM or an MLP critic."""

    head: Literal["linear", "motor"]
    """What turns motor neurons into actions: a linear map, or nothing, so that they are the mean action themselves."""

    critic_lr_scale: float
    """The critic's learning rate, divided by the actor's."""

    net_arch: list[int] | dict[str, list[int]] | None
    """The sizes of the layers after the circuits, of both or by "pi" and "vf"; none by default."""

    activation_fn: type[nn.Module]
    """The activation between these layers."""

    ortho_init: bool
    """Whether the weights of layers, not those of circuits, begin orthogonal."""

    use_sde: bool
    """Whether actions explore by gSDE, with noise that depends on the state."""

    log_std_init: float
    """The logarithm of the actions' standard deviation at the beginning."""

    full_std: bool
    """Whether gSDE has a standard deviation for each pair of a feature and an action, and not for each feature."""

    use_expln: bool
    """Whether gSDE keeps its standard deviation from growing exponentially."""

    squash_output: bool
    """Whether gSDE squashes actions by tanh."""

    features_extractor_class: type[BaseFeaturesExtractor]
    """What the observations pass through before the circuits."""

    features_extractor_kwargs: dict[str, Any] | None
    """The settings of this extractor."""

    share_features_extractor: bool
    """Whether actor and critic have one extractor together."""

    normalize_images: bool
    """Whether images are divided by 255."""

    optimizer_class: type[Optimizer]
    """The optimizer."""

    optimizer_kwargs: dict[str, Any] | None
    """The optimizer's settings, without its learning rate."""


class CommonArguments(TypedDict, total=False):
    """What every algorithm hands on."""

    stats_window_size: int
    tensorboard_log: str | None
    verbose: int
    seed: int | None
    device: torch.device | str
    _init_setup_model: bool


class OnPolicyArguments(CommonArguments, total=False):
    """What recurrent PPO and A2C hand on."""

    policy_kwargs: NCPPolicyKwargs | dict[str, Any] | None  # a policy class of one's own may take more
    clip_range: float | Schedule
    clip_range_vf: float | Schedule | None
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    use_sde: bool
    sde_sample_freq: int
    target_kl: float | None


class PPOArguments(OnPolicyArguments, total=False):
    """What recurrent PPO hands on to sb3-contrib's `RecurrentPPO`."""

    learning_rate: float | Schedule
    n_steps: int
    batch_size: int | None
    n_epochs: int
    gamma: float
    gae_lambda: float
    normalize_advantage: bool


class A2CArguments(OnPolicyArguments, total=False):
    """What recurrent A2C hands on to recurrent PPO."""

    sequence: int
    critic_warmup: int


class OffPolicyArguments(CommonArguments, total=False):
    """What recurrent SAC and TD3 hand on."""

    policy_kwargs: dict[str, Any] | None
    sequence: int
    burn_in: int
    learning_rate: float | Schedule
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    train_freq: int | tuple[int, str]
    gradient_steps: int
    action_noise: ActionNoise | None
    replay_buffer_class: type[ReplayBuffer] | None
    replay_buffer_kwargs: dict[str, Any] | None
    optimize_memory_usage: bool
    n_steps: int


class SACArguments(OffPolicyArguments, total=False):
    """What recurrent SAC hands on to Stable-Baselines3's `SAC`."""

    ent_coef: str | float
    target_update_interval: int
    target_entropy: str | float
    use_sde: bool
    sde_sample_freq: int
    use_sde_at_warmup: bool


class TD3Arguments(OffPolicyArguments, total=False):
    """What recurrent TD3 hands on to Stable-Baselines3's `TD3`."""

    policy_delay: int
    target_policy_noise: float
    target_noise_clip: float


def hands_on_to(*constructors: Callable[..., None]) -> Callable[[Constructor], Constructor]:
    """Returns a decorator of a constructor, after which `inspect.signature` shows what it hands on, with the defaults.

    :param constructors: those that get the arguments which the decorated one does not name; the names of the first one
        win
    """

    def show(constructor: Constructor) -> Constructor:
        own = inspect.signature(constructor).parameters
        takes_more = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in own.values())
        shown = {name: parameter for name, parameter in own.items() if parameter.kind not in UNNAMED}
        for further in constructors:
            for name, parameter in inspect.signature(further).parameters.items():
                if parameter.kind not in UNNAMED:
                    kind = parameter.kind if takes_more else inspect.Parameter.KEYWORD_ONLY
                    shown.setdefault(name, parameter.replace(kind=kind))
        # a signature has parameters without a name before those that need theirs
        parameters = sorted(shown.values(), key=lambda parameter: parameter.kind)
        constructor.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
        return constructor

    return show
