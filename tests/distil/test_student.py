"""The student: its errors, what it learns, and that its outputs are its actions."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch.nn import functional

from helpers.distilling import CHOICES, MAKE, STUDENTS, collector_of, numbered, pendulum, student_of
from helpers.memory_tasks import Steps
from ncp_control.distil.demonstrations import ALONE, Demonstrations, demonstrations_of
from ncp_control.distil.student import Student

CELLS = [("ltc", None), ("cfc", None), ("lstm", 9)]
PLANE = gym.spaces.Box(np.array([[-1, 0], [-2, 1]], np.float32), np.array([[1, 4], [2, 2]], np.float32))


def acting_in(space: Any, **settings: Any) -> Student:
    return student_of(lambda: Steps(0, (5,), space), **settings)


def circuit(cell: str, wiring: Any) -> dict[str, Any]:
    return {"cell": cell} if wiring is None else {"cell": cell, "wiring": wiring}


def played(student: Student, make: Any, lengths: tuple[int, ...]) -> tuple[Any, Any]:
    """Lets the model of a student act step by step; returns what it saw as demonstrations, and its actions."""
    env, parts, actions = make(), [], []
    for seed, length in enumerate(lengths):
        seen, _ = env.reset(seed=seed)
        state, observations = None, []
        for step in range(length):
            observations.append(seen)
            given = student.normalizer.normalize_obs(seen)
            start = np.array([step == 0])
            action, state = student.model.predict(given, state=state, episode_start=start, deterministic=True)
            actions.append(action)
            seen, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                break
        parts.append(demonstrations_of(observations, actions[-len(observations) :], False))
    return Demonstrations.joined(parts), np.array(actions)


def outputs_over(student: Student, stream: Demonstrations) -> torch.Tensor:
    """Returns the outputs of a student that sees a whole stream at once."""
    features = student.features(student.normalized(stream))
    with torch.no_grad():
        return student.outputs(features[None], None, torch.as_tensor(stream.starts)[None])[0][0]


@pytest.mark.parametrize("kind", list(STUDENTS))
@pytest.mark.parametrize(("cell", "wiring"), CELLS)
def test_the_outputs_over_a_stream_are_the_actions_that_the_model_predicts(kind: str, cell: str, wiring: Any) -> None:
    student = STUDENTS[kind](**circuit(cell, wiring))
    stream, _ = played(student, MAKE[kind], (8, 3, 6))
    student.set_statistics(stream)
    with torch.no_grad():  # outputs that differ, and that exceed the bounds at times
        outputs, head = outputs_over(student, stream), student.policy.action_net
        head.weight.mul_((2.5 / outputs.std(dim=0))[:, None])
        head.bias.sub_(outputs_over(student, stream).mean(dim=0))
    stream, actions = played(student, MAKE[kind], (8, 3, 6))
    outputs = outputs_over(student, stream)
    assert stream.starts.sum() == 3
    if kind == "choices":
        found = 5 + outputs.argmax(dim=1).numpy()
        assert len(np.unique(found)) > 1
    else:
        found = outputs.numpy().clip(-2, 2)
        assert (np.abs(outputs.numpy()) > 2).any()
        assert (np.abs(outputs.numpy()) < 2).any()
    np.testing.assert_allclose(found, actions, atol=2e-5)


def test_the_statistics_are_those_of_numpy_and_normalise_what_was_seen() -> None:
    student = student_of(pendulum)
    given = numbered([30, 20], [True, False])
    given.observations[ALONE] = given.observations[ALONE] * np.array([3, 0.1], np.float32) + np.array(
        [7, -2], np.float32
    )
    student.set_statistics(given)
    wanted = given.observations[ALONE].astype(np.float64)
    np.testing.assert_allclose(student.normalizer.obs_rms.mean, np.mean(wanted, axis=0))
    np.testing.assert_allclose(student.normalizer.obs_rms.var, np.var(wanted, axis=0))
    found = student.normalized(given)[ALONE].numpy()
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=1e-5)


def test_further_training_hardly_moves_the_statistics() -> None:
    student = student_of(pendulum)
    student.set_statistics(numbered([50], [True]))
    before = student.normalizer.obs_rms.mean.copy()
    student.normalizer.obs_rms.update(np.full((1000, 2), 100.0))
    np.testing.assert_allclose(student.normalizer.obs_rms.mean, before, atol=2e-4)


def test_of_dictionaries_only_the_named_entries_are_normalised() -> None:
    student = STUDENTS["timed"]()
    random = np.random.default_rng(0)
    seen = [
        {"observations": random.normal(5, 3, 2).astype(np.float32), "elapsed": random.uniform(0.5, 1.5, 1)}
        for _ in range(40)
    ]
    given = demonstrations_of(seen, [np.zeros(1)] * 40, True)
    student.set_statistics(given)
    found = student.normalized(given)
    np.testing.assert_allclose(found["observations"].numpy().mean(axis=0), 0, atol=1e-5)
    np.testing.assert_array_equal(found["elapsed"].numpy(), given.observations["elapsed"])
    np.testing.assert_allclose(student.features(found)[:, -1].numpy(), given.observations["elapsed"][:, 0], rtol=1e-6)


@pytest.mark.parametrize(
    ("output", "label", "error"),
    [
        (0.7, 1.0, -0.4),  # the label is at the bound, and the output within the range
        (1.3, 1.0, 0.0),  # beyond the bound, where the environment clips
        (1.3, 0.995, 0.0),  # so near to the bound that it counts as there
        (1.3, 0.985, 0.42),
        (0.4, 0.1, 0.4),
        (-0.8, -0.5, 0.0),
        (-0.8, -0.495, 0.0),
        (-0.8, -0.485, -0.42),
        (0.25, -0.5, 1.0),
        (-2.0, 1.0, -4.0),  # beyond the other bound
    ],
)
def test_errors_are_differences_by_half_the_range_and_none_beyond_a_bound(
    output: float, label: float, error: float
) -> None:
    student = acting_in(gym.spaces.Box(-0.5, 1.0, (2,), np.float32))
    outputs = torch.tensor([[output, 0.0], [0.0, output]], requires_grad=True)
    found = student.errors(outputs, torch.tensor([[label, 0.0], [0.0, label]]))
    torch.testing.assert_close(found, error * torch.eye(2), atol=1e-6, rtol=1e-5)
    student.loss(found).backward()
    assert student.loss(found).item() == pytest.approx(error**2 / 2, abs=1e-6)
    assert outputs.grad is not None
    torch.testing.assert_close(outputs.grad, error / 0.75 / 2 * torch.eye(2), atol=1e-6, rtol=1e-5)


def test_errors_of_actions_with_two_axes_belong_to_their_own_numbers() -> None:
    student = acting_in(PLANE)
    labels = torch.tensor([[[0.5, 3.0], [-1.0, 1.5]], [[0.0, 1.0], [1.0, 1.25]]])
    found = student.errors(labels.flatten(1) + torch.tensor([0.25, 0.5, 1.0, 0.125]), labels)
    torch.testing.assert_close(found, torch.tensor([[0.25, 0.25, 0.5, 0.25]] * 2))


def test_actions_move_by_shares_of_half_their_range_and_no_further_than_a_bound() -> None:
    student = acting_in(gym.spaces.Box(-0.5, 1.0, (2,), np.float32))
    found = student.moved(torch.tensor([[0.4, 1.3], [-0.8, 0.0]]), torch.tensor([[0.1, 2.0], [0.25, -0.75]]))
    torch.testing.assert_close(found, torch.tensor([[0.4, 0.0], [-1.0, 0.5 / 0.75]]), atol=1e-6, rtol=1e-5)


def test_choices_move_by_their_probabilities() -> None:
    student = STUDENTS["choices"]()
    outputs = torch.tensor([[0.0, math.log(2.0), 0.0]])
    found = student.moved(outputs, torch.zeros(1, 3))
    torch.testing.assert_close(found, torch.tensor([[0.25 - 1 / 3, 0.5 - 1 / 3, 0.25 - 1 / 3]]))


def test_errors_of_choices_are_the_negative_logarithms_of_their_probabilities() -> None:
    student = acting_in(CHOICES)
    outputs, labels = torch.randn(6, 3), torch.tensor([5, 6, 7, 7, 6, 5])
    probabilities = np.exp(outputs.double().numpy())
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    wanted = -np.log(probabilities[range(6), labels.numpy() - 5])
    found = student.errors(outputs, labels)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)
    torch.testing.assert_close(student.loss(found), functional.cross_entropy(outputs, labels - 5))


@pytest.mark.parametrize("critic", ["circuit", "lstm", "mlp", "shared"])
@pytest.mark.parametrize(("cell", "wiring"), CELLS)
@pytest.mark.parametrize("arch", [None, {"pi": [5], "vf": [4]}], ids=["direct", "layers"])
def test_the_loss_reaches_all_of_the_actor_and_nothing_else(critic: str, cell: str, wiring: Any, arch: Any) -> None:
    student = student_of(pendulum, critic=critic, net_arch=arch, **circuit(cell, wiring))
    labels = torch.randn(4, 12, 1).clamp(-1.9, 1.9)
    outputs, _ = student.outputs(torch.randn(4, 12, 2), None, torch.arange(12).expand(4, 12) == 0)
    student.loss(student.errors(outputs.flatten(0, 1), labels.flatten(0, 1))).backward()
    trained = {id(parameter) for parameter in student.parameters}
    others = set()
    for name, parameter in student.policy.named_parameters():
        if id(parameter) in trained:
            assert parameter.grad is not None, name
            assert parameter.grad.any() or not parameter.numel(), name
        else:
            assert parameter.grad is None, name
            others.add(name.split(".")[0])
    actor = sum(one.numel() for one in student.circuit.parameters())
    head = sum(one.numel() for one in student.policy.action_net.parameters())
    layers = sum(one.numel() for one in student.policy.mlp_extractor.actor.parameters())
    assert sum(one.numel() for one in student.parameters) == actor + head + layers
    assert {"log_std", "value_net"} <= others


def test_the_spread_of_sampled_actions_is_a_third_of_the_error_that_is_left() -> None:
    student = acting_in(PLANE)
    student.set_spread(torch.tensor([0.25, 0.01, 0.0, 1.0]))
    np.testing.assert_allclose(student.policy.log_std.exp().detach(), [0.5 / 3, 0.2 / 3, 0.001, 0.5 / 3], rtol=1e-5)
    assert student.policy.log_std.requires_grad


def test_choices_have_no_spread_to_set() -> None:
    acting_in(CHOICES).set_spread(torch.tensor(0.5))


class Learning(BaseFeaturesExtractor):
    """A features extractor with weights."""

    def __init__(self, observation_space: Any) -> None:
        super().__init__(observation_space, 3)
        self.layer = torch.nn.Linear(2, 3)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.layer(observations)


def test_a_features_extractor_with_weights_is_refused_because_they_would_not_be_trained() -> None:
    with pytest.raises(ValueError, match="the features extractor of this student, Learning, has weights of its own"):
        student_of(pendulum, features_extractor_class=Learning)


def test_a_collector_executes_the_students_outputs() -> None:
    student = student_of(pendulum)
    env = pendulum()
    executed: list[Any] = []
    step = env.unwrapped.step
    env.unwrapped.step = lambda action: executed.append(action) or step(action)
    found = collector_of([env], lambda seen: seen[:, :1], student.model).collect(0, 0.0, steps=50).demonstrations
    assert found.starts.sum() == 3
    np.testing.assert_allclose(np.array(executed), outputs_over(student, found).clamp(-2, 2), atol=2e-5)
