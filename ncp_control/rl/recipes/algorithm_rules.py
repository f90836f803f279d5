"""What the settings of a recipe may be: the arguments of the algorithms, of `VecNormalize` and of policies."""

from __future__ import annotations

import inspect
from typing import Any

from ncp_control.rl.recipes.rules import (
    DICTIONARY,
    NOTHING,
    SWITCH,
    TEXT,
    Rule,
    check_known,
    choice,
    either,
    number,
    rate,
    read_settings,
    read_value,
    whole,
)

SHARE = number(0, 1)
MOST_STEPS = 1000  # of a return's rewards: a batch holds so many for each of its rows
OBJECT = Rule("left out, because it is an object of Python", NOTHING.read)
NOT_OURS = {
    "self", "args", "kwargs", "policy", "env", "policy_kwargs", "seed", "device", "_init_setup_model",
}  # fmt: skip


def _read_frequency(value: Any) -> Any:
    count, unit = value
    return whole(1).read(count), choice("step", "episode").read(unit)


def _read_auto(value: Any) -> str:
    text, _, first = TEXT.read(value).partition("_")
    if text != "auto" or float(first or 1) <= 0:
        raise ValueError
    return str(value)


FREQUENCY = either(whole(1), Rule('a list of such a number and "step" or "episode"', _read_frequency))
AUTO = Rule("auto, or auto_ and a number above 0", _read_auto)

SETTINGS: dict[str, Rule] = {
    "learning_rate": rate(),
    "n_steps": whole(1),
    "batch_size": either(whole(1), NOTHING),
    "n_epochs": whole(1),
    "gamma": SHARE,
    "gae_lambda": SHARE,
    "clip_range": rate(above=0),
    "clip_range_vf": either(rate(above=0), NOTHING),
    "normalize_advantage": SWITCH,
    "ent_coef": either(number(0), AUTO),
    "vf_coef": number(),
    "max_grad_norm": number(0),
    "use_sde": SWITCH,
    "sde_sample_freq": whole(-1),
    "use_sde_at_warmup": SWITCH,
    "target_kl": either(number(above=0), NOTHING),
    "rms_prop_eps": number(above=0),
    "use_rms_prop": SWITCH,
    "buffer_size": whole(1),
    "learning_starts": whole(0),
    "tau": SHARE,
    "train_freq": FREQUENCY,
    "gradient_steps": whole(-1),
    "optimize_memory_usage": SWITCH,
    "target_update_interval": whole(1),
    "target_entropy": either(number(), choice("auto")),
    "policy_delay": whole(1),
    "top_quantiles_to_drop_per_net": whole(0),
    "target_policy_noise": number(0),
    "target_noise_clip": number(0),
    "exploration_fraction": SHARE,
    "exploration_initial_eps": SHARE,
    "exploration_final_eps": SHARE,
    "stats_window_size": whole(1),
    "tensorboard_log": either(TEXT, NOTHING),
    "verbose": whole(0),
    "sequence": whole(1),
    "critic_warmup": whole(0),
    "burn_in": whole(0),
    "replay_buffer_kwargs": either(DICTIONARY, NOTHING),
    "rollout_buffer_kwargs": either(DICTIONARY, NOTHING),
    "action_noise": OBJECT,
    "replay_buffer_class": OBJECT,
    "rollout_buffer_class": OBJECT,
}


def _read_keys(value: Any) -> Any:
    if not isinstance(value, list):
        raise TypeError
    return [TEXT.read(key) for key in value]


NORMALIZE: dict[str, Rule] = {
    "training": SWITCH,
    "norm_obs": SWITCH,
    "norm_reward": SWITCH,
    "clip_obs": number(above=0),
    "clip_reward": number(above=0),
    "gamma": SHARE,
    "epsilon": number(above=0),
    "norm_obs_keys": either(Rule("a list of names", _read_keys), NOTHING),
}


def _read_sizes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _read_sizes(own) for key, own in value.items()}
    if isinstance(value, list):
        return [_read_sizes(own) for own in value]
    return whole(1).read(value)


def _read_wiring(value: Any) -> Any:
    return whole(1).read(value) if isinstance(value, int | float) else TEXT.read(value)


LAYERS = Rule("a list of sizes, whole numbers of at least 1", lambda value: [whole(1).read(own) for own in value])
SIZES = Rule("a list of sizes, whole numbers of at least 1, or a dictionary of such lists", _read_sizes)
NETWORK: dict[str, Rule] = {
    "wiring": Rule("a plan, such as AutoNCP(40, 16), or a whole number of at least 1", _read_wiring),
    "cell": TEXT,
    "cell_kwargs": either(DICTIONARY, NOTHING),
    "carry": SWITCH,
}
POLICY: dict[str, Rule] = {
    **NETWORK,
    "critic": TEXT,
    "critic_units": whole(1),
    "critic_window": whole(1),
    "guide": either(LAYERS, NOTHING),
    "head": TEXT,
    "critic_lr_scale": number(0),
    "circuit_lr_scale": number(0),
    "net_arch": either(SIZES, NOTHING),
    "log_std_init": number(),
    "ortho_init": SWITCH,
    "use_sde": SWITCH,
    "full_std": SWITCH,
    "use_expln": SWITCH,
    "squash_output": SWITCH,
    "clip_mean": number(0),
    "share_features_extractor": SWITCH,
    "normalize_images": SWITCH,
    "n_critics": whole(1),
    "n_quantiles": whole(1),
    "batch_norm": SWITCH,
    "batch_norm_momentum": SHARE,
    "batch_norm_eps": number(above=0),
    "renorm_warmup_steps": whole(0),
    "optimizer_class": OBJECT,
    "optimizer_kwargs": either(DICTIONARY, NOTHING),
    "features_extractor_kwargs": either(DICTIONARY, NOTHING),
}


def read_algorithm(given: dict[str, Any], kind: type, name: str, n_envs: int) -> dict[str, Any]:
    """Reads the arguments of an algorithm.

    :param given: the settings of a recipe
    :param kind: the algorithm's class
    :param name: its name
    :param n_envs: the number of environments
    """
    known = arguments_of(kind) - NOT_OURS
    check_known(given, known, f"the recipe does not fit {name}: it has")
    rules = SETTINGS if "target_entropy" in known else {**SETTINGS, "ent_coef": number()}
    if "buffer_size" in known:
        rules = {**rules, "n_steps": whole(1, MOST_STEPS), "batch_size": whole(2 if name == "CrossQ" else 1)}
    found = read_settings(given, rules, "the recipe's")
    if isinstance(found.get("train_freq"), tuple) and found["train_freq"][1] == "episode" and n_envs > 1:
        raise ValueError("the recipe's train_freq can count episodes only if n_envs is 1")
    return found


def check_quantiles(model: Any) -> None:
    """Refuses a TQC that drops all quantiles of its critics; other algorithms have none.

    :param model: the algorithm as it was made, with the defaults of what a recipe leaves out
    """
    dropped = getattr(model, "top_quantiles_to_drop_per_net", None)
    if dropped is not None and dropped >= model.critic.n_quantiles:
        raise ValueError(
            f"the recipe's top_quantiles_to_drop_per_net must be below n_quantiles of its policy_kwargs, which is "
            f"{model.critic.n_quantiles}, not {dropped}"
        )


def read_normalize(given: dict[str, Any]) -> dict[str, Any]:
    """Reads the arguments of `VecNormalize` in a recipe."""
    check_known(given, set(NORMALIZE), "the recipe's normalize does not fit VecNormalize: it has")
    return read_settings(given, NORMALIZE, "in the recipe's normalize,")


def read_policy(given: dict[str, Any]) -> dict[str, Any]:
    """Reads the arguments of a policy in a recipe, and those of its features extractor."""
    found = read_settings(given, POLICY, "in the recipe's policy_kwargs,")
    inner = found.get("features_extractor_kwargs")
    if isinstance(inner, dict):
        found["features_extractor_kwargs"] = {
            key: read_value(key, value, NETWORK.get(key), "in the recipe's features_extractor_kwargs,")
            for key, value in inner.items()
        }
    return found


def arguments_of(kind: type) -> set[str]:
    """Returns the names of the arguments of a class, with those that it hands on to the classes it extends."""
    names: set[str] = set()
    for one in kind.__mro__:
        if "__init__" in vars(one):
            parameters = inspect.signature(one.__init__).parameters  # type: ignore[misc]
            names |= set(parameters)
            if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values()):
                break
    return names
