"""What is proved of a circuit on a pendulum holds in simulations, and what does not hold is not proved."""

import copy
import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from ncp_control.base.sections import text_of
from ncp_control.loop.proof import Lesson, Proof, attacked, monitor_of, prove, teach, write_taught
from ncp_control.loop.proof.adversary import Adversary
from ncp_control.loop.proof.printed import sections_of
from ncp_control.loop.proof.proving import cells_of, halved
from ncp_control.rl import load_policy
from ncp_control.rl.controller import Controller
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.monitor import OBSERVATION, Monitor
from ncp_envs.equations import BODIES, Claim

GOLDEN = Path(__file__).parents[2] / "golden"
BODY = BODIES["single-pendulum"]


@pytest.fixture(scope="module")
def agent() -> LoadedPolicy:
    return load_policy(GOLDEN / "single-pendulum.safetensors")


@pytest.fixture(scope="module")
def proof(agent: LoadedPolicy) -> Proof:
    return prove(agent, "single-pendulum", error=0.003, progress=False)


def test_the_claim_is_shown_for_ever(proof: Proof) -> None:
    assert proof.shown
    assert len(proof.cells) == 4
    assert proof.forever is not None
    assert BODY.claims[0].low[0] < proof.forever.low[0] < 0.41 < proof.forever.high[0] < BODY.claims[0].high[0]


def test_no_body_leaves_the_tube_or_the_set(agent: LoadedPolicy, proof: Proof) -> None:
    found = attacked(agent, proof, 60_000, progress=False).attack
    assert found is not None
    assert found.left == ""
    assert found.trajectories >= 60_000
    assert found.longer >= 1_000
    # The tube is not much wider than what was reached.
    assert min(found.reached) > 0.5
    text = text_of(sections_of(dataclasses.replace(proof, attack=found)), 1000)
    assert "none left; at the ends of periods they reached, of the width of the way below, angle 0." in text


def test_a_tube_or_a_set_that_is_too_narrow_is_left(agent: LoadedPolicy, proof: Proof) -> None:
    assert proof.forever is not None
    narrow = tuple((np.array(low) + 0.2 * np.subtract(high, low), high) for low, high in proof.tube)
    for wrong in (
        dataclasses.replace(proof, tube=narrow),
        dataclasses.replace(proof, forever=dataclasses.replace(proof.forever, low=(0.42, -9.0))),
    ):
        found = attacked(agent, wrong, 60_000, progress=False).attack
        assert found is not None
        assert found.left.startswith("angle in period ")


def test_climbing_finds_the_worst_by_itself(agent: LoadedPolicy, proof: Proof) -> None:
    chance, climbing = (Adversary(agent, proof, seed=1) for _ in range(2))
    chance.by_chance(20_000, 20)
    middle = torch.full((100, 2), 0.5, dtype=torch.float64), torch.zeros(20, 100, 1, dtype=torch.float64)
    states = climbing.drive(*middle)
    climbing.note(states)
    assert ((climbing.high - climbing.low) < 1e-9).all()
    climbing.climb(*middle, states)
    assert ((climbing.high - climbing.low) > 0.9 * (chance.high - chance.low)).all()


def test_a_monitor_is_silent_as_long_as_the_proof_holds(agent: LoadedPolicy, proof: Proof) -> None:
    monitor = Monitor.from_json(monitor_of(proof).to_json())
    assert "claim: angle in [0, 1] from 0.5 to 1 s: shown" in monitor.claim
    controller, adversary = Controller(agent, monitor=monitor), Adversary(agent, proof, 0)
    start, errors = adversary.drawn(2_000, 150)

    def flags(start: torch.Tensor, errors: torch.Tensor) -> list[int]:
        state, raised = controller.initial_state(len(start)), torch.zeros(len(start), dtype=torch.int32)
        body = tuple(adversary.placed(start).unbind(1))
        for wrong in errors:
            action, state, flag = controller((body[0][:, None] + wrong * adversary.errors).float(), state)
            body = BODY.moved(body, tuple(action.double().unbind(1)), torch, 0.025)
            raised |= flag
        return sorted(set(raised.tolist()))

    assert flags(start, errors) == [0]
    assert flags(start + 2, errors)[0] & OBSERVATION
    assert OBSERVATION in {flag & OBSERVATION for flag in flags(start, 30 * errors)}


def test_an_attack_needs_a_proof_of_this_agent(agent: LoadedPolicy, proof: Proof) -> None:
    with pytest.raises(ValueError, match="the proof is about single-pendulum, and this agent has other weights"):
        attacked(load_policy(GOLDEN / "tora.safetensors"), proof, 10)
    with pytest.raises(ValueError, match="an attack needs trajectories, got 0"):
        attacked(agent, proof, 0)


def test_two_sensors_and_four_numbers_are_proved_alike() -> None:
    agent = load_policy(GOLDEN / "tora.safetensors")
    proof = prove(agent, "tora", forever=False, progress=False)
    assert proof.shown
    assert proof.why == "not asked for"
    found = attacked(agent, proof, 2_000, progress=False).attack
    assert found is not None
    assert found.left == ""


def test_larger_errors_are_not_shown(agent: LoadedPolicy) -> None:
    found = prove(agent, "single-pendulum", error=0.5, most=16, progress=False)
    assert not found.shown
    assert found.forever is None
    assert found.why == "the claims are not shown"
    with pytest.raises(ValueError, match="nothing to monitor: the claims about single-pendulum are not shown"):
        monitor_of(found)
    failed = [cell for cell in found.cells if not cell.shown]
    assert failed
    assert all(cell.reason for cell in failed)


def test_a_claim_that_does_not_hold_is_not_shown(agent: LoadedPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = dataclasses.replace(BODY, claims=(Claim(0.5, 1.0, (0.0, -9.0), (0.45, 9.0)),))
    monkeypatch.setitem(BODIES, "single-pendulum", wrong)
    found = prove(agent, "single-pendulum", error=0.0, most=16, progress=False)
    assert not found.shown
    reasons = {cell.reason for cell in found.cells if not cell.shown}
    assert any(reason.startswith("angle may leave [0, 0.45] at 0.") for reason in reasons)


def test_cells_cover_the_starts(agent: LoadedPolicy, proof: Proof) -> None:
    low, high = cells_of(BODY, 3)
    assert low.shape == (9, 2)
    halves = halved(low, high, np.ones(2))
    assert len(halves[0]) == 18
    areas = [np.prod(end_high - end_low, axis=1).sum() for end_low, end_high in ((low, high), halves)]
    np.testing.assert_allclose(areas, np.prod(np.subtract(BODY.high, BODY.low)), rtol=1e-12)
    assert sum(np.prod(np.subtract(cell.high, cell.low)) for cell in proof.cells) == pytest.approx(areas[0])


def test_what_is_written_is_rounded_outward(proof: Proof) -> None:
    assert proof.forever is not None
    text = text_of(sections_of(proof), 1000)
    found = re.search(r"meanwhile angle in \[(\S+), (\S+)\], speed in \[(\S+), (\S+)\]", text)
    assert found is not None
    written = np.array([float(number) for number in found.groups()]).reshape(2, 2)
    assert (written[:, 0] <= proof.forever.low).all()
    assert (written[:, 1] >= proof.forever.high).all()
    np.testing.assert_allclose(written.T, [proof.forever.low, proof.forever.high], rtol=2e-3)


def test_a_proof_is_one_line_of_json(proof: Proof) -> None:
    found = json.loads(proof.to_json())
    assert found["shown"] is True
    assert found["claims"][0]["low"] == [0.0, None]
    assert found["forever"]["returns"] >= 1


def test_an_agent_of_another_body_is_refused(agent: LoadedPolicy) -> None:
    with pytest.raises(ValueError, match="ncp/TORA-v0 shows 2 observations and takes 1 actions, and this agent reads"):
        prove(agent, "tora", progress=False)
    with pytest.raises(ValueError, match="there is no body 'cat': choose one of single-pendulum, "):
        prove(agent, "cat")


def test_a_lesson_repeats_and_makes_a_policy_file(tmp_path: Path) -> None:
    lesson = Lesson(iterations=12, periods=30)
    one, same, other = (teach(BODY, 5, lesson, seed) for seed in (1, 1, 2))
    assert torch.equal(one.readout.weight, same.readout.weight)
    assert not torch.equal(one.readout.weight, other.readout.weight)
    untaught = teach(BODY, 5, dataclasses.replace(lesson, iterations=1), 1)
    assert one.loss < untaught.loss
    write_taught(BODY, one, tmp_path / "taught.safetensors", {"seed": 1})
    agent = load_policy(tmp_path / "taught.safetensors")
    assert agent.note["env"] == BODY.env
    cell = copy.deepcopy(one.cell)
    state = cell.initial_state(1)
    seen = torch.tensor([[0.7]])
    with torch.no_grad():
        expected = one.readout(cell.motor(cell.step(seen, state)))
        np.testing.assert_allclose(Controller(agent)(seen, state)[0], expected, atol=1e-6)


def test_a_lesson_without_errors_is_refused() -> None:
    with pytest.raises(
        ValueError, match="a lesson needs errors of the sensors above 0, to see how far they are carried"
    ):
        teach(BODY, 5, Lesson(error=0.0))
