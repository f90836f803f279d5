"""Safetensors files with a checksum: one whole file is read, of the format that was asked for."""

import itertools
import threading
from pathlib import Path

import pytest
import torch

from ncp_control.base.tensors import CheckpointError, read_tensors, write_tensors


def test_a_file_that_is_replaced_while_it_is_read_is_one_of_the_two(tmp_path: Path) -> None:
    path, done = tmp_path / "state.safetensors", threading.Event()

    def write(number: int) -> None:
        write_tensors(path, "test", 1, {"number": str(number)}, {"values": torch.full((1000,), float(number))})

    def write_on() -> None:
        for number in itertools.count(1):
            write(number)
            if done.is_set():
                return

    write(0)
    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for _ in range(300):
            metadata, tensors = read_tensors(path, "test", 1, ("number",), "test")
            assert tensors["values"].eq(float(metadata["number"])).all()
    finally:
        done.set()
        writer.join()


def test_tensors_of_every_shape_and_type_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    tensors = {
        "one": torch.ones(()),
        "none": torch.zeros(0, 3),
        "columns": torch.arange(6.0).reshape(2, 3).T,
        "flags": torch.tensor([True, False]),
        "half": torch.ones(3, dtype=torch.float16),
        "expanded": torch.ones(1).expand(4),
    }
    write_tensors(path, "test", 1, {"note": "é"}, tensors)
    metadata, found = read_tensors(path, "test", 1, ("note",), "test")
    assert metadata["note"] == "é"
    assert found.keys() == tensors.keys()
    for name, value in tensors.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)


@pytest.mark.parametrize(
    ("kind", "version", "described", "sentence"),
    [
        ("ncp_control.policy", 1, (), "holds a network, not a policy"),
        ("ncp_control.rnn", 2, (), "has checkpoint version 1, this package reads 2"),
        ("ncp_control.rnn", 1, ("config",), "lacks config in its metadata"),
        ("other", 1, (), "was not written by save"),
    ],
)
def test_a_file_of_another_kind_is_refused(
    tmp_path: Path, kind: str, version: int, described: tuple[str, ...], sentence: str
) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, "ncp_control.rnn", 1, {}, {"a": torch.ones(2)})
    with pytest.raises(CheckpointError, match=sentence):
        read_tensors(path, kind, version, described, "save")


def test_a_folder_names_the_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "best.safetensors").touch()
    with pytest.raises(IsADirectoryError, match=r"name a file in it, such as .*best\.safetensors"):
        read_tensors(tmp_path, "ncp_control.rnn", 1, (), "save")


def test_equal_contents_give_equal_files(tmp_path: Path) -> None:
    files = []
    for name in ("a", "b", "c"):
        described = {f"entry {k}": "é" * k for k in range(12)}
        write_tensors(tmp_path / name, "test", 1, described, {"x": torch.arange(5.0), "y": torch.ones(2)})
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1] == files[2]
