"""The student: an agent of recurrent PPO whose actor is a circuit, and how it learns from labels."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor, nn
from torch.nn import functional

from ncp_control.base.muon import Muon
from ncp_control.distil.demonstrations import ALONE, Demonstrations
from ncp_control.distil.environments import EnvRecipe
from ncp_control.distil.settings import DistilSettings
from ncp_control.distil.smaller import Numbers, copy_parameters
from ncp_control.neurons import named_cell
from ncp_control.rl.on_policy import RecurrentPPO
from ncp_control.rl.recipes.building import make_envs
from ncp_control.rl.recipes.recipe import Recipe
from ncp_control.rl.starting import CERTAIN
from ncp_control.wiring import NCP

Array = NDArray[Any]
CIRCUIT = "lstm_actor."
EDGE = 0.005  # of the range: labels so near to a bound are at it
# The standard deviation of sampled actions, as a share of the error that is left: that error is no noise, and
# a half-cheetah that explores with all of it loses half its return.
SPREAD = 1 / 3
LEAST_SPREAD = 1e-3  # of an action
DEFAULT_CELL = "dualltc"
# 48 neurons with every synapse that an NCP can have: a student that shall have fewer finds out which ones it needs.
DEFAULT_WIRING = NCP(
    20, 12, 16, sensory_fanout=20, inter_fanout=12, recurrent_command=144, motor_fanin=12, recurrent_inter=400
)


class Student:
    """Trains the actor of a model on windows of demonstrations.

    :param model: a model of recurrent PPO in an environment with `VecNormalize`
    :ivar parameters: the actor's parameters, which hold a running average of the trained ones
    :ivar trained: the trained values of these parameters
    """

    def __init__(self, model: Any) -> None:
        self.model, self.policy = model, model.policy
        self.normalizer: VecNormalize = model.get_vec_normalize_env()
        self.circuit = self.policy.lstm_actor
        space = model.action_space
        self.is_discrete = isinstance(space, spaces.Discrete)
        if self.is_discrete:
            self.first_choice = int(space.start)
        else:
            self.low, self.high = (torch.as_tensor(bound).flatten() for bound in (space.low, space.high))
        check_extractor(self.policy.pi_features_extractor)
        self.parameters = [
            parameter for name, parameter in self.policy.named_parameters()
            if name != "log_std" and not self.policy.is_critics(name)
        ]  # fmt: skip
        self.trained = [parameter.detach().clone() for parameter in self.parameters]

    def optimizer(self, settings: DistilSettings) -> torch.optim.Optimizer:
        """Returns a new optimizer of the actor, at the first learning rate."""
        rate = settings.rate(0)
        if settings.optimizer == "muon":
            return Muon(self.policy, rate)  # the critic's parameters never have gradients here
        return torch.optim.Adam(self.parameters, lr=rate, fused=True)

    def set_statistics(self, demonstrations: Demonstrations) -> None:
        """Sets the mean and the variance by which observations are normalised."""
        found = self.normalizer.obs_rms
        for key, statistics in found.items() if isinstance(found, dict) else [(ALONE, found)]:
            values = demonstrations.observations[key].astype(np.float64)
            statistics.mean, statistics.var, statistics.count = values.mean(axis=0), values.var(axis=0), CERTAIN

    def normalized(self, demonstrations: Demonstrations) -> dict[str, Tensor]:
        """Returns all observations as the policy reads them."""
        given: Any = demonstrations.observations
        found = self.normalizer.normalize_obs(given[ALONE] if ALONE in given else dict(given))
        named = found if isinstance(found, dict) else {ALONE: found}
        return {key: torch.as_tensor(values) for key, values in named.items()}

    def features(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Returns what the circuit reads, (M, F), of M observations."""
        seen: Any = observations[ALONE] if ALONE in observations else dict(observations)
        with torch.no_grad():
            found: Tensor = self.policy.actor_features(seen)
        return found

    def outputs(self, features: Tensor, state: Tensor | None, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the mean actions or the scores of choices (B, T, A), and the states (B, T, N).

        :param features: (B, T, F)
        :param state: the states before the first step, (B, N)
        :param starts: (B, T) bool, true where an episode begins
        """
        outputs, states = self.circuit.run(features, state, starts)
        return self.policy.action_net(self.policy.mlp_extractor.forward_actor(outputs)), states

    def errors(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Returns the errors of M outputs (M, A) against labels (M, ...), or (M,) for choices.

        Of a `Box`, the errors are differences divided by half the range. An output beyond a bound has none if the label
        is at the bound, because the environment clips it. Of choices, they are the negative logarithms of the label's
        probability.
        """
        if self.is_discrete:
            return functional.cross_entropy(outputs, (labels - self.first_choice).long(), reduction="none")
        labels = labels.flatten(1)  # a Box may have any shape
        differences = outputs - labels
        edge = EDGE * (self.high - self.low)
        beyond = ((labels >= self.high - edge) & (differences > 0)) | ((labels <= self.low + edge) & (differences < 0))
        # Divided by half the range, so that all joints count alike.
        return torch.where(beyond, 0.0, differences) * (2 / (self.high - self.low))

    def moved(self, outputs: Tensor, others: Tensor) -> Tensor:
        """Returns by how much the actions of outputs (M, A) and (M, A) differ, as shares of half their range.

        Beyond a bound an action stays at the bound. Choices differ by their probabilities.
        """
        if self.is_discrete:
            return outputs.softmax(-1) - others.softmax(-1)
        differences = outputs.clamp(self.low, self.high) - others.clamp(self.low, self.high)
        return differences * (2 / (self.high - self.low))

    def set_spread(self, squares: Tensor) -> None:
        """Sets the standard deviation of sampled actions to a part of the error that is left.

        :param squares: the mean squared error of each number of an action
        """
        if not self.is_discrete:
            with torch.no_grad():
                half = (self.high - self.low) / 2
                self.policy.log_std.copy_((SPREAD * squares.sqrt() * half).clamp(min=LEAST_SPREAD).log())

    def loss(self, errors: Tensor) -> Tensor:
        """Returns the mean loss of errors."""
        return errors.mean() if self.is_discrete else errors.square().mean()


def check_extractor(extractor: nn.Module) -> None:
    """Refuses a features extractor with weights, which would stay as they are."""
    if any(parameter.requires_grad for parameter in extractor.parameters()):
        raise ValueError(
            f"the features extractor of this student, {type(extractor).__name__}, has weights of its own, and only "
            "circuits are distilled: choose observations that are vectors"
        )


def student_of(larger: Student, model: Any) -> Student:
    """Returns a student with the statistics of another one's observations.

    :param larger: the other student
    :param model: an untrained model in the same environment
    """
    student = Student(model)
    student.normalizer.obs_rms = copy.deepcopy(larger.normalizer.obs_rms)
    return student


def smaller_student(larger: Student, model: Any, neurons: Numbers) -> Student:
    """Returns a student whose circuit is a part of another one's, with the same parameters.

    :param larger: the other student
    :param model: an untrained model with the smaller wiring
    :param neurons: the numbers that its neurons have in the larger circuit
    """
    student, cell = student_of(larger, model), larger.circuit.cell
    copy_parameters(cell, student.circuit.cell, neurons)
    motor = torch.as_tensor(neurons[neurons >= cell.motor_start] - cell.motor_start)
    before = larger.policy.state_dict()
    with torch.no_grad():
        for name, value in student.policy.state_dict().items():
            if not name.startswith(CIRCUIT):
                # The layers behind the circuit have a column for each motor neuron.
                value.copy_(before[name] if before[name].shape == value.shape else before[name][:, motor])
    student.trained = [parameter.detach().clone() for parameter in student.parameters]
    return student


def wiring_of(cell: str) -> NCP | int:
    """Returns the wiring of a student for which only a cell was named."""
    return DEFAULT_WIRING.units if named_cell(cell).always_dense else DEFAULT_WIRING


def make_student(recipe: EnvRecipe, wiring: Any, cell: str, cell_kwargs: Mapping[str, Any] | None, seed: int) -> Any:
    """Makes an untrained model of recurrent PPO. Its critic is as small as possible, because nothing here trains it."""
    arguments: dict[str, Any] = {
        "wiring": wiring,
        "cell": cell,
        "cell_kwargs": dict(cell_kwargs or {}),
        "critic": "shared",  # it reads the actor's circuit, and has no circuit of its own
    }
    made_in = Recipe(
        env=recipe.env,
        algo="RecurrentPPO",
        n_timesteps=1,  # the recipe is never trained
        env_wrapper=list(recipe.wrappers),
        env_kwargs=dict(recipe.arguments),
        normalize=True,
    )
    envs = make_envs(made_in, 1, training=False)
    space = envs.action_space
    if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
        envs.close()
        raise ValueError(
            f"a student chooses actions from a Box or a Discrete space, and those of {recipe.env} are {space}"
        )
    try:
        return RecurrentPPO("NCPPolicy", envs, policy_kwargs=arguments, seed=seed, device="cpu")
    except (TypeError, ValueError) as error:
        envs.close()
        if isinstance(error, ValueError):
            raise
        raise ValueError(f"the cell {cell} does not take the settings {dict(cell_kwargs or {})}: {error}") from error
