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

# Classes that files of Stable-Baselines3 or torch name, by the modules of version 0.2.0.
NAMED = {
    "ncp_control.activity.recording.activity": ("Activity", "ActivityError"),
    "ncp_control.cells.cfc": ("CfC",),
    "ncp_control.cells.ct_gru": ("CTGRU",),
    "ncp_control.cells.ctrnn": ("CTRNN",),
    "ncp_control.cells.dual_ltc": ("DualLTC",),
    "ncp_control.cells.gru": ("GRU",),
    "ncp_control.cells.held": ("Held",),
    "ncp_control.cells.lagged": ("LaggedMLP",),
    "ncp_control.cells.lstm": ("LSTM",),
    "ncp_control.cells.ltc": ("LTC",),
    "ncp_control.cells.mixed_memory": ("MixedMemory",),
    "ncp_control.cells.neural_ltc": ("NeuralLTC",),
    "ncp_control.cells.neural_ode": ("NeuralODE",),
    "ncp_control.rl.buffers.replay": ("SequenceDictReplayBuffer", "SequenceReplayBuffer"),
    "ncp_control.rl.buffers.rollout": ("SequenceDictRolloutBuffer", "SequenceRolloutBuffer"),
    "ncp_control.rl.on_policy": ("RecurrentA2C", "RecurrentPPO"),
    "ncp_control.rl.policies.circuit": ("Circuit",),
    "ncp_control.rl.policies.elapsed": ("TimedExtractor",),
    "ncp_control.rl.policies.extractor": ("NCPExtractor",),
    "ncp_control.rl.policies.recurrent": ("NCPPolicy",),
    "ncp_control.rl.policies.sequence": ("SACSequencePolicy", "SequenceExtractor", "TD3SequencePolicy"),
    "ncp_control.rl.recipes.rules": ("Linear",),
    "ncp_control.wiring.fully_connected": ("FullyConnected",),
    "ncp_control.wiring.gap_junctions": ("GapJunctions",),
    "ncp_control.wiring.ncp": ("AutoNCP", "NCP"),
    "ncp_control.wiring.random_synapses": ("Random",),
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
        import ncp_control.wiring.fully_connected  # noqa: F401
    assert [Path(warning.filename) for warning in caught] == [Path(__file__)]


@pytest.mark.usefixtures("forgotten")
def test_many_threads_import_one_old_name() -> None:
    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(8) as pool:
        warnings.simplefilter("always")
        found = list(pool.map(importlib.import_module, ["ncp_control.wiring.fully_connected"] * 32))
    assert {id(module) for module in found} == {id(importlib.import_module("ncp_control.wiring.plan"))}
    assert len(caught) == 1


@pytest.mark.usefixtures("forgotten")
def test_a_search_for_an_old_name_imports_nothing() -> None:
    assert importlib.util.find_spec("ncp_control.wiring.fully_connected") is not None
    assert "ncp_control.wiring.fully_connected" not in sys.modules
    for other in ("ncp_control.nothing", "ncp_control.rl.nothing", "fully_connected"):
        assert importlib.util.find_spec(other) is None


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NAMED.items() for name in names])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pickle_that_names_the_old_module_loads(module: str, name: str) -> None:
    ready(module.removeprefix("ncp_control."))
    found = pickle.loads(f"c{module}\n{name}\n.".encode())
    assert found.__name__ == name
