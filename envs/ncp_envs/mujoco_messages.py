"""Keep one message of MuJoCo's from the terminal: the one that nobody who makes a HalfCheetah can act upon."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

_UNWANTED = "compiler attribute 'settotalmass' is deprecated"
# MuJoCo has one handler for the whole process, so only one thread at a time may borrow it.
_handler = RLock()


@contextmanager
def without_mass_warning() -> Iterator[None]:
    """Make a HalfCheetah inside of this, and MuJoCo says nothing about the `settotalmass` of Gymnasium's model file.

    Since version 4 MuJoCo prints that message and writes it to `MUJOCO_LOG.TXT` in the working folder each time such a
    model is compiled. Any other warning that it gives meanwhile goes to the handler that was set before or, if there
    was none, becomes a Python `RuntimeWarning` at the end. The environments of this package are made like this already.

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
        # Only collected here: an exception in a handler, such as a warning that is an error, ends the process.
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
