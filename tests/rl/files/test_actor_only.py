"""Files of the actor alone: a policy from one acts as with its critics, and says so when it is asked for these."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import TQC, CrossQ
from stable_baselines3 import DQN, PPO, SAC, TD3

import ncp_control as nc
from helpers.stock_models import Anything, build
from ncp_control.base.tensors import read_tensors, write_tensors
from ncp_control.checkpoint import CheckpointError
from ncp_control.cli import main
from ncp_control.rl import Controller, NCPExtractor, RecurrentPPO, RecurrentSAC, RecurrentTD3, load_policy, save_policy
from ncp_control.rl.files.policy_file import DESCRIBED, FORMAT, VERSION, with_note

CIRCUIT = {"wiring": nc.AutoNCP(8, 2), "cell": "cfc"}
EXTRACTOR = {"features_extractor_class": NCPExtractor, "features_extractor_kwargs": CIRCUIT, "net_arch": [8]}
FLAT = {"policy_kwargs": {"net_arch": {"pi": [8], "qf": [40, 40]}}}
# Critics that would be refused as far larger than the file, if they were built.
WIDE = {"policy_kwargs": {"net_arch": {"pi": [4], "qf": [1500, 1500]}}, "learning_starts": 100}
# The algorithm, its policy, and further arguments.
AGENTS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "SAC": (SAC, "MlpPolicy", FLAT),
    "SAC with wide critics": (SAC, "MlpPolicy", WIDE),
    "SAC with gSDE": (SAC, "MlpPolicy", {**FLAT, "use_sde": True}),
    "TD3": (TD3, "MlpPolicy", FLAT),
    "TQC": (TQC, "MlpPolicy", FLAT),
    "CrossQ": (CrossQ, "MlpPolicy", FLAT),
    "SAC with a circuit": (SAC, "MultiInputPolicy", {"policy_kwargs": EXTRACTOR}),
    "TQC with a shared circuit": (
        TQC, "MultiInputPolicy", {"policy_kwargs": {**EXTRACTOR, "share_features_extractor": True}},
    ),
    "RecurrentSAC": (RecurrentSAC, "NCPPolicy", {}),
    "RecurrentSAC with windows": (
        RecurrentSAC, "NCPPolicy", {"policy_kwargs": {"critic": "window", "critic_window": 2}},
    ),
    "RecurrentTD3": (RecurrentTD3, "NCPPolicy", {"policy_kwargs": {"critic": "lstm", "critic_units": 50}}),
}  # fmt: skip


def model_of(agent: str) -> Any:
    kind, policy, settings = AGENTS[agent]
    if policy == "NCPPolicy":
        return build(kind, **settings).learn(30)
    from ncp_envs import History

    env: Any = History(Anything(), 4) if policy == "MultiInputPolicy" else Anything()
    given = {"learning_starts": 12, "batch_size": 8, "buffer_size": 200, "seed": 0, "device": "cpu", **settings}
    return kind(policy, env, **copy.deepcopy(given)).learn(30)


def saved(agent: str, folder: Path) -> tuple[Any, Path, Path]:
    """Returns a model, and its files with and without critics."""
    model, whole, actor = model_of(agent), folder / "whole.safetensors", folder / "actor.safetensors"
    save_policy(model, whole, {"score": 1})
    save_policy(model, actor, {"score": 1}, critics=False)
    return model, whole, actor


def seed_noise(loaded: Any) -> None:
    torch.manual_seed(0)
    if getattr(loaded.policy.actor, "use_sde", False):
        with torch.no_grad():
            loaded.policy.reset_noise()


def same_actions(one: Any, other: Any) -> None:
    """Both policies choose the same actions over an episode of three steps, deterministic ones and others."""
    env = one.observation_space
    env.seed(0)
    for deterministic in (True, False):
        state = again = None
        for _ in range(3):
            seen = env.sample()
            seed_noise(one)
            action, state = one.predict(seen, state, deterministic=deterministic)
            seed_noise(other)
            found, again = other.predict(seen, again, deterministic=deterministic)
            np.testing.assert_array_equal(action, found)


@pytest.mark.parametrize("agent", AGENTS)
def test_an_actor_without_its_critics_acts_alike(agent: str, tmp_path: Path) -> None:
    model, whole, actor = saved(agent, tmp_path)
    ours, theirs = load_policy(whole), load_policy(actor)
    assert (ours.is_actor_only, theirs.is_actor_only) == (False, True)
    assert actor.stat().st_size < whole.stat().st_size
    assert type(theirs.policy) is type(model.policy)
    assert theirs.note == {"score": 1}
    same_actions(ours, theirs)
    for copied in (copy.deepcopy(theirs), pickle.loads(pickle.dumps(theirs)), copy.copy(theirs)):
        assert copied.is_actor_only
        same_actions(ours, copied)
    names = read_tensors(actor, FORMAT, VERSION, DESCRIBED, "a test")[1]
    assert not [name for name in names if "critic" in name]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_copy_of_a_file_can_leave_out_the_critics(agent: str, tmp_path: Path) -> None:
    _, whole, actor = saved(agent, tmp_path)
    copied, again = tmp_path / "copied.safetensors", tmp_path / "again.safetensors"
    with_note(whole, copied, {"score": 1}, critics=False)
    assert load_policy(copied).sha256 == load_policy(actor).sha256
    with_note(copied, again, {"score": 2})
    assert load_policy(again).is_actor_only
    assert load_policy(again).note == {"score": 2}
    with_note(whole, again, {"score": 1})
    assert load_policy(again).sha256 == load_policy(whole).sha256


@pytest.mark.parametrize("agent", ["SAC", "TQC", "CrossQ", "TD3", "RecurrentSAC"])
def test_whoever_asks_for_the_critics_gets_a_sentence(agent: str, tmp_path: Path) -> None:
    model, _, actor = saved(agent, tmp_path)
    policy: Any = load_policy(actor).policy
    sentence = "the critics of this policy are not in its file, which holds the actor only: load a file"
    parts = [policy.critic, policy.critic_target] if hasattr(policy, "critic_target") else [policy.critic]
    for critic in parts:
        for ask in (
            lambda critic=critic: critic(torch.zeros(1, 2), torch.zeros(1, 2)),
            lambda critic=critic: critic.q_networks,
            lambda critic=critic: critic.optimizer,
            lambda critic=critic: critic.qf0,
        ):
            with pytest.raises(ValueError, match=sentence):
                ask()
        assert not list(critic.parameters())
    model.policy = policy
    with pytest.raises(ValueError, match=sentence):
        save_policy(model, tmp_path / "again.safetensors")
    save_policy(model, tmp_path / "again.safetensors", critics=False)
    same_actions(load_policy(actor), load_policy(tmp_path / "again.safetensors"))


def test_agents_that_have_no_such_critics_are_refused(tmp_path: Path) -> None:
    discrete = Anything(actions=spaces.Discrete(2))
    models = [PPO("MlpPolicy", Anything(), device="cpu"), DQN("MlpPolicy", discrete, device="cpu", buffer_size=10)]
    models.append(RecurrentPPO("NCPPolicy", Anything(), device="cpu", policy_kwargs={"wiring": 4}))
    path, copied = tmp_path / "policy.safetensors", tmp_path / "copied.safetensors"
    for model in models:
        kind = type(model.policy).__name__
        with pytest.raises(ValueError, match=rf"only files of SACPolicy, .* this is a \w*{kind}: leave critics True"):
            save_policy(model, path, critics=False)
        assert not path.exists()
        save_policy(model, path)
        with pytest.raises(ValueError, match="leave critics True"):
            with_note(path, copied, {}, critics=False)
        path.unlink()
    assert not list(tmp_path.iterdir())


def test_a_file_that_only_claims_to_hold_the_actor_alone_is_refused(tmp_path: Path) -> None:
    _, whole, actor = saved("SAC", tmp_path)
    for source, critics in ((whole, False), (actor, True)):
        metadata, tensors = read_tensors(source, FORMAT, VERSION, DESCRIBED, "a test")
        described = {key: metadata[key] for key in DESCRIBED}
        described["policy"] = json.dumps({**json.loads(metadata["policy"]), "critics": critics})
        write_tensors(tmp_path / "forged.safetensors", FORMAT, VERSION, described, tensors)
        with pytest.raises(CheckpointError, match="it has other tensors than the policy"):
            load_policy(tmp_path / "forged.safetensors")


@pytest.mark.system
def test_commands_and_controllers_take_the_actor_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = "ncp/PendulumNoVel-v0"
    kwargs = {"wiring": nc.AutoNCP(8, 2), "cell": "cfc", "net_arch": {"pi": [], "qf": [30]}}
    model = RecurrentSAC("NCPPolicy", f"ncp_envs:{env}", buffer_size=100, device="cpu", policy_kwargs=kwargs)
    whole, actor = tmp_path / "whole.safetensors", tmp_path / "actor.safetensors"
    note = {"env": env, "env_wrapper": [], "env_kwargs": {"max_episode_steps": 20}}
    save_policy(model, whole, note)
    with_note(whole, actor, note, critics=False)
    seen, state = torch.ones(1, 2), torch.zeros(1, 8)
    ours, theirs = (Controller(load_policy(path))(seen, state) for path in (whole, actor))
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))

    returns, counts = [], []
    for path in (whole, actor):
        assert main(["evaluate", str(path), "--episodes", "2", "--json"]) == 0
        returns.append(json.loads(capsys.readouterr().out)["mean_return"])
        assert main(["describe", str(path), "--json"]) == 0
        described = json.loads(capsys.readouterr().out)["policy"]
        counts.append(described["parameters"])
        assert described["actor_only"] == (path == actor)
        name = path.stem
        words = ["collect", "--env", env, "--policy", str(path), "--episodes", "1", "--out", str(tmp_path / name)]
        assert main(words) == 0
        assert main(["record", str(path), "--steps", "5", "--out", str(tmp_path / f"{name}.npz")]) == 0
        capsys.readouterr()
    assert returns[0] == returns[1]
    assert counts[1] < counts[0]
    assert main(["describe", str(actor)]) == 0
    assert "without the critics" in capsys.readouterr().out
