"""A plain guide learns by SAC, and the circuit learns to act as the guide does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.logger import configure

from helpers.off_policy_models import build, envs
from helpers.weights import assert_same, moved, weights
from ncp_control.rl import RecurrentSAC, RecurrentTD3, load_policy, save_policy
from ncp_control.rl.updates import guided
from ncp_control.rl.updates.guided import GuidedUpdate

GUIDED: dict[str, Any] = {"critic": "window", "guide": [16, 12]}


def make(**settings: Any) -> Any:
    return build(**{**GUIDED, **settings})


def test_guide_critics_and_circuit_all_learn() -> None:
    model = make()
    before = weights(model)
    model.learn(180)
    assert model._n_updates > 20
    found = moved(before, weights(model))
    parts = ("guide.mu", "guide.log_std", "guide.latent_pi.0", "critic.qf0", "critic.qf1", "critic_target.qf0")
    for part in (*parts, "actor.mu", "actor.log_std", "actor.features_extractor.circuit"):
        assert any(name.startswith(part) for name in found), part


def test_the_guide_learns_as_stock_sac_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guide that sees one observation is an ordinary actor, so the same batches give the same weights."""
    monkeypatch.setattr(guided, "EVERY", 1000)
    settings: dict[str, Any] = {"learning_rate": 1e-4, "batch_size": 16, "seed": 0, "buffer_size": 300}
    ours = make(critic_window=1, burn_in=0, gradient_steps=0, net_arch={"pi": [], "qf": [16]}, **settings)
    theirs = stable_baselines3.SAC(
        "MlpPolicy", envs(), policy_kwargs={"net_arch": {"pi": [16, 12], "qf": [16]}}, device="cpu", **settings
    )
    for model in (ours, theirs):
        model.set_logger(configure(None, []))
    ours.learn(90)
    for key in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts", "pos", "full"):
        setattr(theirs.replay_buffer, key, getattr(ours.replay_buffer, key))
    theirs.actor.load_state_dict(ours.policy.guide.state_dict(), strict=True)
    theirs.critic.load_state_dict(ours.critic.state_dict(), strict=True)
    theirs.critic_target.load_state_dict(ours.critic_target.state_dict(), strict=True)
    before = {key: value.clone() for key, value in theirs.actor.state_dict().items()}
    for model in (ours, theirs):
        model.set_random_seed(5)
        model.train(6, 16)
    for mine, stock in ((ours.policy.guide, theirs.actor), (ours.critic, theirs.critic)):
        for (name, value), other in zip(mine.state_dict().items(), stock.state_dict().values(), strict=True):
            torch.testing.assert_close(value, other, rtol=0, atol=1e-5, msg=name)  # of 6e-4 that Adam can move it
    gone = max(float((value - before[key]).abs().max()) for key, value in theirs.actor.state_dict().items())
    assert gone > 1e-4


@pytest.mark.system
def test_imitation_brings_the_circuit_to_its_guide_and_leaves_the_guide_alone() -> None:
    model = make(gradient_steps=0, learning_rate=1e-2, sequence=6)
    model.learn(240)
    before = weights(model)
    update = GuidedUpdate(model, 32, model.policy.guide)
    with torch.no_grad():
        model.policy.guide.mu.bias += 0.5
    errors = [update.imitate() for _ in range(150)]
    # over ten seeds 0.05 of the error is left, with a spread of 0.04
    assert np.mean(errors[-10:]) < 0.3 * np.mean(errors[:3])
    found = moved(before, weights(model)) - {"guide.mu.bias"}
    assert found
    assert all(name.startswith("actor.") for name in found)


def test_the_guide_leads_the_first_half_of_the_environments() -> None:
    model = make(env=envs(number=2), gradient_steps=0)
    model.learn(120)
    with torch.no_grad():
        for actor, mean in ((model.policy.guide, 2.0), (model.actor, -2.0)):
            head = actor.mu[0] if isinstance(actor.mu, torch.nn.Sequential) else actor.mu
            head.weight.zero_()
            head.bias.fill_(mean)
            actor.log_std.weight.zero_()
            actor.log_std.bias.fill_(-20)
    action, scaled = model._sample_action(0, None, 2)
    np.testing.assert_allclose(scaled, np.tanh([[2.0, 2.0], [-2.0, -2.0]]), atol=1e-4)
    np.testing.assert_allclose(action, model.policy.unscale_action(scaled), atol=1e-6)


def test_what_the_guide_sees_while_it_leads_is_what_it_learns_from() -> None:
    model = make(gradient_steps=0)
    reader = model.policy.guide.features_extractor
    for steps in (3, 60, 66, 240):  # the last of them fills the buffer, and overwrites its beginning
        model.learn(steps, reset_num_timesteps=steps == 3)
        buffer, past = model.replay_buffer, reader.window - 1
        here = np.full(3, buffer.size() - 1)
        if buffer.size() <= past:
            continue
        stored = buffer._cut(here, np.arange(3), None, 1)
        seen = reader(buffer.latest(model._last_obs, model._last_episode_starts, past))
        going_on = ~model._last_episode_starts
        torch.testing.assert_close(seen[going_on], reader(stored.next_observations)[going_on])
        begun = seen[~going_on]
        assert (begun[:, 3:] == 0).all()


def test_windows_are_taken_from_the_latest_steps() -> None:
    model = make(gradient_steps=0)
    model.learn(240)  # 80 steps of each environment
    buffer = model.replay_buffer
    rows = buffer.observations[60:80].reshape(-1, 3).tolist()
    windows = buffer.sample_windows(200, 4, among=20)
    assert windows.observations.starts.shape == (200, 3 + 4)
    assert windows.rewards.shape == (800, 1)
    assert all(row in rows for row in windows.observations.observations[:, 3:].flatten(0, 1).tolist())
    far = buffer.sample_windows(200, 1).observations.observations[:, 3:].flatten(0, 1).tolist()
    assert any(row not in rows for row in far)


def test_a_saved_model_continues_as_if_it_had_not_stopped(tmp_path: Any) -> None:
    model = make(circuit_lr_scale=3.0)
    model.learn(120)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = RecurrentSAC.load(tmp_path / "model", env=envs(), device="cpu")
    loaded.load_replay_buffer(tmp_path / "buffer")
    for going_on in (model, loaded):
        going_on.set_env(envs(), force_reset=True)
        going_on.set_random_seed(7)
        going_on.learn(90, reset_num_timesteps=False)
    assert_same(weights(model), weights(loaded))


@pytest.mark.parametrize("critics", [True, False])
def test_a_policy_file_acts_as_the_model(critics: bool, tmp_path: Any) -> None:
    model = make().learn(90)
    save_policy(model, tmp_path / "x.safetensors", critics=critics)
    loaded = load_policy(tmp_path / "x.safetensors")
    assert (loaded.policy.guide is not None) is critics
    state = other = None
    for step in range(12):
        seen = np.full((1, 3), 0.1 * step, np.float32)
        wanted, state = model.predict(seen, state, deterministic=True)
        found, other = loaded.predict(seen, other, deterministic=True)
        np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"critic": "lstm"},
            r'a guide reads what critics "window" read, so set critic="window" beside guide=\[16, 12\]',
        ),
        ({"use_sde": True}, "a guide explores without gSDE: leave use_sde False"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**settings)


def test_td3_has_no_guide() -> None:
    with pytest.raises(TypeError, match="guide"):
        make(kind=RecurrentTD3)
