"""What holds for every plan and every wiring, whatever their sizes: property tests."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ncp_control.wiring import NCP, AutoNCP, Edges, GapJunctions, Random, Wiring, WiringError

light = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32)


def adjacency(edges: Edges, sources: int, targets: int) -> np.ndarray:
    matrix = np.zeros((sources, targets), dtype=np.int64)
    np.add.at(matrix, (edges.source, edges.target), 1)
    return matrix


def check_ways(wiring: Wiring) -> None:
    """Every input is used, an input reaches every neuron, and every neuron reaches a motor neuron."""
    step = adjacency(wiring.synapses, wiring.units, wiring.units) + np.eye(wiring.units, dtype=np.int64)
    walk = np.minimum(np.linalg.matrix_power(step.astype(object), wiring.units), 1).astype(np.int64)
    sensory = adjacency(wiring.sensory, wiring.inputs, wiring.units)
    assert sensory.any(axis=1).all()
    assert (sensory @ walk).any(axis=0).all()
    assert walk[:, wiring.motor].any(axis=1).all()


def check_edges(wiring: Wiring) -> None:
    for edges in (wiring.sensory, wiring.synapses):
        ends = list(zip(edges.target.tolist(), edges.source.tolist(), strict=True))
        assert ends == sorted(set(ends))
        assert set(edges.polarity.tolist()) <= {-1, 1}
    assert Wiring.from_json(wiring.to_json()) == wiring


def check_fans(block: np.ndarray, fan: int) -> None:
    """Each row draws `fan` columns, and no column is left out; columns draw rows only if there are too few rows."""
    rows, columns = block.shape
    left_over = max(0, columns - rows * fan)
    assert block.max() == 1
    assert block.sum() == rows * fan + left_over
    assert (block.sum(axis=1) >= fan).all()
    assert (block.sum(axis=0) >= 1).all()


@st.composite
def ncps(draw: st.DrawFn) -> NCP:
    inter = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    command, motor = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    return NCP(
        inter,
        command,
        motor,
        sensory_fanout=draw(st.integers(1, inter[0])),
        inter_fanout=[draw(st.integers(1, size)) for size in [*inter[1:], command]],
        recurrent_command=draw(st.integers(0, command**2)),
        motor_fanin=draw(st.integers(1, command)),
        recurrent_inter=draw(st.integers(0, min(inter) ** 2)),
        seed=draw(seeds),
    )


@light
@given(plan=ncps(), inputs=st.integers(1, 9))
def test_ncp_keeps_every_promise(plan: NCP, inputs: int):
    wiring = plan.build(inputs)
    check_edges(wiring)
    check_ways(wiring)
    synapses = adjacency(wiring.synapses, wiring.units, wiring.units)
    layers = list(wiring.layers.values())
    check_fans(adjacency(wiring.sensory, inputs, wiring.units)[:, layers[0]], plan.sensory_fanout)
    total = 0
    for source, target, fanout in zip(layers[:-2], layers[1:-1], plan.inter_fanout, strict=True):
        check_fans(synapses[source, target], fanout)
        assert synapses[source, source].sum() == plan.recurrent_inter
        total += int(synapses[source, target].sum()) + plan.recurrent_inter
    command, motor = layers[-2:]
    check_fans(synapses[command, motor].T, plan.motor_fanin)
    assert synapses[command, command].sum() == plan.recurrent_command
    total += int(synapses[command, motor].sum()) + plan.recurrent_command
    assert len(wiring.synapses) == total
    assert wiring.fan_in.sum() == len(wiring.sensory) + total
    assert wiring.fan_out.sum() == total


@light
@given(data=st.data(), units=st.integers(1, 12), inputs=st.integers(1, 9), seed=seeds)
@example(data=None, units=12, inputs=1, seed=0)
def test_random_is_exact_or_refuses_for_cause(data: Any, units: int, inputs: int, seed: int):
    outputs = data.draw(st.integers(1, units)) if data else 1
    sparsity = data.draw(st.floats(0, 0.999)) if data else 0.9
    plan = Random(units, outputs, sparsity, seed)
    sensory, recurrent = round((1 - sparsity) * inputs * units), round((1 - sparsity) * units**2)
    # An input needs a synapse that leaves it, a neuron one into it, and a neuron that is not motor one that leaves it.
    if sensory < inputs or sensory + recurrent < units or recurrent < units - outputs:
        with pytest.raises(WiringError) as caught:
            plan.build(inputs)
        enough = float(str(caught.value).split("a sparsity of ")[1].split(" ")[0])
        assert enough < sparsity
        assert Random(units, outputs, enough, seed).build(inputs).units == units
        return
    wiring = plan.build(inputs)
    assert (len(wiring.sensory), len(wiring.synapses)) == (sensory, recurrent)
    check_edges(wiring)
    check_ways(wiring)


@light
@given(units=st.integers(3, 40), inputs=st.integers(1, 20), sparsity=st.floats(0, 0.9), seed=seeds, data=st.data())
def test_auto_ncp_always_works(units: int, inputs: int, sparsity: float, seed: int, data: Any):
    outputs = data.draw(st.integers(1, units - 2))
    wiring = AutoNCP(units, outputs, sparsity, seed).build(inputs)
    assert (wiring.inputs, wiring.units, wiring.outputs) == (inputs, units, outputs)
    assert list(wiring.layers) == ["inter", "command", "motor"]
    check_edges(wiring)
    check_ways(wiring)


@light
@given(plan=ncps(), seed=seeds, data=st.data())
def test_gap_junctions_are_distinct_pairs_within_their_layer(plan: NCP, seed: int, data: Any):
    bare = plan.build(2)
    within = data.draw(st.sampled_from([None, *bare.layers]))
    part = slice(0, bare.units) if within is None else bare.layers[within]
    size = part.stop - part.start
    count = data.draw(st.integers(0, size * (size - 1) // 2))
    joined = GapJunctions(plan, count, within, seed).build(2)
    assert joined.gap_junctions.shape == (count, 2)
    pairs = [tuple(pair) for pair in joined.gap_junctions.tolist()]
    assert pairs == sorted(set(pairs))
    assert all(part.start <= a < b < part.stop for a, b in pairs)
    assert (joined == bare) == (count == 0)
    check_edges(joined)


@pytest.mark.system
@light
@given(data=st.data(), inputs=st.integers(1, 5), motor=st.integers(1, 6))
def test_the_order_in_which_a_circuit_is_written_down_does_not_matter(data: Any, inputs: int, motor: int):
    def some(sources: int) -> list[tuple[int, int, int]]:
        ends = st.tuples(st.integers(0, sources - 1), st.integers(0, motor - 1))
        drawn = data.draw(st.dictionaries(ends, st.sampled_from([-1, 1]), max_size=12))
        return [(source, target, polarity) for (source, target), polarity in drawn.items()]

    sensory = some(inputs)
    fed = {target for _, target, _ in sensory}
    sensory += [(0, target, 1) for target in range(motor) if target not in fed]
    synapses = some(motor)
    wiring = Wiring.from_edges(inputs, motor=motor, sensory=sensory, synapses=synapses)
    shuffled = Wiring.from_edges(
        inputs,
        motor=motor,
        sensory=data.draw(st.permutations(sensory)),
        synapses=[(f"motor{s}", f"motor{t}", p) for s, t, p in data.draw(st.permutations(synapses))],
    )
    assert shuffled == wiring
    assert hash(shuffled) == hash(wiring)
    assert sorted(wiring.sensory) == sorted(sensory)
    assert sorted(wiring.synapses) == sorted(synapses)
    check_edges(wiring)


@light
@given(data=st.data())
def test_a_motor_neuron_is_refused_exactly_when_nothing_reaches_it(data: Any):
    units, motor = 6, 2
    pair = st.tuples(st.integers(0, units - 1), st.integers(0, units - 1))
    entries = data.draw(st.sets(st.integers(0, units - motor - 1), min_size=1, max_size=3))
    synapses = data.draw(st.sets(pair, max_size=9))
    joined = {(min(p), max(p)) for p in data.draw(st.sets(pair, max_size=2)) if p[0] != p[1]}
    reached = set(entries)
    two_way = synapses | joined | {(b, a) for a, b in joined}
    for _ in range(units):
        reached |= {target for source, target in two_way if source in reached}
    missing = [neuron for neuron in range(units - motor, units) if neuron not in reached]

    def build() -> Wiring:
        sensory = [(0, target) for target in entries]
        return Wiring.from_edges(
            1, inter=units - motor, motor=motor, sensory=sensory, synapses=synapses, gap_junctions=joined
        )

    if missing:
        with pytest.raises(WiringError, match=rf"'motor{missing[0] - 4}' \(number {missing[0]}\)"):
            build()
    else:
        check_edges(build())


DOCUMENT = json.loads(GapJunctions(AutoNCP(7, 2, seed=1), 2).build(2).to_json())
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.integers(-2, 9), st.floats(), st.text(max_size=5))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=2)
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in places(inner, (*path, key)))]


def unordered(document: dict[str, Any]) -> dict[str, Any]:
    synapses = {key: sorted(document[key]) for key in ("sensory", "synapses")}
    return {**document, **synapses, "gap_junctions": sorted(map(sorted, document["gap_junctions"]))}


@pytest.mark.system
@settings(max_examples=300, deadline=None)
@given(place=st.sampled_from(places(DOCUMENT)), value=values)
def test_any_change_to_the_json_gives_a_wiring_or_a_wiring_error(place: tuple[Any, ...], value: Any):
    document = json.loads(json.dumps(DOCUMENT))
    if place:
        parent = document
        for key in place[:-1]:
            parent = parent[key]
        assume(parent[place[-1]] != value)
        parent[place[-1]] = value
    else:
        document = value
    try:
        wiring = Wiring.from_json(json.dumps(document))
    except WiringError:
        return
    assert unordered(json.loads(wiring.to_json())) == unordered(document)
    check_edges(wiring)
