"""Training a student on windows of demonstrations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.distil.demonstrations import Demonstrations
from ncp_control.distil.rewiring import Rewiring
from ncp_control.distil.settings import DistilSettings
from ncp_control.distil.student import Student

ERROR = 0.1  # of a calm student's senses, in standard deviations of each feature
ROWS = 64  # episodes that the states are computed for side by side


class LabelledWindows:
    """Windows of the stream of all demonstrations, with the student's states before them.

    A window may reach from one episode into the next; the circuit's state is reset there.

    :param student: the student, whose present weights give the states
    :param demonstrations: the stream, M steps
    :param length: the steps of a window, T
    :param warm_up: the first steps of each window, which need not count; a window in which no later step counts is
        never drawn
    """

    def __init__(self, student: Student, demonstrations: Demonstrations, length: int, warm_up: int = 0) -> None:
        self.length = length
        self.all = torch.as_tensor(first_steps(demonstrations, length, warm_up))
        self.features = student.features(student.normalized(demonstrations))
        self.labels = torch.as_tensor(demonstrations.labels)
        self.starts = torch.as_tensor(demonstrations.starts)
        self.states = states_before(student, self.features, self.starts)
        self.counts = torch.as_tensor(demonstrations.counts)
        own = self.all[torch.as_tensor(demonstrations.own)[self.all]]
        self.own = own if len(own) else self.all
        begins = self.all[self.starts[self.all]]
        self.begins = begins if len(begins) else self.all

    def batch(
        self, size: int, own: int, begins: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Draws windows at random.

        :param size: how many, B
        :param own: how many of them begin in the teacher's own episodes
        :param begins: how many of the others begin with an episode
        :param generator: the source of random numbers
        :return: features (B, T, F), the states before them (B, N), starts (B, T), labels (B, T, ...), and which of them
            count (B, T)
        """
        chosen = [
            places[torch.randint(len(places), (count,), generator=generator)]
            for places, count in ((self.own, own), (self.begins, begins), (self.all, size - own - begins))
        ]
        # Windows are drawn with replacement: the three kinds overlap, and a batch is small beside the stream.
        first = torch.cat(chosen)
        steps = first[:, None] + torch.arange(self.length)
        return self.features[steps], self.states[first], self.starts[steps], self.labels[steps], self.counts[steps]


def first_steps(demonstrations: Demonstrations, length: int, warm_up: int = 0) -> NDArray[np.int64]:
    """Returns the first steps of all windows that have, after the warm-up, a step that counts.

    :param demonstrations: the stream
    :param length: the steps of a window
    :param warm_up: the first steps of each window, whose errors do not count
    """
    if len(demonstrations) < length:
        raise ValueError(f"windows of {length} steps need as many demonstrations, not {len(demonstrations)}")
    counted = np.concatenate([[0], np.cumsum(demonstrations.counts)])
    first: NDArray[np.int64] = np.arange(len(demonstrations) - length + 1)
    found = first[counted[first + length] > counted[first + warm_up]]
    if not len(found):
        raise ValueError(f"no window of {length} steps has one after the {warm_up} steps of its warm-up that counts")
    return found


def states_before(student: Student, features: Tensor, starts: Tensor) -> Tensor:
    """Returns the student's state before every step of the stream, (M, N), when it sees each episode from its start.

    :param features: (M, F)
    :param starts: (M,) bool
    """
    begins = starts.nonzero()[:, 0].tolist()
    lengths = [end - begin for begin, end in zip(begins, [*begins[1:], len(starts)], strict=True)]
    before = features.new_zeros(len(starts), student.circuit.hidden_size)
    order = sorted(range(len(begins)), key=lambda k: lengths[k])  # by length
    with torch.no_grad():
        for row in range(0, len(order), ROWS):
            group = order[row : row + ROWS]
            longest = max(lengths[k] for k in group)  # episodes of like length run together, so that little is padding
            padded = features.new_zeros(len(group), longest, features.shape[1])
            for place, k in enumerate(group):
                padded[place, : lengths[k]] = features[begins[k] : begins[k] + lengths[k]]
            _, states = student.circuit.run(padded, None, None)
            for place, k in enumerate(group):
                before[begins[k] + 1 : begins[k] + lengths[k]] = states[place, : lengths[k] - 1]
    return before


def fill(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copies values into parameters."""
    with torch.no_grad():
        torch._foreach_copy_(list(parameters), list(values))


def train(
    student: Student,
    windows: LabelledWindows,
    settings: DistilSettings,
    optimizer: torch.optim.Optimizer,
    done: int,
    generator: torch.Generator,
    rewiring: Rewiring | None = None,
) -> tuple[float, Tensor]:
    """Trains the student for the batches of one iteration.

    The student that acts has the running average of the weights, which is better than any of them while the learning
    rate is high. The weights themselves are in `student.trained`, from which the next iteration goes on.

    :param student: the student
    :param windows: what it learns from
    :param settings: how it learns
    :param optimizer: of the student's parameters
    :param done: the batches of earlier iterations
    :param generator: chooses the windows
    :param rewiring: chooses the student's synapses; None for a student that has all of them
    :return: the mean loss, and the mean squared error of each number of an action
    """
    own = round(settings.teacher_share * settings.batch)
    begins = min(round(settings.start_share * settings.batch), settings.batch - own)
    losses, squares = [], []
    student.policy.set_training_mode(True)
    average = [parameter.detach().clone() for parameter in student.parameters]
    fill(student.parameters, student.trained)  # the average acts, and the weights behind it go on learning
    for k in range(settings.batches):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate((done + k) / settings.all_batches)
        features, states, starts, labels, counts = windows.batch(settings.batch, own, begins, generator)
        outputs, _ = student.outputs(features, states, starts)
        # The state of a window that begins within an episode is that of older weights, so its first steps do not count.
        counted = starts.cumsum(dim=1) > 0
        counted[:, settings.warm_up :] = True
        counted &= counts
        errors = student.errors(outputs[counted], labels[counted])
        loss = student.loss(errors)
        if settings.calm:
            wrong = features + ERROR * torch.randn(features.shape, generator=generator)
            moved = student.moved(outputs, student.outputs(wrong, states, starts)[0])[counted]
            loss = loss + settings.calm * (moved / ERROR).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if rewiring is not None:
            rewiring.keep_to_present()
        torch.nn.utils.clip_grad_norm_(student.parameters, settings.max_grad_norm)
        optimizer.step()
        if rewiring is not None:
            rewiring.after_step(done + k + 1, settings.batches, settings.all_batches)
        with torch.no_grad():
            torch._foreach_lerp_(average, student.parameters, 1 - settings.kept_of_average(done + k))
        losses.append(loss.detach())
        squares.append(errors.detach().square().mean(dim=0))
    student.trained = [parameter.detach().clone() for parameter in student.parameters]
    fill(student.parameters, average)  # from here on the student that is evaluated is the average
    if rewiring is not None:
        rewiring.clear()
    return float(torch.stack(losses).mean()), torch.stack(squares).mean(dim=0)
