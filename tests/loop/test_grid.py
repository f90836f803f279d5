"""An agent in one disturbance after another: the returns are those of plain evaluations, in a table and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO, SAC

from ncp_control.cli import main
from ncp_control.cli.evaluate_grid import LEVELS
from ncp_control.cli.trained_in import DISTURBANCES, disturbances
from ncp_control.loop.grid import Disturbed, disturbed, grid_section
from ncp_control.rl import evaluate, load_policy, save_policy
from ncp_control.rl.evaluation import EpisodeReturns
from ncp_control.rl.recipes.env_making import make_env

ENV, SHORT = "HalfCheetah-v5", {"max_episode_steps": 30}


def saved(path: Path, env: str = ENV, wrappers: Any = (), arguments: Any = None) -> Path:
    made = make_env(env, wrappers, arguments)
    model = PPO("MlpPolicy", made, seed=0, device="cpu")
    save_policy(model, path, {"env": env, "env_wrapper": list(wrappers), "env_kwargs": arguments or {}})
    return path


def told(words: list[Any], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["evaluate", *map(str, words), "--grid", "--episodes", "2", "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["agents"]
    return found


def test_each_row_is_an_evaluation_with_the_wrapper_of_its_disturbance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path / "agent.safetensors", arguments=SHORT)
    (agent,) = told([path], capsys)
    cases = [{}, *({name: level} for name, levels in LEVELS.items() for level in levels)]
    assert len(agent["rows"]) == len(cases)
    for row, levels in zip(agent["rows"], cases, strict=True):
        wrappers = disturbances(**levels)
        wanted = evaluate(load_policy(path), lambda wrappers=wrappers: make_env(ENV, wrappers, SHORT), 2).returns
        assert row["mean_return"] == np.mean(wanted), row["disturbance"]
        assert len(wrappers) == len(levels)
    assert len({row["mean_return"] for row in agent["rows"]}) == len(cases), "each disturbance changes something"


def test_the_trainings_own_disturbances_are_left_out_and_what_the_agent_is_told_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrappers = [
        "RandomActionOverwrite",
        {"ActionChangeCost": {"weight": 0.1}},
        {"ChangedBody": {"mass": [0.5, 2.0], "told": True}},
        {"ActionDelay": {"steps": [0, 1], "told": True}},
        "PreviousAction",
        {"ObservationNoise": {"std": 0.3, "clean": True}},
    ]
    path = saved(tmp_path / "agent.safetensors", wrappers=wrappers, arguments=SHORT)
    (agent,) = told([path, "--levels", "noise=0.1", "mass=2", "delay=1"], capsys)
    calm: list[Any] = [{"ChangedBody": {"told": True}}, {"ActionDelay": {"steps": 0, "told": True}}, "PreviousAction"]
    calm.append({"ObservationNoise": {"std": 0.0, "clean": True}})
    levels: list[dict[str, float]] = [{}, {"noise": 0.1}, {"mass": 2.0}, {"delay": 1}]
    for row, level in zip(agent["rows"], levels, strict=True):
        made = [*disturbances(**level), *calm]
        wanted = evaluate(load_policy(path), lambda made=made: make_env(ENV, made, SHORT), 2).returns
        assert row["mean_return"] == np.mean(wanted), row["disturbance"]


def test_several_agents_stand_in_one_table_and_one_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = saved(tmp_path / "one.safetensors", "Pendulum-v1")
    SAC("MlpPolicy", "Pendulum-v1", device="cpu").save(tmp_path / "other.zip")
    words = ["evaluate", tmp_path / "other.zip", "--algo", "SAC", "--grid", "--beside", one, "--env", "Pendulum-v1"]
    words += ["--episodes", "2", "--figures", tmp_path / "pictures"]
    assert main([*map(str, words)]) == 0
    out = capsys.readouterr().out
    assert "other.zip in Pendulum-v1, 2 episodes in each disturbance" in out
    assert out.count("33.3 % of the readings lost") == 2
    assert "mass" not in out
    drawn = (tmp_path / "pictures" / "grid.svg").read_text()
    assert drawn.startswith("<?xml")


def test_agents_of_one_name_stay_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / folder / "agent.safetensors" for folder in ("one", "other")]
    for path in paths:
        path.parent.mkdir()
        saved(path, "Pendulum-v1")
    assert main(["evaluate", str(paths[0]), "--grid", "--beside", str(paths[1]), "--episodes", "1"]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if "in Pendulum-v1" in line]
    assert [head.split(" in ")[0] for head in heads] == ["agent", str(paths[1])]


def test_disturbances_that_an_environment_cannot_have_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path / "agent.safetensors", "CartPole-v1")
    (agent,) = told([path], capsys)
    assert [row["disturbance"] for row in agent["rows"]][:3] == ["undisturbed", "5 % random actions", "noise of 0.03"]
    assert len(agent["rows"]) == 6
    assert main(["evaluate", str(path), "--grid", "--levels", "mass=2"]) == 2
    assert "ChangedBody needs an environment of a MuJoCo body, and got CartPoleEnv" in capsys.readouterr().err


def test_a_function_is_an_agent_too() -> None:
    makers = {"undisturbed": lambda: make_env("Pendulum-v1")}
    (row,) = disturbed(lambda seen: np.zeros((len(seen), 1), np.float32), makers, episodes=3)
    assert len(set(row.episodes.returns)) == 3
    assert row.share is None, "a share of a loss would mean nothing"


def test_the_table_has_the_numbers() -> None:
    rows = [
        Disturbed("undisturbed", EpisodeReturns([100.0, 300.0], [5, 5]), 1.0),
        Disturbed("noise of 0.1", EpisodeReturns([40.0, 60.0], [5, 5]), 0.25),
    ]
    section = grid_section(rows)
    assert section.rows == (("undisturbed", "200", "100", "100", "100 %"), ("noise of 0.1", "50", "10", "40", "25 %"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--grid", "--levels", "mas=1"], "--levels knows no disturbance 'mas': choose from random, noise"),
        (["--grid", "--levels", "mass=a"], "--levels takes numbers, such as mass=0.5,2, and got 'mass=a'"),
        (["--grid", "--noise", "0.1"], "--grid has disturbances of its own: leave out --noise"),
        (["--beside", "x.safetensors"], "--beside goes with --grid: add it"),
        (["--algo", "SAC"], "--algo goes with a .zip of Stable-Baselines3: leave it out"),
        (["--levels", "mass"], "--levels goes with --grid: add it"),
    ],
)
def test_odd_words_are_refused(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path / "agent.safetensors", "Pendulum-v1")
    assert main(["evaluate", str(path), *words]) == 2
    assert sentence in capsys.readouterr().err


def test_every_disturbance_has_words() -> None:
    assert set(LEVELS) == set(DISTURBANCES) - {"cost"}, "which is a matter of the training alone"
    assert DISTURBANCES["delay"].written(1) == "actions 1 step late"
    assert DISTURBANCES["mass"].written(2, 0.5) == "0.5 to 2 times the mass"
