"""SAC's update by hand, and that of its layers, give what autograd gives, and leave the rest to Stable-Baselines3."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from torch import nn

from ncp_control.rl import SAC
from ncp_control.rl.updates.sac import Layers, fused, is_plain, layers_in

SMALL: dict[str, Any] = {"policy_kwargs": {"net_arch": [16, 12]}, "buffer_size": 500, "learning_starts": 20}
SMALL |= {"seed": 0, "device": "cpu"}


def pendulum() -> gym.Env[Any, Any]:
    return gym.make("Pendulum-v1")


def trained(kind: Any, steps: int = 45, env: Any = None, **settings: Any) -> Any:
    """Trains a model, with Adam's large first steps made small, so that rounding does not grow."""
    model = kind("MlpPolicy", env or pendulum(), **{**SMALL, "learning_rate": 1e-4, **settings})
    return model.learn(steps)


def difference(one: Any, other: Any) -> float:
    """Returns the largest difference of all weights and of the entropy coefficients."""
    mine, theirs = (model.policy.state_dict() for model in (one, other))
    found = max(float((mine[key] - theirs[key]).abs().max()) for key in theirs)
    if one.log_ent_coef is not None:
        found = max(found, float((one.log_ent_coef - other.log_ent_coef).abs().max().detach()))
    return found


CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "three critics": {"policy_kwargs": {"net_arch": [16, 12], "n_critics": 3}},
    "one critic, no hidden layer of the actor": {"policy_kwargs": {"net_arch": {"pi": [], "qf": [8]}, "n_critics": 1}},
    "a fixed entropy coefficient": {"ent_coef": 0.2},
    "targets that follow every second update": {"target_update_interval": 2, "tau": 0.5},
    "several updates in a row": {"gradient_steps": 3, "train_freq": 2},
    "steps of three": {"n_steps": 3},
    "another optimizer": {"policy_kwargs": {"net_arch": [8], "optimizer_class": torch.optim.SGD}},
    "a falling learning rate": {"learning_rate": lambda left: left * 1e-4},
}


@pytest.mark.parametrize("case", CASES)
def test_a_training_ends_with_the_same_weights(case: str) -> None:
    ours, theirs = (trained(kind, **CASES[case]) for kind in (SAC, stable_baselines3.SAC))
    assert is_plain(ours)
    assert ours._n_updates == theirs._n_updates > 10
    moved = difference(trained(SAC, steps=25, **CASES[case]), ours)
    # rounding leaves 3e-7, and the falling rate moves weights least, by 6e-4; another gradient moves them another way
    assert difference(ours, theirs) < 1e-2 * moved


@pytest.mark.system
def test_normalised_observations_and_several_environments_give_the_same_weights() -> None:
    def model(kind: Any) -> Any:
        env = VecNormalize(DummyVecEnv([pendulum] * 3))
        return trained(kind, steps=90, env=env, gradient_steps=-1)

    assert difference(model(SAC), model(stable_baselines3.SAC)) < 1e-5


def test_the_losses_in_the_log_are_the_same() -> None:
    found = []
    for kind in (SAC, stable_baselines3.SAC):
        model = trained(kind, steps=40)
        model.train(5, 32)
        found.append({key: value for key, value in model.logger.name_to_value.items() if key.startswith("train/")})
    assert found[0].keys() == found[1].keys()
    for key, value in found[1].items():
        assert found[0][key] == pytest.approx(value, rel=1e-4, abs=1e-6), key


@pytest.mark.parametrize(
    "settings", [{"use_sde": True}, {"policy_kwargs": {"net_arch": [8], "activation_fn": nn.Tanh}}]
)
def test_what_is_not_plain_is_trained_by_stable_baselines3_bit_for_bit(settings: dict[str, Any]) -> None:
    ours, theirs = (trained(kind, **settings) for kind in (SAC, stable_baselines3.SAC))
    assert not is_plain(ours)
    assert difference(ours, theirs) == 0


def test_an_actor_that_sees_a_part_learns_from_critics_that_see_all(tmp_path: Path) -> None:
    def model(kind: Any, steps: int) -> Any:
        found = kind("MlpPolicy", pendulum(), **SMALL, **({"actor_sees": 2} if kind is SAC else {}))
        first = found.actor.latent_pi[0].weight
        if kind is not SAC:
            hidden = torch.zeros(first.shape).index_fill_(1, torch.tensor([0, 1]), 1.0)
            first.data *= hidden
            first.register_hook(lambda gradient: gradient * hidden)
        return found.learn(steps)

    ours, theirs = model(SAC, 60), model(stable_baselines3.SAC, 60)
    moved = difference(model(SAC, 25), ours)
    assert difference(ours, theirs) < 1e-2 * moved
    assert (ours.actor.latent_pi[0].weight[:, 2] == 0).all()
    assert (ours.critic.q_networks[0][0].weight[:, 2] != 0).all()
    ours.save(tmp_path / "model")
    again = SAC.load(tmp_path / "model", env=pendulum(), device="cpu")
    again.learn(40)
    assert (again.actor.latent_pi[0].weight[:, 2] == 0).all()


def test_at_first_only_the_critics_learn_if_asked_for() -> None:
    model = SAC("MlpPolicy", pendulum(), **SMALL, critic_warmup=40)
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.learn(39)
    changed = {name for name, value in model.policy.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {name for name in before if name.startswith("critic")}
    assert float(model.log_ent_coef.detach()) == 0
    model.learn(3, reset_num_timesteps=False)
    assert not torch.equal(model.policy.state_dict()["actor.mu.weight"], before["actor.mu.weight"])
    assert float(model.log_ent_coef.detach()) != 0


@pytest.mark.parametrize(
    "settings",
    [
        {"actor_sees": 0},
        {"actor_sees": 4},
        {"actor_sees": 2, "policy_kwargs": {"activation_fn": nn.Tanh}},
        {"actor_sees": 2, "policy_kwargs": {"net_arch": {"pi": [], "qf": [8]}}},
    ],
)
def test_an_actor_cannot_see_what_is_not_there(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"actor_sees is for an MlpPolicy .* takes 1 to 3 entries of an observation"):
        SAC("MlpPolicy", pendulum(), device="cpu", **settings)


def test_clipped_log_stds_get_no_gradient() -> None:
    def model(kind: Any) -> Any:
        found = kind("MlpPolicy", pendulum(), **SMALL)
        with torch.no_grad():
            found.actor.log_std.bias.fill_(30.0)  # far above the largest that is allowed
        return found.learn(40)

    ours, theirs = model(SAC), model(stable_baselines3.SAC)
    assert difference(ours, theirs) < 1e-4
    assert torch.equal(ours.actor.log_std.bias, torch.full((1,), 30.0))


@pytest.mark.parametrize("kind", [SAC, stable_baselines3.SAC], ids=["ours", "theirs"])
def test_a_saved_model_goes_on_in_either_class(kind: Any, tmp_path: Path) -> None:
    saved = trained(SAC)
    saved.save(tmp_path / "model")
    saved.save_replay_buffer(tmp_path / "buffer")
    model = kind.load(tmp_path / "model", env=pendulum(), device="cpu")
    model.load_replay_buffer(tmp_path / "buffer")
    for each in (saved, model):
        each.set_logger(configure(None, []))
        each.set_random_seed(5)
        each.train(5, 32)
    assert difference(model, saved) < 1e-5
    assert saved.actor.optimizer.param_groups[0]["fused"] is None  # as any SAC's, for the files


def test_the_batch_size_and_the_networks_may_change_between_calls() -> None:
    ours, theirs = (trained(kind) for kind in (SAC, stable_baselines3.SAC))
    for model in (ours, theirs):
        model.set_random_seed(7)
        model.train(2, 8)
        model.policy = model.policy_class(
            model.observation_space, model.action_space, model.lr_schedule, **model.policy_kwargs
        )
        model._create_aliases()
        model.train(2, 32)
    assert difference(ours, theirs) < 1e-5


def test_steps_that_were_counted_on_the_cpu_are_where_the_weights_are_when_adam_is_fused() -> None:
    weights = nn.Parameter(torch.zeros(3, device="meta"))  # in the place of a GPU
    adam = torch.optim.Adam([weights])
    saved = {"step": torch.tensor(5.0), "exp_avg": torch.zeros(3), "exp_avg_sq": torch.zeros(3)}
    adam.load_state_dict({**adam.state_dict(), "state": {0: saved}})
    assert adam.state[weights]["step"].device.type == "cpu"
    with fused([adam]):
        assert adam.state[weights]["step"].device == weights.device
    assert not adam.param_groups[0]["fused"]


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("relu_at_end", [False, True])
@pytest.mark.parametrize("sizes", [(3, 2), (5, 7, 1), (4, 6, 8, 3)])
def test_results_and_gradients_are_those_of_autograd(sizes: tuple[int, ...], relu_at_end: bool, normed: bool) -> None:
    torch.manual_seed(0)
    pairs: list[Any] = [
        (nn.Linear(*pair).double(), nn.LayerNorm(pair[1]).double() if normed else None) for pair in pairwise(sizes)
    ]
    parts = [part for pair in pairs for part in (*pair, nn.ReLU()) if part is not None]
    network = nn.Sequential(*(parts if relu_at_end else parts[:-1]))
    for norm in (part for part in network if isinstance(part, nn.LayerNorm)):
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.uniform_(norm.bias, -0.5, 0.5)
    ours = Layers(pairs, batch=9, relu_at_end=relu_at_end)
    for _ in range(2):  # the second time, nothing may be left of the first
        x = torch.randn(9, sizes[0], dtype=torch.float64, requires_grad=True)
        weights = torch.randn(9, sizes[-1], dtype=torch.float64)
        wanted = torch.autograd.grad((network(x) * weights).sum(), [x, *network.parameters()])
        with torch.no_grad():
            assert torch.allclose(ours.forward(x.detach()), network(x), rtol=1e-12)
            by_inputs = ours.backward(weights.clone())
        found = [by_inputs, *(parameter.grad for parameter in network.parameters())]
        for one, other in zip(found, wanted, strict=True):
            assert one is not None
            assert torch.allclose(one, other, rtol=1e-12)


def test_gradients_of_weights_are_left_alone_where_only_those_of_inputs_are_wanted() -> None:
    layer = nn.Linear(2, 3)
    norm = nn.LayerNorm(3)
    ours = Layers([(layer, norm)], batch=4)
    with torch.no_grad():
        ours.forward(torch.ones(4, 2))
        ours.backward(torch.ones(4, 3), to_weights=False)
    assert [own.grad for own in (*layer.parameters(), *norm.parameters())] == [None] * 4


def test_no_layers_hand_everything_through() -> None:
    ours, x = Layers([], batch=2, relu_at_end=True), torch.randn(2, 3)
    assert ours.forward(x) is x
    assert ours.backward(x) is x


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)),
        nn.Sequential(nn.LayerNorm(2), nn.Linear(2, 3), nn.ReLU()),
        nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.LayerNorm(3)),
        nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)),
        nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3, elementwise_affine=False)),
        nn.Sequential(nn.Linear(2, 3, bias=False)),
        nn.Sequential(nn.Linear(2, 3).double()),
        nn.Conv1d(1, 1, 1),
    ],
)
def test_other_networks_are_not_taken_for_layers(network: nn.Module) -> None:
    assert layers_in(network) is None
