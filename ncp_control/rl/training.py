"""Training an agent from a recipe, in a folder that holds the run's record, checkpoint, evaluations and policies.

Every `checkpoint_every` steps the whole state is written, then everything random is seeded again from the run's seed
and the step, and the environments are reset. A run that is stopped and resumed therefore does exactly what it would
have done without the stop, although no simulator's state is ever stored.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
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
from ncp_control.base.progress import Tracker, say, tracked
from ncp_control.base.run_folder import CURVE as CURVE
from ncp_control.base.run_folder import RECORD, prepare_run, read_record, seed_of, versions
from ncp_control.base.tensors import described_in
from ncp_control.data.policy_hashes import hash_of_weights
from ncp_control.rl.buffers.n_step import cut_episodes
from ncp_control.rl.circuit_log import CircuitLog
from ncp_control.rl.diverged import Diverged, check_training, check_weights, has_diverged
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_file import save_policy
from ncp_control.rl.files.run_state import has_cell_of_0_2, load_state, read_about, save_state
from ncp_control.rl.learning_curve import LearningCurve
from ncp_control.rl.masking import with_masks
from ncp_control.rl.policies.circuit import CELL_OF_0_2
from ncp_control.rl.recipes.building import make_envs, make_model
from ncp_control.rl.recipes.imagined_envs import Imagined
from ncp_control.rl.recipes.recipe import Recipe
from ncp_control.rl.recipes.trial import try_out

PACKAGES = ("ncp-control", "torch", "stable-baselines3", "sb3-contrib", "gymnasium", "mujoco", "numpy")
LEAST_CHECKPOINT = 10_000  # steps between checkpoints by default, at least: so many may be lost without much harm
STATE, LAST, BEST = "state.safetensors", "last.safetensors", "best.safetensors"
POLICIES = "policies"  # the folder with the policy of each evaluation
SAME, PROCESSES = "same", "processes"  # where environments are stepped


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
    out, where = Path(out), pick_device(device)
    counts = {"eval_every": eval_every, "eval_episodes": eval_episodes, "checkpoint_every": checkpoint_every}
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"the seed of a training must be a whole number from 0 to {2**32 - 1}, not {seed}")
    every = checkpoint_every or max(LEAST_CHECKPOINT, recipe.n_timesteps // 10)
    about = {
        "recipe": recipe.to_json(), "seed": seed, "eval_every": eval_every or max(1, recipe.n_timesteps // 20),
        "eval_episodes": eval_episodes, "checkpoint_every": every, "threads": torch.get_num_threads(),
        "inside": None if inside is None else inside.about(),
    }  # fmt: skip
    if start is not None:
        about["start"] = hash_of_weights(start)
    elif resume and (out / RECORD).exists() and "start" in read_record(out / RECORD):
        raise ValueError(
            f"the run in {out} began with a policy's circuit: name the policy's file again, --start POLICY"
        )
    random.seed(seed)
    begun = recipe
    if resume and recipe.policy == "NCPPolicy" and "cell" not in recipe.policy_kwargs and has_cell_of_0_2(out / STATE):
        begun = replace(recipe, policy_kwargs={"cell": CELL_OF_0_2, **recipe.policy_kwargs})
    envs = make_envs(recipe, recipe.n_envs, training=True, in_processes=vec == PROCESSES, inside=inside)
    with ExitStack() as held:
        held.callback(envs.close)
        model = make_model(begun, envs, seed, where, start)
        evaluation_envs = {}
        for name, wrappers in {"": recipe.env_wrapper, **recipe.also_evaluate}.items():
            own = replace(recipe, env_wrapper=wrappers)
            evaluation_envs[name] = make_envs(own, min(eval_episodes, 8), training=False)
            held.callback(evaluation_envs[name].close)
            try_out(evaluation_envs[name], own)
        record = {"command": command, "versions": versions(PACKAGES)}
        held.enter_context(prepare_run(out, about, resume, results=(STATE, CURVE), **record))
        kept = read_about(out / STATE) if (out / STATE).exists() else None
        if kept is None:
            for old in ("board", POLICIES):
                shutil.rmtree(out / old, ignore_errors=True)
        model.set_logger(configure(str(out / "board"), ["tensorboard"]))
        tracker = held.enter_context(tracked("training", recipe.n_timesteps, shown=progress))
        run = RunCallback(out, seed, every, recipe, about, tracker, evaluation_envs)
        if kept is not None:
            load_state(model, out / STATE)
            run.recall(kept)
            # Anything but None keeps `learn` from resetting the environments before they are seeded.
            model._last_obs = envs.observation_space.sample()
        try:
            left = recipe.n_timesteps - model.num_timesteps
            if left > 0:
                all_callbacks = CallbackList([run, CircuitLog(every=max(1, recipe.n_timesteps // 100)), *callbacks])
                model.learn(left, callback=all_callbacks, log_interval=1, reset_num_timesteps=kept is None)
                run.finish()
        except KeyboardInterrupt:
            there = (out / STATE).exists()
            advice = f"--resume continues from {out / STATE}" if there else "there is no checkpoint yet"
            say(f"\ninterrupted at step {model.num_timesteps:,}: {advice}")
            raise
        except Exception as error:
            if isinstance(error, Diverged) or has_diverged(model, error):
                raise Diverged(model, out) from error
            raise
    return TrainingResult(out, model.num_timesteps, run.curve.points, run.curve.best, run.seconds(), run.curve.also)


class RunCallback(BaseCallback):
    """Writes a run's checkpoints and evaluations, seeds everything again after every checkpoint, and shows progress.

    :param out: the run's folder
    :param seed: the run's seed
    :param every: steps between checkpoints
    :param recipe: what is trained
    :param about: the settings that make the result, as `run.json` keeps them
    :param tracker: shows the progress
    :param evaluation_envs: the environments of the evaluations by name; "" for those that choose the best policy
    """

    def __init__(
        self,
        out: Path,
        seed: int,
        every: int,
        recipe: Recipe,
        about: dict[str, Any],
        tracker: Tracker,
        evaluation_envs: dict[str, VecEnv],
    ) -> None:
        super().__init__()
        self.out, self.seed, self.every, self.about, self.tracker = out, seed, every, about, tracker
        self.recipe, self.evaluation_envs = recipe, evaluation_envs
        self.curve = LearningCurve([name for name in evaluation_envs if name])
        self._began, self._before = time.monotonic(), 0.0
        self._segment = -1
        self._evaluated = 0  # the multiple of `eval_every` at which the last evaluation was due; "judged" in files

    def recall(self, kept: dict[str, Any]) -> None:
        """Continues from a checkpoint, given what `_write_checkpoint` described in it."""
        with described_in(self.out / STATE, "a run that cannot go on"):
            self.curve.recall(kept)
            self._before, self._evaluated = float(kept["seconds"]), int(kept["judged"])
            self.tracker.advance(int(kept["steps"]))

    def seconds(self) -> float:
        """Returns the time that the run has taken, together with the runs that it resumed."""
        return self._before + time.monotonic() - self._began

    def _on_rollout_start(self) -> None:
        """Writes a checkpoint and seeds everything again where a segment begins."""
        check_training(self.model)
        segment = self.num_timesteps // self.every
        if segment == self._segment:
            return
        if self._segment >= 0:
            self._write_checkpoint()
        self._segment = segment
        seed_again(self.model, seed_of(self.seed, self.num_timesteps))

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self._show_steps()
        if self.num_timesteps // self.about["eval_every"] > self._evaluated:
            self._evaluate()

    def finish(self) -> None:
        """Evaluates for the last time and writes the last checkpoint."""
        self._show_steps()
        if self.curve.last_step != self.num_timesteps:
            self._evaluate()
        self._write_checkpoint()

    def _show_steps(self) -> None:
        new = self.num_timesteps - self.tracker.done
        self.tracker.advance(new, new)

    def _evaluate(self) -> None:
        """Evaluates the policy, and writes it and the curve; the result depends on the policy and the step alone."""
        check_weights(self.model)
        self._evaluated = self.num_timesteps // self.about["eval_every"]
        state = torch.random.get_rng_state(), np.random.get_state()
        found = {name: self._returns_in(envs) for name, envs in self.evaluation_envs.items()}
        torch.random.set_rng_state(state[0])
        np.random.set_state(state[1])
        is_best = self.curve.add(self.num_timesteps, found)
        for name, (mean, _) in found.items():
            self.logger.record(f"eval/{name}_mean_return".replace("/_", "/"), mean)
        if self.recipe.is_off_policy:  # the other algorithms write their log after every rollout
            self.logger.dump(self.num_timesteps)
        note = self._note() | {"return": found[""][0]}
        (self.out / POLICIES).mkdir(exist_ok=True)
        files = [self.out / POLICIES / f"{self.num_timesteps:09d}.safetensors", self.out / LAST]
        for path in [*files, self.out / BEST] if is_best else files:
            save_policy(self.model, path, note)
        self.curve.write(self.out / CURVE)
        self.tracker.advance(note=self.curve.in_words())

    def _returns_in(self, envs: VecEnv) -> tuple[float, float]:
        """Returns the mean and the standard deviation of the policy's returns in environments of the evaluation."""
        if isinstance(envs, VecNormalize):
            sync_envs_normalization(self.training_env, envs)
        envs.seed(seed_of(self.seed + 1, self.num_timesteps))
        episodes = self.about["eval_episodes"]
        returns, _ = evaluate_policy(
            with_masks(self.model, envs), envs, episodes, return_episode_rewards=True, warn=False
        )
        return float(np.mean(returns)), float(np.std(returns))

    def _note(self) -> dict[str, Any]:
        """Returns the note for a policy's file."""
        described = {key: getattr(self.recipe, key) for key in ("env", "env_wrapper", "env_kwargs", "algo")}
        return {**described, "seed": self.seed, "steps": self.num_timesteps}

    def _write_checkpoint(self) -> None:
        """Writes the whole state of the run."""
        check_weights(self.model)
        about = {
            **self.curve.to_json(), "seconds": self.seconds(), "judged": self._evaluated, "steps": self.num_timesteps,
        }  # fmt: skip
        save_state(self.model, self.out / STATE, about)


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
