"""Training from recipes: what they say is what is trained, and a run that was stopped goes on as if it had not been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

gym = pytest.importorskip("gymnasium")
pytest.importorskip("sb3_contrib")

from stable_baselines3.common.vec_env import VecNormalize  # noqa: E402

from ncp_control.cli import main  # noqa: E402
from ncp_control.rl import evaluate, load_policy  # noqa: E402
from ncp_control.rl.circuit_log import statistics  # noqa: E402
from ncp_control.rl.policies.circuit import Circuit  # noqa: E402
from ncp_control.rl.recipes.building import make_env, make_envs, make_model  # noqa: E402
from ncp_control.rl.recipes.recipe import Linear, Recipe, load_recipe, read_changes, shipped  # noqa: E402
from ncp_control.rl.training import BEST, CURVE, LAST, STATE, Run, train  # noqa: E402
from ncp_control.storage.run_folder import RECORD  # noqa: E402
from ncp_control.storage.safe_tensors import CheckpointError  # noqa: E402
from ncp_control.wiring import AutoNCP  # noqa: E402

PPO_RECIPE = """
env: ncp/PendulumNoVel-v0
algo: RecurrentPPO
n_timesteps: 512
n_envs: 2
normalize: true
policy_kwargs:
  wiring: AutoNCP(9, 3)
  critic: lstm
  critic_units: 5
learning_rate: lin_3e-3
n_steps: 32
batch_size: 32
n_epochs: 2
"""
SAC_RECIPE = """
env: ncp/PendulumNoVel-v0
algo: RecurrentSAC
n_timesteps: 120
policy_kwargs:
  wiring: AutoNCP(9, 3)
  net_arch: [8]
learning_starts: 30
batch_size: 32
sequence: 8
burn_in: 4
buffer_size: 100
"""
MLP_RECIPE = """
env: Pendulum-v1
algo: PPO
n_timesteps: 256
n_envs: 2
normalize: {norm_reward: false, clip_obs: 5.0}
policy: MlpPolicy
n_steps: 32
batch_size: 32
use_sde: true
"""
RECIPES = {"ppo": PPO_RECIPE, "sac": SAC_RECIPE, "mlp": MLP_RECIPE}
QUIET: dict[str, Any] = {"eval_episodes": 2, "progress": False, "checkpoint_every": 64, "eval_every": 200}


def recipe_file(folder: Path, text: str = PPO_RECIPE) -> Path:
    path = folder / "recipe.yml"
    path.write_text(text)
    return path


def tensors(path: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(path)


def same(one: Path, other: Path) -> None:
    """Both runs have the same weights, optimizers, statistics and evaluations."""
    assert (one / CURVE).read_text() == (other / CURVE).read_text()
    for name in (STATE, BEST, LAST):
        ours, theirs = tensors(one / name), tensors(other / name)
        assert ours.keys() == theirs.keys()
        for key, value in ours.items():
            assert torch.equal(value, theirs[key]), (name, key)


class Stopped(Exception):
    """Instead of a power cut."""


@pytest.mark.parametrize(
    ("name", "stop"), [("ppo", "between"), ("sac", "between"), ("mlp", "between"), ("ppo", "at once")]
)
def test_a_resumed_run_ends_as_an_uninterrupted_one(
    name: str, stop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = load_recipe(recipe_file(tmp_path, RECIPES[name]))
    train(recipe, tmp_path / "whole", seed=3, **QUIET)
    real, calls = Run._on_rollout_end, []

    def stopping(self: Any) -> None:
        calls.append(self.num_timesteps)
        real(self)
        if stop == "at once" or self.num_timesteps >= 0.7 * recipe.n_timesteps:
            raise Stopped

    monkeypatch.setattr(Run, "_on_rollout_end", stopping)
    with pytest.raises(Stopped):
        train(recipe, tmp_path / "parts", seed=3, **QUIET)
    assert (tmp_path / "parts" / STATE).exists() == (stop == "between")
    monkeypatch.setattr(Run, "_on_rollout_end", real)
    result = train(recipe, tmp_path / "parts", seed=3, resume=True, **QUIET)
    assert result.steps >= recipe.n_timesteps
    same(tmp_path / "whole", tmp_path / "parts")


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """kill -9, by the command line."""
    recipe = recipe_file(tmp_path)
    words = [
        "train",
        str(recipe),
        "--seed",
        "1",
        "--steps",
        "20000",
        "--eval-episodes",
        "1",
        "--checkpoint-every",
        "640",
    ]
    out = tmp_path / "run"
    command = [sys.executable, "-m", "ncp_control.cli", *words, "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        until = time.monotonic() + 60
        while not (out / STATE).exists() and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (out / STATE).exists()
    kept = json.loads((out / RECORD).read_text())
    assert kept["seed"] == 1
    with pytest.raises(FileExistsError, match="holds a run already: resume it"):
        train(load_recipe(recipe), out, **QUIET)
    with pytest.raises(ValueError, match=r"another eval_episodes and seed: .*seed: 1 there, 2 here"):
        train(load_recipe(recipe, {"n_timesteps": 20000}), out, seed=2, resume=True, eval_every=1000,
              checkpoint_every=640, progress=False)  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_leaves_what_is_needed_to_use_it(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = recipe_file(tmp_path, RECIPES[name])
    assert (
        main(
            [
                "train",
                str(recipe),
                "--out",
                str(tmp_path / "run"),
                "--eval-episodes",
                "2",
                "--eval-every",
                "200",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["steps"] >= load_recipe(recipe).n_timesteps
    rows = np.genfromtxt(tmp_path / "run" / CURVE, delimiter=",", names=True)
    assert found["best_return"] == rows["mean_return"].max()
    assert load_policy(tmp_path / "run" / BEST).note["steps"] == found["best_steps"]
    assert len(list((tmp_path / "run" / "board").iterdir())) == 1
    assert main(["evaluate", str(tmp_path / "run" / BEST), "--episodes", "2", "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert judged["env"] == load_recipe(recipe).env
    assert main(["describe", str(tmp_path / "run"), "--json"]) == 0
    run = json.loads(capsys.readouterr().out)["run"]
    assert (run["kind"], run["unit"], run["of"]) == ("training of an agent", "steps", load_recipe(recipe).n_timesteps)
    assert run["done"] == np.atleast_1d(rows["steps"])[-1]
    assert f"{found['best_return']:,.1f}" in run["best"]


def test_wrong_arguments_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    for words, sentence in (
        (("--device", "tpu"), "there is no device 'tpu': choose cpu, cuda or auto"),
        (("--threads", "0"), "threads must be at least 1, got 0"),
        (("--eval-every", "0"), "eval_every must be at least 1, got 0"),
        (("--eval-episodes", "0"), "eval_episodes must be at least 1, got 0"),
        (("--checkpoint-every", "0"), "checkpoint_every must be at least 1, got 0"),
        (("--watch", "0"), "every and steps must be at least 1"),
    ):
        assert main(["train", "pendulum-novel", "--out", str(out), *words]) == 2
        assert sentence in capsys.readouterr().err
        assert not out.exists()
    assert main(["train", "pendlum-novel"]) == 2
    assert "did you mean pendulum-novel" in capsys.readouterr().err


@pytest.mark.parametrize("cell", ["ltc", "lstm", "ctgru"])
def test_dead_and_saturated_neurons_are_counted(cell: str) -> None:
    circuit = Circuit(3, 6, cell)
    features = torch.randn(4, 50, 3)
    starts = torch.zeros(4, 50, dtype=torch.bool)
    states = circuit.cell.initial_state(4)
    alive = statistics(circuit, features, states, starts)
    assert alive["dead"] == 0
    if cell != "ltc":  # which has a potential of its own to go to
        with torch.no_grad():
            for parameter in circuit.cell.parameters():
                parameter.zero_()
        assert statistics(circuit, features, states, starts)["dead"] == 6


@pytest.mark.parametrize(("name", "actor"), [("ppo", "lstm_actor"), ("sac", "actor")])
def test_tensorboard_tells_of_the_circuit(name: str, actor: str, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(load_recipe(recipe_file(tmp_path, RECIPES[name])), tmp_path / "run", **QUIET)
    board = EventAccumulator(str(tmp_path / "run" / "board"))
    board.Reload()
    tags = set(board.Tags()["scalars"])
    assert {"circuit/dead", "circuit/saturated", "circuit/tau_median", f"gradients/{actor}", "eval/mean_return"} <= tags
    assert {"ppo": "train/std", "sac": "train/ent_coef"}[name] in tags
    low, middle, high = (board.Scalars(f"circuit/tau_{name}")[0].value for name in ("min", "median", "max"))
    assert 0 < low <= middle <= high


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_recipe_trains(name: str) -> None:
    recipe = load_recipe(name, {"n_envs": 2} if load_recipe(name).n_envs > 1 else {})
    if recipe.is_off_policy:
        recipe.settings |= {"learning_starts": 40, "buffer_size": 1000, "gradient_steps": 1, "train_freq": 8}
        steps = 80
    else:
        recipe.settings |= {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
        steps = 2 * 64 * recipe.n_envs
    envs = make_envs(recipe, recipe.n_envs, training=True)
    model = make_model(recipe, envs, seed=0, device="cpu")
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    model.learn(steps)
    after = model.policy.state_dict()
    assert any(not torch.equal(before[key], after[key]) for key in before)
    assert all(torch.isfinite(value).all() for value in after.values())
    envs.close()


def test_a_recipe_is_what_it_says(tmp_path: Path) -> None:
    words = ["policy_kwargs.cell=cfc", "gamma=0.5", "n_epochs=7", "policy_kwargs.optimizer_kwargs.eps=1e-7"]
    recipe = load_recipe(recipe_file(tmp_path), read_changes(words))
    envs = make_envs(recipe, recipe.n_envs, training=True)
    assert isinstance(envs, VecNormalize)
    assert (envs.gamma, envs.num_envs) == (0.5, 2)
    model: Any = make_model(recipe, envs, seed=0, device="cpu")
    assert (model.gamma, model.n_epochs, model.n_steps) == (0.5, 7, 32)
    assert model.policy.optimizer.defaults["eps"] == 1e-7
    assert model.learning_rate == Linear(3e-3)
    assert model.learning_rate(0.5) == 1.5e-3
    assert type(model.policy.lstm_actor.cell).__name__ == "CfC"
    assert model.policy.circuit_kwargs["wiring"] == AutoNCP(9, 3)
    judges = make_envs(recipe, 1, training=False)
    assert isinstance(judges, VecNormalize)
    assert not judges.norm_reward


def test_a_recipe_may_build_on_another(tmp_path: Path) -> None:
    base = recipe_file(tmp_path)
    child = tmp_path / "child.yml"
    child.write_text(f"based_on: {base}\nn_timesteps: 99\npolicy_kwargs: {{cell: cfc}}\n")
    found, whole = load_recipe(child), load_recipe(base)
    assert (found.n_timesteps, found.policy_kwargs["cell"]) == (99, "cfc")
    assert found.policy_kwargs["wiring"] == whole.policy_kwargs["wiring"]
    assert found.settings == whole.settings
    base.write_text(f"based_on: {child}\n")
    with pytest.raises(ValueError, match="is based on itself"):
        load_recipe(child)


def test_wrappers_are_put_on_from_the_inside(tmp_path: Path) -> None:
    wrappers = "env_wrapper:\n- ObservationNoise: {std: 0.1}\n- History: {window: 3}\n"
    text = "env: Pendulum-v1\nalgo: PPO\nn_timesteps: 9\n" + wrappers
    envs = make_envs(load_recipe(recipe_file(tmp_path, text)), 1, training=True)
    assert envs.observation_space["observations"].shape == (3, 3)
    assert "History<ObservationNoise" in str(envs.envs[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env: CartPole-v1", "does not say its algo and n_timesteps"),
        (PPO_RECIPE.replace("RecurrentPPO", "PP0"), "unknown algo 'PP0' in a recipe: choose one of RecurrentPPO,"),
        (PPO_RECIPE.replace("512", "0.5"), "n_timesteps is a whole number, at least 1, and not 0.5"),
        (PPO_RECIPE.replace("AutoNCP(9, 3)", "Auto(9, 3)"), "is not a plan; the plans are AutoNCP"),
        (PPO_RECIPE.replace("ncp/PendulumNoVel-v0", "ncp/Pendulum-v9"), "'ncp/Pendulum-v9' cannot be made"),
        (PPO_RECIPE + "n_step: 3", "the recipe does not fit RecurrentPPO: .*'n_step'"),
        (PPO_RECIPE + "env_wrapper: [TimeLimit]", "there is no wrapper 'TimeLimit' in ncp_envs"),
        (PPO_RECIPE + "env_wrapper: History", "env_wrapper of the recipe .* is a list, and not 'History'"),
        ("- env", "is no recipe: it should be a list of keys and values"),
        ("env: [", "is not YAML"),
        ("env: !!python/object/apply:os.system ['true']", "is not YAML"),
    ],
)
def test_a_recipe_that_cannot_work_is_refused_before_anything_is_trained(
    text: str, message: str, tmp_path: Path
) -> None:
    def build() -> None:
        recipe = load_recipe(recipe_file(tmp_path, text))
        make_model(recipe, make_envs(recipe, 1, training=True), seed=0, device="cpu")

    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_what_is_no_recipe_and_no_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["train", "half-cheetah"]) == 2
    assert "there is no recipe 'half-cheetah': did you mean halfcheetah or" in capsys.readouterr().err
    assert main(["train", "zzz"]) == 2
    assert "there is no recipe 'zzz': give a .yml file, or one of" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "none.yml")]) == 2
    assert "there is no recipe at" in capsys.readouterr().err
    assert main(["train", shipped()[0], "--set", "gamma:1"]) == 2
    assert "a change is KEY=VALUE" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    assert main(["train", str(recipe_file(tmp_path)), "--out", str(tmp_path / "full")]) == 2
    assert "is not empty, and holds no run" in capsys.readouterr().err
    assert main(["train", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "] == shipped()
    assert max(map(len, lines)) <= 80


def test_a_damaged_checkpoint_is_not_gone_on_with(tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path), {"n_timesteps": 128})
    train(recipe, tmp_path / "run", **QUIET)
    state = tmp_path / "run" / STATE
    content = bytearray(state.read_bytes())
    content[-1] ^= 1
    state.write_bytes(content)
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        train(recipe, tmp_path / "run", resume=True, **QUIET)


def test_a_recipe_is_json() -> None:
    for name in shipped():
        json.dumps(load_recipe(name).to_json())
    flat = load_recipe("halfcheetah-novel").to_json()
    assert flat["gae_lambda"] == 0.95
    assert isinstance(load_recipe("halfcheetah-novel"), Recipe)


# Evaluation.


def test_an_evaluation_is_the_sum_of_rewards_whatever_stands_beside_it(tmp_path: Path) -> None:
    train(load_recipe(recipe_file(tmp_path)), tmp_path / "run", **QUIET)
    policy = load_policy(tmp_path / "run" / BEST)

    def make() -> Any:
        return make_env("ncp/PendulumNoVel-v0")

    found = evaluate(policy, make, episodes=18, seed=4)
    assert found.lengths == [200] * 18
    assert len({round(value, 3) for value in found.returns}) == 18
    env, seeds = make(), [np.random.SeedSequence(4, spawn_key=(k,)).generate_state(1)[0] for k in (0, 17)]
    for seed, wanted in zip(seeds, (found.returns[0], found.returns[17]), strict=True):
        seen, _ = env.reset(seed=int(seed))
        state, total = None, 0.0
        for _ in range(200):
            action, state = policy.predict(seen, state, deterministic=True)
            seen, reward, *_ = env.step(action)
            total += float(reward)
        assert total == pytest.approx(wanted, rel=1e-3)
    assert evaluate(policy, make, episodes=3, seed=4).returns == pytest.approx(found.returns[:3], rel=1e-3)


def test_noise_and_lost_observations_cost_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    teacher = Path(__file__).parents[2] / "checkpoints" / "halfcheetah-teacher.safetensors"
    found = {}
    for name, words in {"clean": [], "noise": ["--noise", "0.1"], "lost": ["--dropout", "0.1"]}.items():
        assert main(["evaluate", str(teacher), "--episodes", "1", "--json", *words]) == 0
        found[name] = json.loads(capsys.readouterr().out)["mean_return"]
    assert found["clean"] > 5000
    assert max(found["noise"], found["lost"]) < 0.9 * found["clean"]


def test_a_policy_over_a_window_is_evaluated_in_its_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
env: ncp/PendulumNoVel-v0
env_wrapper:
- History: {window: 3}
algo: PPO
n_timesteps: 64
policy: MultiInputPolicy
policy_kwargs:
  features_extractor_class: NCPExtractor
  features_extractor_kwargs: {wiring: "AutoNCP(9, 3)"}
n_steps: 32
batch_size: 32
"""
    train(load_recipe(recipe_file(tmp_path, text)), tmp_path / "run", **QUIET)
    best = str(tmp_path / "run" / BEST)
    assert main(["evaluate", best, "--episodes", "2", "--noise", "0.1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean_length"] == 200
    assert main(["evaluate", best, "--episodes", "2", "--env", "HalfCheetah-v5"]) == 2
    assert "the policy was made for observations in Dict" in capsys.readouterr().err
