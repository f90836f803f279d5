"""Checkpoints of rsl_rl as teachers, written here as rsl_rl 5 writes them; tests/integrations has real ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ncp_control.distil.environments import EnvRecipe, make_teaching_env
from ncp_control.distil.teachers import about_teacher, load_teacher


def actor() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    layers = {"mlp.0": nn.Linear(17, 5), "mlp.2": nn.Linear(5, 4), "mlp.4": nn.Linear(4, 6)}
    weights = {f"{name}.{key}": value for name, layer in layers.items() for key, value in layer.state_dict().items()}
    statistics = {"_mean": torch.full((1, 17), 2.0), "_var": torch.full((1, 17), 9.0), "_std": torch.full((1, 17), 3.0)}
    return {
        **weights, **{f"obs_normalizer.{key}": value for key, value in statistics.items()},
        "obs_normalizer.count": torch.tensor(7), "distribution.std_param": torch.ones(6),
    }  # fmt: skip


def checkpoint(folder: Path, **changes: Any) -> str:
    path = folder / "model_9.pt"
    torch.save({"actor_state_dict": actor(), "iter": 9, "infos": None, **changes}, path)
    return str(path)


def test_an_actor_acts_as_its_layers_behind_its_normalisation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = load_teacher(checkpoint(tmp_path))
    assert "3 layers with elu between them, rsl_rl's default; if it has another one" in capsys.readouterr().err
    weights = {key: value.numpy() for key, value in actor().items()}
    seen = np.random.default_rng(0).normal(size=(30, 17))
    hidden = (seen - 2.0) / 3.01
    for place in (0, 2, 4):
        hidden = hidden @ weights[f"mlp.{place}.weight"].T + weights[f"mlp.{place}.bias"]
        hidden = hidden if place == 4 else np.where(hidden > 0, hidden, np.expm1(np.minimum(hidden, 0)))
    np.testing.assert_allclose(teacher.predict(seen)[0], hidden, atol=1e-5)
    about = about_teacher(teacher)
    assert (about["name"], about["kind"], len(about["sha256"])) == ("model_9", "object with predict", 64)


@pytest.mark.parametrize("name", ["agent.yaml", "params/agent.yaml"])
def test_the_activation_is_that_of_the_configuration_beside_the_file(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = checkpoint(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("tags: !!python/tuple []\nactor: {activation: relu}\n")
    teacher = load_teacher(path)
    assert f"with relu between them, as {name} says" in capsys.readouterr().err
    assert [type(layer) for layer in teacher.layers] == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    (tmp_path / name).write_text("actor: {activation: exotic}\n")
    with pytest.raises(ValueError, match="does not say the actor's activation, one of elu, selu"):
        load_teacher(path)


def test_a_student_sees_less_than_such_a_teacher(tmp_path: Path) -> None:
    teacher = load_teacher(checkpoint(tmp_path))
    env = make_teaching_env(EnvRecipe("ncp/HalfCheetahNoVel-v0"), teacher, None)
    assert env.view is not None
    assert env.view.observation_space.shape == (17,)
    with pytest.raises(ValueError, match="does not fit the student's environment"):
        make_teaching_env(EnvRecipe("ncp/HopperNoVel-v0"), teacher, None)


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("marker",)


def test_no_code_of_a_file_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="holds more than tensors, which would run code"):
        load_teacher(checkpoint(tmp_path, infos=Evil()))
    assert not (tmp_path / "marker").exists()


def test_other_files_are_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no checkpoint at"):
        load_teacher(str(tmp_path / "model_1.pt"))
    (tmp_path / "model_2.pt").write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match="is no checkpoint of rsl_rl"):
        load_teacher(str(tmp_path / "model_2.pt"))
    torch.save({"model_state_dict": actor()}, tmp_path / "model_3.pt")
    with pytest.raises(ValueError, match="is no checkpoint of rsl_rl 5, which has actor_state_dict"):
        load_teacher(str(tmp_path / "model_3.pt"))
    with pytest.raises(ValueError, match="is recurrent"):
        load_teacher(checkpoint(tmp_path, actor_state_dict={"rnn.rnn.weight_ih_l0": torch.zeros(4, 2)}))
    with pytest.raises(ValueError, match="is no MLP of vectors"):
        load_teacher(checkpoint(tmp_path, actor_state_dict={"cnn.0.weight": torch.zeros(4, 2)}))
