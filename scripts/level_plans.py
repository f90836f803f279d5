"""Levels of data: random, medium and expert, from policies that one training kept at its evaluations.

Which policies these are, the reference scores between which returns are normalised, and the datasets of all levels:
their ids, their seeds, and what each says about itself. `make_datasets.py` is the command line of this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from ncp_control.data import Rollouts, collect, collect_dataset
from ncp_control.data.collect import tidy
from ncp_control.data.collection import remove_finished
from ncp_control.data.env_specs import spec_of
from ncp_control.data.minari_files import place_of
from ncp_control.rl.training import POLICIES
from ncp_control.runs.curve import CURVE, read_curve
from ncp_control.runs.folder import differences
from ncp_control.runs.run import BEST

LEVELS = ("random", "medium", "expert")
# The columns of its curve that are read here; the recipes of teachers evaluate undisturbed too.
NEEDED, UNDISTURBED = ("steps", "mean_return"), "undisturbed_mean_return"
ENDS = ("random", "expert")
REFERENCES = "references"  # has a place of its own among the seeds


class Checkpoint(NamedTuple):
    """A policy on its way through a training.

    :param steps: the steps of training behind it
    :param mean_return: its mean return in the evaluation after these steps
    :param path: its file
    :param undisturbed: its mean return there without disturbances; None if the training evaluated in one way only
    """

    steps: int
    mean_return: float
    path: Path
    undisturbed: float | None = None

    @property
    def level_return(self) -> float:
        """The return that says which level it has: without disturbances, if that is known, as reference scores are."""
        return self.mean_return if self.undisturbed is None else self.undisturbed


def checkpoints_of(run: str | Path) -> list[Checkpoint]:
    """Returns the policies that a run of `ncp-control train` kept at its evaluations, the earliest first.

    Example::

        expert = best_of(checkpoints_of("runs/halfcheetah-s0"))

    Runs of versions that kept only the best policy have that one.

    :param run: the run's folder
    """
    run = Path(run)
    rows = [row for row in read_curve(run) if all(math.isfinite(row.get(key, math.nan)) for key in NEEDED)]
    if not rows:
        raise ValueError(f"{run} has no evaluation in {CURVE}: give the folder of a run of `ncp-control train`")
    found = [
        Checkpoint(
            steps := int(row["steps"]),
            row["mean_return"],
            run / POLICIES / f"{steps:09d}.safetensors",
            row.get(UNDISTURBED),
        )
        for row in rows
    ]
    best = best_of(found)
    found = [one if one.path.is_file() or one != best else one._replace(path=run / BEST) for one in found]
    kept = [one for one in found if one.path.is_file()]
    if best_of(found) not in kept:
        raise ValueError(f"{run} keeps neither the policy of step {best.steps:,}, the best one, nor {BEST}")
    return kept


def best_of(checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """Returns the policy with the highest return; of equal ones the earliest."""
    return max(checkpoints, key=lambda one: one.mean_return)


def medium_of(checkpoints: Sequence[Checkpoint], random: float) -> Checkpoint:
    """Returns the policy half-way from random actions to the best one.

    It is the policy whose return is nearest to the middle between the return of random actions and that of the best
    policy, among those that come before the best one; of equally near ones the earliest. Returns without disturbances
    count, if the training has them.

    :param checkpoints: the policies of one training
    :param random: the mean return of uniformly random actions
    """
    best = best_of(checkpoints)
    middle = (random + best.level_return) / 2
    before = [one for one in checkpoints if one.steps < best.steps]
    if not before:
        raise ValueError(
            f"there is no policy between random actions and the best one, of step {best.steps:,}: train with more "
            "evaluations (--eval-every), or give another policy for medium"
        )
    return min(before, key=lambda one: abs(one.level_return - middle))


@dataclass(frozen=True)
class References:
    """The two ends of a scale of returns, which is 0 at random actions and 1 at the expert.

    :param random: the mean return of uniformly random actions
    :param expert: the mean return of the expert without random actions
    :param episodes: the number of episodes of each
    :param seed: the seed of both
    """

    random: float
    expert: float
    episodes: int
    seed: int

    def __post_init__(self) -> None:
        if not self.expert > self.random:
            raise ValueError(
                f"over {self.episodes} episodes the expert's mean return is {self.expert:,.1f}, which is not above "
                f"{self.random:,.1f}, that of random actions, so there is no scale of returns: train the expert longer"
            )

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON values."""
        return asdict(self)


def measure_references(
    expert: Any,
    env: str | EnvSpec | gym.Env[Any, Any],
    episodes: int = 100,
    seed: int = 0,
    workers: int = 1,
    group: int = 16,
    keep: Path | None = None,
    progress: bool = True,
) -> References:
    """Measures the mean return of uniformly random actions and that of an expert, each over whole episodes.

    Example::

        references = measure_references(load_policy("best.safetensors"), "HalfCheetah-v5")

    :param expert: the policy, as `collect` takes it
    :param env: the environment, as `collect` takes it
    :param episodes: the number of episodes of each
    :param seed: the seed of everything random
    :param workers: the number of processes; the result does not depend on it
    :param group: the number of episodes that one call of a policy acts for; the result depends on it
    :param keep: a folder for finished episodes, so that an interrupted measurement goes on from them; `forget_episodes`
        removes it
    :param progress: show progress bars on stderr
    """
    means = {}
    for name, policy in zip(ENDS, ("random", expert), strict=True):
        found = collect(
            policy,
            env,
            episodes,
            random_action_fraction=0.0,
            seed=seed,
            workers=workers,
            group=group,
            keep=None if keep is None else keep / name,
            resume=keep is not None,
            progress=progress,
        )
        means[name] = float(np.mean([rollout.total_reward for rollout in found]))
    return References(**means, episodes=episodes, seed=seed)


def references_in(rollouts: Rollouts) -> References:
    """Returns the reference scores that a dataset of a level was made with."""
    try:
        return References(**rollouts.about["references"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{rollouts.about.get('source')} does not say its reference scores: remove it") from error


def forget_episodes(keep: Path) -> None:
    """Removes the episodes that `measure_references` has kept."""
    for name in ENDS:
        if (keep / name).exists():
            remove_finished(keep / name)
    if keep.exists():
        keep.rmdir()


@dataclass(frozen=True)
class Level:
    """What acts in the datasets of one level.

    :param name: "random", "medium" or "expert"
    :param policy: the policy, as `collect` takes it
    :param words: what the policy is, for the datasets' descriptions
    :param facts: what else the datasets say about it, such as `algorithm` and `trained_steps`, as JSON values
    """

    name: str
    policy: Any
    words: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LevelPlan:
    """What the datasets of all levels have in common.

    Example::

        expert = load_policy("best.safetensors")
        plan = LevelPlan("HalfCheetah-v5", expert)
        references = plan.measure()
        plan.collect(Level("expert", expert, "a SAC agent", {"algorithm": "SAC"}), 0.05, references)

    :param env: the environment, as `collect` takes it
    :param expert: the expert's policy, whose return is the upper reference score
    :param name: the middle of the datasets' ids; by default the environment's name
    :param root: the folder for all datasets; by default where Minari looks for them
    :param rollouts: the number of episodes in each dataset
    :param reference_episodes: the number of episodes over which random actions and the expert are measured
    :param seed: the seed of everything random; each dataset has a seed of its own that follows from it
    :param group: the number of episodes that one call of a policy acts for; the result depends on it
    """

    env: Any
    expert: Any
    name: str | None = None
    root: Path | None = None
    rollouts: int = 25
    reference_episodes: int = 100
    seed: int = 0
    group: int = 16

    @property
    def spec(self) -> EnvSpec:
        """The environment's spec."""
        return spec_of(self.env)

    def place(self, level: str, share: float) -> tuple[str, Path]:
        """Returns the Minari id and the folder of a dataset, such as ncp/halfcheetah/expert-r05-v0.

        :param level: "random", "medium" or "expert"
        :param share: the probability that a step's action is overwritten by a random one
        """
        name = self.name or self.spec.id.rsplit("/", 1)[-1].rsplit("-v", 1)[0].lower()
        percent = round(100 * share, 4)
        written = f"{percent:02.0f}" if percent.is_integer() else f"{percent:g}".replace(".", "p")
        asked = f"ncp/{name}/{level}{f'-r{written}' if share else ''}-v0"
        dataset_id, folder = place_of(asked, self.root)
        if dataset_id != asked:
            raise ValueError(f"the name {name!r} makes no Minari id, {asked}: use letters, digits, _ and -")
        return dataset_id, folder

    @property
    def kept_episodes(self) -> Path:
        """The folder for the episodes of a measurement that is not finished."""
        return self.place("expert", 0.0)[1].parent / f".{REFERENCES}.unfinished"

    def measure(self, workers: int = 1, progress: bool = True) -> References:
        """Measures the reference scores; `forget` removes the episodes, from which an interrupted call goes on.

        :param workers: the number of processes; the result does not depend on it
        :param progress: show progress bars on stderr
        """
        seed, keep = self._seed(REFERENCES), self.kept_episodes
        return measure_references(
            self.expert, self.spec, self.reference_episodes, seed, workers, self.group, keep, progress
        )

    def forget(self) -> None:
        """Removes the episodes that `measure` has kept."""
        forget_episodes(self.kept_episodes)

    def finished(self, level: str, share: float, policy: Any = None) -> Rollouts | None:
        """Returns the rollouts of a dataset that is there; None if it is not. One that was made otherwise is refused.

        :param level: "random", "medium" or "expert"
        :param share: the probability that a step's action is overwritten by a random one
        :param policy: the level's policy; None if it is not known yet
        """
        folder = self.place(level, share)[1]
        if not folder.exists():
            return None
        rollouts = Rollouts.load(folder)
        before, now = rollouts.about.get("made_with"), self._made_with(level, share, policy)
        fix = "choose another name or folder, or remove it first"
        if not isinstance(before, dict):
            raise FileExistsError(f"{folder} exists already, and was not made as a level of data: {fix}")
        if other := differences({key: before.get(key) for key in now}, now):
            raise FileExistsError(f"{folder} exists already, and was made otherwise ({'; '.join(other)}): {fix}")
        return rollouts

    def collect(
        self,
        level: Level,
        share: float,
        references: References,
        workers: int = 1,
        record: dict[str, Any] | None = None,
        progress: bool = True,
    ) -> Rollouts:
        """Makes a dataset, or returns the rollouts of the one that is there.

        :param level: its level
        :param share: the probability that a step's action is overwritten by a random one
        :param references: the reference scores
        :param workers: the number of processes; the result does not depend on it
        :param record: what else to keep with the dataset (see `fields_of`), as JSON values
        :param progress: show a progress bar on stderr
        """
        there = self.finished(level.name, share, level.policy)
        if there is not None:
            tidy(self.place(level.name, share)[1])
            return there
        about = {
            "level": level.name,
            "description": self._description(level, share),
            **level.facts,
            REFERENCES: references.to_json(),
            "made_with": self._made_with(level.name, share, level.policy),
            **(record or {}),
        }
        return collect_dataset(
            level.policy,
            self.spec,
            self.place(level.name, share)[0],
            self.root,
            about,
            rollouts=self.rollouts,
            random_action_fraction=share,
            seed=self._seed(level.name, share),
            workers=workers,
            group=self.group,
            name=level.name,
            progress=progress,
        )

    def _seed(self, what: str, share: float = 0.0) -> int:
        """Returns the seed of one dataset, so that datasets which are put together begin no episode alike."""
        place = (*LEVELS, REFERENCES).index(what)
        return int(np.random.SeedSequence(self.seed, spawn_key=(place, round(1e6 * share))).generate_state(1)[0])

    def _made_with(self, level: str, share: float, policy: Any) -> dict[str, Any]:
        """Returns all that determines a dataset, in JSON values, without the policy if it is not known."""
        found: dict[str, Any] = {
            "level": level,
            "env": self.spec.to_json(),
            "rollouts": self.rollouts,
            "random_action_fraction": share,
            "seed": self._seed(level, share),
            "group": self.group,
            "expert": getattr(self.expert, "sha256", None),
            "reference_episodes": self.reference_episodes,
        }
        return found if policy is None else found | {"policy": getattr(policy, "sha256", None)}

    def _description(self, level: Level, share: float) -> str:
        """Says what is in a dataset."""
        overwritten = f" {100 * share:.4g} % of the actions were overwritten by random ones (the info is_random)."
        return (
            f"Level {level.name}: {self.rollouts} episodes of {level.words}.{overwritten if share else ''} Reference "
            "scores: the mean returns of random actions and of the expert, without overwritten actions, over "
            f"{self.reference_episodes} episodes each."
        )
