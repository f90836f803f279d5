"""Errors in what is built from a file's description become one sentence."""

from pathlib import Path

import pytest
import torch

from ncp_control.base.notes import read_object
from ncp_control.base.tensors import CheckpointError, building

PATH = Path("a.safetensors")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("of two\n  lines"), "of two lines"),
        (KeyError("cell"), "'cell' is missing"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_an_error_of_a_description_becomes_a_sentence(error: Exception, words: str) -> None:
    sentence = f"a.safetensors describes a network that cannot be built: {words}"
    with pytest.raises(CheckpointError, match=sentence), building(PATH, "a network that cannot be built"):
        raise error


def test_building_leaves_the_random_state_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with building(PATH, "a network"):
        torch.nn.Linear(3, 3)
    assert torch.equal(torch.rand(2), expected)


def test_only_an_object_is_read() -> None:
    assert read_object('{"a": 1}') == {"a": 1}
    with pytest.raises(ValueError, match="there should be a JSON object, not a list"):
        read_object("[1]")
