"""The MuJoCo model of an environment as text, and the numbers in which the environment's model differs from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ncp_control.base.pages import packed

# Parts of a model that the page cannot build, by the sizes that count them.
PARTS = {
    "nmesh": "meshes",
    "nhfield": "height fields",
    "nskin": "skins",
    "nflex": "flexible parts",
    "nplugin": "plugins",
    "nmocap": "bodies moved by hand",
}


def model_data(body: Any) -> dict[str, Any]:
    """Returns the text of the model, and the numbers of the environment's own model that are others.

    :param body: the environment without its wrappers
    :return: "xml"; "model", "opt" and "stat", from names of fields in `mjModel`, its options and its statistics to
        packed arrays; and "turns", see `free_turns`
    """
    import mujoco

    from ncp_envs.mujoco_messages import without_mass_warning

    path = Path(body.fullpath)
    text = text_of(path)
    try:
        with without_mass_warning():
            plain: Any = mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"a laboratory cannot build the model {path}: {reason}") from None
    model = body.model
    for size, part in PARTS.items():
        if getattr(model, size):
            raise ValueError(f"a laboratory cannot build the model {path}, because it has {part}")
    changed = {
        "model": differences(plain, model),
        "opt": differences(plain.opt, model.opt),
        "stat": differences(plain.stat, model.stat),
    }
    for fields in changed.values():
        for name, value in fields.items():
            if value is None:
                raise ValueError(
                    f"a laboratory cannot build the model of the environment, because its {name} is not that of {path}"
                )
    return {"xml": text, "turns": free_turns(model)} | {
        part: {name: packed(value) for name, value in fields.items()} for part, fields in changed.items()
    }


def text_of(path: Path) -> str:
    """Returns the text of a model file that needs no other files."""
    try:
        text = path.read_text(encoding="utf-8")
        elements = list(ElementTree.fromstring(text).iter())
    except (OSError, UnicodeDecodeError, ElementTree.ParseError) as error:
        raise ValueError(f"a laboratory cannot read the model {path}: {error}") from None
    for element in elements:
        name = next((key for key in element.attrib if key.startswith("file")), None)
        if name is not None:
            raise ValueError(
                f"a laboratory cannot build the model {path}, because its <{element.tag}> needs the file "
                f"{element.attrib[name]!r}"
            )
    return text


def differences(plain: Any, own: Any) -> dict[str, Any]:
    """Returns the fields in which two models, or parts of them, differ: the environment's value as an array of numbers,
    or None if it is no such array, or one of another shape.
    """
    changed: dict[str, Any] = {}
    for name in dir(own):
        if name.startswith("_"):
            continue
        before, after = getattr(plain, name), getattr(own, name)
        if callable(after) or not isinstance(after, int | float | bytes | np.ndarray):
            continue
        first, second = np.asarray(before), np.asarray(after)
        if first.shape == second.shape and (first == second).all():
            continue
        is_size = isinstance(after, int) and name.startswith("n")  # such as the number of bodies, also `nv` and `nu`
        # The simulator of the page shows no arrays of booleans.
        fits = first.shape == second.shape and second.dtype.kind in "iuf" and not is_size
        changed[name] = second if fits else None
    return changed


def free_turns(model: Any) -> list[int]:
    """Returns where the velocities of turns begin that the installed MuJoCo steps in another way than the page's build.

    From version 4 on, MuJoCo's Runge-Kutta method takes into account that turns about different axes do not add up. Its
    builds for browsers are older, so the page does this itself; see `runge_kutta.js`.
    """
    import mujoco

    newer = int(mujoco.__version__.split(".")[0]) >= 4
    if not newer or model.opt.integrator != mujoco.mjtIntegrator.mjINT_RK4:
        return []
    kinds, first = mujoco.mjtJoint, model.jnt_dofadr
    # A free joint has three velocities along the axes before those of its turn.
    free = [int(at) + 3 for at in first[model.jnt_type == kinds.mjJNT_FREE]]
    turns = sorted([*free, *(int(at) for at in first[model.jnt_type == kinds.mjJNT_BALL])])
    if turns and model.na:
        raise ValueError(
            "a laboratory cannot build a body that turns freely and has actuators with a memory of their own"
        )
    return turns


def body_names(model: Any) -> list[str]:
    """Returns a name for each body but the world: its own, that of its first joint, or its number."""
    names: list[str] = []
    for number in range(1, model.nbody):
        name = str(model.body(number).name)
        if not name and model.body_jntnum[number]:
            name = str(model.joint(int(model.body_jntadr[number])).name)
        names.append(name if name and name not in names else f"body {number}")
    return names
