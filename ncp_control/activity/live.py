"""Watching a circuit learn: one page that grows during training."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

from ncp_control.activity.page.write import write_page
from ncp_control.activity.recording.activity import Activity
from ncp_control.activity.recording.agents import record
from ncp_control.runs.curve import read_curve


class LivePage(BaseCallback):
    """Records an episode every so many steps of training and writes all recordings into one page.

    A slider on the page chooses the moment of training. Reload the page to see the newest recording. If the folder lies
    in that of a run, `ncp-control train --watch`, the page draws the run's evaluations, too.

    Example::

        make = lambda: gym.make("ncp_envs:ncp/PendulumNoVel-v0")
        model.learn(100_000, callback=LivePage(make, "watch", every=10_000))

    Recording does not change the training: it has an environment of its own, and the states of the random number
    generators are restored.

    :param make_env: makes an environment like the one that the agent is trained in, without `VecNormalize`
    :param folder: the folder of `step-NUMBER.npz` and `page.html`
    :param every: steps of training between two recordings
    :param steps: length of a recording in steps
    :param seed: seed of the recorded episode, the same every time
    """

    def __init__(
        self, make_env: Callable[[], Any], folder: str | Path, every: int, steps: int = 200, seed: int = 0
    ) -> None:
        super().__init__()
        if every < 1 or steps < 1:
            raise ValueError(f"every and steps must be at least 1, got {every} and {steps}")
        self.make_env, self.folder, self.every, self.steps, self.seed = make_env, Path(folder), every, steps, seed
        self._due = 0

    def _on_training_start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        done = self.model.num_timesteps
        for path in self.folder.glob("step-*.npz"):
            # A file of a later step is from a run that went further and was then resumed from an earlier step.
            if int(path.stem.split("-")[1]) > done:
                path.unlink()
        self._due = -(-done // self.every) * self.every  # the first multiple that is not yet past

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self._due:
            self._record_and_write()

    def _on_training_end(self) -> None:
        self._record_and_write()

    def _record_and_write(self) -> None:
        """Records an episode and writes the page with all recordings."""
        self._due = (self.num_timesteps // self.every + 1) * self.every
        python, numpy, pytorch = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
        training = self.model.policy.training
        env = self.make_env()
        try:
            self.model.policy.set_training_mode(False)
            record(
                self.model,
                env,
                self.folder / f"step-{self.num_timesteps:09d}.npz",
                self.steps,
                seed=self.seed,
                note={"steps": self.num_timesteps},
                progress=False,
            )
        finally:
            env.close()
            self.model.policy.set_training_mode(training)
            random.setstate(python)
            np.random.set_state(numpy)
            torch.random.set_rng_state(pytorch)
        activities = [Activity.load(path) for path in sorted(self.folder.glob("step-*.npz"))]
        write_page(activities, self.folder / "page.html", curve=self._evaluations())

    def _evaluations(self) -> list[tuple[float, float, float]]:
        """Returns the evaluations so far of the run in whose folder the page lies; none outside of a run."""
        run = self.folder.parent
        # Any other folder may hold a table of this name that is not ours.
        rows = read_curve(run) if (run / "run.json").is_file() else []
        # A run that was resumed from an earlier step has the evaluations of the later ones on its disk at first.
        return [
            (row["steps"], row["mean_return"], row["std_return"]) for row in rows if row["steps"] <= self.num_timesteps
        ]
