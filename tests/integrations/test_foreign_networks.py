"""Circuits that follow networks of other kinds: LSTMs, GRUs, models of ncps, and networks of this package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ncps.torch import CfC
from torch import Tensor, nn

import ncp_control as nc
from helpers.command_line import refused
from ncp_control.cli import main
from ncp_control.integrations.foreign_networks import (
    actions_of,
    draw_inputs,
    follow_network,
    load_inputs,
    load_source,
    outputs_of,
)
from ncp_control.rl import load_policy


def lstm(inputs: int = 2, units: int = 4, **settings: Any) -> nn.LSTM:
    """A small LSTM with the same weights every time."""
    torch.manual_seed(0)
    return nn.LSTM(inputs, units, **{"batch_first": True, **settings})


def few(inputs: int = 2) -> Any:
    """Few short sequences."""
    return draw_inputs(inputs, 60, 12, seed=1)


def follow(network: nn.Module, out: Path, steps: int = 2000, **settings: Any) -> Any:
    """A circuit after a short fit to few sequences."""
    return follow_network(network, out, few(), synapses=60, steps=steps, progress=False, **settings)


def test_the_error_falls_and_the_file_has_the_same_error(tmp_path: Path) -> None:
    short = follow(lstm(), tmp_path / "short.safetensors", steps=1)
    longer = follow(lstm(), tmp_path / "longer.safetensors", steps=20_000)
    assert longer.error < 0.5 * short.error
    agent, inputs = load_policy(tmp_path / "longer.safetensors"), draw_inputs(2, 200, 12, seed=2)
    wanted = outputs_of(lstm(), inputs)
    error = ((actions_of(agent, inputs) - wanted) ** 2).mean(axis=(0, 1)) / wanted.var(axis=(0, 1))
    assert error.mean() < 2 * longer.error
    assert longer.sequences == 9
    assert agent.note["followed"]["drawn"] is False


def test_the_same_seed_gives_the_same_file_and_another_one_another_circuit(tmp_path: Path) -> None:
    first, again, other = (
        follow(lstm(), tmp_path / f"{number}.safetensors", seed=seed) for number, seed in enumerate((0, 0, 1))
    )
    assert first.agent.sha256 == again.agent.sha256
    assert first.agent.policy.lstm_actor.cell.wiring != other.agent.policy.lstm_actor.cell.wiring


@pytest.mark.parametrize("synapses", [20, 61, 300])
@pytest.mark.parametrize("inputs", [1, 7])
def test_there_are_never_more_synapses_than_asked_for(tmp_path: Path, synapses: int, inputs: int) -> None:
    followed = follow_network(
        lstm(inputs), tmp_path / "circuit.safetensors", few(inputs), synapses=synapses, steps=1, progress=False
    )
    wiring = followed.agent.policy.lstm_actor.cell.wiring
    assert synapses - 1 <= len(wiring.sensory) + len(wiring.synapses) <= synapses


@pytest.mark.parametrize(
    "network",
    [
        nn.GRU(2, 4),
        nn.GRU(2, 4, batch_first=True),
        CfC(2, 4),
        nc.RNN(nc.LTC(2, 4)),
        nn.LSTM(2, 4, batch_first=True).double(),
    ],
    ids=["GRU, steps first", "GRU", "CfC of ncps", "RNN", "float64"],
)
def test_every_kind_of_network_is_followed(tmp_path: Path, network: nn.Module) -> None:
    followed = follow(network, tmp_path / "circuit.safetensors")
    assert followed.inputs == 2
    assert len(followed.errors) == 4
    assert np.isfinite(followed.errors).all()


class Broken(nn.Module):
    """An LSTM whose outputs pass through a function."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.lstm, self.change = lstm(), change

    def forward(self, inputs: Tensor) -> Any:
        """Runs the LSTM."""
        return self.change(self.lstm(inputs)[0])


class NoMemory(nn.Module):
    """A layer without a memory."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        """Runs the layer."""
        outputs: Tensor = torch.tanh(self.layer(inputs))
        return outputs


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (lstm(units=65), "the network has 65 units, and a circuit can follow at most 64"),
        (lstm(units=40, num_layers=2), "the network has 80 units"),
        (lstm(bidirectional=True), "the network looks ahead"),
        (NoMemory(), "the network is not recurrent"),
        (lstm(inputs=3), "the network refuses inputs of the shape"),
        (Broken(lambda outputs: outputs / 0), "contain NaN or infinity"),
        (Broken(lambda outputs: 0 * outputs + 2), "output 0 of the network is always 2"),
        (Broken(lambda outputs: outputs[:, -1]), "let it return an output for every step"),
        (Broken(lambda outputs: [outputs]), "the network returns a list"),
    ],
)
def test_what_no_circuit_could_follow_is_refused_and_leaves_no_file(
    tmp_path: Path, network: nn.Module, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        follow(network, tmp_path / "circuit.safetensors")
    assert not list(tmp_path.iterdir())


def test_bad_data_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "flat.npy", np.zeros((30, 5)))
    np.save(tmp_path / "few.npy", np.zeros((3, 5, 2)))
    np.save(tmp_path / "nan.npy", np.full((30, 5, 2), np.nan))
    np.savez(tmp_path / "two.npz", a=few(), b=few())
    for name, sentence in (
        ("flat.npy", "give numbers of the shape"),
        ("few.npy", "give at least 20"),
        ("nan.npy", "contain NaN"),
        ("two.npz", "name the one of the inputs 'inputs'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load_inputs(str(tmp_path / name))
    np.savez(tmp_path / "right.npz", inputs=few(), more=np.zeros(3))
    np.testing.assert_array_equal(load_inputs(str(tmp_path / "right.npz")), few())


def test_too_few_synapses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="10 synapses are too few for 30 inputs"):
        follow_network(lstm(30), tmp_path / "circuit.safetensors", few(30), synapses=10, progress=False)


def test_a_file_of_save_is_a_source_and_an_agent_is_none(tmp_path: Path) -> None:
    nc.save(nc.RNN(nc.CfC(2, 4)), tmp_path / "network.safetensors")
    assert isinstance(load_source(str(tmp_path / "network.safetensors")), nc.RNN)
    follow(lstm(), tmp_path / "agent.safetensors", steps=1)
    with pytest.raises(ValueError, match=r"is a policy: name a file of nc\.save"):
        load_source(str(tmp_path / "agent.safetensors"))


def test_ctrl_c_before_the_first_pass_leaves_nothing_and_later_keeps_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ncp_control.series.fitting import SeriesLoop

    epoch = SeriesLoop.epoch

    def interrupted(at: int) -> None:
        def once(self: Any, number: int) -> float:
            if number == at:
                raise KeyboardInterrupt
            return epoch(self, number)

        monkeypatch.setattr(SeriesLoop, "epoch", once)

    interrupted(0)
    with pytest.raises(KeyboardInterrupt):
        follow(lstm(), tmp_path / "circuit.safetensors", steps=40_000)
    assert not list(tmp_path.iterdir())
    interrupted(5)
    assert np.isfinite(follow(lstm(), tmp_path / "circuit.safetensors", steps=40_000).error)
    assert load_policy(tmp_path / "circuit.safetensors").note["algo"] == "convert"


def test_the_command_says_what_it_did_and_refuses_what_goes_with_a_zip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nc.save(nc.RNN(nc.LTC(2, 4)), "network.safetensors")
    np.save("inputs.npy", few())
    words = ["convert", "network.safetensors", "--data", "inputs.npy", "--steps", "1", "--synapses", "60"]
    words += ["--out", "circuit.safetensors"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "neurons with 60 synapses" in out
    assert "sequences of inputs: inputs.npy" in out
    assert "that is not close" in out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["synapses"] == 60
    assert "--algo goes with a .zip" in refused(capsys, *words, "--algo", "PPO")
    assert "network is no network: give MODULE:NAME" in refused(
        capsys, "convert", "network", "--out", "circuit.safetensors"
    )


@pytest.mark.system
def test_an_lstm_is_followed_within_two_per_cent_and_its_circuit_is_audited_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    followed = follow_network(lstm(units=8), "circuit.safetensors", steps=1_000_000, progress=False)
    assert followed.error < 0.02
    assert main(["audit", "circuit.safetensors", "--box", "3", "--attack", "2000"]) == 0
    assert "DualLTC; 2 observations, 8 actions" in capsys.readouterr().out
    assert main(["export", "circuit.safetensors", "--to", "c", "--steps", "0", "--out", "robot"]) == 0
    assert Path("robot/controller.c").is_file()
