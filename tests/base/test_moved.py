"""Modules that have moved: their old names import with a warning, and old pickles find their classes."""

import importlib
import importlib.util
import pickle
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ncp_control.base.imports import MOVED

# Public names, and classes that files of Stable-Baselines3 or torch name, by the modules of version 0.1.0.
NAMED = {
    "ncp_control.activity.episode": ("Activity", "ActivityError"),
    "ncp_control.activity.page": ("write_page",),
    "ncp_control.activity.video": ("write_video",),
    "ncp_control.cells.baselines": ("CTRNN", "GRU", "LSTM", "NeuralODE"),
    "ncp_control.dynamics.lagged": ("LaggedMLP",),
    "ncp_control.rl.circuit": ("Circuit",),
    "ncp_control.rl.elapsed": ("TimedExtractor",),
    "ncp_control.rl.extractor": ("NCPExtractor",),
    "ncp_control.rl.off_policy_policies": ("SACSequencePolicy", "SequenceExtractor", "TD3SequencePolicy"),
    "ncp_control.rl.policies": ("NCPPolicy",),
    "ncp_control.rl.policy_file": ("LoadedPolicy", "load_policy", "save_policy"),
    "ncp_control.rl.recipe": ("Linear", "Recipe", "load_recipe"),
    "ncp_control.rl.recurrent": ("RecurrentA2C", "RecurrentPPO"),
    "ncp_control.rl.replay": ("SequenceDictReplayBuffer", "SequenceReplayBuffer"),
    "ncp_control.rl.sequences": ("SequenceDictRolloutBuffer", "SequenceRolloutBuffer"),
    "ncp_control.safe_file": ("CheckpointError",),
    "ncp_control.wiring.plans": ("NCP", "AutoNCP", "FullyConnected", "GapJunctions", "Plan", "Random"),
}


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """No module has been imported by its old name yet."""
    for old in MOVED:
        monkeypatch.delitem(sys.modules, f"ncp_control.{old}", raising=False)


def ready(old: str) -> None:
    if old.startswith("rl"):
        pytest.importorskip("sb3_contrib")


@pytest.mark.parametrize("old", MOVED)
@pytest.mark.usefixtures("forgotten")
def test_an_old_name_imports_the_module_of_the_new_name_and_warns(old: str) -> None:
    ready(old)
    new = importlib.import_module(f"ncp_control.{MOVED[old]}")
    with pytest.warns(DeprecationWarning, match=f"^ncp_control.{old} is now {new.__name__}; the old name will go"):
        found = importlib.import_module(f"ncp_control.{old}")
    assert found is new
    assert new.__spec__ is not None
    assert new.__spec__.name == new.__name__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert importlib.import_module(f"ncp_control.{old}") is new  # one warning is enough


@pytest.mark.usefixtures("forgotten")
def test_the_warning_points_at_the_line_that_imports() -> None:
    with pytest.warns(DeprecationWarning, match="is now") as caught:
        import ncp_control.safe_file  # noqa: F401
    assert [Path(warning.filename) for warning in caught] == [Path(__file__)]


@pytest.mark.usefixtures("forgotten")
def test_many_threads_import_one_old_name() -> None:
    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(8) as pool:
        warnings.simplefilter("always")
        found = list(pool.map(importlib.import_module, ["ncp_control.safe_file"] * 32))
    assert {id(module) for module in found} == {id(importlib.import_module("ncp_control.base.tensors"))}
    assert len(caught) == 1


@pytest.mark.usefixtures("forgotten")
def test_a_search_for_an_old_name_imports_nothing() -> None:
    assert importlib.util.find_spec("ncp_control.safe_file") is not None
    assert "ncp_control.safe_file" not in sys.modules
    for other in ("ncp_control.nothing", "ncp_control.rl.nothing", "safe_file"):
        assert importlib.util.find_spec(other) is None


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NAMED.items() for name in names])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pickle_that_names_the_old_module_loads(module: str, name: str) -> None:
    ready(module.removeprefix("ncp_control."))
    found = pickle.loads(f"c{module}\n{name}\n.".encode())
    assert found.__name__ == name
