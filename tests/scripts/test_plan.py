"""The script that plans tells the returns that the real body would bring."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

from ncp_control.data import Rollout, Rollouts  # noqa: E402
from ncp_control.dynamics import DynamicsModel, save_model  # noqa: E402
from scripts.plan import TrueFutures  # noqa: E402

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
FEW = ["--steps", "5", "--horizon", "3", "--plans", "8", "--best", "2", "--iterations", "2", "--json"]


def test_the_simulators_futures_are_what_the_environment_then_does() -> None:
    env, random = gym.make("HalfCheetah-v5"), np.random.default_rng(0)
    observation, _ = env.reset(seed=3)
    for _ in range(10):
        observation, *_ = env.step(random.uniform(-1, 1, size=6))
    plans = random.uniform(-1, 1, size=(3, 7, 6))
    returns = TrueFutures(env).after(observation)
    found = returns(plans)
    assert np.array_equal(returns(plans), found)  # and the body has not moved
    assert found[1] == pytest.approx(sum(float(env.step(action)[1]) for action in plans[1]), abs=1e-3)


@pytest.mark.slow
def test_it_runs_with_the_simulator_and_with_an_ensemble_of_models(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    walks = (Rollout(random.normal(size=(21, 17)), actions=random.uniform(-1, 1, size=(20, 6))) for _ in range(3))
    data = Rollouts(tuple(walks))
    for seed in range(2):
        save_model(DynamicsModel.of(data, "cfc", 4, reads="observations+actions"), tmp_path / f"{seed}.safetensors")
    models = [str(tmp_path / f"{seed}.safetensors") for seed in range(2)]
    for more in ([], [*models, "--doubt", "1", "--save", str(tmp_path / "saved")]):
        ended = subprocess.run(
            [sys.executable, "-m", "scripts.plan", *more, *FEW], cwd=ROOT, capture_output=True, text=True, check=True
        )
        found = json.loads(ended.stdout.splitlines()[-1])
        assert found["steps"] == 5
        assert np.isfinite(found["mean_return"])
    saved = Rollouts.load(tmp_path / "saved")
    assert saved[0].observations.shape == (6, 17)
    assert saved[0].rewards is not None
    assert found["returns"] == [pytest.approx(saved[0].rewards.sum())]
