"""The datasets of all levels of one training: their ids, their seeds, and what each says about itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec

from ncp_control.base.run_folder import differences
from ncp_control.data.dataset import collect_dataset, tidy
from ncp_control.data.environments import spec_of
from ncp_control.data.levels import LEVELS
from ncp_control.data.minari_files import place_of
from ncp_control.data.references import References, forget_episodes, measure_references
from ncp_control.data.rollouts import Rollouts

REFERENCES = "references"  # has a place of its own among the seeds


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
