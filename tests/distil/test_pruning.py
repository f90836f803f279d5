"""Pruning a student: a table of its sizes, an agent of each size, and a stopped pruning that goes on exactly."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from helpers.distilling import numbered, pendulum, student_of, turning
from ncp_control.data import collect
from ncp_control.distil import DistilSettings, PruneSettings, Recorded, distil
from ncp_control.distil.learning import LabelledWindows
from ncp_control.distil.prune_table import PrunedRow, read_rows, smallest_in_words, smallest_of, table_text, write_rows
from ncp_control.distil.pruning import (
    EVALUATION,
    Pruning,
    losses_without,
    pruned_wiring,
    smaller_student,
    without_weakest,
)
from ncp_control.distil.smaller import smaller_wiring
from ncp_control.rl import evaluate, load_policy
from ncp_control.rl.recipes.building import make_env
from ncp_control.runs.run import seed_of
from ncp_control.wiring import Wiring

ENV = "ncp/PendulumNoVel-v0"
SMALL = DistilSettings(
    steps=1600, iterations=1, demonstrations=0.5, batches=3, batch=4, length=16, envs=2, eval_episodes=2
)
PRUNING = PruneSettings(share=0.25, rounds=2, eval_episodes=2)
SEEN = numbered([40, 30], [True, False])
QUIET: Any = {"progress": False, "wiring": "AutoNCP(16, 4)", "cell": "cfc", "settings": SMALL}


def row_of(synapses: int, kept: float, neurons: int = 5) -> PrunedRow:
    return PrunedRow(neurons, synapses, 3, 99, 1234.5 * kept, 10.0, 1000.0, 0.5 * kept, kept, 12.0)


def without_seconds(out: Path) -> list[list[str]]:
    """Returns the table of a run without its last column."""
    return [line.split(",")[:-1] for line in (out / "pruned" / "table.csv").read_text().splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A distillation whose student was pruned in two rounds."""
    out: Path = tmp_path_factory.mktemp("distilled") / "run"
    distil(turning, ENV, out=out, pruning=PRUNING, **QUIET)
    return out


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    """A copy of that run."""
    return Path(shutil.copytree(run, tmp_path / "run"))


@pytest.mark.system
def test_every_size_is_a_row_of_the_table_and_an_agent(run: Path) -> None:
    whole = load_policy(run / "best.safetensors")
    rows = read_rows(run / "pruned" / "table.csv")
    assert len(rows) == 3
    files = sorted(path.name for path in (run / "pruned").glob("*.safetensors"))
    assert files == sorted(f"{row.synapses:03d}-synapses.safetensors" for row in rows[1:])
    for row, before in zip(rows[1:], rows, strict=False):
        assert row.synapses <= round(0.75 * before.synapses)
        assert row.neurons <= before.neurons
        assert row.parameters < before.parameters
        agent = load_policy(run / "pruned" / row.file)
        wiring = agent.policy.lstm_actor.cell.wiring
        assert (wiring.units, len(wiring.sensory) + len(wiring.synapses)) == (row.neurons, row.synapses)
        assert set(wiring.neuron_names) <= set(whole.policy.lstm_actor.cell.wiring.neuron_names)
        assert agent.note["pruned_from"] == rows[0].synapses
        assert agent.note["share"] == row.share
        assert agent.note["teacher"] == whole.note["teacher"]


@pytest.mark.system
def test_a_row_is_what_its_agent_does(run: Path) -> None:
    rows = read_rows(run / "pruned" / "table.csv")
    for row, name in zip(rows, ["best.safetensors", *(f"pruned/{row.file}" for row in rows[1:])], strict=True):
        returns = evaluate(load_policy(run / name), lambda: make_env(ENV), 2, seed_of(0, EVALUATION)).returns
        assert np.mean(returns) == pytest.approx(row.mean_return, rel=1e-6)
        assert min(returns) == pytest.approx(row.min_return, rel=1e-6)
        assert row.kept == pytest.approx(1 - (rows[0].mean_return - row.mean_return) / abs(rows[0].mean_return))


@pytest.mark.system
@pytest.mark.parametrize("done", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_stopped_pruning_goes_on_to_the_same_files(done: int, run: Path, tmp_path: Path, monkeypatch: Any) -> None:
    add = Pruning.add

    def stopping(pruning: Pruning, row: PrunedRow) -> None:
        """Stops when the policy of a round is written, and its row is not."""
        if len(pruning.rows) == 1 + done:
            raise KeyboardInterrupt
        add(pruning, row)

    monkeypatch.setattr(Pruning, "add", stopping)
    with pytest.raises(KeyboardInterrupt):
        distil(turning, ENV, out=tmp_path / "cut", pruning=PRUNING, **QUIET)
    monkeypatch.setattr(Pruning, "add", add)
    assert len(read_rows(tmp_path / "cut" / "pruned" / "table.csv")) == 1 + done
    distil(turning, ENV, out=tmp_path / "cut", pruning=PRUNING, resume=True, **QUIET)
    assert without_seconds(run) == without_seconds(tmp_path / "cut")
    names = [path.relative_to(run) for path in run.rglob("*.safetensors")]
    assert len(list((tmp_path / "cut").rglob("*.safetensors"))) == len(names)
    assert len(names) == 5
    for name in names:
        ours, theirs = load_file(run / name), load_file(tmp_path / "cut" / name)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(value, theirs[key]) for key, value in ours.items()), name


@pytest.mark.system
def test_a_distillation_that_is_done_is_pruned_later_and_in_more_rounds(copied: Path) -> None:
    before = without_seconds(copied)
    shutil.rmtree(copied / "pruned")
    for rounds in (1, 2):
        distil(turning, ENV, out=copied, resume=True, pruning=replace(PRUNING, rounds=rounds), **QUIET)
        assert without_seconds(copied) == before[: 2 + rounds]


@pytest.mark.system
def test_a_student_that_learnt_from_recorded_episodes_is_pruned(tmp_path: Path) -> None:
    teacher = Recorded(collect(turning, "Pendulum-v1", rollouts=1, progress=False), {"id": "Pendulum-v1"})
    settings = DistilSettings(iterations=0, batches=2, batch=4, length=16, eval_episodes=1)
    found = distil(teacher, ENV, out=tmp_path, pruning=replace(PRUNING, rounds=1), **{**QUIET, "settings": settings})
    assert found.pruned is not None
    assert len(found.pruned.rows) == 2
    assert load_policy(tmp_path / "pruned" / found.pruned.rows[1].file).note["method"] == "behaviour cloning"


@pytest.mark.system
def test_a_pruning_is_not_continued_with_another_share(copied: Path) -> None:
    with pytest.raises(ValueError, match=r"holds a pruning with other settings.*share: 0.25 there, 0.3 here"):
        distil(turning, ENV, out=copied, resume=True, pruning=replace(PRUNING, share=0.3), **QUIET)


@pytest.mark.system
def test_an_altered_table_is_refused(copied: Path) -> None:
    table = copied / "pruned" / "table.csv"
    table.write_text(table.read_text().replace(",", ";"))
    with pytest.raises(ValueError, match=r"table\.csv is not the table of a pruning"):
        distil(turning, ENV, out=copied, resume=True, pruning=PRUNING, **QUIET)


@pytest.mark.system
def test_without_a_folder_the_smallest_agent_stays() -> None:
    generous = replace(PRUNING, keep=0.01, rounds=1)
    found = distil(turning, ENV, pruning=generous, **QUIET).pruned
    assert found is not None
    assert found.agent is not None
    assert found.agent.predict(np.zeros(2, dtype=np.float32))[0].shape == (1,)


def test_a_cell_that_is_always_fully_connected_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a circuit of LSTM is always fully connected"):
        distil(turning, ENV, 6, "lstm", settings=SMALL, pruning=PRUNING, out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("cell", ["ltc", "neural-ltc", "cfc", "ctrnn", "neural-ode"])
def test_the_synapses_that_change_least_are_removed(cell: str) -> None:
    student = student_of(pendulum, cell=cell, wiring=6, critic="shared")
    windows = LabelledWindows(student, SEEN, 16)
    before = {key: value.clone() for key, value in student.policy.state_dict().items()}
    sensory, synapses = losses_without(student, windows, torch.Generator().manual_seed(0))
    assert all(torch.equal(value, before[key]) for key, value in student.policy.state_dict().items())
    wiring = student.circuit.cell.wiring
    assert (len(sensory), len(synapses)) == (len(wiring.sensory), len(wiring.synapses))
    assert len(set(torch.cat([sensory, synapses]).tolist())) > 6
    heard, stays = without_weakest(sensory, synapses, 12)
    assert (~heard).sum() + (~stays).sum() == 12
    lost = torch.cat([sensory[torch.as_tensor(~heard)], synapses[torch.as_tensor(~stays)]])
    left = torch.cat([sensory[torch.as_tensor(heard)], synapses[torch.as_tensor(stays)]])
    assert lost.max() <= left.min()


def test_the_loss_stays_the_same_without_a_synapse_that_carries_nothing() -> None:
    student = student_of(pendulum, cell="ctrnn", wiring=6, critic="shared")
    with torch.no_grad():
        student.circuit.cell.cut_synapses([4, 17], [3], [])
    windows = LabelledWindows(student, SEEN, 16)
    losses = losses_without(student, windows, torch.Generator().manual_seed(0))
    assert len({float(losses[0][3]), float(losses[1][4]), float(losses[1][17])}) == 1
    assert len(set(torch.cat(losses).tolist())) > 6


def test_the_layers_behind_the_circuit_keep_the_columns_of_their_motor_neurons() -> None:
    larger = student_of(pendulum, cell="ctrnn", wiring=6, critic="shared")
    wiring = larger.circuit.cell.wiring
    keeps = [1, 4]
    heard = np.isin(wiring.sensory.target, keeps)
    stays = np.isin(wiring.synapses.source, keeps) & np.isin(wiring.synapses.target, keeps)
    found, neurons = smaller_wiring(wiring, heard, stays)
    model = student_of(pendulum, cell="ctrnn", wiring=found, critic="shared").model
    smaller = smaller_student(larger, model, neurons)
    assert torch.equal(smaller.policy.action_net.weight, larger.policy.action_net.weight[:, keeps])
    assert torch.equal(smaller.policy.action_net.bias, larger.policy.action_net.bias)
    assert torch.equal(smaller.policy.log_std, larger.policy.log_std)
    assert torch.equal(smaller.circuit.cell.tau_raw, larger.circuit.cell.tau_raw[keeps])
    for ours, theirs in zip(smaller.parameters, smaller.trained, strict=True):
        assert torch.equal(ours, theirs)


def test_fewer_synapses_go_where_no_motor_neuron_would_stay() -> None:
    chain = Wiring.from_edges(2, inter=1, motor=1, sensory=[(0, 0), (1, 0)], synapses=[(0, 1), (0, 0), (1, 1)])
    losses = torch.tensor([0.1, 0.5]), torch.tensor([0.6, 0.4, 0.3])
    found = pruned_wiring(chain, *losses, 0.99)  # of the five, 1 goes if not 2, and 2 if not 5
    assert found is not None
    assert list(found[0].sensory) == [(1, 0, 1)]
    assert list(found[0].synapses) == [(0, 0, 1), (0, 1, 1)]
    last = Wiring.from_edges(1, motor=1, sensory=[(0, 0)])
    assert pruned_wiring(last, torch.tensor([1.0]), torch.zeros(0), 0.2) is None


def test_the_smallest_row_that_keeps_enough_is_named() -> None:
    rows = [row_of(100, 1.0, 9), row_of(80, 0.97, 8), row_of(64, 0.88, 8), row_of(51, 0.93, 6), row_of(41, 0.4, 4)]
    assert smallest_of(rows, 0.9) is rows[3]
    assert smallest_of(rows, 0.95) is rows[1]
    assert smallest_of(rows, 0.99) is rows[0]
    assert "6 neurons, 51 synapses" in smallest_in_words(rows, rows[3], 0.9)
    assert "no smaller circuit keeps 99%" in smallest_in_words(rows, rows[0], 0.99)


def test_the_table_is_aligned_and_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = [row_of(1136, 1.0, 48), row_of(81, 1 / 3)]
    write_rows(tmp_path / "table.csv", rows)
    assert read_rows(tmp_path / "table.csv") == rows
    lines = table_text(rows).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "1,136" in lines[1]
    assert "33.3%" in lines[2]
    assert read_rows(tmp_path / "none.csv") == []


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"share": 0.0}, "share"), ({"share": 1.0}, "share"), ({"keep": 1.5}, "keep"), ({"rounds": 0}, "rounds"),
        ({"rate": -1.0}, "rate"), ({"batches": 0}, "batches"), ({"eval_episodes": 0}, "eval_episodes"),
    ],
)  # fmt: skip
def test_settings_without_meaning_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        PruneSettings(**settings)
