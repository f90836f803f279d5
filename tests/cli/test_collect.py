"""`ncp-control collect`: rollouts of a controller, as a dataset."""

import json
import shlex
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import collected, described, refused
from ncp_control.cli import main


def test_collect_with_a_policy(capsys: pytest.CaptureFixture[str], datasets: Path, policy: Path) -> None:
    made = collected(capsys, "--policy", str(policy), "--episodes", "3", "--random", "0")
    assert made["id"] == "ncp/cartpole/upright-r00-v0"
    assert Path(made["folder"]) == datasets / made["id"]
    assert (made["rollouts"], made["random_share"]) == (3, 0.0)
    about = described(capsys, made["id"])["rollouts"]["about"]
    assert about["controller"]["name"] == "upright"
    assert about["controller"]["sha256"] == described(capsys, str(policy))["policy"]["sha256"]
    assert list((datasets / "ncp" / "cartpole").iterdir()) == [datasets / made["id"]]


def test_a_policy_is_collected_where_it_was_trained(capsys: pytest.CaptureFixture[str], datasets: Path) -> None:
    from stable_baselines3 import PPO

    from ncp_control.data import Rollouts
    from ncp_control.rl import save_policy
    from ncp_control.rl.recipes.env_making import make_env

    path = datasets.parent / "swinger.safetensors"
    wrappers = [{"KeepObservations": {"indices": [0, 1], "size": 3}}, {"RandomActionOverwrite": {"probability": 0.5}}]
    note = {"env": "Pendulum-v1", "env_kwargs": {"g": 9.0}, "env_wrapper": wrappers}
    env = make_env("Pendulum-v1", wrappers, {"g": 9.0})
    save_policy(PPO("MlpPolicy", env, seed=0, device="cpu"), path, note)
    words = ["collect", "--policy", str(path), "--episodes", "2", "--max-steps", "60"]
    assert main(words) == 0
    folder = datasets / "ncp/pendulum/swinger-r50-v0"
    rollouts = Rollouts.load(folder)
    assert rollouts[0].observations.shape == (61, 2)
    assert 0.3 < sum(rollout.is_random.mean() for rollout in rollouts) / 2 < 0.7
    metadata = (folder / "data" / "metadata.json").read_text()
    assert '\\"g\\": 9.0' in metadata
    assert "KeepObservations" in metadata
    assert "CheckFinite" not in metadata  # so that Minari makes it again where this package is not installed
    capsys.readouterr()
    command = shlex.split(described(capsys, str(folder))["rollouts"]["about"]["command"])
    assert main([*command[1:-1], str(datasets / "again-v0")]) == 0
    again = Rollouts.load(datasets / "again-v0")
    assert all((a.observations == b.observations).all() for a, b in zip(rollouts, again, strict=True))
    assert main(["collect", "--policy", str(path), "--env", "ncp/PendulumNoVel-v0", "--episodes", "1", "--json"]) == 0
    made = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert made["id"] == "ncp/pendulumnovel/swinger-r50-v0"


def test_the_recorded_command_makes_it_again(
    capsys: pytest.CaptureFixture[str], datasets: Path, tmp_path: Path
) -> None:
    from ncp_control.data import Rollouts

    first, second = tmp_path / "a b-v0", tmp_path / "again-v0"
    collected(capsys, "--episodes", "3", "--seed", "9", "--random", "0.5", "--out", str(first))
    command = shlex.split(described(capsys, str(first))["rollouts"]["about"]["command"])
    assert command[:2] == ["ncp-control", "collect"]
    assert command[-1] == str(first)
    assert main([*command[1:-1], str(second)]) == 0
    one, other = Rollouts.load(first), Rollouts.load(second)
    assert all((a.observations == b.observations).all() for a, b in zip(one, other, strict=True))


def test_what_minaris_users_expect_is_in_the_metadata(
    capsys: pytest.CaptureFixture[str], datasets: Path, tmp_path: Path
) -> None:
    import minari

    from helpers.level_runs import CARTPOLE, linear_policy

    path = tmp_path / "upright.safetensors"
    linear_policy(path, "CartPole-v1", CARTPOLE[-1], {"algo": "RecurrentPPO"})
    who = ("--author", "A. Maker", "--author-email", "maker@example.org", "--code-link", "https://example.org/code")
    words = ("--policy", str(path), "--episodes", "2", *who, "--description", "Two long episodes.")
    made = collected(capsys, *words)
    metadata = minari.load_dataset(made["id"]).storage.metadata
    assert metadata["algorithm_name"] == "RecurrentPPO"
    assert metadata["author"] == {"A. Maker"}
    assert metadata["author_email"] == {"maker@example.org"}
    assert metadata["code_permalink"] == "https://example.org/code"
    assert metadata["description"] == "Two long episodes."
    about = described(capsys, made["id"])["rollouts"]["about"]
    assert about["command"].endswith(f"--description 'Two long episodes.' {shlex.join(who)} --out {made['id']}")
    assert collected(capsys, *words, "--resume") == made  # made by the same command


def test_nothing_is_said_of_an_author_who_is_not_named(capsys: pytest.CaptureFixture[str], datasets: Path) -> None:
    import minari

    metadata = minari.load_dataset(collected(capsys, "--episodes", "2")["id"]).storage.metadata
    assert not {"author", "author_email", "code_permalink", "ref_min_score", "ref_max_score"} & set(metadata)
    assert metadata["algorithm_name"] == "random"
    assert metadata["description"] == "2 rollouts of random in CartPole-v1"


def test_an_existing_dataset_is_refused_before_any_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("ncp_control.data.collect")  # the package has a function of that name

    def work(*arguments: Any, **named: Any) -> None:
        raise AssertionError("work was done")

    (tmp_path / "there-v0").mkdir()
    monkeypatch.setattr(module, "collect", work)
    line = refused(capsys, "collect", "--env", "CartPole-v1", "--out", str(tmp_path / "there-v0"))
    assert "exists already: choose another --out" in line


def test_collections_that_cannot_be_made_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, checkpoint: Path
) -> None:
    out = ("--out", str(tmp_path / "x-v0"))
    assert "there is no environment 'CartPoel-v1'" in refused(capsys, "collect", "--env", "CartPoel-v1", *out)
    with zipfile.ZipFile(tmp_path / "model.bin", "w") as archive:
        archive.writestr("data", "{}")
    line = refused(capsys, "collect", "--policy", str(tmp_path / "model.bin"), *out)
    assert "is a zip archive, such as Stable-Baselines3's models are: load it with the class that saved it" in line
    (tmp_path / "model.bin").unlink()
    assert "there is no checkpoint" in refused(capsys, "collect", "--policy", "missing.zip", *out)
    assert "there is no checkpoint" in refused(capsys, "collect", "--policy", "missing.safetensors", *out)
    assert "holds a network, not a policy" in refused(capsys, "collect", "--policy", str(checkpoint), *out)
    assert "is a probability" in refused(capsys, "collect", "--env", "CartPole-v1", "--random", "2", *out)
    assert list(tmp_path.iterdir()) == []


def test_finished_rollouts_survive_a_full_disk(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ncp_control.data.minari_files as module

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    words = ["collect", "--env", "CartPole-v1", "--episodes", "3", "--out", str(tmp_path / "pole-v0")]
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_minari", full)
        assert main(words) == 2
    told = capsys.readouterr().err
    assert "3 of 3 rollouts are kept in" in told
    assert "No space left" in told.splitlines()[-1]
    assert main(words) == 2
    assert "--resume continues it" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["pole-v0"]


def test_control_c_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ncp_control.data.groups as module

    write, written = module.write_trace, []

    def interrupted(rollout: Any, path: Path, **named: Any) -> None:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(path)
        write(rollout, path, **named)

    words = ["collect", "--env", "CartPole-v1", "--episodes", "3", "--out", str(tmp_path / "pole-v0")]
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_trace", interrupted)
        assert main(words) == 130
    assert "2 of 3 rollouts are kept in" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0
