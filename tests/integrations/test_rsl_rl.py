"""Circuits in rsl_rl, against the real package: `python scripts/clients.py rsl_rl`."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from helpers.docs_pages import ROOT, blocks
from ncp_control.distil.teachers import load_teacher
from ncp_control.rl import load_policy

pytestmark = pytest.mark.clients
pytest.importorskip("rsl_rl")

from rsl_rl.algorithms import PPO  # noqa: E402
from rsl_rl.models import MLPModel, RNNModel  # noqa: E402
from rsl_rl.runners import DistillationRunner, OnPolicyRunner  # noqa: E402
from tensordict import TensorDict  # noqa: E402

from ncp_control.integrations.rsl_rl import CircuitModel, GymVecEnv  # noqa: E402

GAUSSIAN = {"class_name": "GaussianDistribution", "init_std": 0.5}
CIRCUIT = {"class_name": "ncp_control.integrations.rsl_rl:CircuitModel", "wiring": "AutoNCP(24, 8)"}
ALGORITHM = {
    "class_name": "PPO",
    "num_learning_epochs": 2,
    "num_mini_batches": 2,
    "rnd_cfg": None,
    "symmetry_cfg": None,
}
SEEN = {"policy": range(5), "all": range(11)}


def ppo(actor: dict[str, Any] | None = None, critic: dict[str, Any] | None = None, **changes: Any) -> Any:
    """A runner of PPO in the Hopper, whose actor sees positions only and whose episodes are short."""
    torch.manual_seed(0)
    configuration = {
        "num_steps_per_env": 40, "save_interval": 100, "obs_groups": {"actor": ["policy"], "critic": ["all"]},
        "actor": {**CIRCUIT, "distribution_cfg": GAUSSIAN, "obs_normalization": True, **(actor or {})},
        "critic": critic or CIRCUIT, "algorithm": {**ALGORITHM, **changes},
    }  # fmt: skip
    return OnPolicyRunner(GymVecEnv("Hopper-v5", 6, SEEN), configuration)


def learn(runner: Any, iterations: int) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        runner.learn(iterations)
    return runner


@pytest.fixture(scope="module")
def trained() -> Any:
    return learn(ppo(), 3)


def observations(groups: dict[str, int], rows: int = 4) -> Any:
    return TensorDict({key: torch.randn(rows, size) for key, size in groups.items()}, batch_size=[rows])


def model(**settings: Any) -> Any:
    """A model that reads five numbers and returns three."""
    torch.manual_seed(0)
    return CircuitModel(
        observations({"policy": 5}), {"actor": ["policy"]}, "actor", 3, wiring="AutoNCP(24, 8)", **settings
    )


def test_a_configuration_alone_makes_actor_and_critic_circuits(trained: Any) -> None:
    assert isinstance(trained.alg.actor, CircuitModel)
    assert isinstance(trained.alg.critic, CircuitModel)
    assert trained.alg.actor.rnn.circuit.cell.wiring.units == 24
    assert trained.alg.actor.get_hidden_state().shape == (1, 6, trained.alg.actor.rnn.circuit.hidden_size)


@pytest.mark.parametrize("cell", ["dualltc", "ltc", "cfc"])
def test_the_update_computes_again_what_the_rollout_computed(cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padded trajectories from stored states give the log-probabilities and values of the steps."""
    runner = ppo({"cell": cell}, {**CIRCUIT, "cell": cell}, learning_rate=0.0)
    apart, episodes = [], []
    update = PPO.update

    def compared(self: Any) -> Any:
        episodes.append(int(self.storage.dones.sum()))
        for batch in self.storage.recurrent_mini_batch_generator(2, 1):
            self.actor(batch.observations, batch.masks, batch.hidden_states[0], stochastic_output=True)
            found = self.actor.get_output_log_prob(batch.actions)
            values = self.critic(batch.observations, batch.masks, batch.hidden_states[1])
            apart.append((found - batch.old_actions_log_prob.squeeze(-1)).abs().max().item())
            apart.append((values - batch.values).abs().max().item())
        return update(self)

    runner.alg.actor.obs_normalization = False  # its statistics would change between the rollout and the update
    monkeypatch.setattr(PPO, "update", compared)
    learn(runner, 3)
    assert sum(episodes) > 5
    assert max(apart) < 1e-5


def test_an_ended_episode_begins_from_zeros_and_the_others_go_on() -> None:
    actor, seen = model(), observations({"policy": 5})
    actor(seen)
    before = actor.get_hidden_state().clone()
    actor.reset(torch.tensor([0, 1, 0, 0]))
    after = actor.get_hidden_state()
    assert (after[0, 1] == 0).all()
    assert torch.equal(after[0, [0, 2, 3]], before[0, [0, 2, 3]])
    actor.reset()
    assert actor.get_hidden_state() is None


def test_detaching_ends_the_gradient_of_ended_episodes_only() -> None:
    actor, first = model(), observations({"policy": 5}).requires_grad_()
    actor(first)
    actor.detach_hidden_state(torch.tensor([1, 0, 0, 0]))
    actor(observations({"policy": 5})).sum().backward()
    gradients = first["policy"].grad.abs().sum(dim=1)
    assert gradients[0] == 0
    assert (gradients[1:] > 0).all()


def test_distillation_teaches_a_circuit_what_a_checkpoint_of_ppo_knows(tmp_path: Path) -> None:
    mlp = {"class_name": "MLPModel", "hidden_dims": [16, 16], "obs_normalization": True}
    torch.manual_seed(0)
    teacher = OnPolicyRunner(
        GymVecEnv("Hopper-v5", 6, SEEN),
        {
            "num_steps_per_env": 40, "save_interval": 100, "obs_groups": {"actor": ["all"], "critic": ["all"]},
            "actor": {**mlp, "distribution_cfg": GAUSSIAN}, "critic": mlp, "algorithm": ALGORITHM,
        },
    )  # fmt: skip
    learn(teacher, 2).save(str(tmp_path / "model_2.pt"))
    runner = DistillationRunner(
        GymVecEnv("Hopper-v5", 6, SEEN),
        {
            "num_steps_per_env": 45, "save_interval": 100, "obs_groups": {"student": ["policy"], "teacher": ["all"]},
            "student": {**CIRCUIT, "distribution_cfg": {**GAUSSIAN, "init_std": 0.1}},
            "teacher": {**mlp, "distribution_cfg": GAUSSIAN},
            "algorithm": {
                "class_name": "Distillation", "num_learning_epochs": 2, "gradient_length": 15, "learning_rate": 3e-3,
            },
        },
    )  # fmt: skip
    runner.load(str(tmp_path / "model_2.pt"))
    losses = []
    update = runner.alg.update
    runner.alg.update = lambda: losses.append(update()["behavior"]) or {"behavior": losses[-1]}
    learn(runner, 25)
    assert losses[-1] < 0.3 * losses[0]
    assert isinstance(runner.get_inference_policy(), CircuitModel)


def test_a_checkpoint_is_a_teacher_of_distil(trained: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    seen = observations({"all": 11}, rows=50)
    mlp = MLPModel(seen, {"actor": ["all"]}, "actor", 3, [16, 8], "tanh", True, GAUSSIAN)
    mlp.update_normalization(seen * 3 + 1)
    torch.save({"actor_state_dict": mlp.state_dict(), "iter": 1, "infos": None}, tmp_path / "model_1.pt")
    (tmp_path / "agent.yaml").write_text("actor: {class_name: MLPModel, activation: tanh}")
    teacher = load_teacher(str(tmp_path / "model_1.pt"))
    actions, _ = teacher.predict(seen["all"].numpy())
    np.testing.assert_allclose(actions, mlp.eval()(seen).detach().numpy(), atol=1e-6)
    assert "3 layers with tanh between them, as agent.yaml says" in capsys.readouterr().err
    trained.save(str(tmp_path / "model_3.pt"))
    with pytest.raises(ValueError, match="is recurrent"):
        load_teacher(str(tmp_path / "model_3.pt"))


def test_the_onnx_file_acts_as_the_model_with_onnxruntime_numpy_and_gymnasium_alone(
    trained: Any, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    trained.export_policy_to_onnx(str(tmp_path))
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    assert [value.name for value in session.get_inputs()] == ["obs", "h_in"]
    assert [value.name for value in session.get_outputs()] == ["actions", "h_out"]
    size = trained.alg.actor.rnn.circuit.hidden_size
    assert session.get_inputs()[1].shape == [1, 1, size]
    actor = trained.get_inference_policy()
    env, apart, steps = gym.make("Hopper-v5"), 0.0, 0
    while steps < 1000:
        seen, _ = env.reset(seed=steps)
        state, over = np.zeros((1, 1, size), np.float32), False
        actor.reset()
        while not over and steps < 1000:
            row = seen[None, :5].astype(np.float32)
            action, state = session.run(None, {"obs": row, "h_in": state})
            with torch.inference_mode():
                expected = actor(TensorDict({"policy": torch.as_tensor(row)}, batch_size=[1]))
            apart = max(apart, float(np.abs(action - expected.numpy()).max()))
            seen, _, terminated, truncated, _ = env.step(np.clip(action[0], -1, 1))
            over, steps = terminated or truncated, steps + 1
    assert apart < 1e-5


def test_the_torchscript_file_acts_as_the_model_and_can_be_reset(trained: Any, tmp_path: Path) -> None:
    trained.export_policy_to_jit(str(tmp_path))
    script, actor = torch.jit.load(tmp_path / "policy.pt"), trained.get_inference_policy()
    rows = torch.randn(40, 1, 5)
    for _ in range(2):
        actor.reset()
        script.reset()
        with torch.inference_mode():
            for row in rows:
                expected = actor(TensorDict({"policy": row}, batch_size=[1]))
                assert torch.allclose(script(row), expected, atol=1e-5)


@pytest.mark.parametrize("hidden", [(), (12, 7)])
def test_an_agent_of_a_model_acts_as_the_model(hidden: tuple[int, ...], tmp_path: Path) -> None:
    actor = model(hidden_dims=hidden, activation="tanh", obs_normalization=True, distribution_cfg=GAUSSIAN)
    actor.update_normalization(observations({"policy": 5}, 200) * 3 + 1)
    path = tmp_path / "agent.safetensors"
    actor.eval().save_agent(path, limits=(-0.3, 0.2))
    agent, state, apart = load_policy(path), None, 0.0
    for step in range(1000):
        seen = observations({"policy": 5}) * 2
        with torch.no_grad():
            expected = actor(seen).clamp(-0.3, 0.2).numpy()
        actions, state = agent.predict(seen["policy"].numpy(), state, np.full(4, step == 0))
        apart = max(apart, float(np.abs(actions - expected).max()))
    assert apart < 1e-5
    assert agent.policy.log_std.exp().tolist() == pytest.approx([0.5] * 3)
    assert not agent.has_trained_critic


def test_an_agent_of_an_environment_has_its_spaces(trained: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Hopper-v5 has observations of shape \(11,\) .* reads 5 numbers"):
        trained.get_inference_policy().save_agent(tmp_path / "x.safetensors", "Hopper-v5")
    assert not list(tmp_path.iterdir())
    trained.get_inference_policy().save_agent(tmp_path / "x.safetensors", "ncp/HopperNoVel-v0")
    agent = load_policy(tmp_path / "x.safetensors")
    assert agent.note["env"] == "ncp/HopperNoVel-v0"
    assert agent.action_space == gym.make("Hopper-v5").action_space


def test_other_distributions_are_no_policy_file(tmp_path: Path) -> None:
    actor = model(distribution_cfg={"class_name": "BetaDistribution"})
    with pytest.raises(ValueError, match="holds Gaussian actions, and this model has a BetaDistribution"):
        actor.save_agent(tmp_path / "x.safetensors")


class Leaky(torch.nn.Module):
    """A memory with the interface of `torch.nn.GRU`."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.inputs, self.units, self.into = inputs, units, torch.nn.Linear(inputs, units)

    def forward(self, inputs: torch.Tensor, state: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        h = inputs.new_zeros(inputs.shape[1], self.units) if state is None else state[0]
        steps = []
        for seen in inputs:
            h = 0.8 * h + 0.2 * torch.tanh(self.into(seen))
            steps.append(h)
        return torch.stack(steps), h[None]


class LeakyOnnx(torch.nn.Module):
    """Its exporter to ONNX."""

    input_names = ("obs", "h_in")
    output_names = ("actions", "h_out")

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.memory, self.mlp = model.rnn.rnn, model.mlp

    def forward(self, obs: torch.Tensor, h_in: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        steps, h_out = self.memory(obs[None], h_in)
        return self.mlp(steps[0]), h_out

    def get_dummy_inputs(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(1, self.memory.inputs), torch.zeros(1, 1, self.memory.units)


def test_the_drafted_exporter_applies_and_exports_a_memory_of_ones_own(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    (patch,) = blocks(ROOT / "docs" / "integrations" / "rsl_rl-exporter.md", "diff")
    source = Path(inspect.getfile(RNNModel))
    copied = tmp_path / "rsl_rl" / "models" / "rnn_model.py"
    copied.parent.mkdir(parents=True)
    shutil.copy(source, copied)
    apply = ["git", "apply", "--unidiff-zero", "-"]
    subprocess.run(apply, cwd=tmp_path, input=patch, text=True, check=True, env={**os.environ, "GIT_DIR": "/dev/null"})
    spec = importlib.util.spec_from_file_location("patched_rnn_model", copied)
    assert spec is not None
    assert spec.loader is not None
    patched = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(patched)
    torch.manual_seed(0)
    groups = {"actor": ["policy"]}
    made = patched.RNNModel(observations({"policy": 5}), groups, "actor", 3, [8], rnn_hidden_dim=6)
    assert made.as_jit().hidden_state.shape == (1, 1, 6)  # an LSTM, as before
    made.rnn.rnn = Leaky(5, 6)
    with pytest.raises(NotImplementedError, match="Unsupported RNN type"):
        made.as_jit()
    patched.RNNModel.register_exporter(Leaky, jit=LeakyOnnx, onnx=LeakyOnnx)
    exported = made.as_onnx()
    names = {"input_names": exported.input_names, "output_names": exported.output_names}
    torch.onnx.export(exported, exported.get_dummy_inputs(), tmp_path / "policy.onnx", opset_version=18, **names)
    session, state = onnxruntime.InferenceSession(tmp_path / "policy.onnx"), np.zeros((1, 1, 6), np.float32)
    made.reset()
    for _ in range(20):
        seen = observations({"policy": 5}, rows=1)
        action, state = session.run(None, {"obs": seen["policy"].numpy(), "h_in": state})
        np.testing.assert_allclose(action, made(seen).detach().numpy(), atol=1e-5)


def test_environments_give_groups_and_say_why_an_episode_ended() -> None:
    env = GymVecEnv(lambda: gym.make("Hopper-v5", max_episode_steps=3), 2, SEEN, seed=5)
    plain = gym.make("Hopper-v5")
    seen, _ = plain.reset(seed=6)
    np.testing.assert_allclose(env.get_observations()["all"][1], seen, atol=1e-6)
    for step in range(3):
        found, rewards, dones, extras = env.step(torch.full((2, 3), 5.0))
        seen, reward, _, _, _ = plain.step(np.ones(3, np.float32))
        assert rewards[1].item() == pytest.approx(reward, abs=1e-5)
        assert dones.tolist() == [step == 2] * 2
        assert extras["time_outs"].tolist() == [step == 2] * 2
        if step < 2:
            np.testing.assert_allclose(found["policy"][1], seen[:5], atol=1e-5)
    assert env.episode_length_buf.tolist() == [0, 0]


def test_environments_that_rsl_rl_cannot_use_are_refused() -> None:
    with pytest.raises(ValueError, match="needs actions that are vectors"):
        GymVecEnv("CartPole-v1", 2)
    with pytest.raises(ValueError, match="the group 'policy' needs numbers from 0 to 10"):
        GymVecEnv("Hopper-v5", 2, {"policy": range(12)})
