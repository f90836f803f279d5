"""Worker processes after threaded work in the process that starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from ncp_control.base.processes import core_count, how_it_ended, interrupts_later

WORK = """
import torch

torch.set_num_threads(2)
values = torch.randn(1500, 1500, requires_grad=True)
((values @ values).exp().sum() + torch.nn.functional.softmax(values, 0).sum()).backward()

from ncp_control.data import collect

print(len(collect("random", "CartPole-v1", 4, group=1, workers=2, progress=False)))
"""


@pytest.mark.system
def test_rollouts_are_collected_by_workers_after_threaded_work() -> None:
    """A fork of a process whose threads hold a lock could wait for that lock for ever."""
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["4"], done.stderr


def test_the_end_of_a_process_in_words() -> None:
    assert how_it_ended(3) == "ended with the exit code 3"
    assert how_it_ended(0) == "ended with the exit code 0"
    assert how_it_ended(-signal.SIGSEGV) == "was ended by SIGSEGV"
    assert how_it_ended(-signal.SIGKILL) == "was ended by SIGKILL, perhaps because memory ran out"
    assert how_it_ended(-200) == "was ended by signal 200"
    assert how_it_ended(None) == "ended"


def test_an_interrupt_waits_until_the_end_of_a_block() -> None:
    seen = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    try:
        with interrupts_later():
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            seen.append("block")
        seen.append("after")
    except KeyboardInterrupt:
        seen.append("interrupt")
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["block", "interrupt"]


def test_no_more_cores_are_counted_than_there_are() -> None:
    assert 1 <= core_count() <= (os.cpu_count() or 1)
