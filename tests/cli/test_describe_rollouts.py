"""`ncp-control describe` of rollouts and policies."""

from pathlib import Path

import pytest

from helpers.command_line import collected, described, printed, refused


def test_describe_a_dataset(capsys: pytest.CaptureFixture[str], datasets: Path) -> None:
    made = collected(capsys, "--episodes", "4", "--random", "0.2", "--seed", "7", "--out", "ncp/pole-v0")
    for target in ("ncp/pole-v0", str(datasets / "ncp" / "pole-v0"), str(datasets / "ncp" / "pole-v0" / "data")):
        found = described(capsys, target)["rollouts"]
        assert (found["rollouts"], found["steps"], found["terminated"]) == (4, made["steps"], 4)
        assert found["returns"]["mean"] == made["mean_return"]
        assert found["random_actions"]["share"] == made["random_share"]
        assert found["random_actions"]["wanted"] == 0.2
        assert found["random_actions"]["low"] < made["random_share"] < found["random_actions"]["high"]
        assert found["elapsed"] is None
        assert [row["name"] for row in found["observations"]][:2] == ["cart position", "cart velocity"]
        assert all(row["least"] <= row["mean"] <= row["most"] for row in found["observations"])
        assert found["about"]["seed"] == 7
    text = printed(capsys, "describe", "ncp/pole-v0")
    for word in ("20.00% was wanted", "95 % interval", "pole angular velocity", "controller", "ncp-control collect"):
        assert word in " ".join(text.split())


@pytest.mark.parametrize("columns", ["80", "120"])
def test_a_description_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], datasets: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    collected(capsys, "--episodes", "2", "--out", "ncp/pole-v0")
    assert max(map(len, printed(capsys, "describe", "ncp/pole-v0").splitlines())) <= int(columns)


@pytest.mark.system
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_figure_of_rollouts(capsys: pytest.CaptureFixture[str], datasets: Path, tmp_path: Path, suffix: str) -> None:
    collected(capsys, "--episodes", "2", "--out", "ncp/pole-v0")
    figure = tmp_path / f"pole{suffix}"
    described(capsys, "ncp/pole-v0", "--figure", str(figure))
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert figure.read_bytes().startswith(start)
    if suffix == ".svg":
        assert b"</svg>" in figure.read_bytes()


def test_describe_traces(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import numpy as np

    folder = tmp_path / "traces"
    folder.mkdir()
    for k in range(3):
        np.save(folder / f"{k}.npy", np.arange(20.0).reshape(10, 2) + k)
    found = described(capsys, str(folder), "--figure", str(tmp_path / "traces.png"))["rollouts"]
    assert (found["rollouts"], found["steps"], found["returns"], found["random_actions"]) == (3, 27, None, None)
    one = described(capsys, str(folder / "1.npy"))["rollouts"]["observations"]
    assert one == [
        {
            "name": f"observation {k}",
            "mean": 10.0 + k,
            "std": pytest.approx(33**0.5),
            "least": 1.0 + k,
            "most": 19.0 + k,
        }
        for k in range(2)
    ]
    np.savez(folder / "1.npz", observations=np.ones((4, 2)), elapsed=np.array([1, 0.5, 2, 3.5]))
    assert described(capsys, str(folder / "1.npz"))["rollouts"]["elapsed"]["most"] == 3.5
    assert "0.5 to 3.5, mean 2" in printed(capsys, "describe", str(folder / "1.npz"))
    assert "none stored" in printed(capsys, "describe", str(folder))


def test_rollouts_that_cannot_be_described(
    capsys: pytest.CaptureFixture[str], datasets: Path, checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no Minari dataset" in refused(capsys, "describe", str(tmp_path / "empty"))
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY")
    assert "cut.npy" in refused(capsys, "describe", str(tmp_path / "cut.npy"))
    assert "there is no file, folder or dataset" in refused(capsys, "describe", "ncp/nothing-v0")
    assert "--figure draws rollouts" in refused(capsys, "describe", str(checkpoint), "--figure", "x.png")
    assert "--inputs is for plans" in refused(capsys, "describe", str(tmp_path / "empty"), "--inputs", "3")
    assert ".png, .svg or .pdf" in refused(capsys, "describe", str(tmp_path / "empty"), "--figure", "x.txt")


def test_a_model_of_stable_baselines3_is_refused_with_the_way_to_convert_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from stable_baselines3 import PPO

    PPO("MlpPolicy", "CartPole-v1", device="cpu").save(tmp_path / "model.zip")
    line = refused(capsys, "describe", str(tmp_path / "model.zip"))
    assert "make a safetensors file of it with ncp_control.rl.save_policy" in line


def test_describe_a_policy(capsys: pytest.CaptureFixture[str], policy: Path) -> None:
    found = described(capsys, str(policy))["policy"]
    assert found["class"] == "ActorCriticPolicy"
    assert found["action_space"] == "Discrete(2)"
    assert found["observation_space"].startswith("Box(")
    assert found["normalizes_observations"] is False
    assert found["note"] == {"env": "CartPole-v1", "score": 21.5, "command": "train it"}
    text = printed(capsys, "describe", str(policy))
    for word in ("ActorCriticPolicy", "Discrete(2)", "21.5", "train it", found["sha256"][:20]):
        assert word in text
