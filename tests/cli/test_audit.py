"""`ncp-control audit`: the certificate of an agent, printed, as files, and beside another one."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3")

from helpers.recordings import make_recording, write_recording
from ncp_control import AutoNCP
from ncp_control.audit import audit, examining
from ncp_control.audit.attack import ATTACK
from ncp_control.audit.recorded import RecordedPath
from ncp_control.base.intervals import Interval
from ncp_control.cli import main
from ncp_control.rl import Controller, RecurrentPPO, load_policy, save_policy
from ncp_control.rl.monitor import OBSERVATION, Monitor
from ncp_control.wiring import FullyConnected

ENV = "ncp/PendulumNoVel-v0"
FAST = ("--box", "2", "--attack", "0")


def made(path: Path, seed: int, note: dict[str, object]) -> Path:
    kwargs = dict(wiring=AutoNCP(12, 4, seed=seed), cell="ltc")
    settings = {"n_steps": 32, "batch_size": 32, "seed": seed, "device": "cpu"}
    model = RecurrentPPO("NCPPolicy", f"ncp_envs:{ENV}", policy_kwargs=kwargs, **settings)
    save_policy(model, path, note)
    return path


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("agent") / "pendulum.safetensors", 0, {"env": ENV})


@pytest.fixture(scope="module")
def nameless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("agent") / "nameless.safetensors", 1, {"env": "no/SuchTask-v0"})


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["audit", *words]) == code
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["audit", *words]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert len(found.err.strip().splitlines()) == 1
    return found.err.strip()


def test_it_prints_a_screen_with_the_names_of_the_environment(
    capsys: pytest.CaptureFixture[str], agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    text = printed(capsys, str(agent), *FAST)
    lines = text.splitlines()
    assert lines[0].startswith("agent         pendulum (SHA-256 ")
    assert "LTC" in text
    assert "cosine of the angle" in text
    assert "sensor's own unit" in text
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 110


def test_without_its_environment_sensors_and_actions_are_numbered(
    capsys: pytest.CaptureFixture[str], nameless: Path
) -> None:
    text = printed(capsys, str(nameless), *FAST)
    assert "\naction0 " in text
    assert "observation0" in text or "all 2 sensors" in text
    assert "SuchTask" not in text


def test_a_file_cannot_have_a_module_imported_for_its_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "guileless.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    path = made(tmp_path / "policy.safetensors", 0, {"env": f"guileless:{ENV}"})
    assert "\naction0 " in printed(capsys, str(path), *FAST)
    assert not (tmp_path / "ran").exists()


def test_json_is_the_certificate(capsys: pytest.CaptureFixture[str], agent: Path) -> None:
    words = (
        "--box",
        "2",
        "--elapsed",
        "0.5",
        "2",
        "--error",
        "0.05",
        "--epsilon",
        "0.1",
        "--json",
        "--attack",
        "0",
    )
    found = json.loads(printed(capsys, str(agent), *words).splitlines()[-1])
    assert found["agent"] == "pendulum"
    assert found["sha256"] == load_policy(agent).sha256
    assert (found["elapsed"], found["error"], found["epsilon"]) == ([0.5, 2.0], 0.05, 0.1)
    assert len(found["neurons"]) == 12
    assert found["attack"] is None


def test_an_attack_is_on_unless_it_is_switched_off(capsys: pytest.CaptureFixture[str], agent: Path) -> None:
    assert main(["audit", str(agent), "--deviations", "2", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "--deviations is now --box; the old name will go with 0.3\n" in err
    found = json.loads(out.splitlines()[-1])
    assert found["box"] == "at most 2 in every sensor's own unit"
    assert found["attack"]["inputs"] >= ATTACK
    assert found["attack"]["longest"] >= 10_000
    assert found["attack"]["violations"] == []
    assert "None: --attack N searches for observations" in printed(capsys, str(agent), *FAST)


def test_an_attack_that_breaks_nothing_is_told(capsys: pytest.CaptureFixture[str], agent: Path) -> None:
    text = printed(capsys, str(agent), *FAST, "--attack", "2000", "--seed", "3")
    assert "It broke no claim" in text
    assert "attack reached" in text


def test_a_broken_claim_is_said_first_and_makes_the_exit_code_1(
    capsys: pytest.CaptureFixture[str], agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = examining.reachable

    def too_narrow(*arguments: object) -> Interval:
        found = real(*arguments)  # type: ignore[arg-type]
        return Interval(1e-3 * found.low, 1e-3 * found.high)

    monkeypatch.setattr(examining, "reachable", too_narrow)
    text = printed(capsys, str(agent), *FAST, "--attack", "2000", code=1)
    assert text.startswith("BROKEN")
    assert "this certificate is wrong: the state of inter0 was certified to lie from" in " ".join(text.split())
    assert main(["audit", str(agent), *FAST, "--attack", "2000", "--json"]) == 1
    found = capsys.readouterr()
    assert json.loads(found.out.splitlines()[-1])["attack"]["violations"]
    assert "pendulum: an attack broke a claim: " in found.err


def test_two_agents_stand_beside_each_other(capsys: pytest.CaptureFixture[str], agent: Path, nameless: Path) -> None:
    text = printed(capsys, str(agent), str(nameless), *FAST)
    assert text.splitlines()[0].split() == ["1:", "pendulum", "2:", "nameless"]
    assert "forgets after" in text
    found = json.loads(printed(capsys, str(agent), str(nameless), *FAST, "--json").splitlines()[-1])
    assert [one["agent"] for one in found["certificates"]] == ["pendulum", "nameless"]


def test_the_files_are_written(capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page, table, ranges = tmp_path / "page.html", tmp_path / "table.md", tmp_path / "monitor.json"
    words = ("--html", str(page), "--markdown", str(table), "--monitor", str(ranges))
    text = printed(capsys, str(agent), *FAST, *words)
    assert text.splitlines()[-3:] == [f"page: {page}", f"tables: {table}", f"monitor: {ranges}"]
    assert "Certificate of pendulum" in page.read_text(encoding="utf-8")
    assert table.read_text(encoding="utf-8").startswith("# Certificate of pendulum")
    both = printed(capsys, str(agent), str(agent), *FAST, "--markdown", str(table))
    assert "2: pendulum" in both
    assert table.read_text(encoding="utf-8").startswith("# pendulum beside pendulum")


def test_the_monitor_raises_a_flag_outside_of_the_box_alone(
    capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path
) -> None:
    ranges = tmp_path / "monitor.json"
    printed(capsys, str(agent), "--box", "0.5", "--monitor", str(ranges), "--attack", "0")
    controller = Controller(load_policy(agent), "reference", Monitor.from_json(ranges.read_text(encoding="utf-8")))
    state = controller.initial_state(2)
    _, _, flags = controller(torch.tensor([[0.4, -0.4], [0.4, 0.6]]), state)
    assert flags.tolist() == [0, OBSERVATION]


def test_the_box_of_a_recording_is_its_range_and_a_tenth(
    capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path
) -> None:
    episode = tmp_path / "episode.npz"
    assert main(["record", str(agent), "--steps", "30", "--out", str(episode)]) == 0
    with np.load(episode) as file:
        seen = file["observations"].astype(np.float64)
    capsys.readouterr()
    text = printed(capsys, str(agent), "--within", str(episode), "--attack", "0")
    assert "30 recorded observations, widened by a tenth, of episode.npz" in " ".join(text.split())
    assert "on recording" in text
    found = json.loads(
        printed(capsys, str(agent), "--within", str(episode), "--json", "--attack", "0").splitlines()[-1]
    )
    low, high = seen.min(axis=0), seen.max(axis=0)
    np.testing.assert_allclose([one["low"] for one in found["observations"]], low - 0.1 * (high - low), rtol=1e-6)
    np.testing.assert_allclose([one["high"] for one in found["observations"]], high + 0.1 * (high - low), rtol=1e-6)
    assert all(one["moved_on_path"] is not None for one in found["actions"])


def test_each_episode_of_a_recording_and_its_times_count(
    capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path
) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    times = np.where(np.arange(40) % 3, 0.5, 2.0).astype(np.float32)
    made = make_recording(FullyConnected(4, 1).build(2), 40, starts=(0, 25), observations=rows, elapsed=times)
    episode = write_recording(made, tmp_path / "two.npz")
    words = (str(agent), "--within", str(episode), "--elapsed", "0.5", "2", "--json", "--attack", "0")
    found = json.loads(printed(capsys, *words).splitlines()[-1])
    recording = RecordedPath(rows.astype(np.float64), times.astype(np.float64), np.arange(40) == 25)
    wanted = audit(
        load_policy(agent),
        box=recording.observations,
        elapsed=(0.5, 2.0),
        recording=recording,
        attack=0,
        progress=False,
    )
    assert found["actions"][0]["moved_on_path"] == wanted.actions[0].moved_on_path
    assert "from 0.5 to 2, and the audit is of times from 1 to 1" in refused(
        capsys, str(agent), "--within", str(episode), "--attack", "0"
    )


@pytest.mark.parametrize("change", [("--silence", "inter0"), ("--clamp", "inter0=0.5")])
def test_a_recording_of_a_changed_circuit_is_refused(
    change: tuple[str, str], capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path
) -> None:
    episode = tmp_path / "changed.npz"
    assert main(["record", str(agent), "--steps", "3", "--out", str(episode), *change]) == 0
    capsys.readouterr()
    assert "with inter0=" in refused(capsys, str(agent), "--within", str(episode))


def test_bad_arguments_are_refused_in_one_sentence(
    capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path
) -> None:
    other = write_recording(make_recording(FullyConnected(4, 1).build(3)), tmp_path / "other.npz")
    start = str(agent)
    assert "holds 3 observations a step, and pendulum reads 2" in refused(capsys, start, "--within", str(other))
    assert "give one of the two" in refused(capsys, start, "--within", str(other), "--box", "2")
    assert "no recorded rollout" in refused(capsys, start, "--within", str(tmp_path / "none.npz"))
    assert "takes two numbers" in refused(capsys, start, "--elapsed", "0.5")
    assert "takes a number, not 'long'" in refused(capsys, start, "--elapsed", "0.5", "long")
    assert "0 <= shortest <= longest" in refused(capsys, start, "--elapsed", "2", "0.5")
    assert "wider than zero" in refused(capsys, start, "--box", "0")
    assert "above 0" in refused(capsys, start, "--error", "0")
    assert "epsilon" in refused(capsys, start, "--epsilon", "1.5")
    assert "attack" in refused(capsys, start, "--attack", "-1")
    assert "shows one agent" in refused(capsys, start, start, "--html", str(tmp_path / "page.html"))
    assert "need different files" in refused(
        capsys, start, "--html", str(tmp_path / "a"), "--markdown", str(tmp_path / "a")
    )
    assert "is a folder: name a file" in refused(capsys, start, "--monitor", str(tmp_path))
    assert "no checkpoint" in refused(capsys, str(tmp_path / "none.safetensors"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.npz"]


@pytest.mark.parametrize("option", ["--html", "--markdown", "--monitor"])
def test_a_missing_folder_is_refused_before_the_work(
    option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = str(tmp_path / "none.safetensors")  # would be refused, too, if it were looked for first
    assert "does not exist: create it first" in refused(capsys, missing, option, str(tmp_path / "no" / "file"))


def test_a_recording_with_a_nan_is_refused(capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path) -> None:
    seen = np.zeros((10, 2))
    seen[3, 1] = np.nan
    path = write_recording(make_recording(FullyConnected(4, 1).build(2), 10, observations=seen), tmp_path / "e.npz")
    assert "not finite" in refused(capsys, str(agent), "--within", str(path))


@pytest.mark.parametrize("option", ["--html", "--markdown", "--monitor"])
def test_a_file_that_is_read_is_not_written_over(capsys: pytest.CaptureFixture[str], agent: Path, option: str) -> None:
    before = agent.read_bytes()
    assert f"{option} would overwrite {agent}, which is read" in refused(capsys, str(agent), option, str(agent))
    assert agent.read_bytes() == before
