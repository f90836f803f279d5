"""A certificate as a whole: it holds under attack, and a wrong one does not."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import ncp_control as nc
from helpers.attacked import broken_claims
from helpers.small_agents import KINDS, agent_of, make, small_agent
from ncp_control.audit import Certificate, audit
from ncp_control.audit.box import observation_box
from ncp_control.audit.examining import examine
from ncp_control.base import intervals
from ncp_control.neurons.ranges import Elapsed
from ncp_control.rl import Controller, save_policy
from ncp_control.rl.controller import read_vector

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
AGENT = CHECKPOINTS / "halfcheetah-positions.safetensors"


@pytest.fixture(scope="module")
def shipped() -> Certificate:
    return audit(nc.load(AGENT), attack=60_000, progress=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_certificate_holds_under_attack(kind: str, tmp_path: Path) -> None:
    found = audit(small_agent(kind, tmp_path), box=2.0, elapsed=(0.5, 2.0), attack=20_000, progress=False)
    assert found.attack is not None
    assert found.attack.violations == ()
    assert found.attack.inputs >= 20_000
    for one in found.actions:
        assert one.raw.found_low is not None
        assert one.raw.low <= one.raw.found_low < one.raw.found_high <= one.raw.high  # type: ignore[operator]
    assert bool(found.neurons) == (kind != "plain")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=() if path.stem == "halfcheetah" else pytest.mark.system)
        for path in sorted(CHECKPOINTS.glob("half*.safetensors"))
        if "dyn" not in path.stem
    ],
)
def test_shipped_agents_are_certified(name: str) -> None:
    found = audit(nc.load(CHECKPOINTS / f"{name}.safetensors"), attack=30_000, progress=False)
    assert found.holds
    assert all(-1 <= one.value.low <= one.value.high <= 1 for one in found.actions)


@pytest.mark.system
def test_the_shipped_acyclic_circuit_forgets_and_its_ranges_are_nearly_reached() -> None:
    found = audit(
        nc.load(CHECKPOINTS / "halfcheetah-positions-acyclic.safetensors"), box=3.0, attack=300_000, progress=False
    )
    assert found.forgetting is not None
    assert found.forgetting.proved
    assert found.forgetting.cycles == ()
    assert found.forgetting.steps is not None
    assert found.forgetting.steps < 50
    assert found.attack is not None
    assert found.attack.tightness is not None
    assert found.attack.tightness < 1.5


@pytest.mark.slow
def test_the_same_seed_finds_the_same(shipped: Certificate) -> None:
    again = audit(nc.load(AGENT), attack=60_000, progress=False)
    assert again.states == shipped.states
    assert [one.raw for one in again.actions] == [one.raw for one in shipped.actions]
    other = audit(nc.load(AGENT), attack=60_000, seed=1, progress=False)
    assert other.states != shipped.states


@pytest.mark.system
def test_ranges_are_tighter_than_the_cells_own_bounds() -> None:
    agent = nc.load(CHECKPOINTS / "halfcheetah-positions-acyclic.safetensors")
    low, high = (end.detach().numpy() for end in agent.policy.lstm_actor.cell.state_bounds())
    widths = np.array([one.high - one.low for one in audit(agent, box=1.0, attack=0).states])
    assert (widths <= (high - low) * (1 + 1e-4)).all()
    assert (widths < 0.95 * (high - low)).any()


def test_json_is_strict_and_complete(shipped: Certificate) -> None:
    read = json.loads(shipped.to_json(), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert read["format"] == "ncp_control certificate 1"
    assert len(read["neurons"]) == 64
    assert len(read["synapses"]) == 2304
    assert read["observations"][0] == {"low": None, "high": None, "found_low": None, "found_high": None}


def test_a_monitor_is_silent_inside_of_the_box_and_loud_outside() -> None:
    agent = nc.load(AGENT)
    certificate = audit(agent, box=3.0, attack=0)
    controller = Controller(agent, monitor=certificate.monitor())
    ends = [torch.tensor([getattr(one, end) for one in certificate.observations]) for end in ("low", "high")]
    state, generator = controller.initial_state(64), torch.Generator().manual_seed(0)
    for _ in range(20):
        share = torch.rand(64, 8, generator=generator).round()
        _, state, flags = controller(ends[0] + share * (ends[1] - ends[0]), state)
        assert not flags.any()
    assert controller(ends[1].expand(64, -1) + 1, state)[2].tolist() == [2] * 64
    assert controller(ends[1].expand(64, -1), state, 2.0)[2].tolist() == [8] * 64


def test_a_bound_that_is_too_narrow_is_caught(shipped: Certificate) -> None:
    one = shipped.neurons[0].state
    assert one.found_high is not None
    narrow = replace(shipped.states[0], high=one.found_high - 0.05 * (one.high - one.low))
    neuron = replace(shipped.neurons[0], state=narrow)
    wrong = replace(shipped, states=(narrow, *shipped.states[1:]), neurons=(neuron, *shipped.neurons[1:]))
    said = broken_claims(wrong, nc.load(AGENT), 60_000)
    assert len(said) == 1
    assert said[0].startswith("the state of inter0 was certified to lie from")


def test_a_flipped_polarity_is_caught(tmp_path: Path) -> None:
    agent = chain(tmp_path)
    certificate = audit(agent, attack=0)
    assert broken_claims(certificate, agent) == ()
    with torch.no_grad():
        agent.policy.lstm_actor.cell.sensory_E[agent.policy.lstm_actor.cell.sensory_target == 0] *= -1
    said = broken_claims(certificate, agent)
    assert said[0].startswith("the state of inter0 was certified to lie from")
    assert all("inter0" in sentence for sentence in said)


@pytest.mark.system
def test_bounds_that_are_not_rounded_outward_are_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    agent = chain(tmp_path)
    monkeypatch.setattr(intervals, "SLACK", 0.0)
    monkeypatch.setattr(intervals, "LEAST", 0.0)
    controller = Controller(agent)
    observations, _ = observation_box(controller, read_vector(agent.observation_space)[1], 2.0)
    seen = examine(controller, observations, Elapsed(1.0, 1.0))
    assert outside(controller, seen, observations) > 0
    monkeypatch.undo()
    assert outside(controller, examine(controller, observations, Elapsed(1.0, 1.0)), observations) == 0


def chain(tmp_path: Path) -> Any:
    """An agent whose neurons neither leak slowly nor hear of each other, so that bounds are attained."""
    agent = small_agent("circuit", tmp_path)
    cell = agent.policy.lstm_actor.cell
    with torch.no_grad():
        cell.w_raw.fill_(-torch.inf)
        cell.cm_raw.fill_(-20.0)
    return agent


def outside(controller: Any, seen: Any, observations: Any) -> int:
    """How many neurons leave their certified range in float32 at some corner of the box."""
    seen_at_corners = torch.tensor(list(itertools.product(*zip(*observations, strict=True))), dtype=torch.float32)
    corners = controller.normalize(seen_at_corners)
    count = 0
    for backend in ("reference", "auto"):
        controller.rnn.backend = backend
        states = controller.rnn(corners[:, None].expand(-1, 40, -1), states=True)[2].double().numpy()
        low, high = states.min(axis=(0, 1)), states.max(axis=(0, 1))
        count += int(((low < seen.states.low) | (high > seen.states.high)).sum())
    return count


@pytest.mark.system
def test_an_error_on_a_path_moves_actions_no_further_than_said() -> None:
    agent = nc.load(AGENT)
    recording = np.random.default_rng(0).normal(0, 0.3, (30, 8))
    found = audit(agent, box=recording, recording=recording, error=0.05, attack=0)
    controller = Controller(agent, backend="reference").double()
    state, units = controller.initial_state(), torch.tensor(found.error_units)
    generator, most = torch.Generator().manual_seed(0), torch.zeros(6)
    for row in torch.as_tensor(recording):
        signs = torch.randint(0, 2, (200, 8), generator=generator) * 2.0 - 1
        moved = controller(row + 0.05 * units * signs, state.expand(200, -1))[0]
        action, state = controller(row[None], state)
        most = torch.maximum(most, (moved - action).abs().amax(0))
    claimed = torch.tensor([one.moved_on_path for one in found.actions])
    assert (most <= claimed + 1e-6).all()
    assert (claimed < 60 * most).all()


@pytest.mark.system
def test_a_choice_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    agent = small_agent("choices", tmp_path)
    with torch.no_grad():
        agent.policy.action_net.bias[1] += 1e4
    found = audit(agent, attack=0)
    assert [one.possible for one in found.actions] == [False, True]
    assert found.actions[0].value.high < 0


def test_a_circuit_without_strong_synapses_provably_forgets(tmp_path: Path) -> None:
    agent = small_agent("circuit", tmp_path)
    with torch.no_grad():
        agent.policy.lstm_actor.cell.sigma.mul_(0.02)
    found = audit(agent, attack=20_000, progress=False)
    assert found.forgetting is not None
    assert found.forgetting.proved
    assert found.forgetting.steps is not None
    assert found.forgetting.found_steps is not None
    assert found.forgetting.found_steps <= found.forgetting.steps
    assert found.holds


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"elapsed": (2.0, 1.0)}, "0 <= shortest <= longest, .* got 2.0 and 1.0"),
        ({"elapsed": (1e308, 1e308)}, "below 3.4e[+]38, which float32 can hold; got 1e[+]308"),
        ({"error": 0.0}, "observation error must be a number above 0"),
        ({"epsilon": 1.5}, "epsilon is a share between 0 and 1"),
        ({"attack": -1}, "a number of observations, got -1"),
        ({"recording": np.full((3, 8), np.nan)}, "at step 0, which is not finite"),
        ({"recording": np.zeros((3, 2))}, r"shape \(3, 2\)"),
        ({"sensors": ["a"]}, "sensors must have 8 names, got 1"),
    ],
)
def test_bad_arguments_are_refused(given: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        audit(nc.load(AGENT), **given)


@pytest.mark.system
@pytest.mark.parametrize(
    "cell", ["ltc", "neural-ltc", "dual-ltc", "cfc", "ctrnn", "lstm", "gru", "mlp", "ct-gru", "neural-ode"]
)
def test_every_cell_has_a_certificate_that_holds_or_says_what_is_not_proved(cell: str, tmp_path: Path) -> None:
    dense = cell in ("lstm", "gru", "mlp", "ct-gru")
    made = make("circuit", cell=cell, wiring=5 if dense else nc.AutoNCP(9, 3, seed=1), cell_kwargs=None)
    save_policy(made, tmp_path / "agent.safetensors")
    found = audit(nc.load(tmp_path / "agent.safetensors"), elapsed=(0.5, 1.0), attack=15_000, progress=False)
    assert found.attack is not None
    assert found.attack.violations == ()
    assert found.forgetting is not None
    assert len(found.neurons) == (5 if dense else 9)
    unknown = any(not np.isfinite([one.low, one.high]).all() for one in found.states) or found.forgetting.steps is None
    assert not unknown or found.notes or found.forgetting.reason.startswith("not proved")


def test_a_window_of_inputs_is_forgotten_after_its_length(tmp_path: Path) -> None:
    made = make("circuit", cell="mlp", wiring=5, cell_kwargs={"lags": 4})
    save_policy(made, tmp_path / "agent.safetensors")
    found = audit(nc.load(tmp_path / "agent.safetensors"), box=1.0, attack=0)
    assert found.forgetting is not None
    assert found.forgetting.steps == 4
    assert {one.forgets_after for one in found.neurons} == {4}


def test_a_sensor_that_acts_through_the_layers_of_one_step_matters(tmp_path: Path) -> None:
    made = make("circuit", cell="cfc", cell_kwargs=None)
    cell = made.policy.lstm_actor.cell
    with torch.no_grad():  # neurons without a memory of their own: all that they pass on, they pass on at once
        cell.weight[:, cell.source == cell.target] = 0.0
    save_policy(made, tmp_path / "agent.safetensors")
    agent = nc.load(tmp_path / "agent.safetensors")
    found = audit(agent, box=2.0, attack=0)
    low, high = (np.array([getattr(one, end) for one in found.observations]) for end in ("low", "high"))
    controller = Controller(agent)
    seen = torch.as_tensor(np.random.default_rng(0).uniform(low, high, (500, 3)), dtype=torch.float32)
    for k, sensor in enumerate(found.sensors):
        ends = [seen.clone(), seen.clone()]
        ends[0][:, k], ends[1][:, k] = float(low[k]), float(high[k])
        one, other = (controller(end, controller.initial_state(500))[0] for end in ends)
        share = float((one - other).abs().max() / (controller.high - controller.low))
        claimed = [synapse.matters for synapse in found.synapses if synapse.source == sensor]
        assert None not in claimed
        assert share > 0
        assert share <= sum(claimed) * (1 + 1e-4)  # type: ignore[arg-type]


def test_a_small_box_does_not_make_neurons_saturated() -> None:
    found = audit(nc.load(AGENT), box=1e-4, attack=0)
    bounds = nc.load(AGENT).policy.lstm_actor.cell.state_bounds()
    ends = zip(*(end.tolist() for end in bounds), strict=True)
    for one, (low, high) in zip(found.neurons, ends, strict=True):
        near = 0.011 * (high - low)
        at_end = one.state.low >= high - near or one.state.high <= low + near
        assert one.condition != "saturated" or at_end


def test_the_unit_of_a_sensor_changes_nothing(tmp_path: Path) -> None:
    signs = []
    for unit in (1.0, 1e9):
        made = make("timed", cell="ctrnn", cell_kwargs=None)  # does not normalise its observations
        cell = made.policy.lstm_actor.cell
        with torch.no_grad():
            cell.gamma.div_(unit)
        save_policy(made, tmp_path / f"{unit}.safetensors")
        n = made.observation_space["observations"].shape[0]
        found = audit(nc.load(tmp_path / f"{unit}.safetensors"), box=(np.full(n, -unit), np.full(n, unit)), attack=0)
        signs.append([(one.sign, one.condition) for one in found.synapses])
    assert signs[0] == signs[1]


@pytest.mark.system
def test_a_space_without_limits_is_certified_as_far_as_float32_can_add(tmp_path: Path) -> None:
    agent = small_agent("choices", tmp_path)  # CartPole's velocities have no limits, and nothing normalises them
    found = audit(agent, attack=15_000, progress=False)
    assert found.holds
    assert "at most 1e+09" in found.box
    assert max(one.high for one in found.observations) == 1e9
    assert found.monitor().sha256 == agent.sha256


def test_a_box_outside_of_the_space_is_refused(tmp_path: Path) -> None:
    agent = small_agent("choices", tmp_path)
    agent.policy.observation_space = spaces.Box(2.0, 5.0, (4,))
    with pytest.raises(ValueError, match="within 1 deviations there is no observation that the space allows"):
        audit(agent, box=1.0)


def test_an_action_that_is_no_number_breaks_the_certificate(tmp_path: Path) -> None:
    agent = small_agent("circuit", tmp_path)
    certificate = audit(agent, box=1.0, attack=0)
    with torch.no_grad():
        agent.policy.action_net.bias.fill_(torch.nan)
    said = broken_claims(certificate, agent, 5_000, box=1.0)
    assert any(sentence.endswith(", and was no number") for sentence in said)


@pytest.mark.system
@pytest.mark.parametrize("cell", ["ltc", "neural-ltc", "dual-ltc", "cfc", "ctrnn"])
def test_elapsed_times_of_any_size_have_a_certificate(cell: str, tmp_path: Path) -> None:
    save_policy(make("circuit", cell=cell, cell_kwargs=None), tmp_path / "agent.safetensors")
    for elapsed in ((3e38, 3e38), (0.0, 3e38), (0.0, 0.0), (1e-38, 1e-38)):
        found = audit(nc.load(tmp_path / "agent.safetensors"), elapsed=elapsed, attack=5_000, progress=False)
        assert found.holds


def test_a_circuit_whose_audit_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match=r"it takes at most 2,000, and this circuit has 2,002"):
        audit(agent_of(nc.LSTM(1, 1001)), attack=0, progress=False)
