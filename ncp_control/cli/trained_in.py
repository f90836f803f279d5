"""Makes the environment that a policy was trained in, from the note in the policy's file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple


class Disturbance(NamedTuple):
    """A wrapper that disturbs an environment by a number, which commands ask for by an option.

    wrapper: the wrapper's name
    argument: its argument that is the number
    fixed: its other arguments
    default: the number where a note does not say it
    none: the number that disturbs nothing
    words: how the number is printed
    is_share: whether the number is a share, which is printed in percent
    """

    wrapper: str
    argument: str
    fixed: Mapping[str, Any]
    default: float
    none: float
    words: str
    is_share: bool = False

    def written(self, level: float, least: float | None = None) -> str:
        """Writes how strong the disturbance is.

        :param level: the number
        :param least: the least number of a range that ends with `level`
        """
        ends = [level] if least is None or least == level else [least, level]
        numbers = " to ".join(f"{100 * end if self.is_share else end:.3g}" for end in ends)
        return self.words.format(numbers).replace(" 1 steps", " 1 step")


OPTIONS = ("random", "noise", "dropout")  # those for which commands have an option
# The innermost first.
DISTURBANCES = {
    "mass": Disturbance("ChangedBody", "mass", {}, 1.0, 1.0, "{} times the mass"),
    "gear": Disturbance("ChangedBody", "gear", {}, 1.0, 1.0, "motors {} times as strong"),
    "friction": Disturbance("ChangedBody", "friction", {}, 1.0, 1.0, "{} times the friction"),
    "limbs": Disturbance("ChangedBody", "limbs", {}, 1.0, 1.0, "limbs {} times as long"),
    "push": Disturbance("Pushes", "strength", {}, 0.0, 0.0, "pushes of {} times its weight"),
    "random": Disturbance("RandomActionOverwrite", "probability", {}, 0.05, 0.0, "{} % random actions", True),
    "cost": Disturbance("ActionChangeCost", "weight", {}, 0.0, 0.0, "a cost of {} on changes of actions"),
    "delay": Disturbance("ActionDelay", "steps", {}, 0, 0, "actions {} steps late"),
    "noise": Disturbance("ObservationNoise", "std", {}, 0.0, 0.0, "noise of {}"),
    "dropout": Disturbance(
        "ObservationDropout", "probability", {"whole": True}, 0.0, 0.0, "{} % of the readings lost", True
    ),
}
UNDISTURBED = {name: kind.none for name, kind in DISTURBANCES.items()}
# A MuJoCo body that is neither changed nor pushed; other bodies cannot be.
AS_MADE = {name: UNDISTURBED[name] for name in ("push", "mass", "gear", "friction", "limbs")}
TELLS = ("told", "clean")  # arguments with which a wrapper shows an agent more, so that it cannot be left out


def env_name(checkpoint: Path, note: dict[str, Any], asked: str | None) -> str:
    """Returns the environment's id: the one that was asked for, or else the one in the policy's note.

    An id in the note that makes Gymnasium import a module is refused, because a file must not choose which code runs.

    :param checkpoint: the policy's file
    :param note: the note in it
    :param asked: the id from the command line; None without one
    """
    from ncp_control.rl.recipes.recipe import refuse_import

    if asked:
        return asked
    env = note.get("env")
    if not isinstance(env, str):
        raise ValueError(f"{checkpoint} does not say which environment it was trained in: add --env")
    refuse_import(env, f"{checkpoint} was trained in {env}", f"--env {env}")
    return env


def make(name: str, note: dict[str, Any], **asked: float | None) -> Any:
    """Makes the environment with the wrappers of the training.

    :param name: the environment's id
    :param note: the note in the policy's file, with the wrappers and the environment's arguments
    :param asked: the names of disturbances, with a number in place of the training's; None for that of the training
    """
    from ncp_control.rl.recipes.building import make_env

    arguments = note.get("env_kwargs") or {}
    if not isinstance(arguments, dict):
        raise ValueError(f"the checkpoint's note on its environment is not readable: {arguments!r}")
    return make_env(name, layers(note, **asked), arguments)


def make_drawing(name: str, note: dict[str, Any], **asked: float | None) -> Any:
    """Makes the environment as `make` does. One that MuJoCo does not draw draws itself, if it can."""
    from ncp_control.activity.recording.environment import BodyPoses
    from ncp_control.activity.recording.pictures import MODE, offers_pictures

    env = make(name, note, **asked)
    if offers_pictures(env) and env.render_mode != MODE and BodyPoses(env).about is None:
        arguments = {**(note.get("env_kwargs") or {}), "render_mode": MODE}
        with suppress(ValueError):  # a class need not take what its metadata name
            drawn = make(name, {**note, "env_kwargs": arguments}, **asked)
            env.close()
            return drawn
    return env


def layers(note: dict[str, Any], **asked: float | None) -> list[Any]:
    """Returns the wrappers that `make` puts around an environment, the innermost first."""
    levels = {name: level for name, level in asked.items() if level is not None}
    for name, level in levels.items():
        if name == "noise" and not 0 <= level < math.inf:
            raise ValueError(f"--noise takes a number of at least 0, not {level:g}")
        if DISTURBANCES[name].is_share and not 0 <= level <= 1:
            raise ValueError(f"--{name} takes a probability from 0 to 1, not {level:g}")
    kept = []
    for wrapper in wrappers_in(note):
        replaced = [DISTURBANCES[name] for name in levels if level_of(wrapper, name) is not None]
        settings = (isinstance(wrapper, dict) and next(iter(wrapper.values()))) or {}
        if not replaced:
            kept.append(wrapper)
        elif any(settings.get(key) for key in TELLS):
            calmed = {kind.argument: kind.none for kind in replaced}
            kept.append({next(iter(wrapper)): {**settings, **calmed}})
    return [*disturbances(**levels), *kept]


def disturbances(**levels: float) -> list[Any]:
    """Returns wrappers that disturb an environment, as a recipe names them, the innermost first.

    :param levels: how strong each of `DISTURBANCES` is, such as `noise`, the standard deviation of Gaussian noise on
        every observation, or `dropout`, the probability with which a whole observation is replaced by zeros
    """
    found: dict[str, dict[str, Any]] = {}
    for name, kind in DISTURBANCES.items():
        level = levels.get(name, kind.none)
        if level != kind.none:
            number = int(level) if name == "delay" and level == int(level) else level
            found.setdefault(kind.wrapper, dict(kind.fixed))[kind.argument] = number
    return [{wrapper: settings} for wrapper, settings in found.items()]


def strength(note: dict[str, Any], name: str, asked: float | None = None) -> float:
    """Returns how strong a disturbance is in an environment that `make` makes.

    :param note: the note in the policy's file
    :param name: the disturbance's name
    :param asked: what was asked for; None for that of the training
    """
    if asked is not None:
        return asked
    levels = [level_of(wrapper, name) or 0.0 for wrapper in wrappers_in(note)]
    if name == "noise":
        return math.hypot(*levels)
    # One wrapper overwrites actions, or loses readings, without a look at what another has done.
    return round(1 - math.prod(1 - own for own in levels), 12)  # 0.05 rather than 0.050000000000000044


def asked_of(arguments: Any) -> dict[str, float | None]:
    """Returns the disturbances that a command was asked for, None for those of the training."""
    return {name: getattr(arguments, name) for name in OPTIONS}


def conditions(note: dict[str, Any], **asked: float | None) -> dict[str, Any]:
    """Returns what `make` makes of a note's environment, as commands print it in JSON."""
    levels = {name: strength(note, name, level) for name, level in asked.items()}
    return {**levels, "env_wrapper": layers(note, **asked)}


def in_words(wrappers: list[Any]) -> str:
    """Returns what is around an environment, for a sentence that names it; empty for nothing."""
    parts = []
    for wrapper in wrappers:
        numbers = {key: numbers_of(wrapper, key) for key in DISTURBANCES}
        known = {key: found for key, found in numbers.items() if found}
        for key, found in known.items():
            kind = DISTURBANCES[key]
            if {*found} != {kind.none}:
                # A factor of the body has a range; of several numbers for noise the largest counts.
                parts.append(kind.written(max(found), min(found) if kind.none else None))
        if not known:
            parts.append(wrapper if isinstance(wrapper, str) else next(iter(wrapper)))
    return f" with {', '.join(parts)}" if parts else ""


def wrappers_in(note: dict[str, Any]) -> list[Any]:
    """Returns the wrappers of the training, the innermost first, as the note in a policy's file describes them."""
    wrappers = note.get("env_wrapper", [])
    if not isinstance(wrappers, list):
        raise ValueError(f"the checkpoint's note on its environment is not readable: {wrappers!r}")
    return wrappers


def level_of(described: Any, name: str) -> float | None:
    """Returns how much a described wrapper disturbs by the disturbance of this name; None for any other wrapper.

    Of numbers for each entry of an observation it is the largest.
    """
    return max(numbers_of(described, name), default=None)


def numbers_of(described: Any, name: str) -> list[float]:
    """Returns the number of a disturbance in a described wrapper, or its several; none for any other wrapper."""
    from ncp_control.base.values import read_number

    wrapper, argument, _, default, *_ = DISTURBANCES[name]
    if described == wrapper:
        return [default]
    if not isinstance(described, dict) or list(described) != [wrapper]:
        return []
    settings = described[wrapper] or {}
    number = read_number(settings.get(argument, default)) if isinstance(settings, dict) else None
    numbers: list[Any] = number if isinstance(number, list) and number else [number]
    if not all(isinstance(own, int | float) for own in numbers):
        raise ValueError(f"the checkpoint's note on its environment is not readable: {described!r}")
    return [float(own) for own in numbers]
