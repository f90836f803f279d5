"""What a model says of other actions than those that were recorded, and what the simulator says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("mujoco")

from helpers.collecting import short
from helpers.exact_model import Exact
from helpers.oscillators import oscillators
from ncp_control.data import Rollouts, collect
from ncp_control.dynamics import DynamicsModel
from ncp_control.dynamics.questions import Bodies, UnknownBodyError, ask
from ncp_control.dynamics.simulator import Simulator

WARM_UP, HORIZON = 4, 6


@pytest.fixture(scope="module")
def swings(tmp_path_factory: pytest.TempPathFactory) -> Rollouts:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("log"))  # where MuJoCo writes its log
        return collect("random", short("Swimmer-v5", 60), 3, progress=False)


class Body(Simulator):
    """Predicts with the simulator itself, from the positions and velocities that it is shown."""

    def __init__(self, rollouts: Rollouts, size: float) -> None:
        super().__init__()
        self.size, self.bodies = size, Bodies(rollouts)
        self.features, self.action_size, self.timed = 8, 2, False
        self.action_range = np.array([[-1.0, -1.0], [1.0, 1.0]])
        self.observation_names = rollouts.observation_names
        rows = np.concatenate([rollout.observations for rollout in rollouts])
        self.register_buffer("mean", torch.tensor(rows.mean(0)))
        self.register_buffer("std", torch.tensor(rows.std(0)))
        self.weight = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, observations: Any, actions: Any = None, state: Any = None, ahead: Any = None) -> Any:
        found, body = torch.empty_like(observations), self.bodies.body
        for b, t in np.ndindex(*observations.shape[:2]):
            seen = observations[b, t].numpy()
            body.set_state(np.concatenate([body.init_qpos[:2], seen[:3]]), seen[3:])
            found[b, t] = torch.tensor(self.bodies.env.step(actions[b, t].numpy())[0]) + self.size * self.std
        return found, torch.zeros(len(observations), 1)


def test_the_simulator_itself_knows_what_other_actions_do(swings: Rollouts) -> None:
    found = ask(Body(swings, 0.0), swings, HORIZON, WARM_UP)
    assert found.off_policy is not None
    assert found.off_policy.shape == found.recorded.errors.shape == found.floors["off-policy"].shape
    for errors in (found.recorded.errors, found.off_policy, *found.floors.values()):
        assert errors.max() < 1e-10
    assert not found.unknown


def test_a_floor_is_the_simulator_with_the_models_own_error(swings: Rollouts) -> None:
    found = ask(Body(swings, 0.1), swings, HORIZON, WARM_UP)
    assert found.off_policy is not None
    np.testing.assert_allclose(found.recorded.errors[:, 0], 0.01, rtol=1e-6)
    np.testing.assert_allclose(found.off_policy[:, 0], 0.01, rtol=1e-6)
    for errors in found.floors.values():
        assert 0.003 < np.median(errors[:, 0]) < 0.05
    again = ask(Body(swings, 0.1), swings, HORIZON, WARM_UP)
    np.testing.assert_array_equal(again.floors["off-policy"], found.floors["off-policy"])
    other = ask(Body(swings, 0.1), swings, HORIZON, WARM_UP, seed=1)
    assert not np.array_equal(other.floors["off-policy"], found.floors["off-policy"])
    rows = found.rows([1, 6])
    assert [row["horizon"] for row in rows] == [1, 6]
    assert rows[1]["off_policy_median"] == float(np.median(found.off_policy[:, 5]))
    assert rows[1]["floor_mean"] == found.floors["recorded"][:, 5].mean()


def test_a_model_that_follows_the_recording_fails_with_other_actions(swings: Rollouts) -> None:
    """Its predictions are what was recorded, whatever the actions are."""

    class Parrot(Body):
        def forward(self, observations: Any, actions: Any = None, state: Any = None, ahead: Any = None) -> Any:
            found = torch.empty_like(observations)
            for b, t in np.ndindex(*observations.shape[:2]):
                gaps = [np.abs(one.observations[:-1] - observations[b, t].numpy()).sum(1) for one in swings]
                k = int(np.argmin([gap.min() for gap in gaps]))
                found[b, t] = torch.tensor(swings[k].observations[int(gaps[k].argmin()) + 1])
            return found, torch.zeros(len(observations), 1)

    found = ask(Parrot(swings, 0.0), swings, HORIZON, WARM_UP)
    assert found.off_policy is not None
    assert found.recorded.errors.max() < 1e-10
    assert found.off_policy.mean() > 0.1


def test_what_cannot_be_known_is_said(swings: Rollouts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model = DynamicsModel.of(swings, "gru", 4, reads="observations+actions")

    def unknown(rollouts: Rollouts) -> str:
        found = ask(model, rollouts, HORIZON, WARM_UP)
        assert found.off_policy is None
        assert not found.floors
        assert found.rows([1])[0]["off_policy_mean"] is None
        return found.unknown

    assert "does not name a registered environment" in unknown(replace(swings, about={}))
    assert "does not name a registered environment" in unknown(replace(swings, about={"env": "os:Swimmer-v5"}))
    assert "has no seeds" in unknown(replace(swings, rollouts=tuple(replace(one, seed=None) for one in swings)))
    assert "CartPole-v1 is not simulated by MuJoCo" in unknown(replace(swings, about={"env": "CartPole-v1"}))
    moved = tuple(replace(one, observations=one.observations + 0.01) for one in swings)
    assert "does not repeat what was recorded" in unknown(replace(swings, rollouts=moved))
    assert "Nowhere-v0 is not registered here" in unknown(replace(swings, about={"env": "Nowhere-v0"}))
    assert ask(Exact(), oscillators(steps=100), 5, 5).unknown == "the model reads no actions"


def test_observations_that_are_no_state_have_no_floor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rollouts = collect("random", short("ncp_envs:ncp/SwimmerNoVel-v0", 30), 2, progress=False)
    model = DynamicsModel.of(rollouts, "gru", 4, reads="observations+actions")
    found = ask(model, rollouts, HORIZON, WARM_UP)
    assert found.off_policy is not None
    assert not found.floors
    assert "not the simulator's positions and velocities" in found.unknown
    with pytest.raises(UnknownBodyError), Bodies(replace(rollouts, about={})):
        pass
