"""The runs of a sweep: subjects, such as recipes, times values of settings, times seeds."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncp_control.base.processes import INPUTS, Job
from ncp_control.data.table_rollouts import parted

KINDS = ("train", "distil", "fit")  # the commands that a sweep can run
RUNS, LOGS = "runs", "logs"
LONGEST_NAME = 80  # characters of a run's folder
COMMAND = "ncp_control.cli.as_job:run"
SEEDS = 2**32  # of NumPy's generators
OF_EVERY_RUN = ("seed", "out", "resume", "json")
BRACKETS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Setting:
    """What the seeds of a row of the table share.

    :param subject: a recipe, a teacher or rollouts, as the command takes it
    :param values: keys with their values, as words
    :param common: keys with values that all settings of the sweep share; they are no part of the name
    """

    subject: str
    values: tuple[tuple[str, str], ...] = ()
    common: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The subject's name, without its folder and what a table's columns are for."""
        return Path(parted(self.subject)[0]).stem

    @property
    def label(self) -> str:
        """The subject's name and the values, in words."""
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.values)])

    @property
    def slug(self) -> str:
        """The label in a form that can name a folder."""
        short = [f"{key.rsplit('.', 1)[-1]}={value}" for key, value in self.values]
        plain = re.sub(r"[^\w=.+-]+", "_", "-".join([self.name, *short])).strip("_")
        exact = hashlib.sha256(repr(self).encode()).hexdigest()[:8]
        return plain if len(plain) <= LONGEST_NAME else f"{plain[: LONGEST_NAME - 9]}-{exact}"


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep, or one trial of a search.

    :param setting: what it runs
    :param seed: its seed
    :param trial: the number of the trial; None in a sweep
    """

    setting: Setting
    seed: int
    trial: int | None = None

    @property
    def name(self) -> str:
        """The run's name, which is that of its folder."""
        number = "" if self.trial is None else f"-trial{self.trial:04d}"
        return f"{self.setting.slug}{number}-s{self.seed}"

    @property
    def folder(self) -> str:
        """The run's folder, relative to that of the sweep."""
        return f"{RUNS}/{self.name}"


def split_values(text: str) -> list[str]:
    """Splits values at commas, but not within brackets: "AutoNCP(40, 16),AutoNCP(20, 8)" has two."""
    parts, closing = [""], list[str]()
    for letter in text:
        if letter == "," and not closing:
            parts.append("")
            continue
        if letter in BRACKETS:
            closing.append(BRACKETS[letter])
        elif closing and letter == closing[-1]:
            closing.pop()
        parts[-1] += letter
    return [value.strip() for value in parts]


def read_values(words: Sequence[str]) -> dict[str, list[str]]:
    """Reads words such as `learning_rate=3e-3,1e-2`."""
    by_key: dict[str, list[str]] = {}
    for word in words:
        key, equals, values = word.partition("=")
        several = split_values(values)
        if not equals or not key or "" in several:
            raise ValueError(f"--set takes KEY=VALUE,VALUE with at least one value, not {word!r}")
        if key in OF_EVERY_RUN:
            raise ValueError(f"--set cannot set {key}, which the sweep gives to every run")
        if key in by_key:
            raise ValueError(f"--set names {key} twice: put its values into one word, {key}=VALUE,VALUE")
        if len(set(several)) < len(several):
            raise ValueError(f"--set names a value of {key} twice: {values}")
        by_key[key] = several
    return by_key


def settings_of(subjects: Sequence[str], values: dict[str, list[str]]) -> list[Setting]:
    """Returns every subject with every combination of values."""
    common = tuple((key, several[0]) for key, several in values.items() if len(several) == 1)
    varied = {key: several for key, several in values.items() if len(several) > 1}
    combinations = list(itertools.product(*varied.values()))
    return [
        Setting(subject, tuple(zip(varied, chosen, strict=True)), common)
        for subject in subjects
        for chosen in combinations
    ]


def runs_of(settings: Sequence[Setting], seeds: Sequence[int]) -> list[PlannedRun]:
    """Returns the runs, all settings of a seed before the next seed; refuses two runs of one name."""
    if not seeds:
        raise ValueError("a sweep needs at least one seed")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"a sweep runs each seed once: {' '.join(map(str, seeds))}")
    wrong = next((seed for seed in seeds if not 0 <= seed < SEEDS), None)
    if wrong is not None:
        raise ValueError(f"a seed is a whole number from 0 to {SEEDS - 1}, not {wrong}")
    runs = [PlannedRun(setting, seed) for seed in seeds for setting in settings]
    names = [run.name for run in runs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"two runs of this sweep would have the folder {twice}: give files or values other names")
    return runs


def words_of(kind: str, run: PlannedRun, options: Sequence[str]) -> list[str]:
    """Returns the words after `ncp-control` that make a run, or resume it.

    :param kind: the command
    :param options: further words for every run
    """
    words = [kind, run.setting.subject, "--seed", str(run.seed)]
    values = [*run.setting.common, *run.setting.values]
    if kind == "train":
        words += ["--set", *(f"{key}={value}" for key, value in values)] if values else []
    else:
        for key, value in values:
            option = f"--{key.replace('_', '-')}"
            words += {"true": [option], "false": []}.get(value.lower(), [option, value])
    return [*words, *options, "--out", run.folder, "--resume", "--json"]


def job_of(kind: str, run: PlannedRun, options: Sequence[str]) -> Job:
    """Returns a run as a job."""
    arguments: dict[str, Any] = {"words": words_of(kind, run, options), "log": f"{LOGS}/{run.name}.txt"}
    subject, _ = parted(run.setting.subject)
    reads = (subject,) if subject.startswith(f"{INPUTS}/") else ()
    return Job(run.name, COMMAND, arguments, reads, writes=(run.folder, arguments["log"]))
