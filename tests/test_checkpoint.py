"""A checkpoint gives back the same network, and anything else is refused with a sentence."""

from __future__ import annotations

import json
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import ncp_control as nc
from helpers.cells import ZOO, build
from ncp_control.checkpoint import CheckpointError, read_metadata
from ncp_control.neurons import Held


@pytest.fixture
def path(tmp_path):
    return tmp_path / "network.safetensors"


@pytest.fixture
def saved(path):
    rnn = nc.RNN(nc.LTC(5, nc.AutoNCP(12, 3)))
    nc.save(rnn, path, note={"seed": 3})
    return rnn


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("kind", ZOO)
def test_a_network_comes_back_bit_for_bit(kind, dtype, path):
    rnn = nc.RNN(build(kind, dtype))
    nc.save(rnn, path)
    back = nc.load(path)
    x = torch.randn(3, 6, rnn.cell.inputs, dtype=dtype)
    assert torch.equal(rnn(x)[0], back(x)[0])
    assert back.wiring == rnn.wiring
    assert back.cell.config() == rnn.cell.config()
    assert type(back.cell) is type(rnn.cell)
    assert {n: p.dtype for n, p in back.named_parameters()} == {n: p.dtype for n, p in rnn.named_parameters()}


def test_the_metadata_describes_the_network(saved, path):
    metadata = read_metadata(path)
    assert metadata["config"]["cell"] == "LTC"
    assert metadata["note"] == {"seed": 3}
    assert metadata["package"] == nc.__version__
    assert nc.Wiring.from_json(metadata["wiring"]) == saved.wiring


def test_loading_leaves_the_random_state_alone(saved, path):
    before = torch.get_rng_state()
    nc.load(path)
    assert torch.equal(before, torch.get_rng_state())


def test_a_cell_of_the_users_own_is_given_to_load(path):
    class Mine(nc.LTC):
        pass

    rnn = nc.RNN(Mine(4, 6))
    nc.save(rnn, path)
    with pytest.raises(CheckpointError, match="unknown cell 'Mine'"):
        nc.load(path)
    assert type(nc.load(path, cells=[Mine]).cell) is Mine


def test_a_missing_file_is_named(path):
    with pytest.raises(FileNotFoundError, match="there is no checkpoint at"):
        nc.load(path)


@pytest.mark.parametrize("keep", [0, 4, 60, 0.5, 0.99])
def test_a_truncated_file_is_refused(saved, path, keep):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep) if keep < 1 else int(keep)])
    with pytest.raises(CheckpointError, match="cut short"):
        nc.load(path)


def test_every_altered_byte_of_the_weights_and_description_is_noticed(saved, path):
    content = path.read_bytes()
    header = struct.unpack("<Q", content[:8])[0]
    rng = torch.Generator().manual_seed(1)
    for position in [*torch.randint(8, len(content), (60,), generator=rng).tolist(), 8 + header, len(content) - 1]:
        altered = bytearray(content)
        altered[position] ^= 1
        path.write_bytes(bytes(altered))
        with pytest.raises(CheckpointError):
            nc.load(path)


def test_pickle_is_refused_and_not_run(path, tmp_path):
    witness = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return (open, (str(witness), "w"))

    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        nc.load(path)
    assert not witness.exists()


def test_a_safetensors_file_of_something_else_is_refused(path):
    save_file({"a": torch.ones(2)}, path)
    with pytest.raises(CheckpointError, match="not written by ncp_control"):
        nc.load(path)


def rewrite(path, **changes):
    """Writes the checkpoint again with other metadata and the checksum that belongs to it."""
    from ncp_control.base.tensors import checksum
    from ncp_control.checkpoint import DESCRIBED

    metadata = read_metadata(path)
    metadata = {k: v if isinstance(v, str) else json.dumps(v) for k, v in metadata.items()} | changes
    weights = load_file(path)
    metadata["sha256"] = checksum(metadata, DESCRIBED, weights)
    save_file(weights, path, metadata)


def test_a_file_of_a_newer_version_is_refused(saved, path):
    rewrite(path, version="7")
    with pytest.raises(CheckpointError, match="version 7, this package reads 1"):
        nc.load(path)


def test_a_circuit_with_held_neurons_is_kept_as_it_is(path):
    rnn = nc.RNN(Held(nc.LTC(5, nc.AutoNCP(12, 3)), {0: 0.3, 11: -0.5}))
    nc.save(rnn, path)
    inputs = torch.randn(2, 6, 5)
    for found, expected in zip(nc.load(path)(inputs, states=True), rnn(inputs, states=True), strict=True):
        assert torch.equal(found, expected)


def test_a_model_of_stable_baselines3_is_told_apart(tmp_path):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "{}")
    with pytest.raises(CheckpointError, match="is a zip archive, such as Stable-Baselines3's models are"):
        nc.load(path)


def test_a_config_that_no_cell_takes_is_refused(saved, path):
    rewrite(path, config=json.dumps({"cell": "LTC", "solver": "magic"}))
    with pytest.raises(CheckpointError, match="unknown solver 'magic'"):
        nc.load(path)


def test_weights_of_another_wiring_are_refused(saved, path):
    rewrite(path, wiring=nc.AutoNCP(12, 2).build(5).to_json())
    with pytest.raises(CheckpointError, match="do not fit"):
        nc.load(path)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(saved, path, monkeypatch):

    before = path.read_bytes()

    def fail(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        nc.save(nc.RNN(nc.LTC(5, 4)), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_saving_into_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist: create it first"):
        nc.save(nc.RNN(nc.LTC(5, 4)), tmp_path / "none" / "a.safetensors")


def test_saving_something_other_than_a_network_is_refused(path):
    with pytest.raises(TypeError, match=r"wrap a cell as RNN\(cell\)"):
        nc.save(nc.LTC(5, 4), path)
    assert not path.exists()
