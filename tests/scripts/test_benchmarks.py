"""The benchmarks time what they say: on the device that was asked for, and no compiler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def test_the_figure_of_a_gpu_is_timed_on_it(
    import_script: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan, devices = import_script("benchmark_scan"), []

    def run_of(network: object, work: object, device: str = "cpu") -> None:
        devices.append(device)

    def medians(runs: dict[str, object], repeats: int, threads: object = None, device: str = "cpu") -> dict[str, float]:
        devices.append(device)
        return dict.fromkeys(runs, 1.0)

    monkeypatch.setattr(scan, "run_of", run_of)
    monkeypatch.setattr(scan, "medians", medians)
    found = scan.growth(1, "cuda")
    assert set(devices) == {"cuda"}
    scan.draw(found, tmp_path / "growth.png", "a GPU")
    assert (tmp_path / "growth.png").stat().st_size


def test_the_first_epoch_of_a_fit_is_not_timed(
    import_script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = import_script("benchmark_fit")
    seconds = iter([99.0, 99.0, 1.0, 2.0])
    monkeypatch.setattr(fit, "epoch", lambda *given: next(seconds))
    fit.main(fit.Arguments(repeats=1))
    assert "here 1.00 s an epoch, ncps 2.00 s: 2.0 times faster" in capsys.readouterr().out


MISSING = [
    ("benchmark_scan", "ncps", ["--quick"], "pip install ncps"),
    ("benchmark_scan", "matplotlib", ["--figure", "it.png"], 'pip install "ncp-control[plot]"'),
    ("benchmark_fit", "ncps", [], "pip install ncps"),
    ("benchmark_cluster", "ray", [], 'pip install "ncp-control[scale]"'),
    ("benchmark_laboratory", "selenium", [], "pip install selenium"),
    ("benchmark_page", "selenium", [], "pip install selenium"),
]


@pytest.mark.parametrize(("name", "package", "words", "fix"), MISSING)
def test_a_benchmark_says_what_is_not_installed(
    name: str, package: str, words: list[str], fix: str, tmp_path: Path
) -> None:
    code = (
        f"import runpy, sys; sys.modules[{package!r}] = None; sys.argv[1:] = {words}; "
        f"sys.path.insert(0, {str(ROOT / 'scripts')!r}); "
        f"runpy.run_path({str(ROOT / 'scripts' / name)!r} + '.py', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == f"this needs {package}, which is missing: {fix}\n"
    assert done.returncode == 1
