"""Settings of every test: one thread, and the same random numbers each time."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Every test starts from the same seed and leaves torch's default float type as it was."""
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)
