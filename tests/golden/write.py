"""Writes a set of small files with the installed version of the package, for the tests of later versions to read.

    python tests/golden/write.py tests/golden/0.3.0

One file of every kind, what each gives (`expected.safetensors`), and for every long command the folder of a run that
was killed half-way (`unfinished/`) beside the results of the same run that was not (`finished/`). Run once for each
release; the files of a release are never written again.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from safetensors.torch import save_file
from stable_baselines3 import DQN, PPO, SAC, TD3

import ncp_control as nc
from ncp_control.activity import Activity, record
from ncp_control.cli import main
from ncp_control.data import Rollouts, collect
from ncp_control.dynamics import DynamicsModel, Ensemble, FitSettings, fit, save_model
from ncp_control.neurons import Held
from ncp_control.rl import (
    Controller,
    NCPExtractor,
    RecurrentA2C,
    RecurrentPPO,
    RecurrentSAC,
    RecurrentTD3,
    load_policy,
    save_policy,
)
from ncp_envs import History

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from helpers import long_commands
from helpers.children import Child, run_in_child
from helpers.moments import Moments
from helpers.waiting import wait_until

WIRING = nc.AutoNCP(7, 2, seed=3)
CELLS: dict[str, Callable[[], nc.Cell]] = {
    "ltc": lambda: nc.LTC(3, WIRING),
    "ltc-gaps": lambda: nc.LTC(3, nc.GapJunctions(WIRING, 3, seed=1), init="centred", time_constants=(0.5, 20.0)),
    "neural-ltc": lambda: nc.NeuralLTC(3, WIRING, activation="tanh"),
    "neural-ltc-signed": lambda: nc.NeuralLTC(
        3, WIRING, activation="tanh", signed=True, init="calibrated", time_constants=(0.5, 20.0)
    ),
    "dual-ltc": lambda: nc.DualLTC(3, WIRING),
    "cfc": lambda: nc.CfC(3, WIRING),
    "cfc-no_gate": lambda: nc.CfC(3, WIRING, mode="no_gate"),
    "cfc-pure": lambda: nc.CfC(3, WIRING, mode="pure"),
    "cfc-backbone": lambda: nc.CfC(3, 3, backbone=(5,)),
    "ct-rnn": lambda: nc.CTRNN(3, WIRING, solver="rk4"),
    "neural-ode": lambda: nc.NeuralODE(3, WIRING),
    "ct-gru": lambda: nc.CTGRU(3, 3),
    "lstm": lambda: nc.LSTM(3, nc.FullyConnected(4, 2)),
    "gru": lambda: nc.GRU(3, nc.FullyConnected(4, 2)),
    "mixed-memory": lambda: nc.MixedMemory(nc.CfC(3, WIRING)),
    "held": lambda: Held(nc.LTC(3, WIRING), {1: 0.5}),
}
CIRCUIT = dict(wiring=nc.AutoNCP(7, 2), cell="ltc", critic="lstm", critic_units=3)
MLP = dict(net_arch=[4])
PENDULUM = "ncp_envs:ncp/PendulumNoVel-v0"


def windows() -> gym.Env[Any, Any]:
    return History(gym.make(PENDULUM), window=4)


EXTRACTOR = dict(features_extractor_class=NCPExtractor, features_extractor_kwargs=dict(wiring=nc.AutoNCP(7, 2)))
OFF = dict(learning_starts=8, batch_size=8, buffer_size=64)
ON = dict(n_steps=16, batch_size=16, n_epochs=1)
SEQUENCE = dict(sequence=4, burn_in=2, **OFF)
AGENTS: dict[str, Callable[[], Any]] = {
    "RecurrentPPO": lambda: RecurrentPPO("NCPPolicy", PENDULUM, policy_kwargs=dict(CIRCUIT), seed=0, **ON),
    "RecurrentA2C": lambda: RecurrentA2C("NCPPolicy", PENDULUM, policy_kwargs=dict(CIRCUIT), seed=0, n_steps=16),
    "RecurrentSAC": lambda: RecurrentSAC("NCPPolicy", PENDULUM, policy_kwargs={**CIRCUIT, **MLP}, seed=0, **SEQUENCE),
    "RecurrentTD3": lambda: RecurrentTD3("NCPPolicy", PENDULUM, policy_kwargs={**CIRCUIT, **MLP}, seed=0, **SEQUENCE),
    "PPO": lambda: PPO("MlpPolicy", "Pendulum-v1", policy_kwargs=dict(MLP), seed=0, **ON),
    "PPO-extractor": lambda: PPO("MultiInputPolicy", windows(), policy_kwargs={**EXTRACTOR, **MLP}, seed=0, **ON),
    "SAC": lambda: SAC("MlpPolicy", "Pendulum-v1", policy_kwargs=dict(MLP), seed=0, **OFF),
    "TD3": lambda: TD3("MlpPolicy", "Pendulum-v1", policy_kwargs=dict(MLP), seed=0, **OFF),
    "DQN": lambda: DQN("MlpPolicy", "CartPole-v1", policy_kwargs=dict(MLP), seed=0, **OFF),
}
ZIPS = ("RecurrentPPO", "RecurrentSAC")

RECIPES = {name: long_commands.RECIPES[name] for name in ("RecurrentPPO", "RecurrentSAC")}
TRAIN = ["--checkpoint-every", "32", "--eval-every", "48", "--eval-episodes", "1"]
DISTIL = ["1200" if word == "200" else word for word in long_commands.DISTIL_FAST]  # steps, for whole episodes
SWEPT = ["--kind", "fit", "--workers", "1"]
SMALL = ["units=3", "epochs=30", "length=8", "device=cpu"]
COLLECT = ["collect", "--env", "CartPole-v1", "--rollouts", "5", "--group", "2", "--random", "0.2", "--seed", "3"]
# The words of every long command, to be run in the folder that holds `recipe-*.yml` and `data/`.
COMMANDS = {
    "train-RecurrentPPO": ["train", "recipe-RecurrentPPO.yml", *TRAIN],
    "train-RecurrentSAC": ["train", "recipe-RecurrentSAC.yml", *TRAIN],
    "fit": ["fit", "data", "--cell", "gru", "--actions", "--device", "cpu", "--units", "3", "--epochs", "4",
            "--length", "8", "--average", "0.9", "--schedule", "cosine"],
    "fit-mlp": ["fit", "data", "--cell", "mlp", "--actions", "--device", "cpu", "--units", "3", "--epochs", "4",
                "--length", "8"],
    "collect": COLLECT,
    "distil": ["distil", "agents/PPO.safetensors", "--env", "ncp/PendulumNoVel-v0", *DISTIL],
    "compare": ["compare", "data", "--seeds", "1", "--epochs", "30", "--rows", "GRU", "MLP, five lags",
                "--workers", "1"],
    "sweep": ["sweep", "data", *SWEPT, "--set", "cell=gru,ltc", *SMALL, "--seeds", "0", "1"],
    "search": ["sweep", "data", *SWEPT, "--set", "cell=gru", *SMALL, "--search", "4", "--ranges", "ranges.yml"],
}  # fmt: skip
# These run in processes of their own, which end when their parent is killed: when one of them has begun.
BEGUN = {
    "compare": "fits/gru-s0/state.safetensors",
    "sweep": "runs/data-cell=ltc-s0/state.safetensors",
    "search": "runs/data-trial0001-s0/state.safetensors",
}
RANGES = "learning_rate: {low: 1e-3, high: 1e-1, log: true}\n"
KEPT = ("curve.csv", "last.safetensors", "best.safetensors", "table.csv", "trials.json")


def fixed(*shape: int, seed: int = 0) -> torch.Tensor:
    """The same numbers every time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def write_cells(out: Path, expected: dict[str, torch.Tensor]) -> None:
    out.mkdir()
    inputs, elapsed = fixed(2, 5, 3), fixed(2, 5, seed=1).abs() + 0.1
    for name, make in CELLS.items():
        torch.manual_seed(1)
        rnn = nc.RNN(make())
        nc.save(rnn, out / f"{name}.safetensors", note={"name": name})
        expected[f"cells/{name}"] = rnn(inputs, elapsed=elapsed, states=True)[2].detach()


def observed(model: Any) -> list[Any]:
    """Five observations of a model's environment, from a random walk of seed 0."""
    env = model.get_env().envs[0]
    seen = [env.reset(seed=0)[0]]
    env.action_space.seed(0)
    while len(seen) < 5:
        seen.append(env.step(env.action_space.sample())[0])
    return seen


def actions_of(policy: Any, seen: list[Any]) -> torch.Tensor:
    """What a policy does, step after step."""
    state, done = None, []
    for observation in seen:
        action, state = policy.predict(observation, state, deterministic=True)
        done.append(torch.as_tensor(np.asarray(action), dtype=torch.float64).reshape(-1))
    return torch.stack(done)


def flat(seen: list[Any]) -> dict[str, torch.Tensor]:
    """Observations as tensors by the name of their entry, "" where there is only one."""
    if isinstance(seen[0], dict):
        return {key: torch.as_tensor(np.stack([one[key] for one in seen])) for key in seen[0]}
    return {"": torch.as_tensor(np.stack(seen))}


def write_agents(out: Path, expected: dict[str, torch.Tensor]) -> None:
    out.mkdir()
    for name, make in AGENTS.items():
        torch.manual_seed(1)
        model = make()
        model.learn(32)
        save_policy(model, out / f"{name}.safetensors", note={"name": name, "env": model.env.envs[0].spec.id})
        seen = observed(model)
        expected |= {f"agents/{name}/seen/{key}": value for key, value in flat(seen).items()}
        expected[f"agents/{name}/actions"] = actions_of(load_policy(out / f"{name}.safetensors"), seen)
        if name in ZIPS:
            model.save(out / f"{name}.zip")


def write_programs(out: Path, agent: Path, expected: dict[str, torch.Tensor]) -> None:
    out.mkdir()
    observation = fixed(1, 2)
    for backend in ("reference", "auto"):
        controller = Controller(load_policy(agent), backend=backend)
        state = controller.initial_state()
        program = torch.export.export(controller, (observation, state))
        for module in program.graph_module.modules():
            for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
                node.meta.pop("stack_trace", None)  # it holds paths of this machine
        torch.export.save(program, out / f"{backend}.pt2")
        expected[f"programs/{backend}"] = torch.cat(controller(observation, state), dim=1).detach()


def write_models(out: Path, expected: dict[str, torch.Tensor]) -> None:
    rollouts = collect("random", "Pendulum-v1", rollouts=5, random_action_fraction=0.05, progress=False)
    parts = rollouts.split()
    models = []
    for name, cell, wiring in (("model", "ltc", WIRING), ("mlp", "mlp", 4), ("member", "cfc", WIRING)):
        torch.manual_seed(1)
        model = DynamicsModel.of(parts.train, cell, wiring, reads="observations+actions", residual=name == "model")
        fit(model, parts, FitSettings(epochs=1, length=20), progress=False)
        models.append((name, model))
    models[2] = "ensemble", Ensemble([models[0][1], models[2][1]])
    seen, done = fixed(10, 3), fixed(10 + 8 - 1, 1, seed=1)
    for name, model in models:
        save_model(model, out / f"{name}.safetensors", note={"name": name})
        expected[f"models/{name}"] = model.predict(seen, 8, done).detach()


def write_recording(path: Path, agent: Path, expected: dict[str, torch.Tensor]) -> None:
    activity = record(load_policy(agent), gym.make(PENDULUM), path, steps=6, progress=False)
    for key in ("neurons", "currents", "time_constants", "observations"):
        expected[f"recording/{key}"] = torch.as_tensor(getattr(activity, key))
    for key in ("actions", "rewards", "values"):
        expected[f"recording/{key}"] = torch.as_tensor(activity.extras[key])
    assert len(Activity.load(path).neurons) == 6


def write_data(folder: Path) -> None:
    """Five traces of a point that random pushes move on a circle."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for k in range(5):
        pushes, seen = random.uniform(-1, 1, (40, 1)), [random.normal(size=2)]
        for push in pushes:
            x, y = seen[-1]
            seen.append(np.array([0.95 * x + 0.3 * y, -0.3 * x + 0.95 * y + 0.3 * push[0]]))
        np.savez(folder / f"trace{k}.npz", observations=np.stack(seen), actions=pushes)


def run_command(words: list[str], out: Path, kill_at: int | None = None) -> int:
    """Runs a command in this process, which may be killed; how many moments it had."""
    sys.argv[1:] = words  # what the record keeps as the command
    moments = Moments(out.parent, kill_at)
    assert main([*words, "--out", str(out), "--json"]) == 0
    return moments.count


def write_runs(out: Path, scratch: Path) -> None:
    for name, recipe in RECIPES.items():
        (out / f"recipe-{name}.yml").write_text(recipe)
    write_data(out / "data")
    (out / "ranges.yml").write_text(RANGES)
    os.chdir(out)
    for name, words in COMMANDS.items():
        whole, killed = scratch / f"{name}-whole" / "out", scratch / f"{name}-killed" / "out"
        whole.parent.mkdir()
        killed.parent.mkdir()
        ended = run_in_child(functools.partial(run_command, words, whole), scratch)
        assert ended.code == 0, ended.output
        if name in BEGUN:
            sys.argv[1:] = words
            child = Child(functools.partial(main, [*words, "--out", str(killed)]), scratch)
            begun = killed / BEGUN[name]
            wait_until(begun.exists, "the state of a fit")
            child.kill()
            assert child.wait().code == -9
            child.wait_for_group()
            assert not (begun.parent / "result.json").exists()
        else:
            at = ended.value * (3 if name == "collect" else 6) // 10
            ended = run_in_child(functools.partial(run_command, words, killed, at), scratch)
            assert ended.code == -9, ended.output
        unfinished = out / "unfinished" / name
        shutil.copytree(
            killed.parent, unfinished, ignore=shutil.ignore_patterns("board", "inputs", "*.png", ".lock", "*.tmp")
        )
        if name == "collect":
            shutil.copytree(whole, out / "finished" / name)
            about = out / "finished" / name / "data" / "metadata.json"
            about.write_text(about.read_text().replace(str(whole), "out"))  # it holds a path of this machine
        else:
            (out / "finished" / name).mkdir(parents=True)
            for kept in KEPT:
                if (whole / kept).exists():
                    shutil.copy(whole / kept, out / "finished" / name / kept)


def write_all(out: Path) -> None:
    torch.set_num_threads(1)
    os.environ["NCP_CONTROL_FIT_SECONDS"] = "0"  # the state of a fit after each epoch
    expected: dict[str, torch.Tensor] = {}
    out.mkdir(parents=True)
    write_cells(out / "cells", expected)
    write_agents(out / "agents", expected)
    write_programs(out / "programs", out / "agents" / "RecurrentPPO.safetensors", expected)
    write_models(out, expected)
    write_recording(out / "recording.npz", out / "agents" / "RecurrentPPO.safetensors", expected)
    with tempfile.TemporaryDirectory() as scratch:
        write_runs(out, Path(scratch))
    assert len(Rollouts.load(out / "finished" / "collect")) == 5
    save_file({name: value.contiguous() for name, value in expected.items()}, out / "expected.safetensors")
    about = {"package": nc.__version__, "python": sys.version.split()[0], "torch": torch.__version__}
    (out / "commands.json").write_text(json.dumps(COMMANDS, indent=2) + "\n")
    (out / "about.json").write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]).resolve())
