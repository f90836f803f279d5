"""Recurrent PPO and A2C with circuits, as a user of Stable-Baselines3 meets them."""

from __future__ import annotations

import io
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

gym = pytest.importorskip("gymnasium")
pytest.importorskip("sb3_contrib")

from sb3_contrib import RecurrentPPO as ContribRecurrentPPO  # noqa: E402
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy  # noqa: E402
from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback, EvalCallback  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402
from stable_baselines3.common.torch_layers import NatureCNN  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

from helpers.memory_tasks import Recall, Steps  # noqa: E402
from ncp_control.rl import NCPPolicy, RecurrentA2C, RecurrentPPO  # noqa: E402
from ncp_control.rl.policies.circuit import Circuit  # noqa: E402
from ncp_control.wiring import AutoNCP  # noqa: E402

SPACES = [
    gym.spaces.Box(-0.5, 1.0, (2,), np.float32),
    gym.spaces.Discrete(3),
    gym.spaces.MultiDiscrete([2, 3]),
    gym.spaces.MultiBinary(3),
]
CRITICS = ["circuit", "lstm", "mlp", "shared"]
WIRING = AutoNCP(9, 3)


def envs(space: Any = None, as_dict: bool = False) -> DummyVecEnv:
    return DummyVecEnv([partial(Steps, i, lengths, space, as_dict) for i, lengths in enumerate([(5, -3), (7,)])])


def build(env: Any = None, kind: Any = RecurrentPPO, policy: Any = "NCPPolicy", **settings: Any) -> Any:
    """A small model; what is not named among the algorithm's arguments goes to the policy."""
    of_algorithm = {
        key: settings.pop(key)
        for key in list(settings)
        if key not in {"wiring", "cell", "cell_kwargs", "critic", "critic_units", "head", "critic_lr_scale"}
        and key not in {"net_arch", "share_features_extractor", "features_extractor_class", "squash_output"}
    }
    given = {"n_steps": 8, "sequence": 4, **({} if kind is RecurrentA2C else {"batch_size": 8, "n_epochs": 2})}
    policy_kwargs = {"wiring": WIRING, "critic_units": 5, **settings}
    return kind(
        policy, envs() if env is None else env, policy_kwargs=policy_kwargs, device="cpu",
        **{**given, "seed": 0, **of_algorithm},
    )  # fmt: skip


def weights(model: Any) -> dict[str, Any]:
    return {name: value.clone() for name, value in model.policy.state_dict().items()}


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


def moved(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name, value in before.items() if not torch.equal(value, after[name])}


# What a memory is for.


def recall(wiring: Any, steps: int, kind: Any = RecurrentPPO, **settings: Any) -> float:
    """How often a trained model, acting without exploring, recalls what it saw: a share of 100 episodes."""
    fixed: dict[str, Any] = {"n_steps": 60, "sequence": 60, "gamma": 0.95, "learning_rate": 1e-2}
    if kind is RecurrentPPO:
        fixed.update(batch_size=240, n_epochs=8)
    env = make_vec_env(Recall, 8, seed=0)
    model = build(env, kind, wiring=wiring, **{**fixed, "critic": "mlp", "critic_units": 16, **settings})
    model.learn(steps)
    return float(evaluate_policy(model, make_vec_env(Recall, 8, seed=100), 100, deterministic=True)[0])


@pytest.mark.parametrize(("cell", "wiring"), [("cfc", AutoNCP(12, 4)), ("lstm", 12)])
def test_a_circuit_recalls(cell: str, wiring: Any) -> None:
    assert recall(wiring, 3840, cell=cell) >= 0.95


def test_a_liquid_circuit_recalls() -> None:
    """Slow neurons at the start, as the cue is five steps old when it counts."""
    slow = {"time_constants": (1.0, 20.0)}
    assert recall(8, 7680, cell="ltc", cell_kwargs=slow, learning_rate=2e-2) >= 0.95


def test_a2c_recalls() -> None:
    assert recall(AutoNCP(12, 4), 19200, RecurrentA2C, cell="cfc", n_steps=24, sequence=24, ent_coef=0.01) >= 0.95


# Repeatable, and the same after a file.


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentA2C])
def test_the_same_seed_gives_the_same_weights(kind: Any) -> None:
    first, again, other = (build(kind=kind, seed=seed).learn(64) for seed in (3, 3, 4))
    assert_same(weights(first), weights(again))
    assert moved(weights(first), weights(other))


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentA2C])
@pytest.mark.parametrize("critic", CRITICS)
def test_a_saved_model_goes_on_as_if_it_had_not_stopped(critic: str, kind: Any, tmp_path: Any) -> None:
    """Stable-Baselines3 keeps neither environments nor generators, so both go on from new environments and a seed."""
    model = build(kind=kind, critic=critic, critic_lr_scale=0.5)
    model.learn(64)
    model.save(tmp_path / "model")
    loaded = kind.load(tmp_path / "model", env=envs(), device="cpu")
    assert_same(weights(model), weights(loaded))
    for going_on in (model, loaded):
        going_on.set_env(envs(), force_reset=True)
        going_on.set_random_seed(7)
        going_on.learn(64, reset_num_timesteps=False)
        assert going_on.num_timesteps == 128
    assert_same(weights(model), weights(loaded))


def test_a_saved_model_keeps_how_it_was_made(tmp_path: Any) -> None:
    model = build(cell="cfc", critic="lstm", critic_lr_scale=0.25, sequence=2, net_arch={"pi": [6], "vf": [7]})
    model.learn(16)
    model.save(tmp_path / "model")
    loaded = RecurrentPPO.load(tmp_path / "model", env=envs(), device="cpu")
    assert loaded.sequence == loaded.rollout_buffer.sequence == 2
    cell, judge = loaded.policy.lstm_actor.cell, loaded.policy.lstm_critic.cell
    assert (type(cell).__name__, type(judge).__name__) == ("CfC", "LSTM")
    assert cell.wiring == model.policy.lstm_actor.cell.wiring
    groups, kept = model.policy.optimizer.param_groups, loaded.policy.optimizer.param_groups
    assert [group.get("lr_scale") for group in kept] == [group.get("lr_scale") for group in groups] == [None, 0.25]
    assert [group["lr"] for group in kept] == [group["lr"] for group in groups]


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("use_sde", [False, True])
def test_a_policy_is_saved_by_itself(critic: str, use_sde: bool, tmp_path: Any) -> None:
    model = build(critic=critic, head="motor", wiring=AutoNCP(9, 2), use_sde=use_sde, critic_lr_scale=0.5)
    model.learn(16)
    model.policy.save(tmp_path / "policy")
    loaded = NCPPolicy.load(tmp_path / "policy", device="cpu")
    assert_same(model.policy.state_dict(), loaded.state_dict())
    assert loaded.circuit_kwargs == model.policy.circuit_kwargs
    seen = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    state = None
    for _ in range(3):
        action, after = model.policy.predict(seen, state, deterministic=True)
        again, state = loaded.predict(seen, state, deterministic=True)
        np.testing.assert_array_equal(action, again)
        np.testing.assert_array_equal(after[0], state[0])


# In the company of Stable-Baselines3.


def test_callbacks_evaluation_normalisation_and_tensorboard(tmp_path: Any) -> None:
    env = VecNormalize(make_vec_env(Recall, 2, seed=0))
    judge = VecNormalize(make_vec_env(Recall, 2, seed=1), training=False, norm_reward=False)
    model = build(env, tensorboard_log=str(tmp_path / "board"))
    watching = EvalCallback(judge, n_eval_episodes=4, eval_freq=8, log_path=str(tmp_path), verbose=0)
    model.learn(64, callback=CallbackList([watching, CheckpointCallback(16, str(tmp_path / "kept"))]))
    found = np.load(tmp_path / "evaluations.npz")
    assert found["timesteps"].tolist() == [16, 32, 48, 64]
    assert (found["ep_lengths"] == 6).all()
    assert len(list((tmp_path / "kept").glob("*.zip"))) == 2
    assert len(list((tmp_path / "board").rglob("events.*"))) == 1
    assert env.obs_rms.count > 60
    mean, deviation = evaluate_policy(model, judge, 10, deterministic=False)
    assert 0 <= mean <= 1
    assert deviation <= 0.5


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentA2C])
@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_every_kind_of_action_trains(space: Any, as_dict: bool, kind: Any) -> None:
    model = build(envs(space, as_dict), kind)
    before = weights(model)
    model.learn(64)
    after = weights(model)
    assert all(torch.isfinite(value).all() for value in after.values())
    changed = moved(before, after)
    assert {"action_net.weight", "value_net.weight"} <= changed
    assert any("lstm_actor" in name for name in changed)
    assert any("lstm_critic" in name for name in changed)


@pytest.mark.parametrize("squash_output", [False, True])
def test_state_dependent_exploration_trains(squash_output: bool) -> None:
    space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    model = build(envs(space), use_sde=True, sde_sample_freq=4, squash_output=squash_output)
    before = weights(model)
    model.learn(64)
    assert {"action_net.weight", "log_std"} <= moved(before, weights(model))


def test_extractors_may_be_separate() -> None:
    class Linear(NatureCNN.__mro__[1]):  # type: ignore[misc]
        def __init__(self, space: Any) -> None:
            super().__init__(space, 4)
            self.layer = torch.nn.Linear(3, 4)

        def forward(self, seen: Any) -> Any:
            return self.layer(seen)

    model = build(features_extractor_class=Linear, share_features_extractor=False)
    before = weights(model)
    model.learn(32)
    changed = moved(before, weights(model))
    assert {"pi_features_extractor.layer.weight", "vf_features_extractor.layer.weight"} <= changed
    grouped = [parameter for group in model.policy.optimizer.param_groups for parameter in group["params"]]
    assert len(grouped) == len({id(parameter) for parameter in grouped}) == len(list(model.policy.parameters()))


# A2C is PPO whose ratio is one.


def test_a2c_takes_the_step_of_plain_a2c() -> None:
    model = build(kind=RecurrentA2C, ent_coef=0.1, max_grad_norm=1e9, critic="lstm")
    assert model.n_epochs == 1
    _, callback = model._setup_learn(64, None)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    (samples,) = model.rollout_buffer.get(None)
    values, log_probs, entropy = model.policy.evaluate_actions(
        samples.observations, samples.actions, samples.lstm_states, samples.episode_starts
    )
    policy_loss = -(samples.advantages * log_probs).mean()
    value_loss = ((samples.returns - values.flatten()) ** 2).mean()
    loss = policy_loss - 0.1 * entropy.mean() + 0.5 * value_loss
    expected = torch.autograd.grad(loss, list(model.policy.parameters()))
    model.train()
    assert model.logger.name_to_value["train/clip_fraction"] == 0
    assert model._n_updates == 1
    for (name, parameter), wanted in zip(model.policy.named_parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-4, atol=1e-6, msg=name)
        assert not wanted.numel() or wanted.abs().max() > 0


# The head, the critic's rate.


def test_motor_neurons_are_the_mean_action() -> None:
    model = build(head="motor", wiring=AutoNCP(9, 2))
    assert not any(name.startswith("action_net") for name, _ in model.policy.named_parameters())
    seen, state = torch.randn(5, 3), torch.randn(1, 5, 9)
    with torch.no_grad():
        distribution, (after, _) = model.policy.get_distribution(seen, (state, state), torch.zeros(5))
        circuit = model.policy.lstm_actor
        motors, last = circuit(seen[:, None], state[0], torch.zeros(5, 1, dtype=torch.bool))
    assert torch.equal(distribution.mode(), motors[:, 0])
    assert torch.equal(after[0], last)
    model.learn(32)


@pytest.mark.parametrize("space", [gym.spaces.Box(-1.0, 1.0, (3,)), *SPACES[1:]], ids=lambda space: str(space)[:8])
def test_a_motor_head_that_does_not_fit_is_refused(space: Any) -> None:
    with pytest.raises(ValueError, match=r'head="motor" needs one motor neuron .* there are 2 and the actions are'):
        build(envs(space), head="motor", wiring=AutoNCP(9, 2))


@pytest.mark.parametrize("critic", CRITICS)
def test_the_critic_has_its_own_rate(critic: str, tmp_path: Any) -> None:
    rates = []

    def schedule(left: float) -> float:
        return 1e-2 * left

    model = build(critic=critic, critic_lr_scale=0.1, learning_rate=schedule)
    step = model.policy.optimizer.step

    def watched(*args: Any) -> Any:
        rates.append([group["lr"] for group in model.policy.optimizer.param_groups])
        return step(*args)

    model.policy.optimizer.step = watched
    model.learn(64)
    assert rates[0][0] == schedule(0.75)
    assert rates[-1][0] == pytest.approx(schedule(0), abs=1e-12)
    assert len({tuple(rate) for rate in rates}) == 4
    np.testing.assert_allclose([rate[1] for rate in rates], [0.1 * rate[0] for rate in rates])
    names = {id(parameter): name for name, parameter in model.policy.named_parameters()}
    actor, judge = ({names[id(parameter)] for parameter in group["params"]} for group in optimizer_groups(model))
    assert {name.split(".")[0] for name in judge} == {
        "circuit": {"lstm_critic", "value_net"}, "lstm": {"lstm_critic", "value_net"},
        "mlp": {"critic", "value_net"}, "shared": {"value_net"},
    }[critic]  # fmt: skip
    assert {name.split(".")[0] for name in actor} == {"lstm_actor", "action_net", "log_std"}
    del model.policy.optimizer.step
    model.save(tmp_path / "model")
    loaded = RecurrentPPO.load(tmp_path / "model", env=envs(), device="cpu")
    loaded.learn(16)
    slow = optimizer_groups(loaded)
    assert slow[1]["lr"] == 0.1 * slow[0]["lr"]


def optimizer_groups(model: Any) -> Any:
    return model.policy.optimizer.param_groups


# predict is faster than the parent's, and says the same.


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", [*(type(space).__name__ for space in SPACES), "sde", "squashed"])
def test_predict_says_what_the_parent_says(kind: str, several: bool, as_dict: bool, deterministic: bool) -> None:
    named = {type(space).__name__: space for space in SPACES}
    sde = {"use_sde": True, "squash_output": kind == "squashed"} if kind in ("sde", "squashed") else {}
    model = build(envs(named.get(kind, SPACES[0]), as_dict), critic="lstm", **sde)
    with torch.no_grad():
        model.policy.action_net.weight.mul_(100)
    policy, rows = model.policy, 3 if several else 1
    generator = np.random.default_rng(0)
    state = other = None
    acted = []
    for step in range(6):
        seen: Any = generator.normal(size=(rows, 3) if several else 3).astype(np.float32)
        if as_dict:
            seen = {"where": seen[..., :2], "when": seen[..., 2:]}
        starts = None if step in (0, 3) else generator.random(rows) < 0.4
        torch.manual_seed(step)
        action, state = model.predict(seen, state, starts, deterministic)
        ours = torch.random.get_rng_state()
        torch.manual_seed(step)
        expected, other = parent_predict(policy, seen, other, starts, deterministic)
        assert torch.equal(ours, torch.random.get_rng_state())
        assert action.dtype == expected.dtype
        np.testing.assert_array_equal(action, expected)
        for mine, theirs in zip(state, other, strict=True):
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_array_equal(mine, theirs)
        acted.append(action)
    if kind in ("Box", "sde", "squashed"):  # choices of an untrained circuit may all be the same
        assert np.std(np.array(acted, dtype=float)) > 0


def parent_predict(policy: Any, *args: Any) -> Any:
    """What sb3-contrib's own `predict` and `_predict` give."""
    policy._predict = partial(RecurrentActorCriticPolicy._predict, policy)
    try:
        return RecurrentActorCriticPolicy.predict(policy, *args)
    finally:
        del policy._predict


def test_predict_leaves_training_mode_and_clips() -> None:
    model = build()
    model.policy.set_training_mode(True)
    assert all(module.training for module in model.policy.modules())
    with torch.no_grad():
        model.policy.action_net.bias.fill_(9.0)
    action, _ = model.predict(np.zeros(3, np.float32), deterministic=True)
    assert not any(module.training for module in model.policy.modules())
    np.testing.assert_array_equal(action, [1.0, 1.0])


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("cell", ["ltc", "cfc"])
def test_predict_refuses_what_is_not_a_number(cell: str, deterministic: bool) -> None:
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(
        False
    )  # as some parts of torch do when they are imported
    try:
        with pytest.raises(ValueError, match="the circuit's state is NaN: an observation was not a number"):
            build(cell=cell).predict(np.full(3, np.nan, np.float32), deterministic=deterministic)
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


# What cannot work is refused in a sentence.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"critic": "judge"}, "unknown critic 'judge': choose one of circuit, lstm, mlp, shared"),
        ({"head": "direct"}, "unknown head 'direct': choose one of linear, motor"),
        ({"cell": "lct"}, "unknown cell 'lct': choose one of LTC"),
        ({"cell": "lstm"}, "LSTM has no sparse form: give it a number of neurons"),
        ({"sequence": 0}, "a sequence is a whole number of steps, at least one, got 0"),
        ({"sequence": 2.5}, r"a sequence is a whole number of steps, at least one, got 2\.5"),
        ({"wiring": WIRING.build(7)}, "the wiring has 7 inputs, but the cell was asked for 3"),
        ({"policy": "MlpLstmPolicy"}, "unknown policy 'MlpLstmPolicy': RecurrentPPO of ncp_control runs \"NCPPolicy\""),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        build(**settings)
    assert "\n" not in str(caught.value)


def test_a_policy_that_is_no_circuit_is_refused() -> None:
    with pytest.raises(TypeError, match="RecurrentPPO of ncp_control runs an NCPPolicy, not a Recurrent"):
        RecurrentPPO(RecurrentActorCriticPolicy, envs(), n_steps=8, device="cpu")


class Picture(gym.Env[Any, Any]):
    """Black squares."""

    observation_space = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros((36, 36, 1), np.uint8), {}

    def step(self, action: Any) -> Any:
        return np.zeros((36, 36, 1), np.uint8), 0.0, False, False, {}


def test_images_need_an_extractor() -> None:
    env = DummyVecEnv([Picture])
    with pytest.raises(ValueError, match=r"a circuit reads features, not images: .*features_extractor_class=NatureCNN"):
        build(env)
    build(env, features_extractor_class=NatureCNN).learn(8)


def test_the_circuits_are_where_sb3_looks_for_them() -> None:
    """`isinstance` and the text of a policy, which people print."""
    model = build(critic="lstm")
    assert isinstance(model, ContribRecurrentPPO)
    assert not isinstance(model, PPO)
    assert isinstance(model.policy.lstm_actor, Circuit)
    assert "LTC" in str(model.policy)
    assert "LSTM" in str(model.policy)
    buffer = io.BytesIO()
    torch.save(model.policy.state_dict(), buffer)
    assert len(buffer.getvalue()) < 1e6
