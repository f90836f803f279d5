"""Training an agent from a recipe, in a folder that holds the run's record, checkpoint, evaluations and policies.

Every `checkpoint_every` steps the whole state is written, then everything random is seeded again from the run's seed
and the step, and the environments are reset. A run that is stopped and resumed therefore does exactly what it would
have done without the stop, although no simulator's state is ever stored.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, sync_envs_normalization

from ncp_control.base.machine import pick_device
from ncp_control.base.tensors import described_in
from ncp_control.data.policy_hashes import hash_of_weights
from ncp_control.rl.buffers.replay import cut_episodes
from ncp_control.rl.circuit_log import CircuitLog
from ncp_control.rl.diverged import Diverged, check_training, check_weights, has_diverged
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_file import save_policy
from ncp_control.rl.files.run_state import has_cell_of_0_2, load_state, read_about, save_state
from ncp_control.rl.masking import with_masks
from ncp_control.rl.policies.circuit import CELL_OF_0_2
from ncp_control.rl.recipes.building import built
from ncp_control.rl.recipes.imagined_envs import Imagined
from ncp_control.rl.recipes.recipe import Recipe
from ncp_control.runs.curve import CURVE, LearningCurve
from ncp_control.runs.run import BEST, LAST, STATE, Run, seed_of

PACKAGES = ("ncp-control", "torch", "stable-baselines3", "sb3-contrib", "gymnasium", "mujoco", "numpy")
LEAST_CHECKPOINT = 10_000  # steps between checkpoints by default, at least: so many may be lost without much harm
POLICIES = "policies"  # the folder with the policy of each evaluation
SAME, PROCESSES = "same", "processes"  # where environments are stepped


@dataclass(frozen=True)
class Schedule:
    """When a training is evaluated, and when its checkpoints are written; all of it changes the result.

    :param eval_every: steps between evaluations
    :param eval_episodes: episodes in an evaluation
    :param checkpoint_every: steps between checkpoints
    """

    eval_every: int
    eval_episodes: int
    checkpoint_every: int

    def __post_init__(self) -> None:
        for name, number in asdict(self).items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")

    @classmethod
    def of(cls, recipe: Recipe, eval_every: int | None, eval_episodes: int, checkpoint_every: int | None) -> Schedule:
        """Returns the schedule of a recipe's training; what is None is a twentieth or a tenth of the training."""
        steps = recipe.n_timesteps
        return cls(
            max(1, steps // 20) if eval_every is None else eval_every,
            eval_episodes,
            max(LEAST_CHECKPOINT, steps // 10) if checkpoint_every is None else checkpoint_every,
        )


@dataclass
class TrainingResult:
    """The outcome of a training run.

    :param out: the run's folder
    :param steps: how many steps the agent was trained
    :param curve: for every evaluation the step, and the mean and the standard deviation of the returns
    :param best: the step with the best mean return, and that return; None without an evaluation
    :param seconds: the time taken, with evaluations, by this run and by those that it resumed
    :param also: for every name in the recipe's `also_evaluate` the mean and the standard deviation at every evaluation
    """

    out: Path
    steps: int
    curve: list[tuple[int, float, float]]
    best: tuple[int, float] | None
    seconds: float
    also: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def train(
    recipe: Recipe,
    out: str | Path,
    seed: int = 0,
    resume: bool = False,
    eval_every: int | None = None,
    eval_episodes: int = 8,
    checkpoint_every: int | None = None,
    device: str = "cpu",
    command: str = "",
    progress: bool = True,
    callbacks: Sequence[BaseCallback] = (),
    start: LoadedPolicy | None = None,
    vec: str = SAME,
    inside: Imagined | None = None,
) -> TrainingResult:
    """Trains an agent.

    The folder `out` gets `best.safetensors` and `last.safetensors`, policies for `load_policy`; `policies/`, the policy
    of each evaluation; `curve.csv`, the evaluations; `run.json`, the recipe, seed and versions; `board/`, a log for
    TensorBoard; and `state.safetensors`, from which the run can be resumed.

    :param recipe: what to train (see `load_recipe`)
    :param out: a folder for this run alone
    :param seed: everything random follows from it
    :param resume: resume the run in `out`, or begin it if the folder holds none
    :param eval_every: steps between evaluations; by default a twentieth of the training
    :param eval_episodes: episodes in an evaluation, which uses deterministic actions and its own environments
    :param checkpoint_every: steps between checkpoints; by default a tenth of the training, but at least 10 000. A
        checkpoint ends the episodes that are under way, so this number changes the result
    :param device: the device for the networks
    :param command: the command line to keep in the record
    :param progress: show a progress bar on stderr
    :param callbacks: further callbacks; they must not change the training, or a resumed run gives another result
    :param start: a policy to begin with, whose circuit takes the place of the recipe's
    :param vec: where the environments are stepped: `same`, in this process; or `processes`, each in a process of its
        own, for steps that take milliseconds. Environments that draw from their own generators give the same result
        either way, so a run may be resumed with the other choice. Evaluations stay in this process
    :param inside: imagines the episodes of the training, such as `Branches` of `ncp_control.dynamics`; the evaluations
        stay in the recipe's environment
    """
    if vec not in (SAME, PROCESSES):
        raise ValueError(f"there is no vec {vec!r}: choose {SAME} or {PROCESSES}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"the seed of a training must be a whole number from 0 to {2**32 - 1}, not {seed}")
    device_used = pick_device(device)
    schedule = Schedule.of(recipe, eval_every, eval_episodes, checkpoint_every)
    run = Run(out, seed=seed, resume=resume, command=command, progress=progress)
    about = {
        "recipe": recipe.to_json(), "seed": seed, **asdict(schedule), "threads": torch.get_num_threads(),
        "inside": None if inside is None else inside.about(),
    }  # fmt: skip
    if start is not None:
        about["start"] = hash_of_weights(start)
    elif "start" in run.before:
        raise ValueError(
            f"the run in {out} began with a policy's circuit: name the policy's file again, --start POLICY"
        )
    random.seed(seed)
    with ExitStack() as held:
        made = built(
            as_begun(recipe, run), seed, device_used, start, in_processes=vec == PROCESSES, inside=inside,
            evaluation_envs=min(eval_episodes, 8),
        )  # fmt: skip
        model, evaluation_envs = held.enter_context(made)
        held.enter_context(run.open(about, PACKAGES, results=(STATE, CURVE)))
        kept = read_about(run.path(STATE)) if run.has(STATE) else None
        if kept is None:
            for old in ("board", POLICIES):
                shutil.rmtree(run.path(old), ignore_errors=True)
        model.set_logger(configure(str(run.path("board")), ["tensorboard"]))
        held.enter_context(run.doing("training", recipe.n_timesteps))
        callback = RunCallback(run, recipe, schedule, evaluation_envs)
        if kept is not None:
            load_state(model, run.path(STATE))
            callback.recall(kept)
            # Anything but None keeps `learn` from resetting the environments before they are seeded.
            model._last_obs = model.observation_space.sample()
        left = recipe.n_timesteps - model.num_timesteps
        if left > 0:
            log = CircuitLog(every=max(1, recipe.n_timesteps // 100))
            try:
                model.learn(
                    left, CallbackList([callback, log, *callbacks]), log_interval=1, reset_num_timesteps=kept is None
                )
            except Exception as error:
                if isinstance(error, Diverged) or has_diverged(model, error):
                    raise Diverged(model, run.out) from error
                raise
    return TrainingResult(run.folder, model.num_timesteps, seconds=run.seconds(), **callback.evaluations())


def as_begun(recipe: Recipe, run: Run) -> Recipe:
    """Returns the recipe as a run that is resumed was begun: version 0.2.0 made LTCs where no cell was named."""
    unnamed = recipe.policy == "NCPPolicy" and "cell" not in recipe.policy_kwargs
    if unnamed and run.resume and has_cell_of_0_2(run.path(STATE)):
        return replace(recipe, policy_kwargs={"cell": CELL_OF_0_2, **recipe.policy_kwargs})
    return recipe


class RunCallback(BaseCallback):
    """Writes a run's checkpoints and evaluations, seeds everything again after every checkpoint, and shows progress.

    :param run: the run, which is open and shows its progress
    :param recipe: what is trained
    :param schedule: when it is evaluated, and when a checkpoint is written
    :param evaluation_envs: the environments of the evaluations by name; "" for those that choose the best policy
    """

    def __init__(self, run: Run, recipe: Recipe, schedule: Schedule, evaluation_envs: dict[str, VecEnv]) -> None:
        super().__init__()
        self.run, self.recipe, self.schedule, self.evaluation_envs = run, recipe, schedule, evaluation_envs
        returns = [f"{name}_{moment}" for name in evaluation_envs for moment in ("mean_return", "std_return")]
        self.curve: LearningCurve[tuple[float, ...]] = LearningCurve(
            ["steps", *(name.lstrip("_") for name in returns)], "mean_return"
        )
        self._segment = -1
        self._evaluated = 0  # the multiple of `eval_every` at which the last evaluation was due; "judged" in files

    def _on_rollout_start(self) -> None:
        """Writes a checkpoint and seeds everything again where a segment begins."""
        check_training(self.model)
        segment = self.num_timesteps // self.schedule.checkpoint_every
        if segment == self._segment:
            return
        if self._segment >= 0:
            self._write_checkpoint()
        self._segment = segment
        seed_again(self.model, self.run.seed_of(self.num_timesteps))

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self._show_steps()
        if self.num_timesteps // self.schedule.eval_every > self._evaluated:
            self._evaluate()

    def _on_training_end(self) -> None:
        """Evaluates for the last time, before callbacks that show it, and writes the last checkpoint."""
        self._show_steps()
        if not self.curve.rows or self.curve.rows[-1][0] != self.num_timesteps:
            self._evaluate()
        self._write_checkpoint()

    def _show_steps(self) -> None:
        new = self.num_timesteps - self.run.tracker.done
        self.run.tracker.advance(new, new)

    def _evaluate(self) -> None:
        """Evaluates the policy, and writes it and the curve; the result depends on the policy and the step alone."""
        check_weights(self.model)
        self._evaluated = self.num_timesteps // self.schedule.eval_every
        # What the evaluations draw must not change what the training draws after them.
        torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()
        returns = {name: self._returns_in(envs) for name, envs in self.evaluation_envs.items()}
        torch.random.set_rng_state(torch_state)
        np.random.set_state(numpy_state)
        row = (self.num_timesteps, *(value for moments in returns.values() for value in moments))
        is_best = self.curve.add(row)
        for name, (mean, _) in returns.items():
            self.logger.record(f"eval/{name}_mean_return".replace("/_", "/"), mean)
        if self.recipe.is_off_policy:  # the other algorithms write their log after every rollout
            self.logger.dump(self.num_timesteps)
        note = {
            **{key: getattr(self.recipe, key) for key in ("env", "env_wrapper", "env_kwargs", "algo")},
            "seed": self.run.seed, "steps": self.num_timesteps, "return": returns[""][0],
        }  # fmt: skip
        self.run.path(POLICIES).mkdir(exist_ok=True)
        for name in (f"{POLICIES}/{self.num_timesteps:09d}.safetensors", LAST, *((BEST,) if is_best else ())):
            save_policy(self.model, self.run.path(name), note)
        self.curve.write(self.run.folder)
        means = ", ".join(f"{name} {mean:,.1f}".strip() for name, (mean, _) in returns.items())
        self.run.tracker.advance(note=f"return {means}, best {(self.curve.best_row or row)[1]:,.1f}")

    def _returns_in(self, envs: VecEnv) -> tuple[float, float]:
        """Returns the mean and the standard deviation of the policy's returns in environments of the evaluation."""
        if isinstance(envs, VecNormalize):
            sync_envs_normalization(self.training_env, envs)
        envs.seed(seed_of(self.run.seed + 1, self.num_timesteps))
        returns, _ = evaluate_policy(
            with_masks(self.model, envs), envs, self.schedule.eval_episodes, return_episode_rewards=True, warn=False
        )
        return float(np.mean(returns)), float(np.std(returns))

    def evaluations(self) -> dict[str, Any]:
        """Returns the evaluations as `TrainingResult` and the state have them."""
        rows, best = self.curve.rows, self.curve.best_row
        names = [name for name in self.evaluation_envs if name]
        return {
            "curve": [row[:3] for row in rows],
            "best": None if best is None else best[:2],
            "also": {name: [row[k : k + 2] for row in rows] for name, k in zip(names, count(3, 2), strict=False)},
        }

    def _write_checkpoint(self) -> None:
        """Writes the whole state of the run."""
        check_weights(self.model)
        about = {"seconds": self.run.seconds(), "judged": self._evaluated, "steps": self.num_timesteps}
        save_state(self.model, self.run.path(STATE), self.evaluations() | about)

    def recall(self, kept: dict[str, Any]) -> None:
        """Goes on from a checkpoint, given what `_write_checkpoint` described in it."""
        with described_in(self.run.path(STATE), "a run that cannot go on"):
            also = [kept["also"][name] for name in self.evaluation_envs if name]  # before 0.3 files have no "also"
            for (step, *moments), *others in zip(kept["curve"], *also, strict=True):
                self.curve.add((int(step), *(float(value) for pair in (moments, *others) for value in pair)))
            self.run.earlier, self._evaluated = float(kept["seconds"]), int(kept["judged"])
            self.run.tracker.advance(int(kept["steps"]))


def seed_again(model: BaseAlgorithm, seed: int) -> None:
    """Seeds everything random and resets the environments while `learn` is running."""
    model.set_random_seed(seed)
    random.seed(seed)
    assert model.env is not None
    cut_episodes(getattr(model, "replay_buffer", None))
    model._last_obs = cast("Any", model.env.reset())
    model._last_episode_starts = np.ones(model.n_envs, dtype=bool)
    if isinstance(model.env, VecNormalize):
        model._last_original_obs = model.env.get_original_obs()
    policy: Any = model.policy
    if getattr(model, "use_sde", False) and hasattr(policy, "reset_noise"):
        policy.reset_noise(model.n_envs)
    noise = getattr(model, "action_noise", None)
    if noise is not None:
        noise.reset()
