"""Mutated records and states: a run is resumed as what it was, or refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from helpers.fuzzing import examine
from helpers.mutations import altered, damaged, forged, json_text
from helpers.oscillators import oscillators


def test_a_mutated_record(times: int, place: Path) -> None:
    """The records are `run.json` of a run, `plan.json` of a collection, and `result.json` of a comparison's fit."""
    from ncp_control.base.kinds import RECORD
    from ncp_control.data.collection import RECORD as PLAN
    from ncp_control.data.collection import CollectionPlan, path_of, prepare
    from ncp_control.dynamics.comparison import read_result
    from ncp_control.runs.run import Run

    folder = place / "records"
    about = {"recipe": {"env": "x", "n_timesteps": 5}, "seed": 1, "threads": 1, "data": [1, 2]}
    plan = CollectionPlan('{"id": "x"}', 3, 0.05, 1, 2, "random", None, True)
    with Run(folder).open(about, ()):
        pass
    collected = place / "collected"
    prepare(collected, plan, False).release()
    path_of(collected, 0).write_bytes(b"")
    result = {"error": 0.5, "parameters": 7, "seconds": 1.5, "best_epoch": 1, "trouble": "",
              "rollouts": [["a", 0.5], ["b", None]], "open_loop": {"recorded 10": 0.9}}  # fmt: skip
    (folder / "result.json").write_text(json.dumps(result))

    def resume(path: Path) -> None:
        whole = path.read_bytes()
        with Run(folder, resume=True).open(about, ()):
            assert {key: json.loads(whole)[key] for key in about} == about

    def plan_again(path: Path) -> None:
        prepare(collected, plan, True).release()

    readers: dict[Path, Callable[[Path], Any]] = {
        folder / RECORD: resume, collected / PLAN: plan_again, folder / "result.json": read_result,
    }  # fmt: skip
    for path, read in readers.items():
        whole = path.read_bytes()

        def mutate(random: Random, whole: bytes = whole) -> bytes:
            if random.random() < 0.5:
                return json_text(altered(json.loads(whole), random), random).encode("utf-8", "replace")
            return damaged(whole, random, whole)

        def named(path: Path, read: Callable[[Path], Any] = read) -> Any:
            try:
                return read(path)
            except ValueError as error:  # the sentence about a record of something else names the folder
                raise ValueError(str(error).replace(str(path.parent), path.name)) from error

        found = examine(250 * times, path, mutate, named, lambda one: one is None or isinstance(one, dict))
        assert min(found.values()) > 0


def test_a_mutated_state_of_a_fit(times: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gymnasium")
    import torch

    from ncp_control.dynamics import DynamicsModel, FitSettings, fit, fit_loop
    from ncp_control.dynamics.fitting import FitLoop
    from ncp_control.runs.run import STATE, Run

    monkeypatch.setattr(fit_loop, "make_board", lambda folder: None)
    parts = oscillators(steps=20).split()
    settings = FitSettings(epochs=1, length=8, average=0.9).of_cell("gru")
    out = place / "fit"
    fit(DynamicsModel.of(parts.train, "gru", 3), parts, settings, out=out, device="cpu", progress=False)
    content = (out / STATE).read_bytes()

    def read(path: Path) -> Any:
        loop = FitLoop(DynamicsModel.of(parts.train, "gru", 3), parts, torch.device("cpu"), settings, Run(out), {})
        loop.begin()
        return loop

    def whole(found: Any) -> bool:
        found.epoch(1)  # the fit goes on
        return all(isinstance(value, float) for _, *pair in found.curve.rows for value in pair)

    def mutate(random: Random) -> bytes:
        return damaged(content, random, content) if random.random() < 0.3 else forged(content, ("state",), random)

    found = examine(80 * times, out / STATE, mutate, read, whole)
    assert min(found.values()) > 0


def test_a_mutated_state_of_a_training(times: int, place: Path) -> None:
    pytest.importorskip("sb3_contrib")
    import gymnasium as gym
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from ncp_control.rl import RecurrentSAC
    from ncp_control.rl.files.run_state import load_state, read_about, save_state

    path = place / "state.safetensors"
    envs: Any = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    model = RecurrentSAC(
        "NCPPolicy", envs, learning_starts=4, batch_size=4, sequence=2, burn_in=1, buffer_size=12, seed=0, device="cpu",
        policy_kwargs={"wiring": 4, "net_arch": [3]},
    )  # fmt: skip
    model.learn(8)
    save_state(model, path, {"curve": [[8, 1.0, 0.5]], "best": [8, 1.0], "seconds": 1.0, "judged": 1, "steps": 8})
    content = path.read_bytes()

    def read(path: Path) -> Any:
        load_state(model, path)
        return read_about(path)

    def mutate(random: Random) -> bytes:
        return (
            damaged(content, random, content) if random.random() < 0.3 else forged(content, ("state", "about"), random)
        )

    def whole(about: Any) -> bool:
        return isinstance(about, dict) and 0 <= model.replay_buffer.pos < 12

    found = examine(60 * times, path, mutate, read, whole)
    assert min(found.values()) > 0
