"""A student with few synapses: how many there are, which ones go and grow, and when, and the policy that is kept."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import cos, pi
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.distilling import numbered, pendulum, student_of
from ncp_control.base.tensors import pack, unpack
from ncp_control.distil import DistilSettings
from ncp_control.distil.demonstrations import Demonstrations
from ncp_control.distil.learning import LabelledWindows, train
from ncp_control.distil.rewiring import Rewiring, check_count, check_growable
from ncp_control.neurons import GRU, LTC, CfC, DualLTC, NeuralLTC
from ncp_control.wiring import NCP, FullyConnected, Random, Wiring

LAYERED = NCP(5, 4, 2, sensory_fanout=4, inter_fanout=3, recurrent_command=7, motor_fanin=3, recurrent_inter=6, seed=3)
# The neurons are in one layer, and B hears of inputs through A alone.
ROUND = Wiring.from_edges(
    2, motor=["A", "B"], sensory=[(0, "A"), (1, "A")], synapses=[("A", "B"), ("B", "A"), ("A", "A"), ("B", "B")]
)
STEPPING = Wiring.from_edges(
    ["x", "y"], inter=["A", "B"], motor=["m"],
    sensory=[("x", "A"), ("y", "A"), ("x", "B"), ("y", "B")],
    synapses=[("A", "m"), ("B", "m"), ("A", "A"), ("B", "B"), ("A", "B"), ("B", "A")],
)  # fmt: skip
UNJOINED = Wiring.from_edges(2, motor=2, sensory=[(0, 0), (1, 0), (0, 1), (1, 1)])
WIRINGS = [LAYERED, Random(7, 3, sparsity=0.6, seed=4), FullyConnected(5, 2), ROUND]
WAYS = [("dualltc", "muon"), ("neuralltc", "adam"), ("cfc", "adam")]
SMALL = DistilSettings(iterations=1, batches=12, batch=4, length=8, warm_up=2, learning_rate=0.02)


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def grown(synapses: int = 18, cell: str = "dualltc", wiring: Any = LAYERED, seed: int = 0) -> Rewiring:
    """Makes a student with few synapses."""
    return Rewiring(student_of(pendulum, cell=cell, wiring=wiring, critic="shared"), synapses, drawn(seed))


def possible(wiring: Wiring) -> int:
    return len(wiring.sensory) + len(wiring.synapses)


def pairs(wiring: Wiring) -> list[tuple[str, str]]:
    """Returns the names of both ends of each synapse, sensory ones first."""
    names = wiring.neuron_names
    sensory = [(wiring.input_names[source], names[target]) for source, target, _ in wiring.sensory]
    return [*sensory, *((names[source], names[target]) for source, target, _ in wiring.synapses)]


def by_synapse(rewiring: Rewiring, of_sensory: Any, of_others: Any) -> Tensor:
    """Returns numbers like the weights in the order of the wiring's synapses, (S + E, weights of each)."""
    cell = rewiring.student.circuit.cell
    place = {pair: k for k, pair in enumerate(zip(cell.source.tolist(), cell.target.tolist(), strict=True))}
    others = [place[source, target] for source, target, _ in cell.wiring.synapses]
    found = torch.cat([of_sensory, of_others[..., others]], dim=-1).detach()
    return found.reshape(-1, found.shape[-1]).T


def weights_of(rewiring: Rewiring) -> Tensor:
    return by_synapse(rewiring, *rewiring.weights)


def present_pairs(rewiring: Rewiring) -> set[str]:
    """Returns which synapses there are, such as "xA"."""
    return {"".join(pair) for pair, is_there in zip(pairs(rewiring.wiring), rewiring.present, strict=True) if is_there}


def shake(rewiring: Rewiring, seed: int) -> None:
    """Gives all present synapses random weights, and all synapses random gradients."""
    generator = drawn(seed)
    with torch.no_grad():
        for value in (*rewiring.weights, *rewiring.gradients):
            value.copy_(torch.randn(value.shape, generator=generator))
    rewiring.clear()


def demonstrations() -> Demonstrations:
    given = numbered([30, 20], [True, False])
    given.labels = np.random.default_rng(1).uniform(-1, 1, size=(50, 1)).astype(np.float32)
    return given


def trained(rewiring: Rewiring, optimizer: Any = None, settings: DistilSettings = SMALL, done: int = 0) -> None:
    """Trains a student for an iteration."""
    windows = LabelledWindows(rewiring.student, demonstrations(), settings.length, settings.warm_up)
    optimizer = rewiring.student.optimizer(settings) if optimizer is None else optimizer
    train(rewiring.student, windows, settings, optimizer, done, drawn(done), rewiring)


def reached(rewiring: Rewiring) -> set[str]:
    """Returns the neurons and inputs that inputs reach through present synapses."""
    found, here = set(rewiring.wiring.input_names), np.array(pairs(rewiring.wiring))[rewiring.present].tolist()
    for _ in range(rewiring.wiring.units):
        found |= {target for source, target in here if source in found}
    return found


@pytest.mark.parametrize(("cell", "optimizer"), WAYS)
def test_absent_synapses_have_no_gradient_before_a_step_and_no_weight_after_it(
    cell: str, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewiring, seen = grown(cell=cell), []
    moves = rewiring.student.optimizer(DistilSettings(optimizer=optimizer, learning_rate=0.02))
    after_step = rewiring.after_step

    def before(*_: Any) -> None:
        gradients = by_synapse(rewiring, *(weight.grad for weight in rewiring.weights))
        assert gradients[rewiring.present].any()
        assert not gradients[~rewiring.present].any()

    def after(*given: int) -> None:
        after_step(*given)
        assert rewiring.present.sum() == 18
        assert weights_of(rewiring)[rewiring.present].any()
        assert not weights_of(rewiring)[~rewiring.present].any()
        seen.append(present_pairs(rewiring))

    moves.register_step_pre_hook(before)
    monkeypatch.setattr(rewiring, "after_step", after)
    for done in (0, SMALL.batches):
        trained(rewiring, moves, done=done)
        assert not weights_of(rewiring)[~rewiring.present].any()  # the running average of the weights
    assert len(seen) == 24
    assert len(set(map(frozenset, seen))) > 6


@pytest.mark.parametrize(("cell", "optimizer"), WAYS)
def test_what_is_trained_further_has_no_absent_synapses(cell: str, optimizer: str) -> None:
    rewiring = grown(cell=cell)
    student = rewiring.student
    for is_new in (True, False):
        if not is_new:
            trained(rewiring, settings=replace(SMALL, optimizer=optimizer))
        goes_on = {id(one): value for one, value in zip(student.parameters, student.trained, strict=True)}
        values = by_synapse(rewiring, *(goes_on[id(weight)] for weight in rewiring.weights))
        assert values[rewiring.present].any()
        assert not values[~rewiring.present].any()


@pytest.mark.parametrize("absent", [0, 1, 3, 20])
def test_the_number_of_synapses_stays_the_same_also_where_few_are_absent(absent: int) -> None:
    wiring = LAYERED.build(2)
    synapses = possible(wiring) - absent
    rewiring = grown(synapses)
    for seed in range(5):
        shake(rewiring, seed)
        before = present_pairs(rewiring)
        rewiring.exchange(0.3)
        assert rewiring.present.sum() == synapses
        gone = before - present_pairs(rewiring)
        assert len(gone) == min(absent, synapses - round(0.7 * synapses))


@pytest.mark.parametrize("plan", WIRINGS, ids=["layered", "random", "dense", "round"])
@pytest.mark.parametrize("more", [0, 2])
def test_inputs_always_reach_all_neurons(plan: Any, more: int) -> None:
    wiring = plan if isinstance(plan, Wiring) else plan.build(2)
    rewiring = grown(wiring.units + more, wiring=wiring)
    for seed in range(8):
        assert reached(rewiring) == {*wiring.input_names, *wiring.neuron_names}
        assert rewiring.present.sum() == wiring.units + more
        shake(rewiring, seed)
        rewiring.exchange(0.9)


def test_each_neuron_keeps_a_synapse_from_an_input_or_an_earlier_layer() -> None:
    rewiring, chosen = grown(14), set()
    names, layers = rewiring.wiring.neuron_names, rewiring.wiring.layers.values()
    layer = {name: k for k, part in enumerate(layers) for name in names[part]}
    for seed in range(8):
        present = np.array(pairs(rewiring.wiring))[rewiring.present].tolist()
        onward = {target for source, target in present if layer.get(source, -1) < layer[target]}
        assert onward == set(names)
        chosen.add(frozenset(present_pairs(rewiring)))
        shake(rewiring, seed)
        rewiring.exchange(0.9)
    assert len(chosen) == 8


def stepping(
    weights: dict[str, tuple[float, float]], gradients: dict[str, tuple[float, float]], wiring: Wiring = STEPPING
) -> Rewiring:
    """Makes a student with these synapses, weights and mean gradients."""
    rewiring = grown(len(weights), wiring=wiring)
    names = ["".join(pair) for pair in pairs(wiring)]
    rewiring.present = np.array([name in weights for name in names])
    with torch.no_grad():
        for of, values in ((rewiring.weights, weights), (rewiring.gradients, gradients)):
            together = torch.tensor([values.get(name, (0.0, 0.0)) for name in names]).T
            for value, own in zip(of, together.split(rewiring.counts, dim=1), strict=True):
                value.copy_(own)
    return rewiring


def test_the_weakest_synapses_go_and_those_with_the_largest_mean_gradients_grow() -> None:
    rewiring = stepping(
        # xB is the weakest, and all that B hears; of Bm and AB one goes, and the two weights of AB are more together
        {"xA": (0.9, 0), "xB": (0, -0.1), "Am": (0.5, 0), "Bm": (0.4, 0), "AA": (0, 0.2), "AB": (0.3, -0.3)},
        # what is there does not grow, nor what has just gone; the two of BA are more together than that of yB
        {
            "xA": (9, 9),
            "AA": (9, 9),
            "Bm": (8, 8),
            "yA": (0.6, 0),
            "yB": (0, 0.65),
            "BB": (0.1, 0.1),
            "BA": (0.5, -0.5),
        },
    )
    before = weights_of(rewiring)
    rewiring.exchange(1 / 3)
    rewiring.clear()
    assert present_pairs(rewiring) == {"xA", "xB", "Am", "AB", "BA", "yB"}
    kept = torch.tensor(["".join(pair) in {"xA", "xB", "Am", "AB"} for pair in pairs(STEPPING)])
    assert torch.equal(weights_of(rewiring)[kept], before[kept])
    assert not weights_of(rewiring)[~kept].any()


def test_synapses_into_neurons_that_reach_no_motor_neuron_go_first() -> None:
    weights = {"xA": (0.1, 0), "Am": (0.1, 0), "AA": (0.2, 0), "yB": (5, 0), "xB": (4, 0), "AB": (3, 0)}
    rewiring = stepping(weights, {"Bm": (1, 0), "BB": (2, 0)})
    rewiring.exchange(1 / 3)
    assert present_pairs(rewiring) == {"xA", "Am", "AA", "yB", "Bm", "BB"}  # B keeps the strongest that it hears
    rewiring = stepping({**weights, "Bm": (1, 0)}, {"yA": (1, 0), "BB": (2, 0)})
    rewiring.exchange(2 / 7)
    assert present_pairs(rewiring) == {"xA", "yB", "xB", "AB", "Bm", "yA", "BB"}  # now B reaches the motor neuron


def test_a_neuron_that_hears_an_input_may_keep_a_stronger_synapse_from_an_earlier_layer_instead() -> None:
    wiring = Wiring.from_edges(
        ["x", "y"], inter=[["A"], ["B"]], motor=["m"],
        sensory=[("x", "A"), ("y", "B")], synapses=[("A", "B"), ("B", "m"), ("A", "A")],
    )  # fmt: skip
    weights = {"xA": (0.2, 0), "yB": (0.3, 0), "AB": (0.5, 0), "Bm": (0.2, 0)}
    rewiring = stepping(weights, {"AA": (1, 0)}, wiring)
    rewiring.exchange(1 / 4)
    assert present_pairs(rewiring) == {"xA", "AB", "Bm", "AA"}


def test_the_mean_gradient_forgets_a_tenth_in_each_batch_and_counts_absent_synapses() -> None:
    rewiring, wanted = grown(12), torch.zeros(())
    for seed in range(3):
        for k, weight in enumerate(rewiring.weights):
            weight.grad = torch.randn(weight.shape, generator=drawn(2 * seed + k))
        wanted = 0.9 * wanted + 0.1 * by_synapse(rewiring, *(weight.grad for weight in rewiring.weights))
        rewiring.keep_to_present()
    torch.testing.assert_close(torch.cat(rewiring.gradients, dim=1).T, wanted)


def exchanges(batches: int, iterations: int, monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Returns after which batches of a distillation synapses are exchanged, and which share of them."""
    rewiring, found = grown(), {}
    for done in range(1, batches * iterations + 1):
        monkeypatch.setattr(rewiring, "exchange", partial(found.__setitem__, done))
        rewiring.after_step(done, batches, batches * iterations)
    return found


@pytest.mark.parametrize(
    ("batches", "within"),
    [
        (1, [1]), (2, [1]), (5, [1, 2]), (12, [1, 2, 3, 4, 5, 6]), (13, [2, 3, 4, 5, 6, 7]),
        (100, [9, 17, 25, 34, 42, 50]),
    ],
)  # fmt: skip
def test_six_exchanges_or_as_many_as_there_is_time_for_are_in_the_first_half_of_an_iteration(
    batches: int, within: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = exchanges(batches, 8, monkeypatch)
    expected = [k * batches + batch for k in range(6) for batch in within]  # six of the eight iterations
    assert list(found) == [done for done in expected if done < 6 * batches]


def test_a_smaller_share_is_exchanged_each_time_until_three_quarters_of_all_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = exchanges(12, 2, monkeypatch)
    assert list(found) == [1, 2, 3, 4, 5, 6, 13, 14, 15, 16, 17]  # 18 of 24 are three quarters
    assert list(found.values()) == pytest.approx([0.15 + 0.15 * cos(pi * done / 18) for done in found])


@pytest.mark.parametrize(("cell", "optimizer"), WAYS)
@pytest.mark.parametrize("plan", WIRINGS, ids=["layered", "random", "dense", "round"])
def test_the_policy_that_is_kept_has_the_present_synapses_alone_and_acts_as_the_student(
    cell: str, optimizer: str, plan: Any
) -> None:
    wiring = plan if isinstance(plan, Wiring) else plan.build(2)
    rewiring = grown(wiring.units + 3, cell, wiring)
    rewiring.student.set_statistics(demonstrations())
    trained(rewiring, settings=replace(SMALL, optimizer=optimizer))
    sparse = rewiring.sparse_student(lambda found: student_of(pendulum, cell=cell, wiring=found, critic="shared").model)
    kept = sparse.circuit.cell.wiring
    there = np.array(pairs(wiring))[weights_of(rewiring).any(dim=1).numpy()].tolist()
    names = {*wiring.input_names, *kept.neuron_names}
    assert sorted(pairs(kept)) == sorted((source, target) for source, target in there if {source, target} <= names)
    assert {"".join(pair) for pair in pairs(kept)} <= present_pairs(rewiring)
    stranded = set(wiring.neuron_names) - names
    assert not any(source in stranded and target in names for source, target in there)  # nobody hears those that went
    features = torch.randn(4, 15, 2, generator=drawn())
    starts = torch.arange(15).expand(4, 15) % 8 == 0
    with torch.no_grad():
        ours, theirs = (one.outputs(features, None, starts)[0] for one in (sparse, rewiring.student))
    assert theirs.std() > 1e-3
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(sparse.normalizer.obs_rms.mean, rewiring.student.normalizer.obs_rms.mean)


def test_a_synapse_that_has_no_weight_yet_and_a_neuron_that_reaches_no_motor_neuron_are_left_out() -> None:
    rewiring = stepping(
        {"xA": (0.5, 0), "Am": (0, 0.5), "AA": (0.0, 0.0), "yB": (1.0, 0), "AB": (1.0, 0), "Bm": (0.0, 0.0)}, {}
    )
    make = partial(student_of, pendulum, cell="dualltc", critic="shared")
    sparse = rewiring.sparse_student(lambda wiring: make(wiring=wiring).model)
    assert pairs(sparse.circuit.cell.wiring) == [("x", "A"), ("A", "m")]
    assert sparse.model.predict(np.zeros(2, dtype=np.float32))[0].shape == (1,)


@pytest.mark.parametrize("cell", ["dualltc", "neuralltc", "cfc"])
def test_a_circuit_without_synapses_among_neurons_learns_which_inputs_it_hears(cell: str) -> None:
    rewiring = grown(3, cell, UNJOINED)
    for seed in range(4):
        shake(rewiring, seed)
        before = present_pairs(rewiring)
        rewiring.exchange(0.3)
        assert len(present_pairs(rewiring)) == 3
        assert len(present_pairs(rewiring) - before) == 1
    trained(rewiring)
    assert not weights_of(rewiring)[~rewiring.present].any()


def test_another_one_goes_on_from_the_state_as_the_first_one_does() -> None:
    first, second = grown(), grown(seed=1)
    shake(first, 0)
    assert present_pairs(first) != present_pairs(second)
    tensors: dict[str, Tensor] = {}
    packed = pack(first.state(), tensors)
    with torch.no_grad():
        for one, other in zip(second.weights, first.weights, strict=True):
            one.copy_(other)
    second.load_state(unpack(packed, tensors))
    assert present_pairs(first) == present_pairs(second)
    for one, other in zip(first.gradients, second.gradients, strict=True):
        assert torch.equal(one, other)
    for rewiring in (first, second):
        before = present_pairs(rewiring)
        rewiring.exchange(0.3)
        assert present_pairs(rewiring) != before
    assert present_pairs(first) == present_pairs(second)


@pytest.mark.parametrize("other", [{"wiring": FullyConnected(6, 2)}, {"cell": "neuralltc"}], ids=["wiring", "cell"])
def test_the_state_of_another_circuit_is_refused(other: Any) -> None:
    with pytest.raises(ValueError, match="its synapses are not those of the student"):
        grown().load_state(grown(**other).state())


def test_one_seed_gives_the_same_synapses_and_another_one_others() -> None:
    found = [present_pairs(grown(seed=seed)) for seed in (0, 0, 1)]
    assert [len(names) for names in found] == [18] * 3
    assert found[0] == found[1] != found[2]


def test_a_cell_whose_synapses_cannot_grow_is_refused() -> None:
    with pytest.raises(ValueError, match=r"an absent synapse of LTC has no gradient.*such as dualltc, neuralltc or"):
        check_growable(LTC(2, 3))
    with pytest.raises(ValueError, match="an absent synapse of LTC has no gradient"):
        grown(cell="ltc")
    with pytest.raises(ValueError, match="a circuit of GRU is always fully connected"):
        check_growable(GRU(2, 3))
    for kind in (DualLTC, NeuralLTC, CfC):
        check_growable(kind(2, 3))


@pytest.mark.parametrize("synapses", [1, 2, 16, 999])
def test_numbers_of_synapses_that_a_wiring_cannot_have_are_refused_with_their_range(synapses: int) -> None:
    wiring = FullyConnected(3, 1).build(2)
    sentence = f"has 3 neurons and 15 synapses, so .* between 3, one into each neuron, and 15, got {synapses}"
    with pytest.raises(ValueError, match=sentence):
        check_count(synapses, wiring)
    with pytest.raises(ValueError, match=sentence):
        grown(synapses, wiring=wiring)


@pytest.mark.parametrize("synapses", [3, 15])
def test_the_smallest_and_the_largest_number_of_synapses_are_accepted(synapses: int) -> None:
    assert grown(synapses, wiring=FullyConnected(3, 1)).present.sum() == synapses
