"""Where episodes end in a replay buffer from which returns over several steps are computed."""

from __future__ import annotations

import numpy as np
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer


def cut_episodes(buffer: ReplayBuffer | None) -> None:
    """Makes the newest steps the last ones of their episodes, as if a time limit had cut them off.

    Stable-Baselines3's buffer adds up the rewards of following rows until an episode ends. Environments that are reset
    in the middle of an episode would let a sum run on into the next one.

    :param buffer: the buffer of an algorithm whose environments are reset now; only one of n-step returns is changed
    """
    if isinstance(buffer, NStepReplayBuffer) and buffer.size():
        newest = buffer.pos - 1
        buffer.timeouts[newest] = np.maximum(buffer.timeouts[newest], 1 - buffer.dones[newest])
