"""Files that released versions wrote are read, and give what they gave; runs that were killed then go on now.

`tests/golden/write.py` wrote them. What a file holds is read to the last bit. What is computed from it is the same up
to rounding, as kernels of another vector width add in another order.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import ncp_control as nc
from ncp_control.cli import main
from ncp_control.data import Rollouts

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if (path / "about.json").exists())
# On another processor, with AVX2 and without, with the portable kernels, numbers differ by up to 1.4e-7 in what
# circuits give, by 1.5e-8 in weights after the few steps of training here, and by 6e-8 of itself in an error after 30
# epochs.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


def files(pattern: str) -> list[Any]:
    return [
        pytest.param(path, id=f"{version}-{path.stem}")
        for version in VERSIONS
        for path in sorted((GOLDEN / version).glob(pattern))
    ]


def root(path: Path) -> Path:
    """The folder of the version that wrote a file."""
    return GOLDEN / path.relative_to(GOLDEN).parts[0]


def expected(path: Path) -> dict[str, torch.Tensor]:
    return load_file(root(path) / "expected.safetensors")


def test_every_kind_of_file_is_there() -> None:
    for version in VERSIONS:
        names = {path.suffix for path in (GOLDEN / version).rglob("*.*")}
        assert {".safetensors", ".zip", ".pt2", ".npz", ".hdf5"} <= names


@pytest.mark.parametrize("path", files("cells/*.safetensors"))
def test_a_circuit(path: Path) -> None:
    rnn = nc.load(path)
    generators = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    inputs = torch.randn(2, 5, 3, generator=generators[0])
    elapsed = torch.randn(2, 5, generator=generators[1]).abs() + 0.1
    states = rnn(inputs, elapsed=elapsed, states=True)[2]
    torch.testing.assert_close(states, expected(path)[f"cells/{path.stem}"], **TOLERANCE)


def acts_as_before(policy: Any, path: Path) -> None:
    wanted = expected(path)
    begin = f"agents/{path.stem}/seen/"
    entries = {name.removeprefix(begin): value.numpy() for name, value in wanted.items() if name.startswith(begin)}
    state, done = None, []
    for k in range(5):
        seen = entries[""][k] if "" in entries else {key: value[k] for key, value in entries.items()}
        action, state = policy.predict(seen, state, deterministic=True)
        done.append(torch.as_tensor(action, dtype=torch.float64).reshape(-1))
    torch.testing.assert_close(torch.stack(done), wanted[f"agents/{path.stem}/actions"], **TOLERANCE)


@pytest.mark.parametrize("path", files("agents/*.safetensors"))
def test_an_agent(path: Path) -> None:
    pytest.importorskip("sb3_contrib")
    acts_as_before(nc.load(path), path)


@pytest.mark.parametrize("path", files("agents/*.zip"))
def test_a_model_as_stable_baselines3_saves_it(path: Path) -> None:
    pytest.importorskip("sb3_contrib")
    from ncp_control import rl

    written = json.loads((root(path) / "about.json").read_text())["python"].split(".")[:2]
    if written != list(map(str, sys.version_info[:2])):
        pytest.skip(f"Stable-Baselines3's files hold Python's bytecode, this one of Python {'.'.join(written)}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # old names of modules are in the file
        model = getattr(rl, path.stem).load(path)
    acts_as_before(model, path)


@pytest.mark.parametrize("path", files("programs/*.pt2"))
def test_an_exported_program(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        import ncp_control.ops.operator  # noqa: F401 (as the guide of that version said)
    program = torch.export.load(path).module()
    observation = torch.randn(1, 2, generator=torch.Generator().manual_seed(0))
    found = torch.cat(program(observation, torch.zeros(1, 7)), dim=1)
    torch.testing.assert_close(found, expected(path)[f"programs/{path.stem}"], **TOLERANCE)


@pytest.mark.parametrize("path", files("*.safetensors"))
def test_a_model_of_the_dynamics(path: Path) -> None:
    if path.stem == "expected":
        return
    seen = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))
    actions = torch.randn(17, 1, generator=torch.Generator().manual_seed(1))
    found = nc.load(path).predict(seen, 8, actions)
    torch.testing.assert_close(found, expected(path)[f"models/{path.stem}"], **TOLERANCE)


@pytest.mark.parametrize("path", files("unfinished/*/out/*.safetensors"))
def test_the_weights_of_a_run_that_was_killed_are_read_to_the_last_bit(path: Path) -> None:
    if path.stem == "state":
        with pytest.raises(nc.CheckpointError, match="holds the state of a"):
            nc.load(path)
        return
    loaded = nc.load(path)
    found = (loaded.policy if hasattr(loaded, "policy") else loaded).state_dict()
    for key, value in load_file(path).items():
        name = key.removeprefix("policy.").removeprefix("0.")
        if name in found:
            assert torch.equal(found.pop(name), value), key
    # a policy makes its targets anew, as copies
    assert all(name.startswith("critic_target.") for name in found)


@pytest.mark.parametrize("path", files("recording.npz"))
def test_a_recording(path: Path, tmp_path: Path) -> None:
    from ncp_control.activity import Activity

    activity = Activity.load(path)
    wanted = {name: value for name, value in expected(path).items() if name.startswith("recording/")}
    for name, value in wanted.items():
        key = name.removeprefix("recording/")
        found = activity.extras[key] if key in activity.extras else getattr(activity, key)
        assert torch.equal(torch.as_tensor(found), value)
    assert main(["view", str(path), "--html", str(tmp_path / "page.html")]) == 0


@pytest.mark.parametrize("path", files("finished/collect"))
def test_rollouts(path: Path) -> None:
    assert [rollout.steps for rollout in rollouts_of(path)] == [10, 17, 18, 11, 21]


def rollouts_of(folder: Path) -> Rollouts:
    """Loads a dataset, which a Minari that is older than its own does not read."""
    minari = pytest.importorskip("minari")
    written = json.loads((folder / "data" / "metadata.json").read_text())["minari_version"]
    if [int(part) for part in minari.__version__.split(".")] < [int(part) for part in written.split(".")]:
        pytest.skip(f"Minari {minari.__version__} is older than the {written} that wrote the dataset")
    return Rollouts.load(folder)


def words_of(version: str) -> dict[str, list[str]]:
    return dict(json.loads((GOLDEN / version / "commands.json").read_text()))


@pytest.mark.system
@pytest.mark.parametrize(("version", "name"), [(version, name) for version in VERSIONS for name in words_of(version)])
def test_a_run_that_was_killed_goes_on(
    version: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sb3_contrib")
    shutil.copytree(GOLDEN / version, tmp_path / "all")
    monkeypatch.chdir(tmp_path / "all")
    out = Path("unfinished") / name / "out"
    assert main([*words_of(version)[name], "--out", str(out), "--resume"]) == 0
    finished = GOLDEN / version / "finished" / name
    if name == "collect":
        ours, theirs = Rollouts.load(out), rollouts_of(finished)
        for one, other in zip(ours, theirs, strict=True):
            assert (one.observations == other.observations).all()
            assert (one.actions == other.actions).all()
        return
    for path in finished.glob("*.safetensors"):
        found = load_file(out / path.name)
        for key, value in load_file(path).items():
            torch.testing.assert_close(found[key], value, **TOLERANCE)
    for path in finished.glob("*.csv"):
        heads = heads_of(path)
        ours = cells_of(out / path.name, [head.replace("foreign_", "off_policy_") for head in heads])
        theirs = cells_of(path, heads)
        assert [cell for cell in ours if isinstance(cell, str)] == [cell for cell in theirs if isinstance(cell, str)]
        numbers = [[cell for cell in cells if not isinstance(cell, str)] for cells in (ours, theirs)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-4, abs=1e-6)
    for path in finished.glob("trials.json"):
        ours, theirs = (json.loads((folder / path.name).read_text())["trials"] for folder in (out, finished))
        assert [one["state"] for one in ours] == [one["state"] for one in theirs]
        assert [one["values"] for one in ours] == [pytest.approx(one["values"], rel=1e-4) for one in theirs]
        assert [one["value"] for one in ours] == pytest.approx([one["value"] for one in theirs], rel=1e-4)


def heads_of(path: Path) -> list[str]:
    """The heads of a table's columns, but for those of the seconds that a fit took."""
    with path.open(newline="") as file:
        return [head for head in next(csv.reader(file)) if not head.startswith("seconds")]


def cells_of(path: Path, heads: list[str]) -> list[str | float]:
    """The cells of some columns of a table, numbers as numbers."""
    with path.open(newline="") as file:
        return [number(row[head]) for row in csv.DictReader(file) for head in heads]


def number(cell: str) -> str | float:
    try:
        return float(cell)
    except ValueError:
        return cell
