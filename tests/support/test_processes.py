"""Worker processes after threaded work in the process that starts them."""

from __future__ import annotations

import subprocess
import sys

WORK = """
import torch

torch.set_num_threads(2)
values = torch.randn(1500, 1500, requires_grad=True)
((values @ values).exp().sum() + torch.nn.functional.softmax(values, 0).sum()).backward()

from ncp_control.data import collect

print(len(collect("random", "CartPole-v1", 4, group=1, workers=2, progress=False)))
"""


def test_rollouts_are_collected_by_workers_after_threaded_work() -> None:
    """A fork of a process whose threads hold a lock could wait for that lock for ever."""
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout.split() == ["4"], done.stderr
