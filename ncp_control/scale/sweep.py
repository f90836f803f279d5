"""Many runs of one kind, in one folder: recipes, teachers or rollouts, times settings, times seeds."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncp_control.base.files import write_atomically
from ncp_control.base.processes import INPUTS, JobPlace, Processes
from ncp_control.base.progress import say
from ncp_control.data.table_rollouts import bring_data, parted
from ncp_control.runs.folder import read_record
from ncp_control.runs.run import Run
from ncp_control.scale.curves import draw_curves
from ncp_control.scale.plan import KINDS, RUNS, PlannedRun, Setting, job_of, runs_of, settings_of, words_of
from ncp_control.scale.recipes import bring_recipe, check_trainings
from ncp_control.scale.table import COLUMNS, SettingRow, table_csv, table_text

RESULTS = "results"
TABLE, TABLE_CSV, FIGURE = "table.txt", "table.csv", "curves.png"
WHOLE = 1000  # parts of a run that are counted
PACKAGES = ("ncp-control", "torch", "stable-baselines3", "gymnasium", "mujoco", "numpy", "ray")


@dataclass(frozen=True)
class Sweep:
    """Which runs there are.

    :param subjects: recipes for "train", teachers for "distil", rollouts for "fit"
    :param seeds: every setting runs from each
    :param values: several values by key; the runs have all their combinations
    :param kind: the command: "train", "distil" or "fit"
    :param options: further words of the command for every run, such as ("--steps", "20000")
    """

    subjects: Sequence[str]
    seeds: Sequence[int] = (0,)
    values: dict[str, list[str]] = field(default_factory=dict)
    kind: str = "train"
    options: Sequence[str] = ()

    def about(self) -> dict[str, Any]:
        """Describes the runs in JSON values."""
        return {
            "subjects": list(self.subjects), "seeds": list(self.seeds), "values": self.values, "kind": self.kind,
            "options": list(self.options),
        }  # fmt: skip

    def bring(self, out: Path) -> list[str]:
        """Makes the subjects known in the folder of the runs, and returns them as the runs name them."""
        brought = bring_recipe if self.kind == "train" else bring_data
        return [brought(subject, out) for subject in self.subjects]


@dataclass
class Swept:
    """What a sweep found.

    :param out: its folder
    :param rows: a row for every setting
    :param failed: the runs that failed, with the reasons
    """

    out: Path
    rows: list[SettingRow]
    failed: dict[str, str]


def sweep(
    what: Sweep,
    out: str | Path,
    place: JobPlace | None = None,
    *,
    resume: bool = False,
    command: str = "",
    progress: bool = True,
) -> Swept:
    """Runs a sweep, each run in a folder of its own under `out/runs`.

    A sweep that was stopped at any moment and then resumed ends with the same table: finished runs are kept, and the
    others continue from their checkpoints. Runs that fail do not stop the others, and are run again by a resumption.

    :param what: the runs
    :param out: a folder for this sweep alone
    :param place: where the runs are computed; by default in processes of this machine, one for each core
    :param resume: go on with the sweep in `out`, or begin it if the folder holds none
    :param command: kept in the record
    :param progress: show a progress bar on stderr
    """
    out, place = Path(out).absolute(), place or Processes()
    check_sweep(what)
    run = Run(out, resume=resume, command=command, progress=progress)
    with run.open({"sweep": what.about()}, PACKAGES, results=(RUNS, RESULTS)):
        if not (out / RUNS).exists():
            shutil.rmtree(out / INPUTS, ignore_errors=True)  # of a sweep that was begun here and did nothing
        settings = settings_of(what.bring(out), what.values)
        runs = runs_of(settings, what.seeds)
        failed = run_all(what, runs, run, place)
        rows = write_table(what.kind, settings, what.seeds, out)
        draw_curves(what.kind, settings, what.seeds, out, out / FIGURE)
    return Swept(out, rows, failed)


def check_sweep(what: Sweep) -> None:
    """Raises an error if a run could not begin; called before a folder is made."""
    if what.kind not in KINDS:
        raise ValueError(f"a sweep cannot run {what.kind!r}: choose one of {', '.join(KINDS)}")
    if not what.subjects:
        raise ValueError("a sweep needs at least one recipe, teacher or dataset")
    settings = settings_of(what.subjects, what.values)
    runs_of(settings, what.seeds)
    if what.kind == "train":
        check_trainings(settings, what.options)
        return
    for subject in what.subjects:
        path, _ = parted(subject)
        if path.startswith((".", "/")) and not Path(path).exists():
            raise FileNotFoundError(f"there is no file and no folder {path}")


def run_all(what: Sweep, planned: Sequence[PlannedRun], run: Run, place: JobPlace) -> dict[str, str]:
    """Runs what has no result yet, and returns which runs failed, with the reasons."""
    out = run.folder
    missing = [member for member in planned if not result_path(out, member).exists()]
    failed: dict[str, str] = {}
    shares = dict.fromkeys((member.name for member in missing), 0)
    by_name = {member.name: member for member in missing}
    settings = list(dict.fromkeys(member.setting for member in planned))
    parts, done = len(planned) * WHOLE, (len(planned) - len(missing)) * WHOLE
    jobs = [job_of(what.kind, member, what.options) for member in missing]
    with run.doing(f"percent of {len(planned)} runs", 100, 100 * done // parts):
        if not jobs:
            return failed
        with closing(place.run(jobs, out)) as events:
            for event in events:
                member, share = by_name[event.job], shares[event.job]
                if event.kind == "progress":
                    total = max(event.progress[1], 1)
                    share = max(share, min(WHOLE * event.progress[0] // total, WHOLE - 1))
                else:
                    share = WHOLE
                    note = conclude(event.kind, event.value, what.kind, member, out, failed)
                    write_table(what.kind, settings, what.seeds, out)
                    if run.progress:
                        say(f"{member.name}: {note}")
                if event.note and run.progress:
                    say(f"{member.name}: {event.note}")
                done += share - shares[event.job]
                shares[event.job] = share
                run.tracker.advance(100 * done // parts - run.tracker.done)
    return failed


def conclude(kind: str, value: Any, command: str, run: PlannedRun, out: Path, failed: dict[str, str]) -> str:
    """Keeps the result of a run that ended, or why it failed; returns it in words."""
    if kind == "done":
        (out / RESULTS).mkdir(exist_ok=True)
        write_atomically(result_path(out, run), json.dumps(value, indent=2).encode())
        name, _ = COLUMNS[command][0]
        return f"{name.replace('_', ' ')} {value[name]:.4g}"
    failed[run.name] = f"{value}" or type(value).__name__
    return f"failed: {failed[run.name]}"


def result_path(out: Path, run: PlannedRun) -> Path:
    """Returns the path of the result of a finished run."""
    return out / RESULTS / f"{run.name}.json"


def write_table(kind: str, settings: Sequence[Setting], seeds: Sequence[int], out: Path) -> list[SettingRow]:
    """Writes the table of what is finished, and returns its rows."""
    rows = []
    for setting in settings:
        paths = [result_path(out, PlannedRun(setting, seed)) for seed in seeds]
        rows.append(SettingRow(setting.label, len(seeds), [read_record(path) for path in paths if path.exists()]))
    write_atomically(out / TABLE, (table_text(kind, rows) + "\n").encode())
    write_atomically(out / TABLE_CSV, table_csv(kind, rows).encode())
    return rows


def commands_of(what: Sweep, out: Path = Path()) -> list[str]:
    """Returns the commands that the runs are, as one would type them.

    :param out: the sweep's folder
    """
    found = []
    for run in runs_of(settings_of(what.subjects, what.values), what.seeds):
        words = words_of(what.kind, run, what.options)
        words[words.index(run.folder)] = str(out / run.folder)
        found.append(shlex.join(["ncp-control", *words]))
    return found
