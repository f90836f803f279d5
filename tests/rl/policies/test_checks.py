"""Wrong arguments of policies and of `predict` are refused with a sentence instead of giving a wrong answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from ncp_control.rl import RecurrentPPO, RecurrentSAC, load_policy, save_policy
from ncp_control.rl.policies.checks import LSTMS
from ncp_envs import History, IrregularTime

KINDS = [RecurrentPPO, RecurrentSAC]


def model(kind: Any, env: Any = "Pendulum-v1", **kwargs: Any) -> Any:
    return kind("NCPPolicy", env, policy_kwargs={"wiring": 6, "critic": "mlp", **kwargs}, device="cpu", seed=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LSTMS)
def test_the_sizes_of_lstms_are_refused_with_what_to_use(kind: Any, name: str) -> None:
    value: Any = {"lstm_kwargs": {"dropout": 0.5}}.get(name, 2)
    with pytest.raises(TypeError, match=f"NCPPolicy takes no {name}, .* wiring=.* critic=.* critic_units="):
        model(kind, **{name: value})


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelt_argument_names_the_right_one(kind: Any) -> None:
    for wrong, right in {"cel": "cell", "critic_unit": "critic_units", "activation_function": "activation_fn"}.items():
        with pytest.raises(TypeError, match=f"^NCPPolicy has no argument '{wrong}': did you mean {right}\\?$"):
            model(kind, **{wrong: "cfc"})
    with pytest.raises(TypeError, match=r"NCPPolicy has no argument 'zzz': choose from .*cell, cell_kwargs"):
        model(kind, zzz=1)


def test_arguments_of_stable_baselines3_still_pass() -> None:
    given = {"log_std_init": -1.0, "ortho_init": False, "optimizer_kwargs": {"eps": 1e-6}, "normalize_images": False}
    assert float(model(RecurrentPPO, **given).policy.log_std.detach()[0]) == -1.0
    assert model(RecurrentSAC, log_std_init=-1.0, n_critics=3).policy.critic.n_critics == 3


def actor(kind: Any, loaded: bool, folder: Path, env: Any = "Pendulum-v1") -> Any:
    made = model(kind, env)
    if not loaded:
        return made
    save_policy(made, folder / "policy.safetensors")
    return load_policy(folder / "policy.safetensors")


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_other_environments_is_refused(kind: Any, loaded: bool, tmp_path: Path) -> None:
    policy = actor(kind, loaded, tmp_path)
    seen = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    _, of_one = policy.predict(seen[0])
    _, of_three = policy.predict(seen)
    assert of_three[0].shape == (1, 3, 6)
    with pytest.raises(ValueError, match="the state is of 1 environment, and there are 3 observations: pass the state"):
        policy.predict(seen, of_one)
    with pytest.raises(ValueError, match="the state is of 3 environments, and there is 1 observation: pass the state"):
        policy.predict(seen[0], of_three)
    with pytest.raises(ValueError, match=r"episode_start has 1 flag, and there are 3 observations: pass one flag"):
        policy.predict(seen, of_three, np.array([True]))
    wide = tuple(np.concatenate([part, part], axis=2) for part in of_three)
    with pytest.raises(ValueError, match="the state has 12 numbers per environment, and this policy's has 6"):
        policy.predict(seen, wide)
    with pytest.raises(ValueError, match=r"what the last call of predict returned, .* and not \(3, 6\)"):
        policy.predict(seen, tuple(part[0] for part in of_three))
    again, after = policy.predict(seen, of_three, np.array([False, True, False]), deterministic=True)
    assert again.shape == (3, 1)
    assert after[0].shape == (1, 3, 6)


@pytest.fixture(scope="module", params=[True, False])
def teacher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A plain MLP, normalised or not."""
    env: Any = DummyVecEnv([lambda: gym.make("Pendulum-v1")])
    made = PPO("MlpPolicy", VecNormalize(env) if request.param else env, n_steps=16, batch_size=16, device="cpu")
    path = tmp_path_factory.mktemp("teacher") / "mlp.safetensors"
    save_policy(made, path)
    return load_policy(path)


def test_an_observation_of_another_size_is_refused(teacher: Any) -> None:
    for shape, such in (((5,), "(5, 3)"), ((1,), "(5, 3)"), ((), "(5, 3)"), ((2, 4), "(2, 3)"), ((2, 2, 3), "(2, 3)")):
        with pytest.raises(ValueError, match="the observation has shape") as caught:
            teacher.predict(np.zeros(shape))
        assert f"shape {shape}, and the policy reads (3,), or a batch of them, such as {such}" in str(caught.value)
    assert teacher.predict(np.zeros((0, 3)))[0].shape == (0, 1)
    assert teacher.predict([0.0, 0.0, 0.0])[0].shape == (1,)


def test_nan_is_refused_by_every_policy(teacher: Any, tmp_path: Path) -> None:
    seen = np.zeros((2, 3), np.float32)
    seen[1, 2] = np.nan
    for policy in (teacher, *(actor(kind, True, tmp_path) for kind in KINDS)):
        for deterministic in (True, False):
            with pytest.raises(ValueError, match=r"the observation is NaN at \[1, 2\]"):
                policy.predict(seen, deterministic=deterministic)
    for kind in KINDS:
        with pytest.raises(ValueError, match="the circuit's state is NaN"):
            model(kind).predict(seen)


def test_a_dictionary_is_checked_entry_by_entry(tmp_path: Path) -> None:
    env = IrregularTime(gym.make("Pendulum-v1"), frames=(1, 3), observe_elapsed="apart")
    policy = actor(RecurrentPPO, True, tmp_path, env)
    seen, _ = env.reset(seed=0)
    assert policy.predict(seen)[0].shape == (1,)
    with pytest.raises(ValueError, match="the observation's 'observations' has shape"):
        policy.predict({**seen, "observations": np.zeros(4)})
    with pytest.raises(ValueError, match=r"the observation's 'elapsed' is NaN at \[0\]"):
        policy.predict({**seen, "elapsed": np.array([np.nan])})
    with pytest.raises(ValueError, match=r"a dictionary with .*elapsed.*, and was given the entries observations"):
        policy.predict({"observations": seen["observations"]})
    with pytest.raises(ValueError, match="and was given an array"):
        policy.predict(seen["observations"])


def test_windows_and_choices_pass(tmp_path: Path) -> None:
    made = PPO("MultiInputPolicy", History(gym.make("CartPole-v1"), 4), n_steps=16, batch_size=16, device="cpu")
    save_policy(made, tmp_path / "window.safetensors")
    seen = made.env.reset()
    loaded = load_policy(tmp_path / "window.safetensors")
    assert loaded.predict(seen)[0].shape == (1,)
    assert loaded.predict({key: value[0] for key, value in seen.items()})[0].shape == ()
