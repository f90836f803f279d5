"""Hides one warning of MuJoCo, about Gymnasium's model file of the half-cheetah, that no user can do anything about."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

_UNWANTED = "compiler attribute 'settotalmass' is deprecated"
# MuJoCo has one handler for the whole process, so only one thread at a time may replace it.
_handler = RLock()


@contextmanager
def without_mass_warning() -> Iterator[None]:
    """Hides MuJoCo's warning about the `settotalmass` in the model file of every HalfCheetah that is made inside.

    Since version 4 MuJoCo prints that warning and writes it to `MUJOCO_LOG.TXT` in the working folder each time such a
    model is compiled. Any other warning inside goes to the handler that was set before or, if there was none, becomes a
    Python `RuntimeWarning` at the end. The environments of this package need no such block.

    >>> import gymnasium as gym
    >>> with without_mass_warning():
    ...     env = gym.make("HalfCheetah-v5")
    """
    try:
        import mujoco
    except ImportError:
        mujoco = None
    if mujoco is None:
        yield
        return
    messages: list[str] = []
    with _handler:
        previous = mujoco.get_mju_user_warning()
        # The handler only collects: an exception in it, such as a warning that is an error, would end the process.
        mujoco.set_mju_user_warning(messages.append)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(previous)
            for message in messages:
                if message.startswith(_UNWANTED):
                    continue
                if previous is not None:
                    previous(message)
                else:
                    warnings.warn(f"MuJoCo: {message}", RuntimeWarning, stacklevel=3)
