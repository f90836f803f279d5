"""Files that somebody made to hurt: none runs code, fills the memory or leads astray; each gets a sentence."""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
from safetensors.torch import load, save

import ncp_control as nc
from helpers.children import in_child
from helpers.oscillators import oscillators
from ncp_control.activity import Activity
from ncp_control.cli import main
from ncp_control.data import Rollouts, collect
from ncp_control.data.minari_files import write_minari
from ncp_control.dynamics import DynamicsModel, save_model
from ncp_control.storage.safe_tensors import checksum

pytest.importorskip("sb3_contrib")

MEBIBYTE = 2**20


def refused(capfd: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """The one line on stderr of a command that must be refused with exit code 2."""
    assert main([str(word) for word in words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("ncp-control: ")
    return line


def forge(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes what a checkpoint says of itself, and its checksum with it."""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    described = [key for key in metadata if key not in ("format", "version", "package", "sha256")]
    order = {"config": 0, "wiring": 1, "note": 9, "policy": 0, "spaces": 1, "normalize": 2, "models": 0, "ensemble": 1}
    values = {key: json.loads(metadata[key]) for key in described}
    change(values)
    metadata |= {key: json.dumps(value) for key, value in values.items()}
    tensors = load(content)
    metadata["sha256"] = checksum(metadata, tuple(sorted(described, key=order.__getitem__)), tensors)
    path.write_bytes(save(tensors, metadata))


def policy_file(path: Path, algorithm: str = "RecurrentPPO") -> Path:
    """An agent that was never trained."""
    from ncp_control.rl import RecurrentPPO, RecurrentSAC, save_policy

    env = gym.make("Pendulum-v1")
    if algorithm == "RecurrentPPO":
        model: Any = RecurrentPPO("NCPPolicy", env, device="cpu", policy_kwargs={"wiring": 4, "net_arch": [3]})
    else:
        kwargs = {"wiring": 4, "net_arch": [3]}
        model = RecurrentSAC(
            "NCPPolicy", env, device="cpu", policy_kwargs=kwargs, buffer_size=50, sequence=4, burn_in=2
        )
    save_policy(model, path, {"env": "Pendulum-v1"})
    return path


def dataset(folder: Path) -> Path:
    """Two short rollouts as a Minari dataset without a checksum: somebody else's."""
    spec = gym.make("Pendulum-v1", max_episode_steps=4).spec
    assert spec is not None
    write_minari(collect("random", spec, 2, progress=False), "small-v0", folder, spec, {})
    describe(folder, lambda metadata: metadata.pop("ncp_control"))
    return folder


def describe(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Changes a dataset's description."""
    path = folder / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))


# Code


def test_a_dataset_cannot_have_its_environment_made(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Minari makes the environment of a dataset that does not say its spaces: any function by name, any arguments."""
    folder, mark = dataset(tmp_path / "data"), tmp_path / "ran"

    def change(metadata: dict[str, Any]) -> None:
        spec = json.loads(metadata["env_spec"])
        spec |= {"entry_point": "subprocess:check_output", "kwargs": {"args": ["touch", str(mark)]}}
        metadata["env_spec"] = json.dumps(spec)
        del metadata["observation_space"]

    describe(folder, change)
    assert "does not say its observation_space" in refused(capfd, "describe", folder)
    assert not mark.exists()


def test_a_policys_note_cannot_have_a_module_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Gymnasium imports what stands before the colon of an id; a file must not choose that, its user may."""
    (tmp_path / "innocent.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    path = policy_file(tmp_path / "policy.safetensors")
    forge(path, lambda values: values["note"].update(env="innocent:Pendulum-v1"))
    for command in ("evaluate", "record", "ablate"):
        line = refused(capfd, command, path)
        assert "if importing innocent is safe, add --env innocent:Pendulum-v1" in line
    assert not (tmp_path / "ran").exists()
    assert main(["evaluate", str(path), "--env", "innocent:Pendulum-v1", "--episodes", "1", "--json"]) == 0
    assert (tmp_path / "ran").exists()
    sys.modules.pop("innocent")


def test_notes_of_the_wrong_kind(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = policy_file(tmp_path / "policy.safetensors")
    for note, words in (
        ({"env": 5}, "does not say which environment"),
        ({"env": "Pendulum-v1", "env_wrapper": 3}, "note on its environment"),
        ({"env": "Pendulum-v1", "env_kwargs": [1]}, "note on its environment"),
        ({"env": "Pendulum-v1", "env_kwargs": {"x": 1}}, "cannot be made"),
        ({"env": "Pendulum-v1", "env_wrapper": [{"History": {"x": 1}}]}, "cannot be made"),
        ({"env": "Pendulum-v1", "env_wrapper": [[1]]}, "there is no wrapper [1]"),
        ([1], "there should be a JSON object"),
    ):
        forge(path, lambda values, note=note: values.update(note=note))  # type: ignore[misc]
        assert words in refused(capfd, "evaluate", path)


# Memory


def deflated_zeros(size: int) -> bytes:
    """A deflate stream of so many mebibytes of zeros, about a thousandth of that long."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(MEBIBYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(MEBIBYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block + again * (size - 1) + packer.flush(zlib.Z_FINISH)


def bomb(path: Path, size: int) -> None:
    """An `.npz` of a few megabytes whose one array really has so many mebibytes of zeros."""
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


def small_model(path: Path) -> Path:
    save_model(DynamicsModel.of(oscillators(steps=10), "mlp", 3), path)
    return path


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
    """A header that declares 8 TB, and nothing after it."""
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
    """An array that declares 24 TB, of which nothing is there: HDF5 would make it up."""
    found = dataset(folder / "data")
    with h5py.File(found / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/observations"]
        file["episode_0"].create_dataset("observations", (10**12, 3), np.float64, chunks=(1000, 3))
    return lambda: Rollouts.load(found)


def packed_hdf5(folder: Path) -> Callable[[], Any]:
    """One that is all there, packed a thousand to one."""
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
    """With room for 1.5 GiB more, it is refused with a sentence, and no more than a tenth of that was ever taken."""
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
    """The most memory that this process ever had, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


# Ways out


def test_hdf5_that_reaches_for_other_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(96)))
    ways: dict[str, Callable[[Any], Any]] = {
        "external file": lambda group: group.create_dataset(
            "observations", (4, 3), np.float64, external=[(str(secret), 0, 96)]
        ),
        "link": lambda group: group.__setitem__("observations", h5py.ExternalLink(str(secret), "/x")),
        "soft link": lambda group: group.__setitem__("observations", h5py.SoftLink("/episode_1/observations")),
        "circle": lambda group: group.__setitem__("observations", group),
        "virtual": lambda group: group.create_virtual_dataset("observations", virtual(secret)),
    }
    for name, make in ways.items():
        found = dataset(tmp_path / name)
        with h5py.File(found / "data" / "main_data.hdf5", "a") as file:
            del file["episode_0/observations"]
            make(file["episode_0"])
        with pytest.raises(ValueError, match=r"leads out of its place|lies in another file|is there twice"):
            Rollouts.load(found)


def virtual(source: Path) -> Any:
    layout = h5py.VirtualLayout((4, 3), np.float64)
    layout[:] = h5py.VirtualSource(str(source), "x", (4, 3))
    return layout


def test_a_pipe_among_traces_is_not_waited_for(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no named pipes on this system")
    os.mkfifo(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.ones((3, 2)))
    assert [rollout.name for rollout in Rollouts.load(tmp_path)] == ["b.npy"]


def test_names_that_lead_out_of_an_archive_write_nothing(tmp_path: Path) -> None:
    inside = io.BytesIO()
    np.save(inside, np.ones((3, 2)))
    (tmp_path / "a").mkdir()
    with zipfile.ZipFile(tmp_path / "a" / "b.npz", "w") as archive:
        for name in ("observations.npy", "../slipped.npy", str(tmp_path / "slipped.npy")):
            archive.writestr(name, inside.getvalue())
    assert Rollouts.load(tmp_path / "a" / "b.npz")[0].steps == 2
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b.npz"]


# Sentences


def test_a_header_that_numpy_itself_cannot_read(tmp_path: Path) -> None:
    """NumPy's own reader ends in an error of Python's tokenizer on these."""
    for text in (b"{'descr': '<f8', 'shape': ((((", b"{'descr': 5L, 'shape': (3L", b"-" * 4000 + b"1", b"(" * 9000):
        path = tmp_path / "a.npy"
        path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
        with pytest.raises(ValueError, match=r"a\.npy is not a readable file of arrays"):
            Rollouts.load(path)


def test_a_state_cannot_replace_what_it_is_not(tmp_path: Path) -> None:
    """A run's state names attributes of the model; only those that it may have are set."""
    from stable_baselines3 import PPO

    from ncp_control.rl.files.run_state import COUNTERS, load_state, save_state

    model = PPO("MlpPolicy", "Pendulum-v1", n_steps=4, batch_size=4, device="cpu")
    path = tmp_path / "state.safetensors"
    save_state(model, path, {})
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    state = json.loads(metadata["state"])
    state["counters"]["predict"] = 5
    metadata["state"] = json.dumps(state)
    tensors = load(content)
    metadata["sha256"] = checksum(metadata, ("state", "about"), tensors)
    path.write_bytes(save(tensors, metadata))
    load_state(model, path)
    assert callable(model.predict)
    assert "predict" not in COUNTERS


def test_commands_refuse_broken_files_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    policy = policy_file(tmp_path / "policy.safetensors").read_bytes()
    model = small_model(tmp_path / "model.safetensors").read_bytes()
    np.savez(tmp_path / "whole.npz", observations=np.ones((3, 2)))
    trace = (tmp_path / "whole.npz").read_bytes()
    broken = tmp_path / "broken.safetensors"
    for content in (b"", b"\xff" * 8, policy[:-1], policy[:300], model[:-1], struct.pack("<Q", 2**40) + policy[8:]):
        broken.write_bytes(content)
        for command in (["describe"], ["evaluate"], ["record"], ["ablate"], ["collect", "--policy"]):
            assert str(broken) in refused(capfd, *command, broken)
    for content in (b"", trace[:-30], trace[:40] + trace[60:]):
        (tmp_path / "broken.npz").write_bytes(content)
        for command in (["describe"], ["view"], ["fit"], ["compare"]):
            assert "broken.npz" in refused(capfd, *command, tmp_path / "broken.npz")
    found = dataset(tmp_path / "data")
    (found / "data" / "main_data.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    for command in (["describe"], ["fit"], ["compare"]):
        assert "not a readable Minari dataset" in refused(capfd, *command, found)
    (tmp_path / "recipe.yml").write_text("a: &a [*a]")
    assert "recipe.yml is not YAML of plain values: a value holds itself" in refused(
        capfd, "train", tmp_path / "recipe.yml"
    )
    assert "gamma=[ is not YAML" in refused(capfd, "train", "pendulum-novel", "--set", "gamma=[")
