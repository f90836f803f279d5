"""What a laboratory knows about one circuit: the circuit, its body, its names, facts about it, and its recordings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ncp_control._version import __version__
from ncp_control.activity.body import flattened, heights
from ncp_control.activity.laboratory.controllers import controller_data
from ncp_control.activity.laboratory.recognised import STARTS
from ncp_control.activity.laboratory.world import world_data
from ncp_control.activity.page.data import cell_in_words, circuit_in_words, numbers, wiring_data
from ncp_control.activity.recording.activity import FORMAT, VERSION
from ncp_control.activity.recording.agents import policy_about
from ncp_control.activity.recording.ends import LoopEnd
from ncp_control.activity.recording.environment import env_id, vector_names
from ncp_control.activity.recording.tap import bounds_of
from ncp_control.base.pages import all_shown, packed
from ncp_control.data.bodies import MujocoBody
from ncp_control.data.env_specs import check_policy
from ncp_control.neurons import cell_config
from ncp_control.rl.controller import Controller
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.wiring import Wiring

ROOM = 1.3  # a picture has room for a body of this many times the size that it has at rest
GRAVITY = 9.81  # in m/s^2: forces are measured by what the body weighs on Earth
BENT = 0.3  # metres and radians by which every joint is bent, to see which pieces move


@dataclass
class Exhibit:
    """An agent that is shown, and where.

    :param agent: a policy from `load_policy`
    :param env: the environment in which it acts, with the wrappers of its training
    :param name: what it is called
    :param file: the path of its file, for commands
    :param random: the share of random actions in its training
    :param asked_env: the environment's id, if it is another one than that of the training
    :param starts: moments of episodes, by the paths of the recordings that end there: seed 0 begins at the first one,
        seed 1 at the second, and so on. Without them, seeds begin episodes as in Python
    """

    agent: LoadedPolicy
    env: Any
    name: str
    file: str
    random: float = 0.0
    asked_env: str | None = None
    starts: Mapping[str, LoopEnd] = field(default_factory=dict)


@torch.no_grad()
def exhibit_data(exhibit: Exhibit) -> dict[str, Any]:
    """Returns all that a laboratory needs of an agent, as JSON values.

    It raises ValueError for an agent, an environment or a body that a laboratory cannot run.
    """
    agent, env = exhibit.agent, exhibit.env
    check_policy(agent, env)
    # The world comes first, because what it refuses is what most users meet.
    world = world_data(env)
    sensors = vector_names(env)
    controller = Controller(agent, "reference", sensors=sensors)
    circuit = controller_data(controller)
    rnn = controller.rnn
    assert rnn is not None  # `controller_data` refuses an agent without one
    bounds = bounds_of(rnn)
    begins = starts_data(exhibit, rnn.cell.state_size)
    note = {key: agent.note[key] for key in ("steps",) if key in agent.note}
    exact = {
        "file": exhibit.file,
        "command": {"random": exhibit.random, "env": exhibit.asked_env, "after": list(exhibit.starts)},
        "controller": circuit,
        "world": {**world, "means": means_of(controller), **begins},
        "recording": recording_facts(controller, env, exhibit.name, {"sha256": agent.sha256, **note}),
    }
    # A browser would obey marks in a name that turn the order of writing.
    seen = {
        "name": exhibit.name,
        "observationNames": world["observationNames"],
        "actionNames": world["actionNames"],
        "bodyNames": world["bodies"],
        "wiring": wiring_data(rnn.wiring, names_of_inputs(rnn.wiring, controller)),
        "body": body_data(env),
        "bounds": dict(zip(("low", "high"), map(numbers, bounds["state_bounds"]), strict=True)),
        "constantBounds": dict(zip(("low", "high"), map(numbers, bounds["time_constant_bounds"]), strict=True)),
        "facts": facts(exhibit, rnn.wiring, cell_config(rnn.cell), world["unknown"]),
    }
    return {**exact, **all_shown(seen)}


def starts_data(exhibit: Exhibit, size: int) -> dict[str, Any]:
    """Returns where seeds begin in a page if these are moments of recordings; otherwise nothing.

    :param exhibit: what is shown
    :param size: of the circuit's state
    """
    if not exhibit.starts:
        return {}
    body = MujocoBody(exhibit.env)
    places, speeds, states = [], [], []
    for path, end in exhibit.starts.items():
        try:
            place, speed = body.course(end.body)
        except ValueError as error:
            raise ValueError(f"{path} was not recorded in {env_id(exhibit.env)}: {error}") from error
        places.append(place)
        speeds.append(speed)
        if end.memory is not None:
            states.append(end.memory[0][0, 0, :size])
    return {
        "start": {"count": len(places), "positions": packed(np.array(places)), "velocities": packed(np.array(speeds))},
        "states": packed(np.array(states)),
    }


def names_of_inputs(wiring: Wiring, controller: Controller) -> list[str]:
    """Returns the names of a circuit's inputs: the wiring's if it has names of its own, otherwise the observation's."""
    names = [*controller.sensors, *(["elapsed time"] if controller.reads_elapsed else [])]
    unnamed = wiring.input_names == tuple(f"input{k}" for k in range(wiring.inputs))
    return names if unnamed and len(names) == wiring.inputs else list(wiring.input_names)


def means_of(controller: Controller) -> list[float]:
    """Returns what a lost sense shows: every observation's mean in the training, or 0 without a normalisation."""
    mean = getattr(controller.normalize, "mean", None)
    return [0.0] * len(controller.sensors) if mean is None else [float(value) for value in mean]


def facts(exhibit: Exhibit, wiring: Wiring, cell: dict[str, Any], unknown: str | None = None) -> list[tuple[str, str]]:
    """Returns terms and their values.

    :param unknown: why the page does not know the task of the environment; None if it does
    """
    note = exhibit.agent.note
    trained = note.get("steps")
    starts = f"those of Python for the seeds 0 to {STARTS - 1}, and the same again from seed {STARTS} on"
    if exhibit.starts:
        ends = ", ".join(f"seed {seed} where {path} ends" for seed, path in enumerate(exhibit.starts))
        starts = f"{ends}, and the same again"
    terms = [
        ("Agent", exhibit.name),
        ("Environment", env_id(exhibit.env)),
        ("Cell", cell_in_words(cell)),
        ("Circuit", circuit_in_words(wiring)),
        ("Trained for", f"{trained:,} steps" if isinstance(trained, int) else None),
        ("Starts", starts if unknown or exhibit.starts else None),
        ("Reward and end", f"not known to this page, because {unknown}" if unknown else None),
        ("SHA-256", exhibit.agent.sha256),
    ]
    return [(term, str(text)) for term, text in terms if text]


def body_data(env: Any) -> dict[str, Any]:
    """Returns what never changes about the picture of an environment's MuJoCo body."""
    from ncp_envs.body import Body, poses_of

    unwrapped = env.unwrapped
    model = unwrapped.model
    body = Body(model)
    rest = np.asarray(unwrapped.init_qpos, np.float64)
    poses = poses_of(model, np.stack([rest, rest + BENT]))
    capsules = body.capsules(*poses)
    about = {"seen_from": body.seen_from, "ground": body.ground}
    flat = flattened(capsules.ends, capsules.radii, body.shapes, about)
    still = flat._replace(ends=flat.ends[:1])  # the bent pose has only shown which pieces move
    low, high = heights(still, rare=0)
    around = still.ends[0, :, :, 0] - still.middle[0, 0]
    side = float(np.abs(around[flat.moving]).max() + flat.radii.max())
    down = low if flat.above or flat.ground is None else min(low, flat.ground)
    return {
        "radii": flat.radii.tolist(),
        "moving": flat.moving.tolist(),
        "other": flat.other.tolist(),
        "above": flat.above,
        "flat": body.is_flat,
        "ground": None if flat.above else flat.ground,
        "side": ROOM * side,
        "down": ROOM * low if flat.above else down,
        "up": ROOM * high if flat.above else down + ROOM * (high - down),
        "weight": float(GRAVITY * model.body_mass.sum()),
        # The number in the world's `bodies` of the body that has each piece; -1 for the world itself.
        "owners": [int(model.geom_bodyid[geom]) - 1 for geom in body.geoms],
    }


def recording_facts(controller: Controller, env: Any, name: str = "", note: Mapping[str, Any] | None = None) -> Any:
    """Returns what is the same in every recording of an agent, as JSON values for `recordingOf` of `recording.js`.

    :param controller: the agent
    :param env: the environment, with its wrappers
    :param name: the name under which the agent is recorded
    :param note: JSON values that are kept in the recordings
    :return: `about` as `record` writes it, without what happens; `wiring`, the circuit's as JSON text; `state_bounds`
        and `time_constant_bounds`, the packed least and greatest values of all neurons; and `uses_elapsed`, whether the
        cell has a use for the elapsed time
    """
    rnn = controller.rnn
    assert rnn is not None  # `controller_data` refuses an agent without one
    about = {
        "format": FORMAT, "version": VERSION, "package": __version__, "body": None,
        **policy_about(rnn.cell, env, name, note),
    }  # fmt: skip
    bounds = {key: [packed(bound) for bound in torch.as_tensor(both)] for key, both in bounds_of(rnn).items()}
    return {"about": about, "wiring": rnn.wiring.to_json(), "uses_elapsed": rnn.cell.uses_elapsed, **bounds}
