"""A policy read from its file acts as the trained model does, and other files are refused."""

import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.torch import save_file
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

import ncp_control as nc
from ncp_control.base.kinds import Kind, kind_of
from ncp_control.checkpoint import CheckpointError
from ncp_control.checkpoint import load as load_network
from ncp_control.rl import load_policy, save_policy

# NumPy adds the up to 64 terms of a layer in another order than torch does, of which each has an error of up to 6e-8.
ROUNDING = {"rtol": 1e-5, "atol": 1e-6}


def trained(kind: Any, env: str, normalize: bool, **arguments: Any) -> Any:
    """Trains a model a little, so that its statistics and weights differ from the defaults."""
    envs: Any = DummyVecEnv([lambda: gym.make(env)] * 2)
    envs = VecNormalize(envs, clip_obs=1.5) if normalize else envs
    model = kind("MlpPolicy", envs, seed=0, device="cpu", n_steps=32, **arguments)
    return model.learn(64)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policies") / "pendulum.safetensors"
    save_policy(trained(A2C, "Pendulum-v1", True), path, {"score": -3.5})
    return path


@pytest.mark.parametrize("kind", [PPO, A2C])
@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("normalize", [False, True])
def test_a_loaded_policy_acts_as_the_model(kind: Any, env: str, normalize: bool, tmp_path: Path) -> None:
    model = trained(kind, env, normalize)
    save_policy(model, tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    assert loaded.observation_space == model.observation_space
    assert loaded.action_space == model.action_space
    raw = np.random.default_rng(0).normal(scale=3, size=(33, *model.observation_space.shape)).astype(np.float32)
    wrapper = model.get_vec_normalize_env()
    seen = raw if wrapper is None else wrapper.normalize_obs(raw)
    assert loaded.normalizes == normalize
    batch, one = loaded.predict(raw)[0], loaded.predict(raw[0])[0]
    wanted = model.predict(seen, deterministic=True)[0]
    assert batch.dtype == wanted.dtype
    if env == "Pendulum-v1":
        assert_allclose(batch, wanted, **ROUNDING)
        assert_allclose(one, wanted[0], **ROUNDING)
    else:
        assert_array_equal(batch, wanted)
        assert_array_equal(one, wanted[0])
    torch.manual_seed(1)
    sampled = loaded.predict(raw, deterministic=False)[0]
    torch.manual_seed(1)
    assert_array_equal(sampled, model.predict(seen, deterministic=False)[0], strict=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"net_arch": {"pi": [7], "vf": [5, 3]}, "activation_fn": torch.nn.ELU, "log_std_init": -1.0},
        {"net_arch": [], "activation_fn": torch.nn.SiLU, "ortho_init": False},
    ],
)
def test_the_arguments_of_a_policy_are_in_its_file(settings: dict[str, Any], tmp_path: Path) -> None:
    model = trained(PPO, "Pendulum-v1", False, policy_kwargs=settings)
    save_policy(model, tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    for name, value in model.policy.state_dict().items():
        assert torch.equal(value, loaded.policy.state_dict()[name])
    seen = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    wanted = model.predict(seen, deterministic=True)[0]
    assert_allclose(loaded.predict(seen)[0], wanted, **ROUNDING)  # without hidden layers NumPy computes the actions


def test_a_policy_with_its_own_exploration(tmp_path: Path) -> None:
    model = trained(PPO, "Pendulum-v1", False, use_sde=True)
    save_policy(model, tmp_path / "policy.safetensors")
    seen = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    loaded = load_policy(tmp_path / "policy.safetensors")
    assert_array_equal(loaded.predict(seen)[0], model.predict(seen, deterministic=True)[0])


def test_a_file_has_a_note_a_name_and_a_checksum(path: Path) -> None:
    loaded = load_policy(path)
    assert loaded.note == {"env": "Pendulum-v1", "score": -3.5}
    assert loaded.name == "pendulum"
    assert len(loaded.sha256) == 64
    assert kind_of(path) is Kind.POLICY


SHORT = {"env": "Pendulum-v1", "env_kwargs": {"max_episode_steps": 9}}


@pytest.mark.parametrize(
    ("make", "noted"),
    [
        (lambda: gym.make("Pendulum-v1", g=9.0), {"env": "Pendulum-v1", "env_kwargs": {"g": 9.0}}),
        (lambda: gym.make("Pendulum-v1", max_episode_steps=9), SHORT),
        (lambda: gym.make("Pendulum-v1").unwrapped, {}),
        (lambda: gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), -1, 1), {}),
        (lambda: VecFrameStack(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), 2), {}),
    ],
)  # fmt: skip
def test_a_file_says_in_which_environment_if_its_id_makes_it_again(make: Any, noted: Any, tmp_path: Path) -> None:
    model, path = PPO("MlpPolicy", make(), device="cpu"), tmp_path / "policy.safetensors"
    save_policy(model, path)
    assert load_policy(path).note == noted
    save_policy(model, path, {"env": "mine"})
    assert load_policy(path).note == {"env": "mine"}


def test_loading_does_not_change_the_random_numbers(path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    load_policy(path)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.999])
def test_a_truncated_file_is_refused(path: Path, tmp_path: Path, share: float) -> None:
    content = path.read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError, match=r"cut\.safetensors is not a readable safetensors file, or was cut short"):
        load_policy(tmp_path / "cut.safetensors")


def test_an_altered_file_is_refused(path: Path, tmp_path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    (tmp_path / "altered.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        load_policy(tmp_path / "altered.safetensors")
    text = path.read_bytes().replace(b"-3.5", b"+9.5")
    (tmp_path / "boasting.safetensors").write_bytes(text)
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        load_policy(tmp_path / "boasting.safetensors")


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    trap, file = tmp_path / "trap", tmp_path / "foreign.safetensors"

    class Trap:
        def __reduce__(self) -> Any:
            return (open, (str(trap), "w"))

    file.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        load_policy(file)
    torch.save({"weights": torch.ones(2)}, file)
    with pytest.raises(CheckpointError, match="is a zip archive"):
        load_policy(file)
    assert not trap.exists()
    save_file({"weights": torch.ones(2)}, file)
    with pytest.raises(CheckpointError, match=r"was not written by ncp_control\.rl\.save_policy"):
        load_policy(file)
    nc.save(nc.RNN(nc.LTC(4, 6)), file)
    with pytest.raises(CheckpointError, match="holds a network, not a policy"):
        load_policy(file)
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        load_policy(tmp_path / "missing.safetensors")


def test_a_policy_is_no_network_of_ours_but_one_call_loads_both(path: Path) -> None:
    with pytest.raises(CheckpointError):
        load_network(path)
    assert type(nc.load(path)) is type(load_policy(path))


def test_models_that_a_file_cannot_describe_are_refused(tmp_path: Path) -> None:
    from stable_baselines3.common.policies import ActorCriticPolicy

    class Own(ActorCriticPolicy):
        pass

    with pytest.raises(TypeError, match=r"writes ActorCriticPolicy, .*, and this model has a Own"):
        save_policy(PPO(Own, "Pendulum-v1", device="cpu"), tmp_path / "policy.safetensors")
    model = trained(PPO, "Pendulum-v1", False, policy_kwargs={"activation_fn": torch.nn.Softplus})
    with pytest.raises(TypeError, match=r"knows the activations Tanh, .*, not Softplus"):
        save_policy(model, tmp_path / "policy.safetensors")
    assert not list(tmp_path.iterdir())


# Policies with a memory.


def build(kind: str, **settings: Any) -> Any:
    from helpers.memory_tasks import Steps
    from ncp_control.rl import RecurrentPPO

    envs: Any = DummyVecEnv([lambda: Steps(0, (6, -9), as_dict=kind == "dict")] * 2)
    keys = ["where"] if kind == "dict" else None
    envs = VecNormalize(envs, norm_obs_keys=keys)
    model = RecurrentPPO("NCPPolicy", envs, n_steps=16, batch_size=16, seed=0, policy_kwargs=settings, device="cpu")
    return model.learn(64)


@pytest.mark.parametrize("kind", ["box", "dict"])
@pytest.mark.parametrize(
    "settings",
    [
        {"wiring": nc.AutoNCP(9, 3, seed=5), "critic": "lstm", "critic_units": 5},
        {
            "wiring": nc.AutoNCP(9, 2),
            "cell": "ltc",
            "head": "motor",
            "cell_kwargs": {"time_constants": (1.0, 20.0)},
        },
        {"wiring": nc.GapJunctions(nc.AutoNCP(9, 3), 2), "cell": "ltc", "critic": "shared", "net_arch": [4]},
        {"wiring": 5, "cell": "lstm", "critic": "mlp", "squash_output": False},
        {"wiring": nc.AutoNCP(9, 3), "cell": "cfc", "activation_fn": torch.nn.ReLU, "net_arch": {"pi": [4], "vf": []}},
    ],
    ids=["lstm critic", "motor head", "gap junctions", "lstm", "cfc"],
)
def test_a_circuit_in_a_file_acts_as_the_model_with_its_weights(
    kind: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    model = build(kind, **settings)
    save_policy(model, tmp_path / "circuit.safetensors", {"env": "Steps"})
    loaded = load_policy(tmp_path / "circuit.safetensors")
    assert loaded.normalizes
    assert type(loaded.policy) is type(model.policy)
    if not isinstance(settings["wiring"], int):
        assert loaded.policy.lstm_actor.cell.wiring == model.policy.lstm_actor.cell.wiring
    for name, value in model.policy.state_dict().items():
        assert torch.equal(value, loaded.policy.state_dict()[name]), name
    env, state, other = model.get_env(), None, None
    assert isinstance(env, VecNormalize)
    env.training = False
    seen = env.reset()
    starts = np.ones(2, dtype=bool)
    for _ in range(12):
        action, state = model.predict(seen, state, starts, deterministic=True)
        again, other = loaded.predict(env.get_original_obs(), other, starts, deterministic=True)
        assert_array_equal(action, again)
        seen, _, starts, _ = env.step(action)


def test_an_extractor_that_a_file_cannot_describe_is_refused(tmp_path: Path) -> None:
    from stable_baselines3.common.torch_layers import FlattenExtractor

    class Own(FlattenExtractor):
        pass

    model = trained(PPO, "Pendulum-v1", False, policy_kwargs={"features_extractor_class": Own})
    with pytest.raises(TypeError, match="extractors of vectors and dictionaries, not Own"):
        save_policy(model, tmp_path / "policy.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.system
@pytest.mark.parametrize("kind", ["SAC", "TD3", "DQN", "PPO", "RecurrentSAC", "RecurrentTD3"])
@pytest.mark.parametrize("extractor", [False, True])
def test_actors_of_every_algorithm(kind: str, extractor: bool, tmp_path: Path) -> None:
    """With a circuit over a window, and without one."""
    import stable_baselines3

    import ncp_control.rl
    from helpers.memory_tasks import Steps
    from ncp_envs import History

    recurrent = kind.startswith("Recurrent")
    if recurrent and extractor:
        pytest.skip("recurrent algorithms have a memory of their own")
    env: Any = Steps(0, (6, -9), gym.spaces.Discrete(2) if kind == "DQN" else None)
    settings: dict[str, Any] = {"policy": "NCPPolicy" if recurrent else "MlpPolicy", "policy_kwargs": {"net_arch": [8]}}
    if recurrent:
        settings["policy_kwargs"] |= {"wiring": nc.AutoNCP(9, 3), "cell": "cfc"}
    if extractor:
        env = History(env, 4)
        given = {"wiring": nc.AutoNCP(9, 3), "cell": "ltc"}
        settings["policy"] = "MultiInputPolicy"
        settings["policy_kwargs"] |= {
            "features_extractor_class": ncp_control.rl.NCPExtractor, "features_extractor_kwargs": given,
        }  # fmt: skip
    if kind != "PPO":
        settings |= {"learning_starts": 20, "batch_size": 16}
    model = getattr(ncp_control.rl if recurrent else stable_baselines3, kind)(env=env, seed=0, device="cpu", **settings)
    model.learn(40)
    save_policy(model, tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    seen, _ = env.reset()
    state = other = None
    for _ in range(6):
        action, state = model.predict(seen, state, deterministic=True)
        again, other = loaded.predict(seen, other, deterministic=True)
        assert_allclose(action, again, **ROUNDING)
        seen = env.step(action)[0]
