"""Settings of every test: its tier, one thread, the same random numbers, and a process that is left as it was found."""

import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from helpers.tiers import assign, clusters_first

torch.set_num_threads(1)

# what commands print follows the width and the colours of the terminal that the tests run in
os.environ["COLUMNS"] = "80"
for name in ("LINES", "FORCE_COLOR", "CLICOLOR_FORCE", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)

# how long it takes to make an example says how busy the machine is
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
# Written by pytest, and by libraries when they are first imported.
INDUCTORS = ("TORCHINDUCTOR_", "_TORCHINDUCTOR_", "TRITON_CACHE_DIR", "TRITON_PTXAS_PATH")
THEIRS = ("PYTEST_", "KMP_", "PYGAME_", "RAY_", *INDUCTORS)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --shuffle, which shows tests that rely on those before them."""
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="run files, and tests within a file, in a random order"
    )


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives every case its tier."""
    assign(items)
    clusters_first(items)
    seed = config.getoption("shuffle")
    if seed is not None:
        shuffle(items, random.Random(seed))


def shuffle(items: list[pytest.Item], order: random.Random) -> None:
    """Shuffles files, and tests within each, but keeps a file's tests together, as what they share is made once."""
    by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
    files = list(by_file.values())
    order.shuffle(files)
    for tests in files:
        order.shuffle(tests)
    items[:] = [item for tests in files for item in tests]


def process_state() -> dict[str, Any]:
    """What tests in one process share, and what a test must not leave changed."""
    smallest, half_step = sys.float_info.min, sys.float_info.epsilon / 2
    in_main = threading.current_thread() is threading.main_thread()
    return {
        "whether denormal numbers are taken for zero": smallest / 2 == 0,
        "how results are rounded": (1 + half_step, -1 - half_step, 1 + half_step * 1.5),
        "the number of torch's threads": torch.get_num_threads(),
        "torch's default type": torch.get_default_dtype(),
        "whether torch computes gradients": torch.is_grad_enabled(),
        "whether torch is to be deterministic": torch.are_deterministic_algorithms_enabled(),
        "NumPy's treatment of errors": np.geterr(),
        "the working folder": os.getcwd(),
        "the environment": {key: value for key, value in os.environ.items() if not key.startswith(THEIRS)},
        "what signals do": [signal.getsignal(name) for name in SIGNALS] if in_main else [],
    }


def restore(state: dict[str, Any]) -> None:
    """Makes the process what it was, so that one faulty test does not make others fail."""
    torch.set_flush_denormal(state["whether denormal numbers are taken for zero"])
    torch.set_num_threads(state["the number of torch's threads"])
    torch.set_default_dtype(state["torch's default type"])
    torch.set_grad_enabled(state["whether torch computes gradients"])
    torch.use_deterministic_algorithms(state["whether torch is to be deterministic"])
    np.seterr(**state["NumPy's treatment of errors"])
    os.chdir(state["the working folder"])
    ours = {key: value for key, value in os.environ.items() if key.startswith(THEIRS)}
    os.environ.clear()
    os.environ.update(state["the environment"] | ours)
    for name, handler in zip(SIGNALS, state["what signals do"], strict=False):
        signal.signal(name, handler)


@pytest.fixture(autouse=True)
def as_found() -> Iterator[None]:
    """Starts every test from the same random numbers, and fails it if it leaves the process other than it was."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    before = process_state()
    yield
    after = process_state()
    changed = [name for name in before if before[name] != after[name]]
    if changed:
        restore(before)
        pytest.fail(f"this test left changed: {'; '.join(f'{n} ({difference(before[n], after[n])})' for n in changed)}")


def difference(before: Any, after: Any) -> str:
    """In a few words, what changed."""
    if isinstance(before, dict):
        keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        return ", ".join(f"{key}: {before.get(key)!r} -> {after.get(key)!r}" for key in keys)
    return f"{before!r} -> {after!r}"
