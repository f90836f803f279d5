"""Stable-Baselines3's callbacks and loggers work with every algorithm as they do with its own."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    LogEveryNTimesteps,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecMonitor

from helpers.stock_models import ON_POLICY, build, copies, of_recurrent
from helpers.weights import assert_same, weights

LOGGED = {
    "RecurrentPPO": {"train/approx_kl", "train/clip_fraction", "train/value_loss", "train/policy_gradient_loss"},
    "RecurrentA2C": {"train/approx_kl", "train/value_loss", "train/policy_gradient_loss", "train/std"},
    "RecurrentSAC": {"train/actor_loss", "train/critic_loss", "train/ent_coef"},
    "RecurrentTD3": {"train/actor_loss", "train/critic_loss"},
}
OF_ALL = {"time/fps", "time/total_timesteps", "rollout/ep_rew_mean", "rollout/ep_len_mean", "train/n_updates"}
OF_ALL |= {"train/learning_rate"}


class Counter(BaseCallback):
    """Counts how often it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = self.rollouts = self.starts = self.ends = 0

    def _on_training_start(self) -> None:
        self.starts += 1

    def _on_rollout_end(self) -> None:
        self.rollouts += 1

    def _on_training_end(self) -> None:
        self.ends += 1

    def _on_step(self) -> bool:
        self.steps += 1
        return True


def monitored(kind: Any) -> VecMonitor:
    return VecMonitor(copies(kind))


@pytest.mark.system
@of_recurrent
def test_callbacks_are_called_at_their_times(kind: Any, tmp_path: Any) -> None:
    every, alone = Counter(), Counter()
    evaluation = EvalCallback(
        copies(kind), n_eval_episodes=2, eval_freq=16, log_path=str(tmp_path), best_model_save_path=str(tmp_path),
        callback_after_eval=StopTrainingOnNoModelImprovement(100), verbose=0, warn=False,
    )  # fmt: skip
    kept = CheckpointCallback(
        8, str(tmp_path / "kept"), save_replay_buffer=kind not in ON_POLICY, save_vecnormalize=True
    )
    model = build(kind, monitored(kind))
    model.learn(64, CallbackList([alone, evaluation, kept, EveryNTimesteps(16, every), LogEveryNTimesteps(16)]))
    assert (alone.starts, alone.steps, alone.ends) == (1, 32, 1)
    assert alone.rollouts == (4 if kind in ON_POLICY else 32)
    assert every.steps == 4
    assert np.load(tmp_path / "evaluations.npz")["timesteps"].tolist() == [32, 64]
    assert len(list((tmp_path / "kept").glob("*steps.zip"))) == 4
    best = kind.load(tmp_path / "best_model", device="cpu")
    assert_same(weights(best), weights(kind.load(tmp_path / "best_model.zip", device="cpu")))
    model.learn(16, lambda local_names, global_names: True)


@of_recurrent
def test_callbacks_end_the_training(kind: Any) -> None:
    def stopped(callback: Any) -> int:
        steps: int = build(kind, monitored(kind)).learn(400, callback).num_timesteps
        return steps

    assert stopped(StopTrainingOnMaxEpisodes(2)) == 20
    reached = EvalCallback(
        copies(kind), callback_on_new_best=StopTrainingOnRewardThreshold(10.0), eval_freq=8, n_eval_episodes=2,
        verbose=0, warn=False,
    )  # fmt: skip
    assert stopped(reached) == 16
    assert stopped(lambda local_names, global_names: False) == 2


@of_recurrent
def test_what_is_logged_reaches_every_format(kind: Any, tmp_path: Any, capsys: Any) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = build(kind, monitored(kind))
    model.set_logger(configure(str(tmp_path), ["stdout", "log", "csv", "json", "tensorboard"]))
    model.learn(64, log_interval=1)
    lines = [json.loads(line) for line in (tmp_path / "progress.json").read_text().splitlines()]
    names = {name for line in lines for name, value in line.items() if value is not None}
    assert OF_ALL | LOGGED[kind.__name__] <= names
    assert all(np.isfinite(value) for line in lines for value in line.values() if isinstance(value, float))
    with (tmp_path / "progress.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(lines)
    board = EventAccumulator(str(tmp_path))
    board.Reload()
    hidden = {"time/total_timesteps", "train/n_updates"}  # which are the board's own axis
    assert OF_ALL - hidden | LOGGED[kind.__name__] <= set(board.Tags()["scalars"])
    for text in (capsys.readouterr().out, (tmp_path / "log.txt").read_text()):
        assert "ep_rew_mean" in text


@of_recurrent
def test_a_second_learn_goes_on_or_begins_anew(kind: Any, tmp_path: Any) -> None:
    model = build(kind, tensorboard_log=str(tmp_path))
    model.learn(32, tb_log_name="run")
    model.learn(32, reset_num_timesteps=False, tb_log_name="run")
    assert model.num_timesteps == 64
    assert [path.name for path in tmp_path.iterdir()] == ["run_1"]
    model.learn(16, tb_log_name="run")
    assert model.num_timesteps == 16
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run_1", "run_2"]


@of_recurrent
def test_the_progress_bar_shows(kind: Any) -> None:
    pytest.importorskip("tqdm")
    assert build(kind).learn(16, progress_bar=True).num_timesteps == 16
