"""`record`, `view` and `ablate`, and the page that follows a training."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

gym = pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

from helpers.oscillators import oscillators  # noqa: E402
from ncp_control import AutoNCP  # noqa: E402
from ncp_control.activity import Activity, LivePage  # noqa: E402
from ncp_control.cli import main  # noqa: E402
from ncp_control.data.sources import write_trace  # noqa: E402
from ncp_control.dynamics import DynamicsModel, save_model  # noqa: E402
from ncp_control.rl import RecurrentPPO, save_policy  # noqa: E402


def make() -> RecurrentPPO:
    kwargs = dict(wiring=AutoNCP(12, 4), cell="cfc")
    settings = {"n_steps": 32, "batch_size": 32, "seed": 0, "device": "cpu"}
    return RecurrentPPO("NCPPolicy", "ncp_envs:ncp/PendulumNoVel-v0", policy_kwargs=kwargs, **settings)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agent") / "pendulum.safetensors"
    save_policy(make(), path, {"env": "ncp/PendulumNoVel-v0", "steps": 0})
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 2
    found = capsys.readouterr().err.strip()
    assert len(found.splitlines()) == 1
    return found


def test_describe_an_agent_and_its_recording(capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path) -> None:
    assert main(["describe", str(agent)]) == 0
    text = capsys.readouterr().out
    assert "NCPPolicy" in text
    assert "its circuit: 2 inputs, 12 neurons, 4 outputs" in text
    assert "bounds hold" in text
    out = tmp_path / "episode.npz"
    assert main(["record", str(agent), "--steps", "30", "--out", str(out), "--seed", "3", "--json"]) == 0
    recorded = json.loads(capsys.readouterr().out)
    assert (recorded["steps"], recorded["episodes"], recorded["neurons"]) == (30, 1, 12)
    assert recorded["bytes"] == out.stat().st_size
    assert main(["describe", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["recording"]
    assert found["reward"] == recorded["reward"]
    assert found["wiring"]["units"] == 12
    assert found["about"]["seeds"] == [3]
    assert main(["describe", str(out)]) == 0
    assert "30 steps, 1 episode" in capsys.readouterr().out


def test_the_best_of_a_run_is_named_after_the_run(agent: Path, tmp_path: Path) -> None:
    best = tmp_path / "swing-up" / "best.safetensors"
    best.parent.mkdir()
    best.write_bytes(agent.read_bytes())
    assert main(["record", str(best), "--steps", "2", "--out", str(tmp_path / "episode.npz")]) == 0
    assert Activity.load(tmp_path / "episode.npz").about["controller"] == "swing-up"


def test_record_and_view(capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path) -> None:
    out = tmp_path / "episode.npz"
    assert main(["record", str(agent), "--steps", "30", "--out", str(out), "--random", "0.5", "--seed", "3"]) == 0
    text = capsys.readouterr().out
    assert "30 steps of 1 episode" in text
    found = Activity.load(out)
    assert found.about["seeds"] == [3]
    assert found.about["controller"] == "pendulum"
    assert found.about["note"]["steps"] == 0
    assert found.get("is_random") is not None
    assert main(["view", str(out)]) == 0
    assert out.with_suffix(".html").stat().st_size > 10_000
    pictures = tmp_path / "pictures"
    assert main(["view", str(out), "--figures", str(pictures), "--formats", "svg"]) == 0
    assert len(list(pictures.glob("*.svg"))) >= 4
    assert "figure:" in capsys.readouterr().out
    assert main(["view", str(out), "--figures", str(pictures), "--html", str(tmp_path / "page.html"), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["page"] == str(tmp_path / "page.html")
    assert sorted(written["figures"]) == sorted(map(str, pictures.glob("*.png")))


def test_describe_and_view_a_recording_of_a_cell_that_does_not_know_its_currents(
    capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path
) -> None:
    out = tmp_path / "episode.npz"
    assert main(["record", str(agent), "--steps", "5", "--out", str(out)]) == 0
    with np.load(out) as file:
        arrays = {name: file[name] for name in file.files}
    for name in ("currents", "sensory_currents", "gap_currents"):
        arrays[name] = np.full_like(arrays[name], np.nan)
    unknown = tmp_path / "unknown.npz"
    np.savez(unknown, **arrays)
    capsys.readouterr()
    assert main(["describe", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["recording"]
    assert (found["currents_known"], found["time_constants_known"]) == (True, True)
    assert main(["describe", str(out)]) == 0
    assert "not known" not in capsys.readouterr().out
    assert main(["describe", str(unknown), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["recording"]
    assert (found["currents_known"], found["time_constants_known"]) == (False, True)
    assert main(["describe", str(unknown)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "not known" in next(line for line in lines if line.startswith("currents"))
    assert not [line for line in lines if line.startswith("time constants")]
    assert main(["view", str(unknown)]) == 0
    assert unknown.with_suffix(".html").is_file()


def test_a_silenced_recording(capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path) -> None:
    out = tmp_path / "silent.npz"
    words = ["record", str(agent), "--steps", "10", "--out", str(out), "--silence", "inter0", "--clamp", "motor1=0.5"]
    assert main(words) == 0
    found = Activity.load(out)
    assert (found.neurons[:, found.wiring.neuron_names.index("motor1")] == 0.5).all()
    assert found.about["silenced"] == ["inter0=0", "motor1=0.5"]


def test_record_a_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rollouts = oscillators(actions=True)
    write_trace(rollouts[0], tmp_path / "trace.npz")
    torch.manual_seed(0)
    model = tmp_path / "model.safetensors"
    save_model(DynamicsModel.of(rollouts, "ltc", 6, reads="observations+actions"), model)
    out, data = tmp_path / "run.npz", str(tmp_path / "trace.npz")
    assert main(["record", str(model), "--data", data, "--look", "20", "--out", str(out)]) == 0
    found = Activity.load(out)
    assert found.about["kind"] == "model"
    assert found.steps == 80
    assert "add --data" in refused(capsys, "record", str(model), "--out", str(out))
    assert "--rollout is 0 to 0" in refused(capsys, "record", str(model), "--data", data, "--rollout", "4")


@pytest.mark.system
def test_ablate(capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    words = ["ablate", str(agent), "--neurons", "motor0", "inter1", "--episodes", "1", "--out", str(out)]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "whole circuit" in text
    assert "motor0" in text
    assert len(out.read_text().splitlines()) == 4
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {row["neuron"] for row in found["neurons"]} == {"motor0", "inter1"}


def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture[str], agent: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "no.npz")
    assert "there is no neuron named 'inter99'; the neurons are inter0 to inter" in refused(
        capsys, "record", str(agent), "--silence", "inter99", "--out", out
    )
    assert "NEURON=VALUE" in refused(capsys, "record", str(agent), "--clamp", "inter0", "--out", out)
    assert "source->target" in refused(capsys, "record", str(agent), "--cut", "inter0", "--out", out)
    assert "give one of the two" in refused(
        capsys, "record", str(agent), "--steps", "3", "--episodes", "1", "--out", out
    )
    assert "--data and --look are for dynamics models" in refused(
        capsys, "record", str(agent), "--look", "3", "--out", out
    )
    assert "no checkpoint" in refused(capsys, "record", "nowhere.safetensors", "--out", out)
    assert "no recorded rollout" in refused(capsys, "view", out)
    np.savez(tmp_path / "foreign.npz", x=np.zeros(3))
    assert "is not a recorded rollout" in refused(capsys, "view", str(tmp_path / "foreign.npz"))
    assert "does not exist" in refused(capsys, "ablate", str(agent), "--out", str(tmp_path / "nowhere" / "t.csv"))
    assert not Path(out).exists()


def test_a_page_follows_the_training_and_does_not_disturb_it(tmp_path: Path) -> None:
    def env() -> object:
        return gym.make("ncp_envs:ncp/PendulumNoVel-v0")

    watched = make()  # which seeds everything random, so the other is made when this one is done
    watched.learn(128, callback=LivePage(env, tmp_path, every=64, steps=12))
    alone = make()
    alone.learn(128)
    for one, other in zip(watched.policy.parameters(), alone.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    files = sorted(path.name for path in tmp_path.glob("*.npz"))
    assert files == ["step-000000000.npz", "step-000000064.npz", "step-000000128.npz"]
    first, last = (Activity.load(tmp_path / name) for name in (files[0], files[-1]))
    assert last.about["note"]["steps"] == 128
    assert not np.allclose(first.neurons, last.neurons)
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert '"curve":null' in (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="at least 1"):
        LivePage(env, tmp_path, every=0)


def test_the_page_of_a_run_draws_the_evaluations_so_far(tmp_path: Path) -> None:
    def env() -> object:
        return gym.make("ncp_envs:ncp/PendulumNoVel-v0")

    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "curve.csv").write_text("steps,mean_return,std_return\n0,-900.5,20.0\n64,-800.0,nan\n500,-1.0,0.0\n")
    make().learn(64, callback=LivePage(env, tmp_path / "watch", every=64, steps=12))
    text = (tmp_path / "watch" / "page.html").read_text(encoding="utf-8")
    drawn = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert drawn["curve"] == {"steps": [0.0, 64.0], "mean": [-900.5, -800.0], "std": [20.0, None]}
    assert [one["trained"] for one in drawn["activities"]] == [0, 64]
