"""Where positions and velocities are in an observation of a MuJoCo environment of Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

POSITIONS, VELOCITIES = "positions", "velocities"
# Gymnasium's names of the parts: the generalised positions and velocities of the simulation.
PARTS = {POSITIONS: "qpos", VELOCITIES: "qvel"}
# An observation's x and y of the body are left out of it unless an option asks for them; they have no entries.
_LEFT_OUT = "skipped_qpos"


def parts_of(env: Any) -> dict[str, int]:
    """Returns how many entries each part of an observation has, in their order; an empty dictionary if not known.

    The sizes are those of the environment's own model and options, as the environment says them itself. An
    InvertedDoublePendulum says nothing: it observes the cart's position, a sine and a cosine of each further position,
    all velocities, and the force of the constraint on the cart.

    :param env: an environment, wrapped or not
    """
    base = getattr(env, "unwrapped", env)
    structure = getattr(base, "observation_structure", None)
    if isinstance(structure, Mapping):
        return {str(part): int(size) for part, size in structure.items() if part != _LEFT_OUT}
    if any(kind.__name__ == "InvertedDoublePendulumEnv" for kind in type(base).__mro__):
        return {"qpos": 2 * base.model.nq - 1, "qvel": base.model.nv, "qfrc_constraint": 1}
    return {}


def entries_of(env: Any, part: str, length: int) -> range:
    """Returns the entries of a part of the observation.

    :param env: an environment, wrapped or not
    :param part: "positions" or "velocities"
    :param length: how many entries the observation has
    """
    if part not in PARTS:
        raise ValueError(f"the part to keep is {POSITIONS!r} or {VELOCITIES!r}, not {part!r}: or list the entries")
    sizes = parts_of(env)
    if PARTS[part] not in sizes:
        raise ValueError(
            f"which entries are {part} is known only for MuJoCo environments of Gymnasium that say it, and "
            f"{type(getattr(env, 'unwrapped', env)).__name__} does not: list the entries to keep"
        )
    if sum(sizes.values()) != length:
        raise ValueError(
            f"the environment's observation has {sum(sizes.values())} entries, but a wrapper has made {length} of "
            f"them: keep the {part} before that wrapper, or list the entries to keep"
        )
    before = 0
    for name, size in sizes.items():
        if name == PARTS[part]:
            return range(before, before + size)
        before += size
    raise AssertionError(part)
