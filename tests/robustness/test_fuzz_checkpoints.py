"""Checkpoints of networks, policies and models that were damaged or forged.

Damage by chance must give an error or the very same content, because a checksum covers the file. A forgery, whose
checksum fits, must give an error or something whole. No file crashes or hangs its reader. The other fuzz tests of this
folder hold the same of the other readers; together they read more than 12 000 files, and six times as many in the slow
run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

import ncp_control as nc
from helpers.fuzzing import examine
from helpers.mutations import damaged, forged, reheaded
from helpers.oscillators import oscillators


def network(seed: int) -> nc.RNN:
    torch.manual_seed(seed)
    cells = (
        lambda: nc.LTC(3, nc.AutoNCP(7, 2)),
        lambda: nc.CfC(3, 4, backbone=(5,)),
        lambda: nc.MixedMemory(nc.CTRNN(3, nc.AutoNCP(7, 2), time_constants=(0.5, 8))),
        lambda: nc.CTGRU(3, 4, scales=3),
    )
    return nc.RNN(cells[seed]())


def weights_of(found: Any) -> dict[str, torch.Tensor]:
    module = getattr(found, "policy", found)
    return {name: value.clone() for name, value in module.state_dict().items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


@torch.no_grad()
def use(found: Any) -> None:
    """Takes a step with a network, a policy or a model, unless its solver would take a hundred steps or more."""
    if isinstance(found, nc.RNN):
        if found.cell.config().get("unfolds", 1) < 100:
            found(torch.zeros(1, 1, found.cell.inputs))
    elif hasattr(found, "observation_space"):
        found.observation_space.seed(0)
        found.predict(found.observation_space.sample())
    elif all(one.rnn.cell.unfolds < 100 for one in circuits(found)):
        actions = torch.zeros(3, found.action_size) if found.action_size else None
        found.predict(torch.zeros(2, found.features), 2, actions, 1.0 if found.timed else None)


def circuits(model: Any) -> list[Any]:
    """Returns the members of a model that have an ODE solver."""
    return [one for one in getattr(model, "models", [model]) if hasattr(getattr(one.rnn, "cell", None), "unfolds")]


def write_network(path: Path, seed: int) -> None:
    nc.save(network(seed % 4), path, {"seed": seed})


def write_policy(path: Path, seed: int) -> None:
    pytest.importorskip("sb3_contrib")
    import gymnasium as gym
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from ncp_control.rl import RecurrentPPO, save_policy

    envs: Any = DummyVecEnv([lambda: gym.make("CartPole-v1" if seed == 2 else "Pendulum-v1")])
    if seed < 2:
        wiring: Any = nc.AutoNCP(7, 2) if seed else 4
        policy_kwargs = {"wiring": wiring, "critic": "lstm", "critic_units": 3, "net_arch": [3] * seed}
        model: Any = RecurrentPPO(
            "NCPPolicy", VecNormalize(envs), n_steps=8, batch_size=8, seed=0, device="cpu", policy_kwargs=policy_kwargs
        )
    else:
        model = PPO("MlpPolicy", envs, n_steps=8, batch_size=8, seed=0, device="cpu", policy_kwargs={"net_arch": [3]})
    save_policy(model, path, {"env": "Pendulum-v1"})


def write_model(path: Path, seed: int) -> None:
    pytest.importorskip("gymnasium")
    from ncp_control.dynamics import DynamicsModel, Ensemble, save_model

    train = oscillators(actions=True, steps=10)
    torch.manual_seed(seed)
    reads = "observations+actions"
    members = [
        DynamicsModel.of(train, cell, wiring, reads=reads, residual=bool(seed % 2))
        for cell, wiring in (("ltc", nc.AutoNCP(7, 2)), ("mlp", 4))
    ]
    save_model(Ensemble(members) if seed % 3 == 0 else members[seed % 2], path, {"seed": seed})


CHECKPOINTS: dict[str, tuple[Callable[[Path, int], None], tuple[str, ...], int]] = {
    "network": (write_network, ("config", "wiring", "note"), 4),
    "policy": (write_policy, ("policy", "spaces", "normalize", "note"), 3),
    "model": (write_model, ("models", "ensemble", "note"), 3),
}


@pytest.fixture(scope="module")
def checkpoints(place: Path) -> Callable[[str], list[bytes]]:
    """The contents of undamaged files, by kind."""
    made: dict[str, list[bytes]] = {}

    def contents(kind: str) -> list[bytes]:
        if kind not in made:
            write, _, count = CHECKPOINTS[kind]
            made[kind] = []
            for seed in range(count):
                write(place / "whole.safetensors", seed)
                made[kind].append((place / "whole.safetensors").read_bytes())
        return made[kind]

    return contents


@pytest.mark.parametrize(("kind", "count"), [("network", 1600), ("policy", 1400), ("model", 1400)])
def test_a_damaged_checkpoint(
    kind: str, count: int, times: int, place: Path, checkpoints: Callable[[str], list[bytes]]
) -> None:
    contents, path = checkpoints(kind), place / "mutated.safetensors"
    known = []
    for content in contents:
        path.write_bytes(content)
        known.append(weights_of(nc.load(path)))

    def mutate(random: Random) -> bytes:
        content = random.choice(contents)
        if random.random() < 0.25:
            return reheaded(content, random)
        return damaged(content, random, random.choice(contents))

    found = examine(count * times, path, mutate, nc.load, lambda one: any(equal(weights_of(one), own) for own in known))
    assert found["refused"] > 0.9 * count * times


@pytest.mark.parametrize(("kind", "count"), [("network", 250), ("policy", 200), ("model", 200)])
def test_a_forged_checkpoint(
    kind: str, count: int, times: int, place: Path, checkpoints: Callable[[str], list[bytes]]
) -> None:
    contents, described = checkpoints(kind), CHECKPOINTS[kind][1]

    def whole(found: Any) -> bool:
        with suppress(ValueError):  # a policy whose weights are NaN refuses to act
            use(found)
        return True

    def mutate(random: Random) -> bytes:
        return forged(random.choice(contents), described, random)

    found = examine(count * times, place / "mutated.safetensors", mutate, nc.load, whole)
    assert min(found.values()) > 0
