"""What the settings of a recipe may be.

Names are those of the arguments of the algorithm, of `VecNormalize` and of the policy. These classes refuse a value
that does not fit when the model is made. The limits here are for the numbers that they would accept, and that would end
in a traceback, a hang or nonsense later.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Mapping
from typing import Any

from ncp_control.base.values import Linear, check_known, read_number, shortened

MOST = 10**15  # the largest whole number of any setting; counters and products of counters stay far below 2**63
ANY = sys.float_info.max
SHARE, RATE, WHOLE = (0.0, 1.0), (0.0, ANY), (1, MOST)
TINY = 1e-30  # stands for "above 0"

# The least and the most value of a number; where the least is an int, the number must be whole.
LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("gamma", "gae_lambda", "tau", "batch_norm_momentum"), SHARE),
    **dict.fromkeys(("exploration_fraction", "exploration_initial_eps", "exploration_final_eps"), SHARE),
    **dict.fromkeys(("learning_rate", "clip_range", "clip_range_vf", "max_grad_norm", "clip_mean"), RATE),
    **dict.fromkeys(("critic_lr_scale", "circuit_lr_scale", "target_policy_noise", "target_noise_clip"), RATE),
    **dict.fromkeys(("epsilon", "rms_prop_eps", "batch_norm_eps"), (TINY, ANY)),
    **dict.fromkeys(("clip_obs", "clip_reward", "target_kl", "updates_per_step"), (TINY, ANY)),
    **dict.fromkeys(("ent_coef", "vf_coef", "target_entropy", "log_std_init"), (-ANY, ANY)),
    **dict.fromkeys(("n_timesteps", "n_steps", "batch_size", "n_epochs", "buffer_size", "train_freq"), WHOLE),
    **dict.fromkeys(("target_update_interval", "policy_delay", "stats_window_size", "sequence"), WHOLE),
    **dict.fromkeys(("wiring", "critic_units", "critic_window", "n_critics", "n_quantiles", "net_arch"), WHOLE),
    **dict.fromkeys(("learning_starts", "burn_in", "critic_warmup", "renorm_warmup_steps"), (0, MOST)),
    **dict.fromkeys(("gradient_steps", "sde_sample_freq"), (-1, MOST)),
    "top_quantiles_to_drop_per_net": (0, MOST),
    "n_envs": (1, 10_000),
}
# Of algorithms with a replay buffer: a batch holds as many rewards of a return for each of its rows.
OFF_POLICY_LIMITS = {"n_steps": (1, 1000), "ent_coef": RATE}
FALLING = ("learning_rate", "clip_range", "clip_range_vf")  # may be lin_3e-4
OPTIONAL = ("batch_size", "clip_range_vf", "target_kl", "net_arch", "updates_per_step")  # may be null
TEXTS = {"wiring": "", "ent_coef": "auto", "target_entropy": "auto"}  # may be text that begins so
OBJECTS = ("action_noise", "replay_buffer_class", "rollout_buffer_class", "optimizer_class")
NOT_OURS = {
    "self", "args", "kwargs", "policy", "env", "policy_kwargs", "seed", "device", "_init_setup_model", "venv",
    "observation_space", "action_space", "lr_schedule",
}  # fmt: skip


def read_settings(
    settings: Mapping[str, Any],
    where: str,
    limits: Mapping[str, tuple[float, float]] = LIMITS,
    switches: Collection[str] = (),
) -> dict[str, Any]:
    """Returns settings with numbers in place of texts such as 3e-4; refuses objects and numbers beyond their limits.

    :param settings: the settings by their keys
    :param where: what the keys belong to, for the sentence that refuses a value
    :param limits: the limits by key
    :param switches: the keys that are true or false
    """
    checked = {}
    for key, value in settings.items():
        if key in OBJECTS and value is not None:
            raise ValueError(f"{where} {key} must be left out, because it is an object of Python")
        if key in switches and not isinstance(value, bool):
            raise ValueError(f"{where} {key} must be true or false, not {shortened(value)}")
        checked[key] = read_limited(key, value, where, limits)
    return checked


def read_limited(key: str, value: Any, where: str, limits: Mapping[str, tuple[float, float]] = LIMITS) -> Any:
    """Returns a number that is within its limits, or any value of a key that has none.

    :param key: the key
    :param value: what the recipe says
    :param where: what the key belongs to, for the sentence that refuses a value
    :param limits: the limits by key
    """
    number = read_number(value)
    if isinstance(number, Linear) and key not in limits:
        raise ValueError(f"{where} {key} cannot fall: {shortened(value)} is for {', '.join(FALLING)}")
    if key not in limits or (value is None and key in OPTIONAL):
        return number
    if isinstance(value, str) and number == value and key in TEXTS and value.startswith(TEXTS[key]):
        return value
    if key == "net_arch" and isinstance(value, list):
        return [read_limited(key, own, where, limits) for own in value]
    if key == "net_arch" and isinstance(value, dict):
        return {name: read_limited(key, own, where, limits) for name, own in value.items()}
    least, most = limits[key]
    first = number.first if isinstance(number, Linear) and key in FALLING else number
    is_number = isinstance(first, int | float) and not isinstance(first, bool)
    if is_number and least <= first <= most and (isinstance(least, float) or first == int(first)):
        return int(first) if isinstance(least, int) else number
    if isinstance(least, int):
        words = f"at most {most:,}" if is_number and first > most else f"a whole number of at least {least}"
    else:
        ranges = {-ANY: "", TINY: " above 0", 0.0: " of at least 0" if most == ANY else " from 0 to 1"}
        words = f"a number{ranges[least]}" + ", or one that falls to zero, such as lin_3e-4" * (key in FALLING)
    raise ValueError(f"{where} {key} must be {words}, not {shortened(value)}")


def read_algorithm(arguments: dict[str, Any], kind: type, name: str, n_envs: int) -> dict[str, Any]:
    """Reads the arguments of an algorithm.

    :param arguments: the settings of a recipe
    :param kind: the algorithm's class
    :param name: its name
    :param n_envs: the number of environments
    """
    known = arguments_of(kind)
    check_known(arguments, known, f"the recipe does not fit {name}: it has")
    limits = LIMITS
    if "buffer_size" in known:
        least = 2 if name == "CrossQ" else 1  # its batch normalisation needs two rows
        limits = {**LIMITS, **OFF_POLICY_LIMITS, "batch_size": (least, MOST)}
        if arguments.get("batch_size", least) is None:  # on policy, this is the whole rollout
            raise ValueError(f"the recipe's batch_size must be a whole number of at least {least}, not None")
    elif str(arguments.get("ent_coef")).startswith("auto"):
        raise ValueError(f"the recipe's ent_coef must be a number, not {arguments['ent_coef']!r}")
    settings, frequency = dict(arguments), arguments.get("train_freq")
    if isinstance(frequency, list) and len(frequency) == 2:
        settings["train_freq"], unit = frequency  # the number alone has limits; its unit comes back at the end
        if unit == "episode" and n_envs > 1:
            raise ValueError("the recipe's train_freq can count episodes only if n_envs is 1")
    checked = read_settings(settings, "the recipe's", limits, switches_in(known))
    if isinstance(frequency, list) and len(frequency) == 2:
        checked["train_freq"] = (checked["train_freq"], frequency[1])
    return checked


def check_quantiles(model: Any) -> None:
    """Refuses a TQC that drops all quantiles of its critics, and would learn nothing; other algorithms have none."""
    dropped = getattr(model, "top_quantiles_to_drop_per_net", 0)
    if dropped and dropped >= (count := model.critic.n_quantiles):
        raise ValueError(
            f"the recipe's top_quantiles_to_drop_per_net must be below n_quantiles of its policy_kwargs, which is "
            f"{count}, not {dropped}"
        )


def read_policy(arguments: dict[str, Any]) -> dict[str, Any]:
    """Reads the arguments of a policy in a recipe, and those of its features extractor."""
    checked = read_settings(arguments, "in the recipe's policy_kwargs,")
    inner = checked.get("features_extractor_kwargs")
    if isinstance(inner, dict):
        checked["features_extractor_kwargs"] = read_settings(inner, "in the recipe's features_extractor_kwargs,")
    return checked


def read_normalize(arguments: dict[str, Any], kind: type) -> dict[str, Any]:
    """Reads the arguments of `VecNormalize`, or of a class that extends it, in a recipe."""
    known = arguments_of(kind)
    check_known(arguments, known, "the recipe's normalize does not fit VecNormalize: it has")
    return read_settings(arguments, "in the recipe's normalize,", switches=switches_in(known))


def arguments_of(kind: type) -> dict[str, Any]:
    """Returns the defaults of the arguments that a recipe may give a class, by their names.

    Among them are those that the class hands on to the classes that it extends.
    """
    defaults: dict[str, Any] = {}
    for ancestor in kind.__mro__:
        if "__init__" in vars(ancestor):
            parameters = inspect.signature(ancestor.__init__).parameters  # type: ignore[misc]
            defaults = {name: parameter.default for name, parameter in parameters.items()} | defaults
            # a class without **kwargs hands nothing on to the classes that it extends
            if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values()):
                break
    return {name: default for name, default in defaults.items() if name not in NOT_OURS}


def switches_in(arguments: Mapping[str, Any]) -> list[str]:
    """Returns the names of the arguments that are true or false."""
    return [name for name, default in arguments.items() if isinstance(default, bool)]
