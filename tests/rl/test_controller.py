"""A trained agent as one module acts as the agent does, when it is run and when it is exported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import TQC, CrossQ
from stable_baselines3 import PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ncp_control as nc
from ncp_control.rl import Controller, RecurrentPPO, RecurrentSAC, RecurrentTD3, load_policy, save_policy
from ncp_control.rl.monitor import ELAPSED, NOT_FINITE, OBSERVATION, STATE, Monitor
from ncp_envs import History, IrregularTime

AGENT = Path(__file__).parents[2] / "checkpoints" / "halfcheetah.safetensors"
CASES = {
    "ppo": (RecurrentPPO, "Pendulum-v1", {"cell": "ltc"}),
    "motor": (RecurrentPPO, "Pendulum-v1", {"cell": "cfc", "head": "motor", "wiring": nc.AutoNCP(9, 1)}),
    "wider critic": (RecurrentPPO, "Pendulum-v1", {"critic": "lstm", "critic_units": 20, "net_arch": [7]}),
    "choices": (RecurrentPPO, "CartPole-v1", {"cell": "ctgru", "wiring": 4}),
    "sac": (RecurrentSAC, "Pendulum-v1", {"cell": "cfc"}),
    "td3": (RecurrentTD3, "Pendulum-v1", {"cell": "lstm", "wiring": 5}),
}


def agent(case: str, folder: Path) -> Any:
    kind, env, kwargs = CASES[case]
    envs: Any = VecNormalize(DummyVecEnv([lambda: gym.make(env)]), clip_obs=1.5) if case != "choices" else env
    small = {"n_steps": 32} if kind is RecurrentPPO else {"learning_starts": 20, "buffer_size": 100}
    given = {"wiring": nc.AutoNCP(9, 3), **kwargs}
    made = kind("NCPPolicy", envs, seed=0, device="cpu", policy_kwargs=given, **small).learn(32)
    if case == "choices":  # which an agent that has hardly learnt anything would always make in the same way
        torch.nn.init.orthogonal_(made.policy.action_net.weight, 10)
        torch.nn.init.zeros_(made.policy.action_net.bias)
    save_policy(made, folder / "agent.safetensors")
    return load_policy(folder / "agent.safetensors")


def exported(controller: Any) -> Any:
    observation = torch.randn(1, controller_width(controller))
    return torch.export.export(controller, (observation, controller.initial_state()))


def controller_width(controller: Any) -> int:
    return int(controller.rnn.cell.inputs)


@pytest.mark.parametrize("case", CASES)
def test_a_controller_and_its_exported_program_act_as_the_agent_does(case: str, tmp_path: Path) -> None:
    found = agent(case, tmp_path)
    controller = Controller(found)
    program = exported(controller).module()
    assert not [name for name, value in controller.named_parameters() if value.requires_grad]
    generator, state, before = np.random.default_rng(0), None, controller.initial_state()
    moved = []
    for _ in range(12):
        seen = generator.normal(scale=3, size=(1, *found.observation_space.shape)).astype(np.float32)
        wanted, state = found.predict(seen, state)
        same, other = program(torch.as_tensor(seen), before)
        action, before = controller(torch.as_tensor(seen), before)
        assert action.shape == wanted.shape
        np.testing.assert_allclose(action.numpy(), wanted, rtol=0, atol=1e-5)
        np.testing.assert_allclose(before.numpy(), state[0][0, :, : before.shape[1]], rtol=0, atol=1e-5)
        torch.testing.assert_close(same, action, rtol=0, atol=1e-5)
        torch.testing.assert_close(other, before, rtol=0, atol=1e-5)
        moved.append(action.numpy())
    assert np.ptp(np.stack(moved)) > 0


@pytest.mark.system
def test_a_program_has_one_operator_of_ours_for_the_compiled_scan_and_none_for_the_reference() -> None:
    found = nc.load(AGENT)
    for backend, wanted in (("cpu", 1), ("reference", 0)):
        if not nc.ops.available_backends()[backend][0]:
            continue
        program = exported(Controller(found, backend))
        names = [str(node.target) for node in program.graph.nodes]
        assert sum("ncp_control" in name for name in names) == wanted
    assert found.policy.lstm_actor.rnn.backend == "auto"  # a copy was made


def run_apart(folder: Path, imports: str, last: str = "") -> None:
    """Compares `controller.pt2` with `wanted.pt` in another process."""
    code = f"""
{imports}
module = torch.export.load('controller.pt2').module()
seen, state, action, after = torch.load('wanted.pt')
torch.testing.assert_close(module(seen, state), (action, after))
{last}
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.system
def test_a_program_of_the_reference_runs_without_this_package(tmp_path: Path) -> None:
    controller = Controller(nc.load(AGENT), backend="reference")
    batch = torch.export.Dim("batch")
    seen, state = torch.randn(3, 17), torch.randn(3, 48)
    program = torch.export.export(controller, (seen[:2], state[:2]), dynamic_shapes=({0: batch}, {0: batch}))
    torch.export.save(program, tmp_path / "controller.pt2")
    torch.save((seen, state, *controller(seen, state)), tmp_path / "wanted.pt")
    run_apart(tmp_path, "import sys, torch", "assert 'ncp_control' not in sys.modules")


@pytest.mark.system
def test_a_program_of_the_compiled_scan_needs_its_operator(tmp_path: Path) -> None:
    if not nc.ops.available_backends()["cpu"][0]:
        pytest.skip("no compiled scan here")
    controller = Controller(nc.load(AGENT), backend="cpu")
    seen, state = torch.randn(1, 17), controller.initial_state()
    torch.export.save(torch.export.export(controller, (seen, state)), tmp_path / "controller.pt2")
    torch.save((seen, state, *controller(seen, state)), tmp_path / "wanted.pt")
    run_apart(tmp_path, "import torch, ncp_control.ops.operator")


@pytest.mark.filterwarnings("ignore")
def test_a_trace_of_a_controller_does_the_same() -> None:
    controller = Controller(nc.load(AGENT), backend="reference")
    seen, state = torch.randn(1, 17), torch.randn(1, 48)
    traced: Any = torch.jit.trace(controller, (torch.randn(1, 17), controller.initial_state()))  # type: ignore[no-untyped-call]
    torch.testing.assert_close(traced(seen, state), controller(seen, state))


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
def test_onnx_does_the_same(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    agent = nc.load(AGENT)
    # Rounding is of the size of the numbers that are added up, up to 60 for a neuron, and the states of this agent
    # reach twenty; onnxruntime has an exponential of its own.
    largest = max(float(bound.detach().abs().max()) for bound in agent.policy.lstm_actor.cell.state_bounds())
    controller = Controller(agent, backend="reference")
    torch.onnx.export(exported(controller), verbose=False).save(tmp_path / "controller.onnx")
    session = runtime.InferenceSession(tmp_path / "controller.onnx")
    seen, state = torch.randn(1, 17), torch.randn(1, 48)
    names = [one.name for one in session.get_inputs()]
    found = session.run(None, dict(zip(names, (seen.numpy(), state.numpy()), strict=True)))
    for value, wanted in zip(found, controller(seen, state), strict=True):
        np.testing.assert_allclose(value, wanted.numpy(), rtol=0, atol=1e-5 * largest)


@pytest.mark.system
def test_a_policy_itself_can_be_exported() -> None:
    class Acting(torch.nn.Module):
        def __init__(self, policy: Any) -> None:
            super().__init__()
            self.policy = policy

        def forward(self, seen: Any, state: Any) -> Any:
            action, after = self.policy._predict(seen, (state, state), torch.zeros(1), deterministic=True)
            return action, after[0]

    policy = nc.load(AGENT).policy
    acting, seen = Acting(policy), torch.randn(1, 17)
    state = torch.zeros(policy.lstm_hidden_state_shape)
    program = torch.export.export(acting, (seen, state)).module()
    torch.testing.assert_close(program(seen, state), acting(seen, state))


@pytest.mark.parametrize("kind", [PPO, SAC, TD3, TQC, CrossQ])
def test_an_agent_without_a_memory_has_a_state_of_size_0(kind: Any, tmp_path: Path) -> None:
    envs = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), clip_obs=1.5)
    save_policy(kind("MlpPolicy", envs, seed=0, device="cpu"), tmp_path / "agent.safetensors")
    found = load_policy(tmp_path / "agent.safetensors")
    controller = Controller(found)
    seen = np.random.default_rng(0).normal(scale=2, size=(5, 3)).astype(np.float32)
    action, state = controller(torch.as_tensor(seen), controller.initial_state(5))
    assert state.shape == (5, 0)
    assert np.ptp(action.numpy()) > 0
    np.testing.assert_allclose(action.numpy(), found.predict(seen)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("cell", ["ltc", "lstm"])
@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentSAC])
def test_an_agent_that_knows_the_elapsed_time_gets_it_apart(cell: str, kind: Any, tmp_path: Path) -> None:
    timed = IrregularTime(gym.make("Pendulum-v1"), frames=(1, 3), observe_elapsed="apart")
    kwargs = {"wiring": nc.AutoNCP(9, 3) if cell == "ltc" else 5, "cell": cell}
    save_policy(kind("NCPPolicy", timed, seed=0, device="cpu", policy_kwargs=kwargs), tmp_path / "agent.safetensors")
    found = load_policy(tmp_path / "agent.safetensors")
    controller, state = Controller(found), None
    assert controller.timed
    key = next(name for name in found.observation_space.spaces if name != "elapsed")
    before, generator = controller.initial_state(2), np.random.default_rng(0)
    for _ in range(5):
        seen = generator.normal(size=(2, 3)).astype(np.float32)
        elapsed = generator.uniform(0.5, 3, size=2).astype(np.float32)
        wanted, state = found.predict({key: seen, "elapsed": elapsed[:, None]}, state)
        action, before = controller(torch.as_tensor(seen), before, torch.as_tensor(elapsed))
        np.testing.assert_allclose(action.numpy(), wanted, rtol=0, atol=1e-5)
    assert not torch.equal(before, controller(torch.as_tensor(seen), before, 7.0)[1])


def test_in_float64_a_controller_computes_everything_in_float64() -> None:
    one, other = Controller(nc.load(AGENT)), Controller(nc.load(AGENT), backend="reference").double()
    seen = torch.randn(4, 17, dtype=torch.float64)
    action, state = other(seen, other.initial_state(4))
    assert action.dtype == state.dtype == torch.float64
    torch.testing.assert_close(action.float(), one(seen.float(), one.initial_state(4))[0], rtol=0, atol=1e-4)
    changed = other(seen + 1e-9, other.initial_state(4))[0]
    assert 0 < (changed - action).abs().max() < 1e-6


def watched() -> Controller:
    wide = np.full(48, 100.0)
    monitor = Monitor(np.full(17, -3.0), np.full(17, 3.0), -wide, wide, 0.5, 2.0)
    return Controller(nc.load(AGENT), monitor=Monitor.from_json(monitor.to_json()))


def test_a_monitor_raises_flags_that_add_up() -> None:
    controller = watched()
    seen, state = torch.zeros(6, 17), controller.initial_state(6)
    seen[1, 3], seen[2, 0], seen[3, 16] = 4.0, torch.nan, torch.inf
    elapsed = torch.tensor([1.0, 1.0, 1.0, 1.0, -1.0, 2.5])
    state[0] = 1e30
    _, after, flags = controller(seen, state, elapsed)
    assert flags.tolist() == [STATE, OBSERVATION, NOT_FINITE, NOT_FINITE, NOT_FINITE, ELAPSED]
    assert torch.equal(after[2:5], state[2:5])
    assert not torch.equal(after[1], state[1])
    state[1] = torch.nan
    assert controller(seen, state, elapsed)[2][1] == NOT_FINITE
    seen[5, 0] = -3.5
    assert controller(seen, state, elapsed)[2][5] == ELAPSED + OBSERVATION
    program = torch.export.export(controller, (seen, state, elapsed)).module()
    assert program(seen, state, elapsed)[2].tolist() == controller(seen, state, elapsed)[2].tolist()


def test_a_monitor_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="is for 3 observations and a state of 48, and the agent has 17 and 48"):
        Controller(nc.load(AGENT), monitor=Monitor([0] * 3, [1] * 3, [0] * 48, [1] * 48))
    with pytest.raises(ValueError, match="this monitor was made for another agent"):
        Controller(nc.load(AGENT), monitor=Monitor([0] * 17, [1] * 17, [0] * 48, [1] * 48, sha256="abc"))
    with pytest.raises(ValueError, match="observation_low of a monitor must be as long as observation_high"):
        Monitor([1.0], [0.0], [0.0], [0.0])
    with pytest.raises(ValueError, match="elapsed times of a monitor must be 0 <= low <= high, got 2, 1"):
        Monitor([1.0], [1.0], [0.0], [0.0], 2, 1)
    for text in ("", "[]", "{}", '{"format": "ncp_control monitor 1"}'):
        with pytest.raises(ValueError, match="this is not a monitor"):
            Monitor.from_json(text)


def test_a_monitor_without_bounds_comes_back_from_its_json() -> None:
    found = Monitor.from_json(Monitor([-np.inf], [2.0], [-np.inf], [np.inf]).to_json())
    assert (found.observation_low, found.observation_high, found.state_high) == (-np.inf, 2.0, np.inf)
    assert (found.elapsed_low, found.elapsed_high) == (0.0, np.inf)


def test_squashed_actions_never_pass_a_limit_by_rounding(tmp_path: Path) -> None:
    found = agent("td3", tmp_path)
    controller = Controller(found)
    controller.low, controller.high = torch.tensor([-0.3]), torch.tensor([0.9])
    controller.head = torch.nn.Identity()
    assert controller.act(torch.ones(1, 1)).item() == controller.high.item()


def test_names_go_with_the_numbers() -> None:
    assert Controller(nc.load(AGENT)).sensors[:2] == ("observation0", "observation1")
    named = Controller(nc.load(AGENT), actions=[f"joint {k}" for k in range(6)])
    assert named.actions[5] == "joint 5"
    with pytest.raises(ValueError, match="sensors must have 17 names, got 1"):
        Controller(nc.load(AGENT), sensors=["angle"])


def test_an_agent_that_cannot_become_a_controller_is_refused(tmp_path: Path) -> None:
    def written(made: Any) -> Any:
        save_policy(made, tmp_path / "agent.safetensors")
        return load_policy(tmp_path / "agent.safetensors")

    plain = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, device="cpu")
    with pytest.raises(ValueError, match="this agent has the policy ActorCriticPolicy with actions of Discrete"):
        Controller(written(plain))
    window = History(gym.make("Pendulum-v1"), window=4)
    windowed = PPO("MultiInputPolicy", window, n_steps=16, batch_size=16, device="cpu")
    with pytest.raises(ValueError, match="reads vectors, alone or with the elapsed time, and this agent's obs"):
        Controller(written(windowed))
    with pytest.raises(TypeError, match=r"needs a policy that nc.load read from a file of save_policy, not a PPO"):
        Controller(plain)
    with pytest.raises(ValueError, match="unknown backend 'fast'"):
        Controller(nc.load(AGENT), backend="fast")
