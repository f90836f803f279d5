"""A file that declares far more than it holds is refused before it takes memory."""

from __future__ import annotations

import io
import json
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from helpers.children import in_child
from helpers.forgeries import dataset, describe
from helpers.recordings import ONE, make_recording, write_recording
from ncp_control.activity import Activity
from ncp_control.activity.figures import raster_figure, saliency_figure, tuning_figure, wiring_figure
from ncp_control.activity.layout import natural_size
from ncp_control.activity.page import write_page
from ncp_control.base.kinds import RECORD
from ncp_control.data import Rollouts
from ncp_control.runs.folder import read_record
from ncp_control.wiring import Wiring

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


def zipped(path: Path, wiring: Wiring, **arrays: Any) -> Callable[[], Any]:
    """Writes a recording of one step whose arrays are zeros of one byte each, as small as a zip file can be.

    :param arrays: arrays that replace the usual ones
    """
    counts = {
        "observations": 1, "inputs": wiring.inputs, "neurons": wiring.units, "time_constants": wiring.units,
        "sensory_currents": len(wiring.sensory), "currents": len(wiring.synapses),
        "gap_currents": len(wiring.gap_junctions), "outputs": wiring.outputs,
    }  # fmt: skip
    steps = len(arrays.get("neurons", [0]))
    found: dict[str, Any] = {name: np.zeros((steps, count), np.int8) for name, count in counts.items()}
    found |= dict.fromkeys(("state_bounds", "time_constant_bounds"), np.zeros((2, wiring.units), np.int8))
    found |= {"episode_starts": np.zeros(steps, bool), **arrays}
    about = json.dumps({"format": "ncp_control.activity", "version": 1, "env": "A-v0"})
    np.savez_compressed(path, about=np.array(about), wiring=np.array(wiring.to_json()), **found)
    assert path.stat().st_size < 70_000
    return lambda: view(path)


def view(path: Path) -> None:
    """Makes a page and figures of a recording."""
    from ncp_control.activity.figures import write_figures

    activity = Activity.load(path)
    write_page(activity, path.with_suffix(".html"))
    write_figures(activity, path.parent / "figures")


def wide_recording(folder: Path) -> Callable[[], Any]:
    return zipped(folder / "run.npz", ONE, observations=np.zeros((1, 60 * MEBIBYTE), np.int8))


def many_columns(folder: Path) -> Callable[[], Any]:
    """Fits into the memory, but each of its columns would get a name."""
    return zipped(folder / "run.npz", ONE, observations=np.zeros((1, 15 * MEBIBYTE), np.int8))


def many_limbs(folder: Path) -> Callable[[], Any]:
    count = 3 * MEBIBYTE
    limbs = {"body_ends": np.zeros((1, count, 2, 2), np.int8), "body_radii": np.zeros(count, np.int8)}
    return zipped(folder / "run.npz", ONE, **limbs)


def long_record(folder: Path) -> Callable[[], Any]:
    (folder / RECORD).write_bytes(b"[" + b" " * 2**25 + b"]")
    return lambda: read_record(folder / RECORD)


def many_episodes(folder: Path) -> Callable[[], Any]:
    found = dataset(folder / "data")
    describe(found, lambda metadata: metadata.update(total_episodes=10**13))
    return lambda: Rollouts.load(found)


LARGE: dict[str, Callable[[Path], Callable[[], Any]]] = {
    "npy": header_only,
    "npz": packed_zeros,
    "recording": packed_recording,
    "wide recording": wide_recording,
    "columns": many_columns,
    "limbs": many_limbs,
    "record": long_record,
    "episodes": many_episodes,
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited and measured as Linux does")
@pytest.mark.parametrize("kind", LARGE)
def test_a_declared_size_takes_no_memory(kind: str, tmp_path: Path) -> None:
    """The file is refused with a sentence, and a tenth of what the smallest of them declares is never taken.

    The limit of the address space keeps a faulty reader from taking the machine's memory. It leaves 4 GiB, as a stack
    and an arena of 72 MiB belong to each thread, of which a large machine starts many.
    """
    read = LARGE[kind](tmp_path)

    def limited() -> tuple[str, int]:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        limit = pages * resource.getpagesize() + 4096 * MEBIBYTE
        if most == resource.RLIM_INFINITY or limit < most:
            resource.setrlimit(resource.RLIMIT_AS, (limit, most))
        before = resident()
        with threadpool_limits(1), pytest.raises((ValueError, OSError)) as caught:
            read()
        return str(caught.value), resident() - before

    words, taken = in_child(limited, tmp_path)
    assert str(tmp_path) in words
    assert "\n" not in words
    assert taken < 150 * MEBIBYTE


@pytest.mark.system
def test_pictures_of_a_large_circuit_in_a_small_file_have_a_largest_size(tmp_path: Path) -> None:
    """A heat map with a row for each neuron and a column for each input, or a circuit of 28 rows, grows no further."""
    count = 1200
    wiring = Wiring.from_edges(count, motor=count, sensory=[(k, k) for k in range(count)])
    activity = make_recording(wiring, 12)
    activity.extras["saliency"] = np.zeros((count, count), np.int8)
    for figure in (saliency_figure(activity), raster_figure(activity), tuning_figure(activity)):
        assert (figure.get_size_inches() <= 28).all()
    wide, tall = natural_size(wiring)
    assert wide > 28 > tall
    assert (wiring_figure(activity).get_size_inches() <= 28).all()


@pytest.mark.system
def test_a_long_recording_is_read(tmp_path: Path) -> None:
    steps = 1_000_000
    path = write_recording(make_recording(ONE, steps), tmp_path / "run.npz")
    assert Activity.load(path).steps == steps
    arrays = dict(np.load(path))
    np.savez_compressed(path, **arrays)
    assert Activity.load(path).steps == steps


@pytest.mark.system
def test_a_million_starts_of_episodes_are_drawn_as_a_thousand_lines() -> None:
    activity = make_recording(ONE, 100_000, starts=tuple(range(0, 100_000, 2)))
    figure = raster_figure(activity)
    assert len(figure.axes[0].lines) <= 1100


def resident() -> int:
    """Returns the most memory that this process ever had, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
