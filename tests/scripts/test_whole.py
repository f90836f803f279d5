"""The idea in one file: its circuit, its gradients, its certificate and its C are those of the package."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ncp_control as nc
from ncp_control.audit.differences import Differences
from ncp_control.base.intervals import Interval
from ncp_control.neurons.ranges import Elapsed, known_of
from ncp_control.rl import load_policy
from ncp_control.wiring import Wiring

ROOT = Path(__file__).parents[2]
EVERYTHING = ("circuit.safetensors", "circuit.c")


@pytest.fixture
def whole(import_script: Callable[[str], Any]) -> Any:
    return import_script("whole")


@pytest.fixture
def circuit(whole: Any) -> Any:
    """A circuit whose every parameter and statistic is at random."""
    torch.manual_seed(3)
    made = whole.Circuit()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
        made.mean.normal_()
        made.deviation.uniform_(0.5, 2)
    return made


def cell_like(whole: Any, circuit: Any) -> nc.DualLTC:
    """The package's cell with the same synapses and weights."""
    inter, command, motor = whole.LAYERS
    starts = np.cumsum([0, *whole.LAYERS]).tolist()
    layers = [range(a, b) for a, b in itertools.pairwise(starts)]
    wiring = Wiring.from_edges(
        whole.SENSORS,
        inter=inter,
        command=command,
        motor=motor,
        sensory=[(i, j) for i in range(whole.SENSORS) for j in range(whole.NEURONS)],
        synapses=[(i, j) for own in layers for j in own for i in range(own.start)],
    )
    cell = nc.DualLTC(whole.SENSORS, wiring, time_constants=whole.TIME_CONSTANTS, brake=whole.BRAKE)
    full = torch.zeros(2, whole.SENSORS + whole.NEURONS, whole.NEURONS)
    for own, weights in zip(layers, circuit.weights, strict=True):
        full[:, : weights.shape[1], own.start : own.stop] = weights.detach()
    with torch.no_grad():
        cell.sensory_weight.copy_(full[:, cell.sensory_source, cell.sensory_target])
        cell.weight.copy_(full[:, whole.SENSORS + cell.source, cell.target])
        cell.bias.copy_(torch.cat(list(circuit.biases), dim=1))
        assert cell.brake_raw is not None
        cell.brake_raw.copy_(torch.cat(list(circuit.brakes)))
    return cell


def standardized(circuit: Any, observations: torch.Tensor) -> torch.Tensor:
    return (observations - circuit.mean) / circuit.deviation


def test_the_circuit_is_the_package_s_cell(whole: Any, circuit: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    observations = torch.randn(30, 4, whole.SENSORS, generator=generator)
    start = torch.rand(4, whole.NEURONS, generator=generator) * 2 - 1
    worth = torch.randn(30, 4, whole.NEURONS, generator=generator) / 30
    cell, ours, theirs = cell_like(whole, circuit), start.clone().requires_grad_(), start.clone().requires_grad_()
    _, states = circuit(observations, ours)
    expected, state = [], theirs
    for read in standardized(circuit, observations):
        state = cell.step(read, state)
        expected.append(state)
    torch.testing.assert_close(states, torch.stack(expected), rtol=0, atol=1e-6)
    (states * worth).sum().backward()
    (torch.stack(expected) * worth).sum().backward()
    close = {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(ours.grad, theirs.grad, **close)
    torch.testing.assert_close(torch.cat([one.grad for one in circuit.biases], dim=1), cell.bias.grad, **close)
    assert cell.brake_raw is not None
    torch.testing.assert_close(torch.cat([one.grad for one in circuit.brakes]), cell.brake_raw.grad, **close)
    first = cell_like(whole, circuit)  # gradients of weights, in the places of the package
    assert cell.weight.grad is not None
    assert cell.sensory_weight.grad is not None
    full = torch.zeros(2, whole.SENSORS + whole.NEURONS, whole.NEURONS)
    full[:, cell.sensory_source, cell.sensory_target] = cell.sensory_weight.grad
    full[:, whole.SENSORS + cell.source, cell.target] = cell.weight.grad
    assert first.weight.shape == cell.weight.shape
    at = 0
    for weights in circuit.weights:
        _, sources, n = weights.shape
        torch.testing.assert_close(weights.grad, full[:, :sources, at : at + n], **close)
        at += n


def test_the_teacher_is_the_shipped_one(whole: Any) -> None:
    policy = load_policy(ROOT / "checkpoints" / "halfcheetah-teacher.safetensors")
    seen = np.random.default_rng(0).normal(size=(5, 17))
    expected, _ = policy.predict(seen)
    found = whole.shipped_teacher()(torch.as_tensor(seen).float())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_no_rollout_leaves_the_certified_ranges(whole: Any, circuit: Any) -> None:
    shown = whole.certify(circuit, 0.05)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(200, 64, whole.SENSORS, generator=generator) * 2 - 1
    drawn[:, 32:] = drawn[:, 32:].sign()  # the corners, where ranges are reached
    actions, states = circuit(circuit.mean + 0.05 * circuit.deviation * drawn, torch.zeros(64, whole.NEURONS))
    for found, (low, high) in ((states, shown["states"]), (actions, shown["actions"])):
        values = found.detach().double().flatten(0, 1).numpy()
        assert (values.min(axis=0) >= low).all()
        assert (values.max(axis=0) <= high).all()
        assert (low < high).all()
        assert np.median((values.max(axis=0) - values.min(axis=0)) / (high - low)) > 0.1  # they are not idle


def test_the_package_certifies_the_same_or_more(whole: Any, circuit: Any) -> None:
    shown = whole.certify(circuit, 0.05)
    known = known_of(cell_like(whole, circuit), Elapsed(1.0, 1.0))
    assert known is not None
    features, states = Interval(np.full(8, -0.05), np.full(8, 0.05)), known.outer()
    for _ in range(60):
        states = known.settled(states, features)
    # a state also begins at 0, from which the package's range of what states settle at may stay away
    low, high = (np.asarray(end) for end in shown["states"])
    assert (states.low >= low - 1e-6).all()
    assert (states.high <= high + 1e-6).all()
    times = known.time_constants(Interval(low, high), features)
    short, long = shown["time constants"]
    np.testing.assert_allclose(times.low, short, rtol=1e-3)
    np.testing.assert_allclose(times.high, long, rtol=1e-3)


def test_the_package_shows_no_slower_forgetting(whole: Any, circuit: Any) -> None:
    shown = whole.certify(circuit, 0.05)
    known = known_of(cell_like(whole, circuit), Elapsed(1.0, 1.0))
    assert known is not None
    states = Interval(*shown["states"])
    slopes = known.slopes(states, Interval(np.full(8, -0.05), np.full(8, 0.05)))
    assert slopes is not None
    gain = np.zeros((whole.ACTIONS, whole.NEURONS))
    gain[:, -whole.LAYERS[-1] :] = circuit.output[0].detach().double().numpy().T
    differences = Differences.of(slopes, Interval(gain, gain), states, known.substeps)
    _, steps = differences.forgotten(0.01, np.full(whole.ACTIONS, 2.0))
    assert steps is not None
    assert 0 < steps <= shown["steps"] <= 2 * steps  # the package looks at slopes piece by piece
    assert differences.rate() <= shown["forgets"] + 1e-6


def test_two_pasts_come_together_as_certified(whole: Any, circuit: Any) -> None:
    shown = whole.certify(circuit, 0.05)
    generator = torch.Generator().manual_seed(1)
    drawn = torch.rand(shown["steps"], 1, whole.SENSORS, generator=generator) * 2 - 1
    ends = torch.as_tensor(np.stack(shown["states"])).float()
    actions, _ = circuit((circuit.mean + 0.05 * circuit.deviation * drawn).expand(-1, 2, -1), ends)
    assert (actions[-1, 0] - actions[-1, 1]).abs().max() <= 0.02
    assert shown["forgets"] == pytest.approx(np.exp(-0.5))


@pytest.mark.skipif(shutil.which("cc") is None, reason="this machine has no cc")
def test_the_c_computes_what_torch_does(whole: Any, circuit: Any, tmp_path: Path) -> None:
    source = tmp_path / "circuit.c"
    source.write_text(whole.c_of(circuit))
    observations = 3 * torch.randn(1000, whole.SENSORS, generator=torch.Generator().manual_seed(0))
    assert whole.largest_difference(circuit, source, observations) < 1e-5
    assert "malloc" not in source.read_text()


def run(whole: Any, out: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the whole script with little work and short episodes."""
    monkeypatch.setattr(whole, "STEPS", 60)
    monkeypatch.setattr(sys, "argv", ["whole.py", "--minutes", "0.004", "--seed", "5", "--out", str(out)])
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)  # of this process, which others share
    whole.main()
    return whole.load_file(out / "circuit.safetensors")


def test_a_small_run_writes_all_and_a_seed_gives_the_same(
    whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (run(whole, tmp_path / name, monkeypatch) for name in ("a", "b"))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all((tmp_path / "a" / name).exists() for name in EVERYTHING)
    printed = capsys.readouterr().out
    for words in ("2,550 parameters", "random actions", "time constants", "two pasts differ", "bytes of state"):
        assert words in printed


def test_a_stopped_run_keeps_what_it_has(
    whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def interrupted(matrices: torch.Tensor) -> Any:
        asked.append(matrices)
        if len(asked) == 18:  # there are four matrices in an update
            raise KeyboardInterrupt
        return orthogonal(matrices)

    orthogonal = whole.orthogonal
    monkeypatch.setattr(whole, "orthogonal", interrupted)
    run(whole, tmp_path, monkeypatch)
    assert "stopped after 5 of" in capsys.readouterr().out
    assert all((tmp_path / name).exists() for name in EVERYTHING)
