"""Circuits in rsl_rl: as actor, as critic, as the student of its distillation, and out again as TorchScript and ONNX.

Its configuration names the class, and nothing else changes::

    "actor": {"class_name": "ncp_control.integrations.rsl_rl:CircuitModel", "wiring": "AutoNCP(48, 16)", ...}
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from rsl_rl.env import VecEnv
from rsl_rl.models import RNNModel
from rsl_rl.modules import EmpiricalNormalization
from rsl_rl.modules.distribution import GaussianDistribution
from rsl_rl.utils import unpad_trajectories
from tensordict import TensorDict
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ncp_control.data.env_specs import import_for
from ncp_control.data.normalizing import normalization
from ncp_control.rl.files.policy_file import write_policy
from ncp_control.rl.policies.circuit import Circuit, chosen_wiring
from ncp_control.rl.policies.recurrent import policy_around
from ncp_control.rl.recipes.env_making import make_env
from ncp_control.rnn import RNN
from ncp_envs import MujocoVectorEnv

DEFAULT_CELL = "dualltc"


class CircuitModel(RNNModel):  # type: ignore[misc]
    """A model of rsl_rl whose memory is a circuit: an actor, a critic or a student.

    :param obs: observations, as rsl_rl gives them to every model
    :param obs_groups: the groups of observations in each set
    :param obs_set: the set that this model reads, such as "actor", "critic" or "student"
    :param output_dim: how many numbers the model returns
    :param hidden_dims: the hidden layers behind the circuit; none by default, so that one linear layer maps the motor
        neurons to the output
    :param activation: the activation of these layers
    :param obs_normalization: normalise observations by their running mean and variance
    :param distribution_cfg: the distribution from which actions are drawn
    :param cell: the name of the cell, such as "dualltc", "ltc" or "cfc"
    :param wiring: a plan as text, such as "AutoNCP(48, 16)", or a number of fully connected neurons
    :param cell_kwargs: the cell's settings
    """

    def __init__(
        self,
        obs: TensorDict,
        obs_groups: dict[str, list[str]],
        obs_set: str,
        output_dim: int,
        hidden_dims: tuple[int, ...] | list[int] = (),
        activation: str = "elu",
        obs_normalization: bool = False,
        distribution_cfg: dict[str, Any] | None = None,
        cell: str = DEFAULT_CELL,
        wiring: str | int | None = None,
        cell_kwargs: dict[str, Any] | None = None,
    ) -> None:
        inputs = sum(obs[group].shape[-1] for group in obs_groups[obs_set])
        circuit = Circuit(inputs, chosen_wiring(wiring, cell), cell, cell_kwargs)
        # rsl_rl wants a hidden layer, and makes an LSTM; both are replaced
        super().__init__(
            obs, obs_groups, obs_set, output_dim, tuple(hidden_dims) or (1,), activation, obs_normalization,
            distribution_cfg, rnn_hidden_dim=circuit.output_size,
        )  # fmt: skip
        if not hidden_dims:
            made = list(self.mlp)
            last = linear_layers(made)[-1]
            behind = made[made.index(last) + 1 :]
            self.mlp: nn.Sequential = nn.Sequential(nn.Linear(circuit.output_size, last.out_features), *behind)
            if self.distribution is not None:
                self.distribution.init_mlp_weights(self.mlp)
        self.rnn = CircuitMemory(circuit)

    def as_jit(self) -> nn.Module:
        """Returns the model for TorchScript: (1, n) to (1, A). It holds its state; `reset` clears it."""
        return ScriptedCircuit(CircuitStep(self))

    def as_onnx(self, verbose: bool = False) -> nn.Module:
        """Returns the model for ONNX: obs (1, n) and h_in (1, 1, N) to actions (1, A) and h_out (1, 1, N)."""
        return CircuitStep(self)

    def save_agent(
        self,
        path: str | Path,
        env: str | None = None,
        limits: tuple[Any, Any] = (-1.0, 1.0),
        note: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes the model as a policy file, which all commands of `ncp-control` take.

        :param path: the file, such as "agent.safetensors"
        :param env: the id of the Gymnasium environment in which the agent acts, whose spaces the file gets
        :param limits: without `env`, the least and the greatest actions, to which the agent's actions are clipped
        :param note: anything worth keeping with the policy, as JSON values
        """
        if not isinstance(self.distribution, GaussianDistribution | None):
            raise ValueError(
                f"a policy file holds Gaussian actions, and this model has a {type(self.distribution).__name__}: train "
                "it with GaussianDistribution"
            )
        layers = linear_layers(self.mlp)
        read, given = self.obs_dim, layers[-1].out_features
        seen: Any = spaces.Box(-np.inf, np.inf, (read,), np.float32)
        low, high = (np.full(given, limit, np.float32) for limit in limits)
        acted: Any = spaces.Box(low, high)
        if env is not None:
            made = make_env(env)
            seen, acted = made.observation_space, made.action_space
            made.close()
            if (seen.shape, acted.shape) != ((read,), (given,)):
                raise ValueError(
                    f"{env} has observations of shape {seen.shape} and actions of shape {acted.shape}, and this model "
                    f"reads {read} numbers and returns {given}: name an environment with the model's observations"
                )
        activation = type(self.mlp[1]) if layers[:-1] else nn.ELU
        policy = policy_around(self.rnn.circuit.cell, layers, seen, acted, activation)
        if self.distribution is not None:
            self.distribution.update(torch.zeros(1, given, device=layers[-1].weight.device))
            policy.log_std.data.copy_(self.distribution.std.detach()[0].log())
        about = {"algo": "rsl_rl", "critic": "untrained", **({"env": env} if env else {}), **(note or {})}
        write_policy(policy, path, about, normalization_of_model(self.obs_normalizer))


class CircuitMemory(nn.Module):
    """A circuit with the methods of rsl_rl's `RNN`, which holds the state of every environment.

    :param circuit: the circuit
    """

    def __init__(self, circuit: Circuit) -> None:
        super().__init__()
        self.circuit = circuit
        self.hidden_state: Tensor | None = None

    def forward(self, inputs: Tensor, masks: Tensor | None = None, hidden_state: Tensor | None = None) -> Tensor:
        """Takes one step, or runs whole trajectories from given states.

        :param inputs: (B, F), one step of every environment; or padded trajectories (T, S, F) with `masks`
        :param masks: (T, S), true at the steps of a trajectory
        :param hidden_state: the states before the trajectories, (1, S, N)
        :return: (1, B, O), or the outputs of all steps without the padding (T, B, O)
        """
        if masks is None:
            state = self.circuit.rnn.initial_state(len(inputs)) if self.hidden_state is None else self.hidden_state[0]
            no_start = torch.zeros(len(inputs), 1, dtype=torch.bool, device=inputs.device)
            outputs, after = self.circuit(inputs[:, None], state, no_start)
            self.hidden_state = after[None]
            steps: Tensor = outputs.transpose(0, 1)
            return steps
        if hidden_state is None:
            raise ValueError("trajectories need the states before them: pass hidden_state")
        outputs, _ = self.circuit(inputs.transpose(0, 1), hidden_state[0], None)
        found: Tensor = unpad_trajectories(outputs.transpose(0, 1), masks)
        return found

    def reset(self, dones: Tensor | None = None, hidden_state: Tensor | None = None) -> None:
        """Sets all states, or begins new episodes where `dones` (B,) is 1."""
        if dones is None:
            self.hidden_state = hidden_state
        elif hidden_state is not None:
            raise ValueError("a state for ended episodes alone is not supported: leave out dones or hidden_state")
        elif self.hidden_state is not None:
            self.hidden_state = torch.where(dones.bool()[:, None], 0.0, self.hidden_state)

    def detach_hidden_state(self, dones: Tensor | None = None) -> None:
        """Ends the flow of gradients through all states, or through those where `dones` (B,) is 1."""
        if self.hidden_state is not None:
            detached = self.hidden_state.detach()
            ended = None if dones is None else dones.bool()[:, None]
            self.hidden_state = detached if ended is None else torch.where(ended, detached, self.hidden_state)


class CircuitStep(nn.Module):
    """One step of a model in torch's own operations, as rsl_rl exports it: obs, h_in -> actions, h_out.

    :param model: the model, which is copied
    """

    is_recurrent = True
    input_names = ("obs", "h_in")
    output_names = ("actions", "h_out")

    def __init__(self, model: CircuitModel) -> None:
        super().__init__()
        self.obs_normalizer = copy.deepcopy(model.obs_normalizer)
        self.rnn = RNN(copy.deepcopy(model.rnn.circuit.cell), backend="reference")
        self.mlp = copy.deepcopy(model.mlp)
        told = model.distribution
        self.output = nn.Identity() if told is None else told.as_deterministic_output_module()
        self.cpu().eval().requires_grad_(False)

    def forward(self, obs: Tensor, h_in: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the actions (B, A), and the state after them (1, B, N)."""
        # torch's older exporter, which mjlab takes, traces, and has no expm1
        with WithoutExpm1() if torch.onnx.is_in_onnx_export() and torch.jit.is_tracing() else nullcontext():  # type: ignore[attr-defined, no-untyped-call]
            outputs, after = self.rnn.step(self.obs_normalizer(obs), h_in[0])
        return self.output(self.mlp(outputs)), after[None]

    def get_dummy_inputs(self) -> tuple[Tensor, Tensor]:
        """Returns inputs of the right shapes."""
        return torch.zeros(1, self.rnn.cell.inputs), self.rnn.initial_state(1)[None]


class WithoutExpm1(TorchFunctionMode):
    """Computes exp(x) - 1 of numbers of at most 0 by tanh, without the loss of digits near 0 that a subtraction has."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.expm1, Tensor.expm1):
            half = torch.tanh(args[0] / 2)
            return 2 * half / (1 - half)
        return func(*args, **(kwargs or {}))


class ScriptedCircuit(nn.Module):
    """A `CircuitStep` that holds its state, for TorchScript.

    :param step: the step
    """

    if TYPE_CHECKING:  # torch would read the annotation, and cannot
        hidden_state: Tensor

    def __init__(self, step: CircuitStep) -> None:
        super().__init__()
        example = step.get_dummy_inputs()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of branches on shapes, which are fixed here
            self.step: Any = torch.jit.trace(step, example)
        self.register_buffer("hidden_state", example[1])

    def forward(self, x: Tensor) -> Tensor:
        """Returns the actions for observations (1, n)."""
        actions, after = self.step(x, self.hidden_state)
        self.hidden_state[:] = after
        return actions  # type: ignore[no-any-return]

    @torch.jit.export
    def reset(self) -> None:
        """Begins a new episode."""
        self.hidden_state[:] = 0.0


class GymVecEnv(VecEnv):  # type: ignore[misc]
    """Environments of Gymnasium as a vector environment of rsl_rl.

    Example::

        env = GymVecEnv("HalfCheetah-v5", 64, groups={"policy": range(8), "teacher": range(17)})

    :param env: the environment's id, or a function that makes one
    :param num_envs: how many environments
    :param groups: groups of observations: for each the numbers that it has of the environment's observation. By default
        the one group "policy", which has all
    :param seed: the seed of the first environment; the following ones have the following seeds
    :param device: where rsl_rl computes
    """

    def __init__(
        self,
        env: str | Callable[[], gym.Env[Any, Any]],
        num_envs: int,
        groups: Mapping[str, Iterable[int]] | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        name = import_for(env) if isinstance(env, str) else ""
        make = env if callable(env) else lambda: gym.make(name, disable_env_checker=True)
        self.envs = vector_of([make] * num_envs)
        seen: Any = self.envs.single_observation_space
        acted: Any = self.envs.single_action_space
        for what, space in (("observations", seen), ("actions", acted)):
            if not isinstance(space, spaces.Box) or len(space.shape) != 1:
                raise ValueError(f"rsl_rl needs {what} that are vectors of numbers, and those of {env} are {space}")
        self.num_envs, self.num_actions, self.device = num_envs, int(acted.shape[0]), device
        size = int(seen.shape[0])
        self.groups = {key: list(numbers) for key, numbers in (groups or {"policy": range(size)}).items()}
        for key, numbers in self.groups.items():
            if not numbers or not all(0 <= number < size for number in numbers):
                raise ValueError(f"the group {key!r} needs numbers from 0 to {size - 1}, as an observation has {size}")
        self.low, self.high = acted.low, acted.high
        spec = self.envs.spec
        self.max_episode_length = getattr(spec, "max_episode_steps", None) or 1000
        self.cfg = {"env": env if isinstance(env, str) else getattr(env, "__name__", "env"), "num_envs": num_envs}
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long, device=device)
        self._seen, _ = self.envs.reset(seed=seed)

    def get_observations(self) -> TensorDict:
        """Returns the groups of the current observations, each (B, n)."""
        seen = torch.as_tensor(self._seen, dtype=torch.float32, device=self.device)
        groups = {key: seen[:, numbers] for key, numbers in self.groups.items()}
        return TensorDict(groups, batch_size=[self.num_envs], device=self.device)

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        """Takes a step everywhere, with actions (B, A) that are clipped to their limits; ended episodes begin anew."""
        clipped = np.clip(actions.detach().cpu().numpy(), self.low, self.high)
        self._seen, rewards, terminated, truncated, _ = self.envs.step(clipped)
        dones = torch.as_tensor(terminated | truncated, device=self.device)
        self.episode_length_buf = torch.where(dones, 0, self.episode_length_buf + 1)
        timed_out = torch.as_tensor(truncated & ~terminated, device=self.device)
        reward = torch.as_tensor(rewards, dtype=torch.float32, device=self.device)
        return self.get_observations(), reward, dones.long(), {"time_outs": timed_out}

    def close(self) -> None:
        """Closes the environments."""
        self.envs.close()


def vector_of(makers: list[Callable[[], gym.Env[Any, Any]]]) -> SyncVectorEnv:
    """Returns environments side by side, in the fast form if there is one for their body."""
    try:
        return MujocoVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    except ValueError:
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)


def linear_layers(layers: Iterable[nn.Module]) -> list[nn.Linear]:
    """Returns the linear layers among some layers."""
    return [layer for layer in layers if isinstance(layer, nn.Linear)]


def normalization_of_model(module: nn.Module) -> dict[str, Any] | None:
    """Returns how a model normalises observations, as a policy file says it; None for a model that does not."""
    if not isinstance(module, EmpiricalNormalization):
        return None
    scale = (module.std + module.eps).double().cpu().numpy()
    return normalization({"": (module.mean.double().cpu().numpy(), scale**2)}, 0.0, None)
