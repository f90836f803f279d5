"""What MuJoCo says: one warning that no user can do anything about is hidden, and no file is left behind.

The warning is about Gymnasium's model file of the half-cheetah, and the file is `MUJOCO_LOG.TXT`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

LOG_FILE = "MUJOCO_LOG.TXT"
_UNWANTED = "compiler attribute 'settotalmass' is deprecated"
# MuJoCo has one handler for the whole process, so only one thread at a time may replace it.
_handler = RLock()


def without_log_file() -> None:
    """Lets MuJoCo print its warnings without writing them to `MUJOCO_LOG.TXT` in the working folder, from now on.

    A file of another name stays, because somebody has chosen it. Older versions of MuJoCo have no such setting.
    """
    import mujoco

    config_of: Any = getattr(mujoco, "MjLogConfig", None)
    if config_of is None:
        return
    config = config_of.get()
    if config.logto_file and config.logfile == LOG_FILE:
        config.logto_file = False
        config.set()


@contextmanager
def without_mass_warning() -> Iterator[None]:
    """Hides MuJoCo's warning about the `settotalmass` in the model file of every HalfCheetah that is made inside.

    Since version 4 MuJoCo prints that warning and writes it to `MUJOCO_LOG.TXT` in the working folder each time such a
    model is compiled. Any other warning inside goes to the handler that was set before or, if there was none, becomes a
    Python `RuntimeWarning` at the end. The environments of this package need no such block. What is made inside writes
    no `MUJOCO_LOG.TXT` later on, either.

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
    without_log_file()
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
