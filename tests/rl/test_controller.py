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
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ncp_control as nc
from ncp_control.rl import Controller, RecurrentPPO, RecurrentSAC, RecurrentTD3, load_policy, save_policy
from ncp_envs import IrregularTime

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
        torch.testing.assert_close(same, action, rtol=0, atol=1e-6)
        torch.testing.assert_close(other, before, rtol=0, atol=1e-6)
        moved.append(action.numpy())
    assert np.ptp(np.stack(moved)) > 0


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


@pytest.mark.slow
def test_a_program_of_the_reference_runs_without_this_package(tmp_path: Path) -> None:
    controller = Controller(nc.load(AGENT), backend="reference")
    batch = torch.export.Dim("batch")
    seen, state = torch.randn(3, 17), torch.randn(3, 48)
    program = torch.export.export(controller, (seen[:2], state[:2]), dynamic_shapes=({0: batch}, {0: batch}))
    torch.export.save(program, tmp_path / "controller.pt2")
    torch.save((seen, state, *controller(seen, state)), tmp_path / "wanted.pt")
    run_apart(tmp_path, "import sys, torch", "assert 'ncp_control' not in sys.modules")


@pytest.mark.slow
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


@pytest.mark.filterwarnings("ignore")
def test_onnx_does_the_same(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    agent = nc.load(AGENT)
    # Rounding is of the size of the numbers that are added up, and the states of this agent reach twenty.
    largest = max(float(bound.detach().abs().max()) for bound in agent.policy.lstm_actor.cell.state_bounds())
    controller = Controller(agent, backend="reference")
    torch.onnx.export(exported(controller), verbose=False).save(tmp_path / "controller.onnx")
    session = runtime.InferenceSession(tmp_path / "controller.onnx")
    seen, state = torch.randn(1, 17), torch.randn(1, 48)
    names = [one.name for one in session.get_inputs()]
    found = session.run(None, dict(zip(names, (seen.numpy(), state.numpy()), strict=True)))
    for value, wanted in zip(found, controller(seen, state), strict=True):
        np.testing.assert_allclose(value, wanted.numpy(), rtol=0, atol=1e-6 * largest)


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


def test_an_agent_that_cannot_become_a_controller_is_refused(tmp_path: Path) -> None:
    def written(made: Any) -> Any:
        save_policy(made, tmp_path / "agent.safetensors")
        return load_policy(tmp_path / "agent.safetensors")

    plain = PPO("MlpPolicy", "Pendulum-v1", n_steps=16, batch_size=16, device="cpu")
    with pytest.raises(ValueError, match="this agent has the policy ActorCriticPolicy with actions of Box"):
        Controller(written(plain))
    timed = IrregularTime(gym.make("Pendulum-v1"), frames=(1, 3), observe_elapsed="apart")
    with pytest.raises(ValueError, match="reads vectors, and this agent's observations are Dict"):
        Controller(written(RecurrentPPO("NCPPolicy", timed, policy_kwargs={"wiring": 4}, device="cpu")))
    with pytest.raises(TypeError, match=r"needs a policy that nc.load read from a file of save_policy, not a PPO"):
        Controller(plain)
    with pytest.raises(ValueError, match="unknown backend 'fast'"):
        Controller(nc.load(AGENT), backend="fast")
