"""Windows of the stream of demonstrations, the states before them, and training on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from helpers.distilling import MAKE, STUDENTS, collector_of, numbered, pendulum, student_of
from ncp_control.distil.demonstrations import ALONE, Demonstrations
from ncp_control.distil.learning import LabelledWindows, states_before, train
from ncp_control.distil.settings import DistilSettings
from ncp_control.distil.student import Student

CELLS = [("ltc", None), ("cfc", None), ("lstm", 9), ("gru", 9)]


def circuit(cell: str, wiring: Any) -> dict[str, Any]:
    return {"cell": cell} if wiring is None else {"cell": cell, "wiring": wiring}


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def stream_of(kind: str, steps: int = 60) -> Demonstrations:
    """Collects a stream of one of the kinds of `STUDENTS`, with several episodes."""
    policies = {
        "plain": lambda seen: seen[:, :1],
        "timed": lambda seen: seen["elapsed"],
        "choices": lambda seen: 5 + np.minimum(seen[:, 2], 2).astype(int),
    }
    return (
        collector_of([MAKE[kind](), MAKE[kind]()], policies[kind], policies[kind])
        .collect(0, 1.0, steps=steps)
        .demonstrations
    )


@pytest.mark.parametrize("kind", list(STUDENTS))
@pytest.mark.parametrize(("cell", "wiring"), CELLS)
def test_the_states_are_those_of_the_student_run_step_by_step(kind: str, cell: str, wiring: Any) -> None:
    student = STUDENTS[kind](**circuit(cell, wiring))
    windows = LabelledWindows(student, stream_of(kind), 5)
    assert windows.starts.sum() > 2
    state: Any = None
    with torch.no_grad():
        for t in range(len(windows.starts)):
            if windows.starts[t]:
                state = None
            else:
                torch.testing.assert_close(windows.states[t], state[0], atol=1e-5, rtol=1e-4)
            _, state = student.circuit(windows.features[t][None, None], state, None)


def test_the_states_are_right_for_many_episodes_of_all_lengths() -> None:
    student = student_of(pendulum)
    lengths = np.random.default_rng(0).permutation(np.arange(150) % 23 + 1).tolist()
    given = numbered(lengths, [True] * len(lengths))
    features, starts = student.features(student.normalized(given)), torch.as_tensor(given.starts)
    found = states_before(student, features, starts)
    with torch.no_grad():
        _, wanted = student.circuit.run(features[None], None, starts[None])
    within = (~starts[1:]).nonzero()[:, 0]
    torch.testing.assert_close(found[1:][within], wanted[0, :-1][within], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", list(STUDENTS))
@pytest.mark.parametrize(("cell", "wiring"), CELLS)
def test_windows_give_what_the_whole_stream_gives_also_across_episodes(kind: str, cell: str, wiring: Any) -> None:
    student = STUDENTS[kind](**circuit(cell, wiring))
    windows = LabelledWindows(student, stream_of(kind), 7)
    features, states, starts, labels, _ = windows.batch(200, 0, 0, random())
    assert starts[:, 1:].any()
    with torch.no_grad():
        whole, _ = student.outputs(windows.features[None], None, windows.starts[None])
        found, _ = student.outputs(features, states, starts)
    first = torch.randint(len(windows.all), (200,), generator=drawn_after(0, 0))
    steps = first[:, None] + torch.arange(7)
    torch.testing.assert_close(found, whole[0][steps], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(labels, windows.labels[steps])


def drawn_after(*counts: int) -> torch.Generator:
    """Returns the generator of `random` after a batch has drawn so many windows from it."""
    generator = random()
    for count in counts:
        torch.randint(1, (count,), generator=generator)
    return generator


def first_steps(batch: Any) -> Any:
    """Returns the numbers of the first steps of windows whose labels are the numbers of steps."""
    labels = batch[3][..., 0].long()
    assert (labels == labels[:, :1] + torch.arange(labels.shape[1])).all()
    return labels[:, 0]


def test_the_asked_windows_begin_in_the_teachers_own_episodes_and_with_an_episode() -> None:
    given = numbered([10, 30, 5, 40, 9], [False, True, True, False, False])
    windows = LabelledWindows(student_of(pendulum), given, 8)
    batch = windows.batch(2000, 500, 300, random())
    first = first_steps(batch)
    assert batch[2].shape == (2000, 8)
    assert set(first[:500].tolist()) == set(range(10, 45))
    assert set(first[500:800].tolist()) == {0, 10, 40, 45, 85}
    assert set(first[800:].tolist()) == set(range(94 - 8 + 1))


@pytest.mark.parametrize("own", [[False] * 3, [False, False, True]], ids=["none", "too late"])
def test_without_a_window_that_begins_in_the_teachers_episodes_any_window_is_taken(own: list[bool]) -> None:
    windows = LabelledWindows(student_of(pendulum), numbered([10, 10, 4], own), 8)
    assert set(first_steps(windows.batch(500, 500, 0, random())).tolist()) == set(range(17))


def test_a_stream_as_long_as_a_window_has_one_window() -> None:
    windows = LabelledWindows(student_of(pendulum), numbered([3, 5], [True, False]), 8)
    assert first_steps(windows.batch(4, 2, 1, random())).tolist() == [0] * 4


def test_a_stream_shorter_than_a_window_is_refused() -> None:
    with pytest.raises(ValueError, match="windows of 9 steps need as many demonstrations, not 8"):
        LabelledWindows(student_of(pendulum), numbered([3, 5], [True, False]), 9)
    with pytest.raises(ValueError, match="windows of 9 steps need as many demonstrations, not 0"):
        LabelledWindows(student_of(pendulum), Demonstrations(), 9)


def trained(
    student: Student, given: Demonstrations, done: int = 0, seed: int = 0, **settings: Any
) -> tuple[float, torch.Tensor, torch.optim.Optimizer]:
    """Trains a student, and returns what `train` does and the optimizer."""
    asked = DistilSettings(**{"batches": 1, "batch": 6, "length": 8, "warm_up": 3, "learning_rate": 0.01, **settings})
    optimizer = torch.optim.Adam(student.parameters, lr=1.0)
    loss, squares = train(student, LabelledWindows(student, given, asked.length), asked, optimizer, done, random(seed))
    return loss, squares, optimizer


def small_labels(given: Demonstrations) -> Demonstrations:
    """Gives demonstrations random labels from -1 to 1."""
    given.labels = np.random.default_rng(1).uniform(-1, 1, size=(len(given), 1)).astype(np.float32)
    return given


def test_the_loss_is_that_of_all_steps_of_a_window_that_begins_an_episode() -> None:
    student, given = student_of(pendulum), small_labels(numbered([8], [True]))
    features = student.features(student.normalized(given))
    with torch.no_grad():
        outputs, _ = student.outputs(features[None], None, torch.as_tensor(given.starts)[None])
    wanted = ((outputs[0].numpy() - given.labels) / 2) ** 2
    loss, squares, _ = trained(student, given)
    assert loss == pytest.approx(wanted.mean(), rel=1e-4)
    np.testing.assert_allclose(squares, wanted.mean(axis=0), rtol=1e-4)


@pytest.mark.parametrize(
    ("begins", "changed", "counts"),
    [
        (None, slice(3), False),  # within an episode, the warm-up does not count
        (None, slice(3, 4), True),
        (0, slice(1), True),  # where an episode begins, every step counts
        (2, slice(2), False),
        (2, slice(2, 3), True),  # an episode that begins in the warm-up counts from there
        (5, slice(3), False),
    ],
)
def test_the_first_steps_of_a_window_count_only_from_where_an_episode_begins(
    begins: int | None, changed: slice, counts: bool
) -> None:
    losses = []
    settings = DistilSettings(
        batches=3, batch=2, length=8, warm_up=3, teacher_share=0.0, start_share=0.0, learning_rate=0.01
    )
    for labels in (None, changed):
        student, given = student_of(pendulum), small_labels(numbered([9], [True]))
        if labels is not None:
            given.labels[1:][labels] += 0.8
        if begins is not None:
            given.starts[1 + begins] = True
        windows = LabelledWindows(student, given, 8)
        windows.all = torch.tensor([1])  # only the window after the first step
        optimizer = torch.optim.Adam(student.parameters)
        losses.append(train(student, windows, settings, optimizer, 0, random())[0])
    assert (losses[0] != losses[1]) == counts


def test_the_learning_rate_follows_the_batches_of_the_whole_distillation() -> None:
    settings: dict[str, Any] = {"batches": 4, "iterations": 4, "learning_rate": 0.5}
    given = small_labels(numbered([20], [True]))
    for done, at in ((0, 3), (8, 11), (16, 19)):
        *_, optimizer = trained(student_of(pendulum), given, done, **settings)
        rates = [group["lr"] for group in optimizer.param_groups]
        assert rates == [DistilSettings(**settings).rate(at / 20)]


def test_shares_that_round_up_together_still_make_one_batch() -> None:
    loss, *_ = trained(
        student_of(pendulum), small_labels(numbered([20], [True])), batch=3, teacher_share=0.5, start_share=0.5
    )
    assert np.isfinite(loss)


def test_training_repeats_exactly_from_the_same_seed() -> None:
    weights = []
    for seed in (0, 0, 1):
        student = student_of(pendulum, seed=0)
        trained(student, small_labels(numbered([30, 30], [True, False])), seed=seed, batches=4)
        weights.append(torch.nn.utils.parameters_to_vector(student.parameters))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("kind", list(STUDENTS))
@pytest.mark.parametrize(("cell", "rate"), [("ltc", 0.02), ("lstm", 0.02)])
def test_a_student_learns_what_its_teacher_does_and_its_critic_stays(kind: str, cell: str, rate: float) -> None:
    student = STUDENTS[kind](cell=cell, wiring=9)
    given = stream_of(kind, 400)
    student.set_statistics(given)
    critic = {name: value.clone() for name, value in student.policy.state_dict().items() if "value_net" in name}
    settings: dict[str, Any] = {"learning_rate": rate, "batches": 60, "batch": 16, "iterations": 0}
    before, _, _ = trained(student, given, batches=1, learning_rate=1e-9)
    trained(student, given, **settings)
    after, _, _ = trained(student, given, batches=1, learning_rate=1e-9)
    # Over ten seeds at most 0.36 of the loss is left, with a spread of 0.05, for choices in an LSTM; who learns how
    # frequent each choice is, and no more, keeps 0.85.
    assert after < 0.7 * before
    assert all(torch.equal(student.policy.state_dict()[name], value) for name, value in critic.items())


@pytest.mark.parametrize("kind", ["plain", "choices"])
def test_actions_of_a_calm_student_move_less_with_errors_of_what_it_sees(kind: str) -> None:
    given = stream_of(kind, 400)
    moved, losses = [], []
    for calm in (0.0, 3.0):
        student = STUDENTS[kind](cell="ltc", wiring=9)
        student.set_statistics(given)
        settings: dict[str, Any] = {"learning_rate": 0.02, "batches": 60, "batch": 16, "iterations": 0}
        trained(student, given, calm=calm, **settings)
        windows = LabelledWindows(student, given, 8)
        features, starts = windows.features[None], windows.starts[None]
        with torch.no_grad():
            plain, _ = student.outputs(features, None, starts)
            wrong, _ = student.outputs(features + 0.1 * torch.randn(features.shape, generator=random()), None, starts)
            moved.append(student.moved(plain[0], wrong[0]).square().mean())
            losses.append(student.loss(student.errors(plain[0], windows.labels)))
    # Over five seeds at most 0.58 is left, of choices, and 0.23 of numbers.
    assert moved[1] < 0.8 * moved[0]
    assert losses[1] > losses[0]  # which has its price


def test_an_empty_key_stands_for_observations_that_are_no_dictionaries() -> None:
    student = student_of(pendulum)
    given = numbered([12], [True])
    assert list(given.observations) == [ALONE]
    assert student.features(student.normalized(given)).shape == (12, 2)
