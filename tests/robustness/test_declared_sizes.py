"""A file that declares far more than it holds is refused before it takes memory."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import ncp_control as nc
from helpers.children import in_child
from helpers.forgeries import dataset, describe, forge, policy_file, small_model
from ncp_control.activity import Activity
from ncp_control.data import Rollouts

pytest.importorskip("sb3_contrib")

MEBIBYTE = 2**20


def deflated_zeros(size: int) -> bytes:
    """Makes a deflate stream of `size` mebibytes of zeros, a thousand times shorter than they are."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(MEBIBYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(MEBIBYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block + again * (size - 1) + packer.flush(zlib.Z_FINISH)


def bomb(path: Path, size: int) -> None:
    """Writes a small `.npz` whose one array has `size` mebibytes of zeros."""
    header = io.BytesIO()
    shape = (size * MEBIBYTE // 8 - 16, 1)
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    whole = header.getvalue() + bytes(shape[0] * 8 % MEBIBYTE)
    inside = deflated_zeros(size)
    name = b"observations.npy"
    check, total = zlib.crc32(whole), size * MEBIBYTE
    common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, check, len(inside), total, len(name), 0)
    local = b"PK\x03\x04" + common + name
    directory = b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), len(local) + len(inside), 0)
    path.write_bytes(local + inside + directory + end)


def large_policy(**settings: Any) -> Callable[[Path], Callable[[], Any]]:
    def make(folder: Path) -> Callable[[], Any]:
        path = policy_file(folder / "policy.safetensors", "RecurrentSAC" if "n_critics" in settings else "RecurrentPPO")
        forge(path, lambda values: values["policy"].update(settings))
        return lambda: nc.load(path)

    return make


def large_network(folder: Path) -> Callable[[], Any]:
    path = folder / "network.safetensors"
    nc.save(nc.RNN(nc.CTGRU(3, 4)), path)
    forge(path, lambda values: values["config"].update(scales=10**9))
    return lambda: nc.load(path)


def large_space(folder: Path) -> Callable[[], Any]:
    path = policy_file(folder / "policy.safetensors")
    forge(path, lambda values: values["spaces"][0].update(low=0.0, high=1.0, shape=[10**10]))
    return lambda: nc.load(path)


def large_model(folder: Path) -> Callable[[], Any]:
    path = small_model(folder / "model.safetensors")
    forge(path, lambda values: values["models"][0]["cell"].update(lags=10**9))
    return lambda: nc.load(path)


def circuit_by_number(folder: Path) -> Callable[[], Any]:
    path = small_model(folder / "model.safetensors")
    forge(path, lambda values: values["models"][0].update(cell={"cell": "gru"}, wiring=10**6))
    return lambda: nc.load(path)


def header_only(folder: Path) -> Callable[[], Any]:
    """Writes a header that declares 8 TB, and nothing after it."""
    with (folder / "trace.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 1)})
    return lambda: Rollouts.load(folder / "trace.npy")


def packed_zeros(folder: Path) -> Callable[[], Any]:
    bomb(folder / "trace.npz", 1536)
    return lambda: Rollouts.load(folder / "trace.npz")


def packed_recording(folder: Path) -> Callable[[], Any]:
    bomb(folder / "run.npz", 1536)
    return lambda: Activity.load(folder / "run.npz")


def many_episodes(folder: Path) -> Callable[[], Any]:
    found = dataset(folder / "data")
    describe(found, lambda metadata: metadata.update(total_episodes=10**13))
    return lambda: Rollouts.load(found)


def empty_hdf5(folder: Path) -> Callable[[], Any]:
    """Writes an array of 24 TB without its data, which HDF5 would fill in."""
    found = dataset(folder / "data")
    with h5py.File(found / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/observations"]
        file["episode_0"].create_dataset("observations", (10**12, 3), np.float64, chunks=(1000, 3))
    return lambda: Rollouts.load(found)


def packed_hdf5(folder: Path) -> Callable[[], Any]:
    """Writes an array with all its data, compressed a thousand to one."""
    found = dataset(folder / "data")
    with h5py.File(found / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/observations"]
        shape = (170_000_000, 1)
        array = file["episode_0"].create_dataset("observations", shape, np.float64, chunks=shape, compression="gzip")
        array.id.write_direct_chunk((0, 0), b"\x78\x9c" + deflated_zeros(1297))
    return lambda: Rollouts.load(found)


LARGE: dict[str, Callable[[Path], Callable[[], Any]]] = {
    "layers": large_policy(net_arch=[10**7, 10**7]),
    "critic": large_policy(critic="lstm", critic_units=10**6),
    "neurons": large_policy(wiring=10**6),
    "critics": large_policy(n_critics=10**9),
    "scales": large_network,
    "space": large_space,
    "lags": large_model,
    "circuit": circuit_by_number,
    "npy": header_only,
    "npz": packed_zeros,
    "recording": packed_recording,
    "episodes": many_episodes,
    "hdf5": empty_hdf5,
    "packed hdf5": packed_hdf5,
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited and measured as Linux does")
@pytest.mark.parametrize("kind", LARGE)
def test_a_declared_size_takes_no_memory(kind: str, tmp_path: Path) -> None:
    """With 1.5 GiB of memory left the file is refused with a sentence, and a tenth of that is never exceeded."""
    read = LARGE[kind](tmp_path)

    def limited() -> tuple[str, int]:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + 1536 * MEBIBYTE
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        before = resident()
        with pytest.raises((ValueError, OSError)) as caught:
            read()
        return str(caught.value), resident() - before

    words, taken = in_child(limited, tmp_path)
    assert str(tmp_path) in words
    assert "\n" not in words
    assert taken < 150 * MEBIBYTE


def resident() -> int:
    """Returns the most memory that this process ever had, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
