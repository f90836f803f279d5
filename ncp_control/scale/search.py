"""A search for good settings: Optuna proposes values, every trial is an ordinary run, and bad trials end early.

Trials are proposed when there is room for them, so with several at once the proposals depend on which trial ends
first. One at a time (`workers` 1), the same seed gives the same trials, whether or not it was interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ncp_control.base.files import write_atomically
from ncp_control.base.processes import Job, JobPlace, Processes
from ncp_control.base.progress import say
from ncp_control.runs.curve import read_curve
from ncp_control.runs.folder import read_record
from ncp_control.runs.run import Run, seed_of
from ncp_control.scale.cluster import FIX
from ncp_control.scale.curves import AXES
from ncp_control.scale.plan import LOGS, RUNS, PlannedRun, Setting, job_of
from ncp_control.scale.ranges import SearchRange
from ncp_control.scale.recipes import check_trainings
from ncp_control.scale.sweep import PACKAGES, RESULTS, Sweep, result_path
from ncp_control.scale.table import COLUMNS, LOWER_IS_BETTER

TRIALS, TABLE = "trials.json", "table.txt"
UNPRUNED = 5  # trials that end by themselves before others may be ended early


@dataclass
class Trial:
    """One trial.

    :param number: the trials are numbered from 0
    :param values: the chosen values, as words
    :param state: "running", "finished", "ended early" or "failed"
    :param value: its result: the best return, or the validation error; of a trial that was ended early, its last one
    :param reason: why it failed
    """

    number: int
    values: dict[str, Any]
    state: str = "running"
    value: float | None = None
    reason: str = ""


class Search:
    """A search in a folder.

    :param what: one subject, one seed, and the values that all trials share
    :param ranges: what the search chooses from, by key
    :param trials: the number of trials
    :param out: a folder for this search alone
    :param place: where trials run
    """

    def __init__(self, what: Sweep, ranges: dict[str, SearchRange], trials: int, out: Path, place: JobPlace) -> None:
        if len(what.subjects) != 1 or len(what.seeds) != 1 or any(len(own) > 1 for own in what.values.values()):
            raise ValueError("a search has one subject, one seed, and one value for each key of --set")
        if trials < 1:
            raise ValueError(f"a search needs at least one trial, got {trials}")
        if both := sorted(ranges.keys() & what.values.keys()):
            raise ValueError(f"{both[0]} has a range and a value in --set: choose one of them")
        self.what, self.ranges, self.count, self.out, self.place = what, ranges, trials, out, place
        self.subject = what.subjects[0]
        self.trials: list[Trial] = []
        self.runs: dict[str, Trial] = {}
        self.asked: dict[int, Any] = {}
        self.study = self._study()

    def _study(self) -> Any:
        try:
            import optuna
        except ModuleNotFoundError:
            raise ModuleNotFoundError(f"this needs optuna, which is missing: {FIX}", name="optuna") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        return optuna.create_study(
            direction="minimize" if self.what.kind in LOWER_IS_BETTER else "maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=UNPRUNED),
        )

    def recall(self) -> None:
        """Reads the trials of the folder; those that had not ended continue."""
        import optuna

        if not (self.out / TRIALS).exists():
            return
        states = optuna.trial.TrialState
        for kept in read_record(self.out / TRIALS)["trials"]:
            trial = Trial(**kept)
            if trial.state == "failed":
                trial = Trial(trial.number, trial.values)
            self.trials.append(trial)
            if trial.state == "running":
                continue
            ended = states.COMPLETE if trial.state == "finished" else states.PRUNED
            points = dict(enumerate(self._evaluations(trial)))
            distributions = {key: own.distribution() for key, own in self.ranges.items()}
            known = optuna.trial.create_trial(
                state=ended, value=trial.value, params=trial.values, distributions=distributions,
                intermediate_values=points,
            )  # fmt: skip
            self.study.add_trial(known)

    def jobs(self) -> Iterator[Job]:
        """Yields the trials that have not ended, and then new ones, each as a job."""
        left = [trial for trial in self.trials if trial.state == "running"]
        for trial in left:
            self.study.enqueue_trial(trial.values)
            yield self._begin(trial)
        while len(self.trials) < self.count:
            yield self._begin(None)

    def _begin(self, trial: Trial | None) -> Job:
        from optuna.samplers import TPESampler

        # Every trial has its own seed: a resumed search would otherwise draw again what it drew at its beginning.
        seed = seed_of(self.what.seeds[0], len(self.trials) if trial is None else trial.number)
        self.study.sampler = TPESampler(seed=seed, constant_liar=getattr(self.place, "count", 0) != 1)
        asked = self.study.ask({key: own.distribution() for key, own in self.ranges.items()})
        if trial is None:
            trial = Trial(len(self.trials), dict(asked.params))
            self.trials.append(trial)
        self.asked[trial.number] = asked
        self.write()
        run = self.run_of(trial)
        self.runs[run.name] = trial
        return job_of(self.what.kind, run, self.what.options)

    def run_of(self, trial: Trial) -> PlannedRun:
        """Returns a trial as a run, whose folder has the trial's number."""
        given = {key: own[0] for key, own in self.what.values.items()}
        chosen = {
            key: f"{value:.6g}" if isinstance(value, float) else str(value) for key, value in trial.values.items()
        }
        common = tuple({**given, **chosen}.items())
        return PlannedRun(Setting(self.subject, (), common), self.what.seeds[0], trial.number)

    def _evaluations(self, trial: Trial) -> list[float]:
        return [row[AXES[self.what.kind][1]] for row in read_curve(self.out / self.run_of(trial).folder)]

    def look(self, name: str) -> bool:
        """Tells Optuna of a trial's new evaluations; returns whether the trial should end early."""
        trial = self.runs[name]
        asked = self.asked[trial.number]
        known = len(asked.storage.get_trial(asked._trial_id).intermediate_values)
        for step, value in list(enumerate(self._evaluations(trial)))[known:]:
            asked.report(value, step)
            trial.value = value
            if asked.should_prune():
                return True
        return False

    def end(self, name: str, state: str, value: float | None = None, reason: str = "") -> None:
        """Keeps how a trial ended."""
        import optuna

        trial = self.runs[name]
        states = optuna.trial.TrialState
        trial.state, trial.reason = state, reason
        trial.value = trial.value if value is None else value
        kinds = {"finished": states.COMPLETE, "ended early": states.PRUNED, "failed": states.FAIL}
        self.study.tell(self.asked[trial.number], trial.value if state == "finished" else None, kinds[state])
        self.write()

    def write(self) -> None:
        """Writes the trials and their table."""
        kept = {"trials": [asdict(trial) for trial in self.trials]}
        write_atomically(self.out / TRIALS, json.dumps(kept, indent=2).encode())
        write_atomically(self.out / TABLE, (trials_text(self.what.kind, self.trials) + "\n").encode())

    def best(self) -> Trial | None:
        """Returns the best of the finished trials."""
        ended = [trial for trial in self.trials if trial.state == "finished" and trial.value is not None]
        choose = min if self.what.kind in LOWER_IS_BETTER else max
        return choose(ended, key=lambda trial: trial.value or 0.0) if ended else None


def search(
    what: Sweep,
    ranges: dict[str, SearchRange],
    trials: int,
    out: str | Path,
    place: JobPlace | None = None,
    *,
    resume: bool = False,
    command: str = "",
    progress: bool = True,
) -> Search:
    """Searches for the values with the best result, in a folder from which the search can be resumed.

    A trial ends early where its evaluations are worse than the median of the others' at the same number of evaluations.

    :param what: one subject, one seed, and the values that all trials share
    :param ranges: what the search chooses from, by key
    :param trials: the number of trials
    :param out: a folder for this search alone
    :param place: where trials run; by default in processes of this machine, one for each core
    :param resume: go on with the search in `out`, or begin it if the folder holds none
    :param command: kept in the record
    :param progress: show a progress bar on stderr
    """
    out, place = Path(out).absolute(), place or Processes()
    whole = Search(what, ranges, trials, out, place)
    if what.kind == "train":
        given = tuple((key, own[0]) for key, own in what.values.items())
        least = tuple((key, own.least) for key, own in ranges.items())
        check_trainings([Setting(what.subjects[0], (), (*given, *least))], what.options)
    about = what.about() | {"ranges": {key: asdict(own) for key, own in ranges.items()}}
    run = Run(out, resume=resume, command=command, progress=progress)
    with run.open({"search": about}, PACKAGES, results=(TRIALS,)):
        for folder in (RUNS, LOGS, RESULTS):
            (out / folder).mkdir(exist_ok=True)
        (whole.subject,) = what.bring(out)
        whole.recall()
        over = sum(trial.state != "running" for trial in whole.trials)
        with run.doing("trials", trials, over), closing(place.run(whole.jobs(), out)) as events:
            for event in events:
                if event.kind == "progress":
                    if whole.look(event.job):
                        place.cancel(event.job)
                        whole.end(event.job, "ended early")
                elif event.kind == "done":
                    name, _ = COLUMNS[what.kind][0]
                    planned = whole.run_of(whole.runs[event.job])
                    write_atomically(result_path(out, planned), json.dumps(event.value, indent=2).encode())
                    whole.end(event.job, "finished", float(event.value[name]))
                else:
                    whole.end(event.job, "failed", reason=str(event.value) or type(event.value).__name__)
                trial = whole.runs[event.job]
                if trial.state != "running":
                    run.tracker.advance(1)
                    if progress:
                        say(told_of(trial))
        whole.write()
    return whole


def told_of(trial: Trial) -> str:
    """Writes a trial as a line of text."""
    values = " ".join(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                      for key, value in trial.values.items())  # fmt: skip
    result = "" if trial.value is None else f" {trial.value:.4g}"
    return f"trial {trial.number}: {trial.state}{result}  {values}" + (f"  ({trial.reason})" if trial.reason else "")


def trials_text(kind: str, trials: list[Trial]) -> str:
    """Writes the trials as text, the best first."""
    sign = 1 if kind in LOWER_IS_BETTER else -1
    order = {"finished": 0, "running": 1, "ended early": 2, "failed": 3}
    ordered = sorted(trials, key=lambda trial: (order[trial.state], sign * (trial.value or 0.0)))
    return "\n".join(map(told_of, ordered))
