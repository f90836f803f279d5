"""Moves MuJoCo bodies in one call of compiled code, on several threads and without the interpreter's lock.

The simulator is that of MuJoCo's own library: the compiled code is given its functions by their addresses. Where it
cannot be used, the bodies are moved one after another, with the same numbers.
"""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LIBRARY = Path(__file__).with_name("_physics.so")
BODY_BYTES, STEPS_BYTES = 5 * 8, 14 * 8
_MESSAGE_BYTES = 1024
_EACH = 8  # a thread gets so many bodies at least, because its start may take as long as the steps of two


class MovedBodies(NamedTuple):
    """The bodies after a step.

    :param before: generalised positions before the step, (B, nq)
    :param positions: generalised positions, (B, nq)
    :param velocities: generalised velocities, (B, nv)
    :param data: the simulator's data of each body
    """

    before: Array
    positions: Array
    velocities: Array
    data: Sequence[Any]


class Physics:
    """Moves bodies as `MujocoEnv.do_simulation` of Gymnasium does.

    :param bodies: environments without wrappers, with as many positions, velocities and controls each
    :param threads: the most threads that share the work; the numbers do not depend on it
    """

    def __init__(self, bodies: Sequence[Any], threads: int = 1) -> None:
        self._threads, self._frames = threads, bodies[0].frame_skip
        self.data: list[Any] = [body.data for body in bodies]
        self._models = [body.model for body in bodies]
        # The simulator keeps its arrays where they are, so that they are asked for once.
        self._arrays = [(data.ctrl, data.qpos, data.qvel) for data in self.data]
        controls, nq, nv = self._sizes = tuple(map(len, self._arrays[0]))
        self._everywhere = np.arange(len(bodies))
        calls = _library() if self._arrays[0][0].dtype == np.float64 else None
        self._step = None if calls is None else calls.step
        if calls is not None:
            self._bodies, self._message = array("q"), ctypes.create_string_buffer(_MESSAGE_BYTES)
            for model, data, arrays in zip(self._models, self.data, self._arrays, strict=True):
                self._bodies.extend([model._address, data._address, *(values.ctypes.data for values in arrays)])
            fields = [self._bodies.buffer_info()[0], nq, nv, controls, self._frames, *calls.of_mujoco]
            self._fields = [*fields, ctypes.addressof(self._message)]

    def step(self, places: Sequence[int], actions: Array) -> MovedBodies:
        """Lets the bodies at some places take a step.

        :param places: which of the bodies
        :param actions: the action of each of them, (B, m)
        """
        data, numbers = self.data, self._everywhere
        if places != range(len(data)):
            data, numbers = [data[place] for place in places], np.array(places, dtype=np.int64)
        controls, nq, nv = self._sizes
        count = len(data)
        found = np.empty((count, 2 * nq + nv))
        if self._step is None or _has_callbacks():
            self._one_by_one(places, actions, found)
        else:
            given = np.empty((count, controls))
            given[:] = actions
            threads = max(1, min(self._threads, count // _EACH))
            own = [count, threads, numbers.ctypes.data, given.ctypes.data, found.ctypes.data]
            fields = array("q", self._fields + own)
            if self._step(fields.buffer_info()[0]):
                import mujoco

                raise mujoco.FatalError(self._message.value.decode(errors="replace"))
        return MovedBodies(found[:, :nq], found[:, nq : 2 * nq], found[:, 2 * nq :], data)

    def _one_by_one(self, places: Sequence[int], actions: Array, found: Array) -> None:
        import mujoco

        for place, action, row in zip(places, actions, found, strict=True):
            model, data, (control, positions, velocities) = self._models[place], self.data[place], self._arrays[place]
            before = positions.copy()
            control[:] = action
            mujoco.mj_step(model, data, self._frames)
            mujoco.mj_rnePostConstraint(model, data)
            np.concatenate([before, positions, velocities], out=row)


class _Calls(NamedTuple):
    """The functions of the compiled library.

    :param step: lets bodies take a step
    :param of_mujoco: the addresses of `mj_step`, `mj_rnePostConstraint` and the variable with the handler of errors
    """

    step: Any
    of_mujoco: tuple[int, int, int]


@functools.cache
def _library() -> _Calls | None:
    """Loads the compiled library; None where it was not built, or does not fit, or MuJoCo's library is not found."""
    import mujoco

    found = [path for path in Path(mujoco.__file__).parent.glob("libmujoco.so*") if path.is_file()]
    if len(found) != 1 or not hasattr(mujoco.MjData, "_address"):
        return None
    try:
        ours, theirs = ctypes.CDLL(str(LIBRARY)), ctypes.CDLL(str(found[0]))
        if (ours.ncp_body_struct_bytes(), ours.ncp_steps_struct_bytes()) != (BODY_BYTES, STEPS_BYTES):
            return None
        functions = [
            ctypes.cast(getattr(theirs, name), ctypes.c_void_p) for name in ("mj_step", "mj_rnePostConstraint")
        ]
        handler = ctypes.addressof(ctypes.c_void_p.in_dll(theirs, "mju_user_error"))
        step = ours.ncp_step_bodies
    except (OSError, AttributeError, ValueError):
        return None
    step.argtypes, step.restype = (ctypes.c_void_p,), ctypes.c_int
    addresses = [function.value or 0 for function in functions]
    return _Calls(step, (addresses[0], addresses[1], handler))


@functools.cache
def _callbacks() -> list[Any]:
    """The functions that return MuJoCo's callbacks, which a user may have set to functions of Python's."""
    import mujoco

    return [getattr(mujoco, name) for name in dir(mujoco) if name.startswith("get_mjcb_")]


def _has_callbacks() -> bool:
    return any(get() is not None for get in _callbacks())
