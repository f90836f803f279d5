"""Circuits in rl_zoo3, against the real package: `python scripts/clients.py rl_zoo3`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ncp_control as nc

pytestmark = pytest.mark.clients
pytest.importorskip("rl_zoo3")

ENV = "ncp/PendulumNoVel-v0"
RUN = Path("logs", "ncp_ppo", "ncp-PendulumNoVel-v0_1")


def zoo(words: str, folder: Path, code: int = 0) -> str:
    """What a program of rl_zoo3 prints."""
    command = [sys.executable, "-m", "ncp_control.integrations.rl_zoo3", *words.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo")
    zoo(f"train --algo ncp_ppo --env {ENV} -n 4096 --eval-freq 2048 --seed 1", folder)
    return folder


def test_the_settings_are_those_of_train(trained: Path) -> None:
    text = (trained / RUN / "ncp-PendulumNoVel-v0" / "config.yml").read_text(encoding="utf-8")
    assert "AutoNCP(32, 8)" in text
    assert "lin_3e-3" in text
    assert (trained / RUN / "best_model.zip").is_file()


def test_enjoy_shows_it(trained: Path) -> None:
    printed = zoo(f"enjoy --algo ncp_ppo --env {ENV} -f logs --no-render -n 400", trained)
    assert "2 Episodes" in printed


def test_it_becomes_a_policy_file(trained: Path) -> None:
    from ncp_control.cli import main

    model, statistics = trained / RUN / "ncp-PendulumNoVel-v0.zip", trained / RUN / "ncp-PendulumNoVel-v0"
    words = f"--algo RecurrentPPO --env {ENV} --normalize {statistics / 'vecnormalize.pkl'} --out"
    assert main(["convert", str(model), *words.split(), str(trained / "agent.safetensors")]) == 0
    assert nc.load(trained / "agent.safetensors").note["env"] == ENV


def test_a_file_of_settings_comes_first(tmp_path: Path) -> None:
    own = "{n_timesteps: 64, n_steps: 32, batch_size: 32, n_envs: 2, policy: NCPPolicy, policy_kwargs: {wiring: 6}}"
    (tmp_path / "own.yml").write_text(f"CartPole-v1: {own}\n")
    printed = zoo("train --algo ncp_ppo --env CartPole-v1 --conf-file own.yml --eval-freq -1", tmp_path)
    assert "Using 2 environments" in printed


def test_the_search_draws_circuits_and_reads_them_again(tmp_path: Path) -> None:
    words = f"train --algo ncp_ppo --env {ENV} -n 2048 --seed 1 -f search"
    search = "-optimize --n-trials 2 --n-startup-trials 1 --n-evaluations 1 --no-optim-plots --eval-episodes 1"
    printed = zoo(f"{words} {search} --study-name one --storage study.log", tmp_path)
    assert "Number of finished trials:  2" in printed
    assert "neurons:" in printed
    assert list((tmp_path / "search" / "ncp_ppo").glob("report_*.csv"))
    printed = zoo(f"{words} --study-name one --storage study.log --trial-id 1 --eval-freq -1", tmp_path)
    assert "Loading from Optuna study..." in printed


def test_a_program_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert zoo("trian --algo ncp_ppo", tmp_path, code=2).startswith("usage: python -m ncp_control.integrations.rl_zoo3")
    assert zoo("", tmp_path, code=2).startswith("usage: ")
