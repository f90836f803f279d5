"""Models of Stable-Baselines3 as policy files: exact, and read in a process that ends."""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import sys
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

pytest.importorskip("sb3_contrib")

from sb3_contrib import RecurrentPPO

from helpers.teachers import MODELS, algo_of, save
from ncp_control.integrations import stock_policies
from ncp_control.integrations.stock_policies import ACTED, AGENT, FORMAT, STEPS, VERSION, convert, converted, read_here
from ncp_control.rl import load_policy, save_policy

VECTOR = spaces.Box(-1.0, 1.0, (5,), np.float32)
ACTIONS = spaces.Box(-1.0, 1.0, (3,), np.float32)
CRITICS = {
    "own": {},
    "shared": {"shared_lstm": True, "enable_critic_lstm": False},
    "linear": {"enable_critic_lstm": False},
}
UNITS = 16


class Empty(gym.Env[Any, Any]):
    """Has spaces, and nothing else.

    :param observations: the space of observations
    :param actions: the space of actions
    """

    def __init__(self, observations: spaces.Space[Any], actions: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observations, actions


def model_of(
    observations: spaces.Space[Any] = VECTOR, actions: spaces.Space[Any] = ACTIONS, sde: bool = False, **arguments: Any
) -> Any:
    """Makes a model of sb3-contrib with weights that all differ from zero."""
    model = RecurrentPPO(
        "MultiInputLstmPolicy" if isinstance(observations, spaces.Dict) else "MlpLstmPolicy",
        Empty(observations, actions), use_sde=sde, seed=0, device="cpu", n_steps=8, batch_size=8,
        policy_kwargs={"lstm_hidden_size": UNITS, **arguments},
    )  # fmt: skip
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def greatest_differences(policy: Any, ours: Any, steps: int = 220) -> dict[str, float]:
    """By how much two recurrent policies differ over episodes that begin anew in between: actions, states, values."""
    ours.set_training_mode(False)
    policy.observation_space.seed(0)
    before, after, found = None, None, {"actions": 0.0, "states": 0.0, "values": 0.0}
    for k in range(steps):
        observation, start = policy.observation_space.sample(), np.array([k % 50 == 0])
        row = {key: value[None] for key, value in observation.items()} if isinstance(observation, dict) else None
        batch = observation[None] if row is None else row
        starts = torch.tensor(start, dtype=torch.float32)
        if before is not None and after is not None:
            seen, _ = policy.obs_to_tensor(batch)
            with torch.no_grad():
                values = [
                    one.predict_values(seen, tuple(map(torch.tensor, state)), starts)
                    for one, state in ((policy, before), (ours, after))
                ]
            if policy.lstm_critic is None:  # its own LSTM has a state of its own, which begins as the actor's here
                found["values"] = max(found["values"], float((values[0] - values[1]).abs().max()))
        wanted, before = policy.predict(batch, before, start, deterministic=True)
        actions, after = ours.predict(batch, after, start, deterministic=True)
        found["actions"] = max(found["actions"], float(np.abs(wanted - actions).max()))
        found["states"] = max(found["states"], float(np.abs(np.concatenate(before, axis=-1) - after[0]).max()))
    return found


@pytest.mark.parametrize(
    ("observations", "actions"),
    [
        (VECTOR, ACTIONS),
        (VECTOR, spaces.Discrete(4)),
        (VECTOR, spaces.MultiDiscrete([3, 4])),
        (spaces.Dict(a=VECTOR, b=spaces.Discrete(3)), ACTIONS),
    ],
    ids=["Box", "Discrete", "MultiDiscrete", "Dict"],
)
@pytest.mark.parametrize("critic", CRITICS)
def test_an_lstm_becomes_a_circuit_that_acts_alike_for_hundreds_of_steps(
    critic: str, observations: Any, actions: Any
) -> None:
    policy = model_of(observations, actions, **CRITICS[critic]).policy
    assert max(greatest_differences(policy, converted(policy)).values()) <= 2e-6  # a few roundings of float32


@pytest.mark.parametrize(
    "arguments",
    [
        {"net_arch": []},
        {"net_arch": {"pi": [7], "vf": [3, 2]}, "activation_fn": nn.ReLU, "share_features_extractor": False},
        {"lstm_kwargs": {"bias": False}},
        {"sde": True},
        {"sde": True, "squash_output": True},
    ],
    ids=str,
)
def test_layers_and_distributions_come_along(arguments: dict[str, Any]) -> None:
    policy = model_of(**arguments).policy
    assert max(greatest_differences(policy, converted(policy)).values()) <= 2e-6


def test_states_and_values_are_the_same_to_the_last_digits_of_float64() -> None:
    policy = model_of().policy.double()
    ours = converted(policy).double()
    features, starts = torch.randn(210, 5, dtype=torch.float64), torch.zeros(210)
    starts[::50] = 1.0
    stock = 2 * [torch.zeros(1, 1, UNITS, dtype=torch.float64)]
    state = torch.zeros(1, 1, 2 * UNITS, dtype=torch.float64)
    for name, head, last in (("actor", "forward_actor", "action_net"), ("critic", "forward_critic", "value_net")):
        lstm, circuit = getattr(policy, f"lstm_{name}"), getattr(ours, f"lstm_{name}")
        with torch.no_grad():
            wanted, (h, c) = policy._process_sequence(features, tuple(stock), starts, lstm)
            outputs, (after, _) = ours._process_sequence(features, (state, state), starts, circuit)
            both = [
                getattr(one, last)(getattr(one.mlp_extractor, head)(latent))
                for one, latent in ((policy, wanted), (ours, outputs))
            ]
        torch.testing.assert_close(after, torch.cat([h, c], dim=-1), rtol=0, atol=1e-12)
        torch.testing.assert_close(both[1], both[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_lstm_layers": 2}, "its LSTM has 2 layers, and a circuit of LSTM neurons has one"),
        ({"lstm_kwargs": {"batch_first": True}}, "batch_first=True"),
    ],
    ids=["layers", "order"],
)
def test_an_lstm_that_no_circuit_is_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        converted(model_of(**arguments).policy)


def test_a_policy_of_pictures_is_refused() -> None:
    pictures = spaces.Box(0, 255, (3, 36, 36), np.uint8)
    model = RecurrentPPO(
        "CnnLstmPolicy", Empty(pictures, ACTIONS), device="cpu", policy_kwargs={"lstm_hidden_size": 4}, n_steps=8
    )
    with pytest.raises(TypeError, match="MlpLstmPolicy and MultiInputLstmPolicy convert"):
        converted(model.policy)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("ARS", "QRDQN")])
def test_every_model_is_read_written_and_compared(name: str, tmp_path: Path) -> None:
    _, path = save(name, tmp_path, normalizes=True)
    read_here(path, algo_of(name), tmp_path, tmp_path / "vecnormalize.pkl")
    agent = load_policy(tmp_path / AGENT)
    _, acted = stock_policies.read_tensors(tmp_path / ACTED, FORMAT, VERSION, (), "this")
    steps, difference = stock_policies.compare(agent, acted)
    assert agent.normalizes
    assert steps == STEPS
    assert difference <= 1e-5 * max(1.0, float(acted["actions"].abs().max()))


@pytest.mark.parametrize("name", ["ARS", "QRDQN"])
def test_a_policy_that_no_file_holds_is_told_to_be_distilled(name: str, tmp_path: Path) -> None:
    _, path = save(name, tmp_path)
    with pytest.raises(ValueError, match=rf"{name}\.zip cannot be converted, because .*distil"):
        read_here(path, name, tmp_path)
    assert not (tmp_path / AGENT).exists()


def test_a_file_that_acts_in_another_way_is_refused(tmp_path: Path) -> None:
    _, path = save("contrib RecurrentPPO", tmp_path)
    read_here(path, "RecurrentPPO", tmp_path)
    agent = load_policy(tmp_path / AGENT)
    _, acted = stock_policies.read_tensors(tmp_path / ACTED, FORMAT, VERSION, (), "this")
    with pytest.raises(ValueError, match="the actions differ by"):
        stock_policies.compare(agent, acted | {"actions": acted["actions"] + 0.01})
    with pytest.raises(ValueError, match="did not act 300 times"):
        stock_policies.compare(agent, {name: value[:5] for name, value in acted.items()})


class Code:
    """Unpickling it runs a line of Python.

    :param line: the line
    """

    def __init__(self, line: str) -> None:
        self.line = line

    def __reduce__(self) -> Any:
        return (exec, (self.line,))


def plant(path: Path, line: str) -> None:
    """Puts a pickle into a model's file that runs a line of Python and harms nothing else."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    settings = json.loads(members["data"])
    settings["surprise"] = {":type:": "x", ":serialized:": base64.b64encode(pickle.dumps(Code(line))).decode()}
    members["data"] = json.dumps(settings).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.system
def test_code_of_the_zip_runs_once_and_in_another_process(tmp_path: Path) -> None:
    _, path = save("contrib RecurrentPPO", tmp_path)
    marker = tmp_path / "marker"
    plant(path, f"import os; open({str(marker)!r}, 'a').write(str(os.getpid()))")
    out = tmp_path / "agent.safetensors"
    conversion = convert(path, out, "RecurrentPPO", env="Pendulum-v1")
    assert int(marker.read_text()) != os.getpid()
    marker.unlink()
    agent = load_policy(out)
    agent.predict(np.zeros(3, dtype=np.float32))
    assert not marker.exists()
    assert agent.note["algo"] == "RecurrentPPO"
    assert agent.note["env"] == "Pendulum-v1"
    assert agent.note["converted"]["file"] == path.name
    assert len(agent.note["converted"]["sha256"]) == 64
    assert conversion.difference < 1e-5
    assert sorted(tmp_path.iterdir()) == sorted([path, out])


@pytest.mark.system
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import os; os.abort()", "was ended by SIGABRT"),
        ("import os; print('bye', flush=True); os._exit(3)", r"ended with the exit code 3 \(bye\)"),
        ("import os; os._exit(0)", "wrote nothing that can be used"),
        (
            "import os, sys; open(os.path.join(sys.argv[3], 'agent.safetensors'), 'w').write('no'); os._exit(0)",
            "wrote nothing that can be used",
        ),
    ],
    ids=["crash", "exit", "nothing", "nonsense"],
)
def test_a_reading_that_goes_wrong_is_one_sentence_and_leaves_nothing(line: str, words: str, tmp_path: Path) -> None:
    _, path = save("contrib RecurrentPPO", tmp_path)
    plant(path, line)
    with pytest.raises(ValueError, match=words):
        convert(path, tmp_path / "agent.safetensors", "RecurrentPPO")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_a_reading_that_hangs(tmp_path: Path) -> None:
    _, path = save("contrib RecurrentPPO", tmp_path)
    started = tmp_path / "started"
    plant(
        path,
        f"import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); open({str(started)!r}, 'w').write("
        f"str(os.getpid())); os.kill({os.getpid()}, signal.SIGINT); time.sleep(600)",
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            convert(path, tmp_path / "agent.safetensors", "RecurrentPPO")
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert sorted(tmp_path.iterdir()) == sorted([path, started])


def test_what_is_wrong_is_said_before_any_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, path = save("contrib RecurrentPPO", tmp_path)
    monkeypatch.setattr(stock_policies, "_read_elsewhere", lambda *_: pytest.fail("code of the file would have run"))
    out = tmp_path / "agent.safetensors"
    with pytest.raises(FileNotFoundError, match="there is no model at"):
        convert(tmp_path / "missing.zip", out, "PPO")
    with pytest.raises(ValueError, match=r"was saved by RecurrentPPO.*, not by SAC: add --algo"):
        convert(path, out, "SAC")
    with pytest.raises(FileNotFoundError, match="there is no VecNormalize at"):
        convert(path, out, "RecurrentPPO", tmp_path / "missing.pkl")
    with pytest.raises(ValueError, match="let it end in"):
        convert(path, tmp_path / "agent.pt", "RecurrentPPO")
    with pytest.raises(ValueError, match="Nowhere-v1"):
        convert(path, out, "RecurrentPPO", env="Nowhere-v1")
    (tmp_path / "other.zip").write_bytes(b"no zip")
    with pytest.raises(ValueError, match="is no file that a model of Stable-Baselines3 was saved in"):
        convert(tmp_path / "other.zip", out, "PPO")


def test_an_environment_with_other_spaces_is_refused(tmp_path: Path) -> None:
    model, path = save("PPO", tmp_path)
    save_policy(model, tmp_path / "agent.safetensors")
    agent = load_policy(tmp_path / "agent.safetensors")
    stock_policies.check_env(agent, "Pendulum-v1", path)
    with pytest.raises(ValueError, match=r"PPO\.zip was not trained in CartPole-v1: the policy was made for"):
        stock_policies.check_env(agent, "CartPole-v1", path)
