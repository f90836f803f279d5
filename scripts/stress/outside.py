"""Runs suites of other projects on this package's algorithms, and counts what passes.

Stable-Baselines3's and sb3-contrib's suites come with their source distributions. `stand_ins.py` puts the recurrent
algorithms in the place of PPO, A2C, SAC, TD3 and of sb3-contrib's RecurrentPPO, and says why some tests are skipped.
Some files also need pandas, opencv-python or tqdm, and fail with a line that says so where these are missing.

    python scripts/stress/outside.py                                     # downloads the installed versions' sources
    python scripts/stress/outside.py --sources FOLDER --only test_spaces.py
    PYTHONPATH=OTHER_TREE python scripts/stress/outside.py               # the same on another version of this package
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

# The files whose tests train, save, load, log or evaluate with an algorithm, fast ones first.
SUITES = {
    "sb3_contrib": ["test_lstm.py"],
    "stable_baselines3": [
        "test_spaces.py", "test_predict.py", "test_deterministic.py", "test_sde.py", "test_tensorboard.py",
        "test_callbacks.py", "test_logger.py", "test_vec_extract_dict_obs.py", "test_vec_stacked_obs.py",
        "test_vec_monitor.py", "test_vec_check_nan.py", "test_monitor.py", "test_gae.py", "test_run.py",
        "test_custom_policy.py", "test_vec_normalize.py", "test_dict_env.py", "test_save_load.py", "test_utils.py",
        "test_distributions.py", "test_train_eval_mode.py", "test_cnn.py", "test_identity.py", "test_buffers.py",
        "test_n_step_replay.py", "test_her.py", "test_envs.py", "test_env_checker.py", "test_vec_envs.py",
        "test_preprocessing.py",
    ],
}  # fmt: skip


def find_tests(project: str, sources: Path | None, scratch: Path) -> Path:
    """Returns the folder of a project's tests.

    :param project: the project's name
    :param sources: a folder with source distributions, packed or not; None downloads the installed version's
    :param scratch: where files may be unpacked
    """
    name = f"{project}-{version(project)}"
    if sources is not None and (sources / name / "tests").is_dir():
        return sources / name / "tests"
    folder = sources
    if folder is None:
        folder = scratch / "downloads"
        wanted = [f"{project}=={version(project)}", "--no-deps", "--no-binary", ":all:", "--dest", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *wanted], check=True)
    packed = folder / f"{name}.tar.gz"
    if not packed.is_file():
        raise SystemExit(f"{folder} has neither a folder {name} with tests nor a file {packed.name}")
    with tarfile.open(packed) as archive:
        archive.extractall(scratch, filter="data")
    return scratch / name / "tests"


def run_file(test: Path, work: Path) -> tuple[Counter[str], list[tuple[str, str]], float]:
    """Runs one file of tests with the stand-ins.

    :param test: the file
    :param work: an empty folder in which the tests may write
    :return: the counts, the failures with the first line of each, and the seconds
    """
    report = work / "report.xml"
    here = Path(__file__).resolve().parent
    paths = [str(here), os.environ.get("PYTHONPATH", ""), str(here.parents[1]), str(here.parents[1] / "envs")]
    shutil.copy(test, work / test.name)
    options = [
        "-p",
        "stand_ins",
        "-p",
        "no:cacheprovider",
        "-m",
        "not expensive and not slow",
        "-q",
        "--disable-warnings",
    ]
    command = [sys.executable, "-m", "pytest", *options, "-o", "junit_family=xunit1", f"--junitxml={report}", test.name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    ended = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    if not report.is_file():
        return Counter(broken=1), [(test.name, (ended.stdout + ended.stderr)[-2000:])], 0.0
    counts: Counter[str] = Counter()
    failures = []
    suite = ElementTree.parse(report).getroot()[0]
    for case in suite.iter("testcase"):
        kinds = {child.tag: child for child in case}
        problem = kinds.get("failure", kinds.get("error"))
        kind = "failed" if problem is not None else "skipped" if "skipped" in kinds else "passed"
        counts[kind] += 1
        if problem is not None:
            failures.append((f"{test.name}::{case.get('name')}", (problem.get("message") or "").split("\n")[0]))
    return counts, failures, float(suite.get("time", 0))


def main() -> None:
    """Runs the chosen files and prints a table of counts and every failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, help="a folder with the source distributions, packed or not")
    parser.add_argument("--only", nargs="*", default=[], help="only files of these names")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    every: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for project, names in SUITES.items():
            chosen = [name for name in names if not given.only or name in given.only]
            tests = find_tests(project, given.sources, Path(scratch)) if chosen else Path()
            for name in chosen:
                work = Path(tempfile.mkdtemp(dir=scratch))
                counts, failures, seconds = run_file(tests / name, work)
                shown = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
                print(f"{project:18s} {name:30s} {shown:45s} {seconds:7.1f} s", flush=True)
                for failed, line in failures:
                    print(f"    {failed}: {line[:300]}", flush=True)
                total += counts
                every += failures
    print(", ".join(f"{count} {kind}" for kind, count in sorted(total.items())))
    raise SystemExit(bool(every))


if __name__ == "__main__":
    main()
