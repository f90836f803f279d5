"""Circuits in RLlib: a module of its new API stack, and out again as a policy file.

The specification names the class and its settings::

    spec = RLModuleSpec(CircuitRLModule, model_config={"wiring": "AutoNCP(32, 8)", "max_seq_len": 32})
    PPOConfig().environment("Pendulum-v1").rl_module(rl_module_spec=spec)
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from ray.rllib.connectors.common import AddObservationsFromEpisodesToBatch
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES
from ray.rllib.utils.filter import RunningStat
from torch import Tensor, nn

from ncp_control.base.values import check_known
from ncp_control.data.normalizing import normalization
from ncp_control.rl.files.policy_file import check_name, write_policy
from ncp_control.rl.policies.circuit import Circuit, chosen_wiring
from ncp_control.rl.policies.recurrent import policy_around, rescaled

# Settings in model_config: ours, and those that algorithms of RLlib add unasked.
KNOWN = ("cell", "wiring", "cell_kwargs", "critic_units", *DefaultModelConfig.__dataclass_fields__)
SEQUENCE = 64
EPSILON = 1e-8  # that MeanStdFilter adds to the standard deviation


class CircuitRLModule(TorchRLModule, ValueFunctionAPI):
    """A module of RLlib whose memory is a circuit; an LSTM of its own estimates the values.

    Observations are vectors; actions are from a `Box` or a `Discrete` space. The settings in `model_config`:

    - `cell`: the name of the cell, by default "dualltc", and `cell_kwargs`, its settings;
    - `wiring`: a plan as text, such as "AutoNCP(32, 8)", or a number of fully connected neurons;
    - `critic_units`: the units of the LSTM, by default 32;
    - `max_seq_len`: the most steps that gradients flow back through, by default 64.
    """

    def setup(self) -> None:
        """Makes the circuit, the LSTM, and the layers behind them."""
        config: Any = self.model_config
        given = {"max_seq_len": SEQUENCE, **(config if isinstance(config, dict) else vars(config))}
        self.model_config = given  # in which RLlib looks for max_seq_len
        check_known(given, KNOWN, "the model_config does not fit CircuitRLModule: there is")
        seen: Any = self.observation_space
        acted: Any = self.action_space
        if not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
            raise ValueError(f"CircuitRLModule reads vectors, and these observations are {seen}: flatten them first")
        chooses = isinstance(acted, spaces.Discrete)
        if not (chooses or (isinstance(acted, spaces.Box) and len(acted.shape) == 1 and acted.dtype.kind == "f")):
            raise ValueError(f"CircuitRLModule gives vectors of numbers or a choice as actions, not those of {acted}")
        features, cell = int(seen.shape[0]), given.get("cell", "dualltc")
        self.circuit = Circuit(features, chosen_wiring(given.get("wiring"), cell), cell, given.get("cell_kwargs"))
        self.critic = Circuit(features, given.get("critic_units", 32), "lstm")
        size = int(acted.n if chooses else acted.shape[0])
        self.action = nn.Linear(self.circuit.output_size, size)
        self.log_std = None if chooses else nn.Parameter(torch.zeros(size))
        self.value = nn.Linear(self.critic.output_size, 1)

    def get_initial_state(self) -> dict[str, NDArray[np.float32]]:
        """Returns the states before an episode."""
        return {name: np.zeros(part.hidden_size, np.float32) for name, part in self._parts()}

    def _parts(self) -> tuple[tuple[str, Circuit], ...]:
        return ("circuit", self.circuit), ("critic", self.critic)

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Returns the distribution of the actions (B, T, D), and the states after the last step (B, N)."""
        after, outputs = {}, {}
        for name, part in self._parts():
            outputs[name], after[name] = part(batch[Columns.OBS], batch[Columns.STATE_IN][name], None)
        means = self.action(outputs["circuit"])
        told = means if self.log_std is None else torch.cat([means, self.log_std.expand_as(means)], dim=-1)
        return {Columns.ACTION_DIST_INPUTS: told, Columns.STATE_OUT: after, Columns.EMBEDDINGS: outputs["critic"]}

    def compute_values(self, batch: dict[str, Any], embeddings: Tensor | None = None) -> Tensor:
        """Returns the values (B, T)."""
        if embeddings is None:
            embeddings, _ = self.critic(batch[Columns.OBS], batch[Columns.STATE_IN]["critic"], None)
        values: Tensor = self.value(embeddings)
        return values.squeeze(-1)


def save_agent(algorithm: Any, path: str | Path, note: Mapping[str, Any] | None = None) -> None:
    """Writes the circuit that an algorithm trained as a policy file, which all commands of `ncp-control` take.

    The file acts on the environment's own observations and in its own actions: it contains what the algorithm's
    `MeanStdFilter` has learnt, if there is one, and the range to which RLlib scales actions.

    :param algorithm: the `Algorithm`, whose module is a `CircuitRLModule`
    :param path: the file, such as "agent.safetensors"
    :param note: anything worth keeping with the policy, as JSON values
    """
    check_name(path)
    module, config = algorithm.get_module(), algorithm.config
    if not isinstance(module, CircuitRLModule):
        raise TypeError(f"save_agent writes a CircuitRLModule, and this algorithm has a {type(module).__name__}")
    seen, acted = algorithm.spaces[INPUT_ENV_SINGLE_SPACES]
    normalize = normalization_of_algorithm(algorithm)
    action: nn.Linear = module.action
    log_std: Tensor | None = module.log_std
    if log_std is not None and config.normalize_actions and acted.is_bounded():
        half, middle = (torch.as_tensor((acted.high + sign * acted.low) / 2) for sign in (-1, 1))
        action, log_std = rescaled(action, half, middle), log_std + half.log()
    policy = policy_around(module.circuit.cell, [action], seen, acted)
    if log_std is not None:
        policy.log_std.data.copy_(log_std.data)
    known = {"env": config.env} if config.env in gym.registry else {}
    about = {"algo": f"RLlib {type(algorithm).__name__}", "critic": "untrained", **known, **(note or {})}
    write_policy(policy, path, about, normalize)


def normalization_of_algorithm(algorithm: Any) -> dict[str, Any] | None:
    """Returns how an algorithm normalises observations, as a policy file says it; None if it does not.

    Any other connector that changes observations is refused.
    """
    runner = algorithm.env_runner
    pipeline = algorithm.env_to_module_connector if runner is None else runner._env_to_module
    own = list(takewhile(lambda piece: type(piece) is not AddObservationsFromEpisodesToBatch, pipeline.connectors))
    if not own:
        return None
    if len(own) > 1 or type(own[0]) is not MeanStdFilter:
        names = ", ".join(type(piece).__name__ for piece in own)
        raise ValueError(f"a policy file holds one MeanStdFilter, and observations go through {names}: train without")
    state: Any = next(iter(own[0].get_state().values()))  # of the one agent
    statistics: Any = RunningStat.from_state(state["running_stats"][0])  # type: ignore[no-untyped-call]
    mean, std = statistics.mean, statistics.std + EPSILON
    if not state["de_mean_to_zero"]:
        mean = np.zeros_like(mean)
    if not state["de_std_to_one"]:
        std = np.ones_like(std)
    return normalization({"": (mean, std**2)}, 0.0, state["clip_by_value"] or None)
