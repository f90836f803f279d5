"""Processes that work on one thing together, as torchrun would start them, but as forks of the test's process."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.children import Child, Ended


class Rank(Child):
    """One of the processes, which keeps their port for them as long as it is known here."""

    def __init__(self, work: Callable[[], Any], scratch: Path, port: socket.socket) -> None:
        self._port = port
        super().__init__(work, scratch)


def start_ranks(count: int, work: Callable[[], Any], scratch: Path) -> list[Rank]:
    """Starts processes that do the same work, each with torchrun's variables."""
    port = socket.socket()
    port.bind(("127.0.0.1", 0))
    # Nobody else is given this port while it is bound here, and this option lets the first of the processes listen.
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def as_rank(rank: int) -> Callable[[], Any]:
        def run() -> Any:
            os.environ.update(
                WORLD_SIZE=str(count), RANK=str(rank), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port.getsockname()[1]), GLOO_SOCKET_IFNAME="lo",
            )  # fmt: skip
            return work()

        return run

    return [Rank(as_rank(rank), scratch, port) for rank in range(count)]


def end_of_ranks(count: int, work: Callable[[], Any], scratch: Path) -> list[Ended]:
    """Returns how processes with the same work ended."""
    return [child.wait() for child in start_ranks(count, work, scratch)]


def in_ranks(count: int, work: Callable[[], Any], scratch: Path) -> list[Any]:
    """Returns what work that must not fail returns in every process."""
    ended = end_of_ranks(count, work, scratch)
    for rank, one in enumerate(ended):
        assert one.code == 0, f"process {rank} ended with {one.code}:\n{one.output[-4000:]}"
    return [one.value for one in ended]
