"""Neurons that are held and synapses that are cut while an agent acts, and what that does to its return."""

import csv
from pathlib import Path

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

from helpers.pendulum_agents import pendulum, pendulum_agent  # noqa: E402
from ncp_control.activity import record  # noqa: E402
from ncp_control.activity.recording.interventions import ablate  # noqa: E402
from ncp_control.rl.policies.circuit import actor_circuit  # noqa: E402


def test_neurons_are_silenced_and_synapses_cut(tmp_path: Path) -> None:
    model = pendulum_agent()
    circuit = actor_circuit(model.policy)
    assert circuit is not None
    before = circuit.rnn.cell
    names = circuit.cell.wiring.neuron_names
    source, target, _ = next(iter(circuit.cell.wiring.synapses))
    synapse = f"{names[source]}->{names[target]}"
    found = record(
        model, pendulum(), tmp_path / "a.npz", 20, hold={"motor1": 0.25, "inter0": 0.0}, cut=[synapse], progress=False
    )
    assert circuit.rnn.cell is before
    assert (found.neurons[:, names.index("motor1")] == 0.25).all()
    assert (found.neurons[:, names.index("inter0")] == 0).all()
    number = [(int(s), int(t)) for s, t, _ in found.wiring.synapses].index((source, target))
    assert np.abs(found.currents[:, number]).max() < 1e-6
    assert found.about["silenced"] == ["motor1=0.25", "inter0=0", synapse]
    for wrong, words in (
        ("motor9", "there is no neuron named 'motor9'"),
        ("input0", "there is no neuron named 'input0'"),
    ):
        with pytest.raises(ValueError, match=words):
            record(model, pendulum(), tmp_path / "b.npz", 5, hold={wrong: 0.0}, progress=False)
    for wrong, words in (("motor0", "written source->target"), ("motor0->inter0", "no synapse from motor0 to inter0")):
        with pytest.raises(ValueError, match=words):
            record(model, pendulum(), tmp_path / "b.npz", 5, cut=[wrong], progress=False)
    assert circuit.rnn.cell is before
    assert not (tmp_path / "b.npz").exists()


@pytest.mark.system
def test_ablation_orders_neurons_by_what_is_left(tmp_path: Path) -> None:
    model = pendulum_agent()
    some, out = ["motor0", "inter1", "command0"], tmp_path / "table.csv"
    whole, found = ablate(model, pendulum, some, episodes=2, out=out, progress=False)
    again, one = ablate(model, pendulum, ["inter1"], episodes=2, progress=False)
    assert whole == again
    assert [row for row in found if row.name == "inter1"] == one
    assert [row.mean for row in found] == sorted(row.mean for row in found)
    assert {row.layer for row in found} == {"motor", "inter", "command"}
    rows = list(csv.reader(out.open()))
    assert rows[0] == ["neuron", "layer", "mean_return", "return_0", "return_1"]
    assert [row[0] for row in rows[1:]] == ["", *(row.name for row in found)]


@pytest.mark.system
def test_an_interrupted_ablation_keeps_what_it_found(tmp_path: Path) -> None:
    made = []

    def make() -> gym.Env:
        made.append(1)
        if len(made) > 2:  # the whole circuit, the first neuron
            raise KeyboardInterrupt
        return pendulum()

    with pytest.raises(KeyboardInterrupt):
        ablate(pendulum_agent(), make, ["motor0", "inter1"], episodes=1, out=tmp_path / "table.csv", progress=False)
    rows = list(csv.reader((tmp_path / "table.csv").open()))
    assert [row[0] for row in rows] == ["neuron", "", "motor0"]
