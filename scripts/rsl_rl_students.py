"""rsl_rl's own distillation into a circuit and into an LSTM, and its PPO with a circuit, on a half-cheetah.

    python scripts/rsl_rl_students.py teacher    trains the teacher, an MLP that sees everything, by PPO
    python scripts/rsl_rl_students.py students   distils it into an LSTM-256 and into a circuit, which see positions
    python scripts/rsl_rl_students.py ppo        trains a circuit that sees positions by PPO

Needs rsl_rl (`pip install rsl-rl-lib`). Files go to runs/rsl_rl; the teacher's is `teacher.pt`, a checkpoint of rsl_rl.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from rsl_rl.runners import DistillationRunner, OnPolicyRunner

from ncp_control.integrations.rsl_rl import GymVecEnv

OUT = Path("runs/rsl_rl")
BODY, SEEN = "HalfCheetah-v5", {"policy": range(8), "teacher": range(17)}
NORMALIZED: dict[str, Any] = {"obs_normalization": True}
MLP = {"class_name": "MLPModel", "hidden_dims": [256, 256], "activation": "elu", **NORMALIZED}
LSTM = {"class_name": "RNNModel", "rnn_type": "lstm", "rnn_hidden_dim": 256, "hidden_dims": [256, 256], **NORMALIZED}
CIRCUIT = {
    "class_name": "ncp_control.integrations.rsl_rl:CircuitModel", "cell": "dualltc", "wiring": "AutoNCP(64, 24)",
    **NORMALIZED,
}  # fmt: skip
MEMORY = {"class_name": "RNNModel", "rnn_type": "lstm", "rnn_hidden_dim": 64, "hidden_dims": [64], **NORMALIZED}
GAUSSIAN = {"class_name": "GaussianDistribution", "init_std": 0.4, "std_type": "log"}
PPO = {
    "class_name": "PPO", "num_learning_epochs": 10, "num_mini_batches": 4, "learning_rate": 1e-3,
    "schedule": "adaptive", "desired_kl": 0.01, "gamma": 0.98, "lam": 0.95, "entropy_coef": 0.002, "clip_param": 0.2,
    "value_loss_coef": 1.0, "use_clipped_value_loss": True, "max_grad_norm": 1.0, "rnd_cfg": None, "symmetry_cfg": None,
}  # fmt: skip
# A teacher that sees everything learns more with these.
TEACHERS = {"num_learning_epochs": 8, "gamma": 0.99, "entropy_coef": 0.0}
EVALUATED = 20  # episodes


@dataclass
class Arguments:
    """Train with rsl_rl on the CPU."""

    what: Annotated[Literal["teacher", "students", "ppo"], tyro.conf.Positional]
    """What to train."""

    seed: int = 0
    """Random seed."""

    steps: int = 300_000
    """Steps of the environments."""

    rates: tuple[float, float] = (2e-3, 1e-2)
    """The learning rates of the LSTM and of the circuit."""

    students: tuple[str, ...] = ("lstm", "circuit")
    """Which students to teach."""

    wiring: str = CIRCUIT["wiring"]
    """The circuit's plan."""


def main(arguments: Arguments) -> None:
    """Trains, and prints the return of each model over 20 episodes at new seeds."""
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    if arguments.what == "students":
        circuit = {**CIRCUIT, "wiring": arguments.wiring}
        for name, student, rate in zip(("lstm", "circuit"), (LSTM, circuit), arguments.rates, strict=True):
            if name in arguments.students:
                report(name, distilled(student, rate, arguments), arguments)
    else:
        alone = {**CIRCUIT, "wiring": arguments.wiring}
        actor, critic, group = (MLP, MLP, "teacher") if arguments.what == "teacher" else (alone, MEMORY, "policy")
        runner = trained(actor, critic, group, arguments)
        report(arguments.what, runner, arguments)
        if arguments.what == "teacher":
            runner.save(str(OUT / "teacher.pt"))


def trained(actor: dict[str, Any], critic: dict[str, Any], group: str, arguments: Arguments) -> Any:
    """Trains an actor and a critic that see a group of observations by PPO."""
    is_teacher = group == "teacher"
    envs, steps = 16 if is_teacher else 32, 128
    torch.manual_seed(arguments.seed)
    configuration = {
        "num_steps_per_env": steps, "save_interval": 10**9, "obs_groups": {"actor": [group], "critic": [group]},
        "actor": {**actor, "distribution_cfg": {**GAUSSIAN, "init_std": 0.6 if is_teacher else 0.4}},
        "critic": critic, "algorithm": {**PPO, **(TEACHERS if is_teacher else {})},
    }  # fmt: skip
    runner = OnPolicyRunner(GymVecEnv(BODY, envs, SEEN, arguments.seed), configuration)
    return learnt(runner, arguments.steps // (envs * steps))


def distilled(student: dict[str, Any], rate: float, arguments: Arguments) -> Any:
    """Distils the teacher into a student that sees positions only."""
    envs, steps = 32, 60
    torch.manual_seed(arguments.seed)
    configuration = {
        "num_steps_per_env": steps, "save_interval": 10**9,
        "obs_groups": {"student": ["policy"], "teacher": ["teacher"]},
        "student": {**student, "distribution_cfg": {**GAUSSIAN, "init_std": 0.1}},
        "teacher": {**MLP, "distribution_cfg": GAUSSIAN},
        "algorithm": {
            "class_name": "Distillation", "num_learning_epochs": 2, "gradient_length": 15,
            "learning_rate": rate, "max_grad_norm": 1.0,
        },
    }  # fmt: skip
    runner = DistillationRunner(GymVecEnv(BODY, envs, SEEN, arguments.seed), configuration)
    runner.load(str(OUT / "teacher.pt"))
    return learnt(runner, arguments.steps // (envs * steps))


def learnt(runner: Any, iterations: int) -> Any:
    """Lets a runner learn without its log, and returns it."""
    runner.began = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()):
        runner.learn(iterations, init_at_random_ep_len=False)
    return runner


def report(name: str, runner: Any, arguments: Arguments) -> None:
    """Prints what a model has learnt."""
    seconds, model = time.monotonic() - runner.began, runner.get_inference_policy()
    returns = returns_of(model)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"{name:8} seed {arguments.seed}: return {statistics.mean(returns):.0f} +- {statistics.stdev(returns):.0f}, "
        f"lowest {min(returns):.0f}; {size:,} parameters, {arguments.steps:,} steps, {seconds:.0f} s",
        flush=True,
    )


def returns_of(model: Any) -> list[float]:
    """Returns the returns of a model's mean actions over episodes at new seeds."""
    env = GymVecEnv(BODY, EVALUATED, SEEN, seed=1000)
    model.reset()
    found = torch.zeros(EVALUATED)
    with torch.inference_mode():
        for _ in range(env.max_episode_length):
            _, rewards, _, _ = env.step(model(env.get_observations()))
            found += rewards
    env.close()
    returns: list[float] = found.tolist()
    return returns


if __name__ == "__main__":
    main(tyro.cli(Arguments))
