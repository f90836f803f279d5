"""A Stable-Baselines3 model trained under VecNormalize acts the same wherever it acts, and as its saved policy does."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ncp_control as nc
from helpers.sign_environment import ID, STEPS
from ncp_control.activity import record
from ncp_control.activity.recording.interventions import ablate
from ncp_control.data import collect
from ncp_control.data.policy_hashes import hash_of_weights
from ncp_control.rl import RecurrentPPO, evaluate, load_policy, save_policy

# The worst share of three episodes is 0.80 over ten seeds, with a spread of 0.10; who acts always alike gets about 0.
PAID = 0.35


def make() -> Any:
    return gym.make(ID)


def normalized(norm_obs: bool = True) -> VecNormalize:
    """Vector environments whose statistics are those of the observations."""
    envs = VecNormalize(DummyVecEnv([make] * 2), norm_obs=norm_obs, clip_obs=5.0)
    if norm_obs:
        envs.obs_rms.mean[:], envs.obs_rms.var[:] = 1000.0, 100.0**2
    return envs


@pytest.fixture(scope="module")
def model() -> RecurrentPPO:
    """Trained until it pays to read normalised observations: raw ones are all alike, 1000 and more."""
    kwargs: dict[str, Any] = dict(wiring=nc.AutoNCP(8, 2, seed=1), cell="cfc", critic="mlp", log_std_init=-0.5)
    settings: dict[str, Any] = {"n_steps": 64, "batch_size": 128, "learning_rate": 0.05, "seed": 0, "device": "cpu"}
    return RecurrentPPO("NCPPolicy", normalized(), policy_kwargs=kwargs, **settings).learn(2560)


@pytest.mark.system
def test_it_acts_the_same_everywhere_and_as_its_saved_policy(model: RecurrentPPO, tmp_path: Path) -> None:
    save_policy(model, tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    wanted = evaluate(loaded, make, 3, seed=4).returns
    assert min(wanted) > PAID * STEPS
    np.testing.assert_allclose(evaluate(model, make, 3, seed=4).returns, wanted, rtol=1e-5)

    whole, (one,) = ablate(model, make, ["motor0"], episodes=3, seed=4, progress=False)
    saved, (again,) = ablate(loaded, make, ["motor0"], episodes=3, seed=4, progress=False)
    np.testing.assert_allclose(whole, wanted, rtol=1e-5)
    np.testing.assert_allclose(saved, wanted, rtol=1e-5)
    np.testing.assert_allclose(one.returns, again.returns, rtol=1e-5)

    ours, theirs = (collect(actor, ID, 3, 0.0, seed=4, progress=False) for actor in (model, loaded))
    for rollout, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(rollout.actions, other.actions, atol=1e-5)
        assert rollout.total_reward > PAID * STEPS

    first, second = (
        record(actor, make(), tmp_path / f"{k}.npz", STEPS, seed=4, progress=False)
        for k, actor in enumerate((model, loaded))
    )
    np.testing.assert_allclose(first.get("rewards"), second.get("rewards"), atol=1e-5)
    np.testing.assert_array_equal(first.observations, second.observations)


@pytest.mark.system
def test_collecting_sees_raw_observations_and_shows_the_model_normalised_ones(model: RecurrentPPO) -> None:
    rollouts = collect(model, ID, 1, 0.0, progress=False)
    seen = rollouts[0].observations
    assert 900 < seen.mean() < 1100
    wrapper = model.get_vec_normalize_env()
    assert wrapper is not None
    state, starts = None, np.ones(1, dtype=bool)
    for k in range(5):
        action, state = model.predict(wrapper.normalize_obs(seen[k : k + 1]), state, starts, deterministic=True)
        starts = np.zeros(1, dtype=bool)
        np.testing.assert_allclose(rollouts[0].actions[k], action[0], atol=1e-5)


def test_the_statistics_are_a_part_of_the_controllers_hash() -> None:
    one = PPO("MlpPolicy", normalized(), seed=0, device="cpu", n_steps=8, batch_size=16)
    before = hash_of_weights(one)
    assert hash_of_weights(one) == before
    wrapper: Any = one.get_vec_normalize_env()
    for change in ("mean", "var"):
        statistics = getattr(wrapper.obs_rms, change)
        kept = statistics.copy()
        statistics += 1.0
        assert hash_of_weights(one) != before
        statistics[:] = kept
    assert hash_of_weights(one) == before
    wrapper.clip_obs = 2.0
    assert hash_of_weights(one) != before
    plain, rewards_only = (
        PPO("MlpPolicy", envs, seed=0, device="cpu", n_steps=8, batch_size=16)
        for envs in (DummyVecEnv([make] * 2), normalized(norm_obs=False))
    )
    assert hash_of_weights(plain) == hash_of_weights(rewards_only) != before


def test_a_resumed_collection_notices_other_statistics(tmp_path: Path) -> None:
    one = PPO("MlpPolicy", normalized(), seed=0, device="cpu", n_steps=8, batch_size=16)
    collect(one, ID, 2, keep=tmp_path, progress=False)
    wrapper: Any = one.get_vec_normalize_env()
    wrapper.obs_rms.mean += 10.0
    with pytest.raises(ValueError, match="sha256"):
        collect(one, ID, 2, keep=tmp_path, resume=True, progress=False)
