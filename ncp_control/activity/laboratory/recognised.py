"""Bodies of MuJoCo whose task this package does not know: what they observe is recognised by trying.

A copy of the environment takes some hundreds of steps beside a plain simulation, which is what a page computes. If both
move alike, each number that the environment observes is looked for in the state of the plain simulation.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ncp_control.activity.laboratory.world_model import differences
from ncp_control.activity.recording.environment import vector_names
from ncp_control.base.pages import packed

Array = NDArray[Any]
NEEDED = ("model", "data", "fullpath", "frame_skip", "dt", "init_qpos", "init_qvel")  # of Gymnasium's MujocoEnv
POSITIONS = ("qpos", "xpos", "site_xpos")  # observations may also be differences of these
FIELDS = (*POSITIONS, "qvel", "xquat", "sensordata", "ctrl", "cvel", "cinert", "qfrc_actuator",
          "qfrc_constraint", "cfrc_ext")  # fmt: skip
# How an observation follows from an entry of the state, by the names that `tasks.js` has for it.
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "same": lambda values: values,
    "clipped": lambda values: np.clip(values, -10, 10),
    "sin": np.sin,
    "cos": np.cos,
}
STARTS = 32  # episodes that are tried, and from whose starts the seed of a page chooses
STEPS = 16  # of each episode
KICK = 20.0  # random velocities up to this one, in radians or metres a second, carry half of the episodes far


def recognised(body: Any) -> dict[str, Any]:
    """Returns the settings and the starts of an environment, as `RecognisedTask` and `BodyLayer` of a page need them.

    :param body: the environment without its wrappers; it stays as it is. One whose observations cannot be recognised,
        or that moves in another way than a plain simulation, is refused with a ValueError
    :return: "settings": where each observation comes from, as `[function, field, entry]`, or for a difference also the
        second field and its entry; and "start": the positions and velocities at the starts of the seeds from 0 on
    """
    from ncp_envs.mujoco_messages import without_mass_warning

    name = type(body).__name__
    # A body that is carried far may leave what MuJoCo can simulate, about which it warns.
    with warnings.catch_warnings(), without_mass_warning():
        warnings.simplefilter("ignore")
        seen, states, places, starts = tried(body)
    found = [source_of(column, states, places) for column in seen.T]
    # What is always 0, such as a place across the plane of a body, is known by what stands beside it.
    count = len(found)
    for near, number in [*((k - 1, k) for k in range(1, count)), *((k + 1, k) for k in reversed(range(count - 1)))]:
        beside = found[near]
        if found[number] is None and beside is not None:
            found[number] = source_beside(beside, number - near, seen[:, number], states, places)
    for number, source in enumerate(found):
        if source is None:
            always = bool((seen[:, number] == seen[0, number]).all())
            raise ValueError(
                f"a laboratory cannot build this environment: {vector_names(body)[number]!r}, number {number} of what "
                f"{name} observes, is {'always the same' if always else 'no entry of the state of MuJoCo'} in the "
                "steps that were tried, so leave it out, or observe positions, velocities, their sines and cosines, "
                "or differences of positions"
            )
    return {
        "settings": {"sources": found, "single": seen.dtype == np.float32},
        "start": {"count": STARTS, **{part: packed(np.concatenate(rows)) for part, rows in starts.items()}},
    }


def tried(body: Any) -> tuple[Array, Array, list[tuple[str, int]], dict[str, list[Array]]]:
    """Steps a copy of an environment beside a plain simulation.

    :return: what the environment observed, (N, n); the state of the simulation at that time, (N, V); which field and
        entry each number of the state is; and the positions and velocities at the starts
    """
    import mujoco

    from ncp_envs.body import Body

    refuse = f"a laboratory cannot build this environment: {type(body).__name__}"
    model, twin = body.model, twin_of(body)
    plain: Any = mujoco.MjData(model)
    space, random = twin.action_space, np.random.default_rng(0)
    if not (isinstance(space, gym.spaces.Box) and space.shape == (model.nu,) and model.nu and model.njnt):
        raise ValueError(f"{refuse} needs joints, and actions that are one number for each actuator")
    if not model.body_weldid[model.geom_bodyid[Body(model).geoms]].any():
        raise ValueError(f"{refuse} has nothing to draw that moves: give a moving body a geom that is shown")
    space.seed(0)
    places = [(field, entry) for field in FIELDS for entry in range(getattr(plain, field).size)]
    seen: list[Array] = []
    states: list[Array] = []
    starts: dict[str, list[Array]] = {"positions": [], "velocities": []}

    def keep(observation: Any) -> None:
        seen.append(np.array(observation))
        states.append(np.concatenate([getattr(plain, field).ravel() for field in FIELDS]))

    for seed in range(STARTS):
        observation, _ = twin.reset(seed=seed)
        if not isinstance(observation, np.ndarray) or observation.ndim != 1 or observation.dtype.kind != "f":
            raise ValueError(f"{refuse} observes no vector of numbers: let it return one NumPy array with one axis")
        changed = differences(model, twin.model) | differences(model.opt, twin.model.opt)
        if changed:
            raise ValueError(
                f"{refuse} changes {', '.join(changed)} of its model when an episode begins: leave it fixed"
            )
        start = twin.data.qpos.copy(), twin.data.qvel.copy()
        starts["positions"].append(start[0])
        starts["velocities"].append(start[1])
        mujoco.mj_resetData(model, plain)
        plain.qpos[:], plain.qvel[:] = start
        mujoco.mj_forward(model, plain)
        keep(observation)
        if seed % 2:
            twin.data.qvel[:] = plain.qvel[:] = random.uniform(-KICK, KICK, model.nv)
        for _ in range(STEPS):
            action = space.sample()
            # An end is no end here: a body that has fallen touches the ground with other parts.
            observation = twin.step(action.copy())[0]
            plain.ctrl[:] = action
            mujoco.mj_step(model, plain, body.frame_skip)
            mujoco.mj_rnePostConstraint(model, plain)
            if not all(
                np.array_equal(getattr(plain, part), getattr(twin.data, part), equal_nan=True)
                for part in ("qpos", "qvel")
            ):
                raise ValueError(
                    f"{refuse} moves in another way than frame_skip steps of MuJoCo with the action as the control: "
                    "start it with set_state alone, and step it with do_simulation(action, self.frame_skip)"
                )
            if not np.isfinite(observation).all():  # it was carried too far
                break
            keep(observation)
    return np.array(seen), np.array(states), places, starts


def twin_of(body: Any) -> Any:
    """Returns a copy of an environment with a model, data and a generator of its own, which draws nothing."""
    import mujoco

    twin: Any = object.__new__(type(body))
    model = copy.deepcopy(body.model)
    own = {id(body): twin, id(body.model): model, id(body.data): mujoco.MjData(model)}
    own[id(getattr(body, "mujoco_renderer", body))] = None if hasattr(body, "mujoco_renderer") else twin
    try:
        twin.__dict__.update(copy.deepcopy(vars(body), own), render_mode=None)
    except (TypeError, NotImplementedError) as error:
        raise ValueError(
            f"a laboratory cannot build this environment: {type(body).__name__} cannot be copied ({error}), so keep "
            "what cannot be copied out of its attributes"
        ) from None
    return twin


def source_of(seen: Array, states: Array, places: list[tuple[str, int]]) -> list[Any] | None:
    """Returns where one observed number comes from, as `recognised` describes it; None if it is not found.

    :param seen: (N,), the observed number at each step
    :param states: (N, V), the state of the simulation at each step
    :param places: the field and the entry of each number of the state
    """
    # Many things are always 0 or 1, such as whether a foot has touched the ground.
    if (seen == seen[0]).all() and seen[0] in (0, 1):
        return None
    for name, function in FUNCTIONS.items():
        # Libraries round sines in different ways.
        away = np.finfo(seen.dtype).eps if name in ("sin", "cos") else 0.0
        # The last step alone rules most of them out.
        near = np.flatnonzero(np.abs(function(states[-1]).astype(seen.dtype) - seen[-1]) <= away)
        for k in near:
            if (np.abs(function(states[:, k]).astype(seen.dtype) - seen) <= away).all():
                return [name, *places[k]]
    positions = np.flatnonzero([field in POSITIONS for field, _ in places])
    last = states[-1, positions]
    for one, other in positions[np.argwhere((last[:, None] - last).astype(seen.dtype) == seen[-1])]:
        if one != other and ((states[:, one] - states[:, other]).astype(seen.dtype) == seen).all():
            return ["same", *places[one], *places[other]]
    return None


def source_beside(
    source: list[Any], step: int, seen: Array, states: Array, places: list[tuple[str, int]]
) -> list[Any] | None:
    """Returns the source that lies a step, 1 or -1, from another one in the same array, if it gives what was observed.

    :param source: that of the observation beside this one
    """
    function, *pairs = source
    values = np.zeros(len(seen))
    shifted = [function]
    for sign, field, entry in zip((1, -1), pairs[::2], pairs[1::2], strict=False):
        other = entry + step
        # A place has three numbers, and the next three are those of another body.
        if (field, other) not in places or (field in POSITIONS[1:] and other // 3 != entry // 3):
            return None
        values += sign * FUNCTIONS[function](states[:, places.index((field, other))])
        shifted += [field, other]
    return shifted if (values.astype(seen.dtype) == seen).all() else None
