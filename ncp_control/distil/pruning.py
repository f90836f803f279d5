"""Pruning: round by round a student loses its weakest synapses, learns on, and is evaluated.

Everything random in a round follows from the seed and the round's number. So the table and the last round's policy are
all that a stopped pruning needs to go on exactly.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ncp_control.base.machine import one_thread
from ncp_control.distil.learning import LabelledWindows, train
from ncp_control.distil.lessons import share_of
from ncp_control.distil.loop import DistilLoop
from ncp_control.distil.prune_table import TABLE, PrunedRow, read_rows, smallest_of, write_rows
from ncp_control.distil.settings import DistilSettings, PruneSettings
from ncp_control.distil.smaller import Mask, Numbers, check_prunable, places_of, smaller_wiring, strengths
from ncp_control.distil.student import Student, smaller_student, student_of
from ncp_control.rl.evaluation import evaluate
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_file import load_policy, save_policy
from ncp_control.runs.folder import differences
from ncp_control.wiring import Wiring, WiringError

WINDOWS = 64
PRUNED = "pruned"
# What the seeds of a pruning are for; they are apart from those of the distillation.
SCORES, CHOICES, EVALUATION = range(2**32, 2**32 + 3)
LEAST = 0.5  # the share of the unpruned student's return below which further rounds are useless


@dataclass
class Pruned:
    """The outcome of a pruning.

    :param rows: the unpruned student, and the student after each round
    :param smallest: the row of the smallest student that keeps enough of the unpruned one's return
    :param agent: this student; None if no round kept enough
    """

    rows: list[PrunedRow]
    smallest: PrunedRow
    agent: LoadedPolicy | None


def prune(loop: DistilLoop, settings: PruneSettings, note: dict[str, Any]) -> Pruned:
    """Prunes the student of a distillation that is done, in the folder `pruned` of its run.

    The parameters are those of `Pruning`.
    """
    with loop.run.doing("pruning", settings.rounds, unit="rounds"):
        return Pruning(loop, settings, note).run_rounds()


class Pruning:
    """A pruning in progress; it continues from what is in its folder.

    :param loop: the distillation that is done, whose student has its best weights
    :param settings: how the student is pruned
    :param note: that of the student's file, of which the files of the pruned ones keep the most
    """

    def __init__(self, loop: DistilLoop, settings: PruneSettings, note: dict[str, Any]) -> None:
        check_prunable(loop.student.circuit.cell)
        self.student, self.demonstrations, self.make_env = loop.student, loop.lessons.demonstrations, loop.make_env
        self.make_model, self.pruning, self.note = loop.make_model, settings, note
        self.run, self.out = loop.run, loop.run.path(PRUNED)
        self.settings = settings_of_round(loop.settings, settings)
        self.rows = read_rows(self.out / TABLE)[: settings.rounds + 1]
        # The seconds of a pruning are counted from its own beginning.
        self.seconds_before = self.run.seconds() - (self.rows[-1].seconds if self.rows else 0.0)
        if self.rows:
            self.run.tracker.advance(len(self.rows) - 1, note=self.told())
        if len(self.rows) > 1:
            self.student = self.read(self.out / self.rows[-1].file)

    def run_rounds(self) -> Pruned:
        """Does all rounds that are left, and returns what they gave."""
        self.out.mkdir(exist_ok=True)
        with one_thread():
            if not self.rows:
                self.add(self.evaluate())
            while len(self.rows) <= self.pruning.rounds and self.rows[-1].kept >= LEAST and self.round():
                pass
        smallest = smallest_of(self.rows, self.pruning.keep)
        agent = None if smallest is self.rows[0] else load_policy(self.out / smallest.file)
        return Pruned(self.rows, smallest, agent)

    def round(self) -> bool:
        """Prunes, trains and evaluates the student once; returns false if nothing can be removed any more."""
        number, settings = len(self.rows), self.settings
        cell = self.student.circuit.cell
        windows = LabelledWindows(self.student, self.demonstrations, settings.length)
        losses = losses_without(self.student, windows, self.generator(SCORES, number))
        found = pruned_wiring(cell.wiring, *losses, self.pruning.share)
        if found is None:
            return False
        student = smaller_student(self.student, self.make_model(found[0]), found[1])
        windows = LabelledWindows(student, self.demonstrations, settings.length, settings.warm_up)
        _, squares = train(student, windows, settings, student.optimizer(settings), 0, self.generator(CHOICES, number))
        student.set_spread(squares)
        student.trained = [parameter.detach().clone() for parameter in student.parameters]
        self.student = student
        row = self.evaluate()
        self.write(row)
        self.add(row)
        return True

    def evaluate(self) -> PrunedRow:
        """Evaluates the student, in the same episodes in every round."""
        seed, episodes = self.run.seed_of(EVALUATION), self.pruning.eval_episodes
        returns = np.array(evaluate(self.student.model, self.make_env, episodes, seed).returns)
        mean, wiring = float(returns.mean()), self.student.circuit.cell.wiring
        return PrunedRow(
            wiring.units,
            wiring.existing_synapses,
            len(wiring.sensory),
            sum(parameter.numel() for parameter in self.student.parameters),
            mean,
            float(returns.std(ddof=1)) if episodes > 1 else 0.0,
            float(returns.min()),
            share_of(mean, self.note["teacher_return"]),
            share_of(mean, self.rows[0].mean_return) if self.rows else 1.0,
            self.run.seconds() - self.seconds_before,
        )

    def write(self, row: PrunedRow) -> None:
        """Writes the policy of a round."""
        about = {
            "return": row.mean_return, "return_std": row.std_return, "return_min": row.min_return,
            "episodes": self.pruning.eval_episodes, "share": row.share, "kept": row.kept,
            "pruned_from": self.rows[0].synapses, "pruning": self.about(),
            "seconds": self.note["seconds"] + row.seconds,
        }  # fmt: skip
        save_policy(self.student.model, self.out / row.file, {**self.note, **about})

    def add(self, row: PrunedRow) -> None:
        """Adds a row to the table, with which its round is done."""
        self.rows.append(row)
        write_rows(self.out / TABLE, self.rows)
        self.run.tracker.advance(int(len(self.rows) > 1), note=self.told())

    def told(self) -> str:
        """Returns a few words on the last row."""
        row = self.rows[-1]
        return f"{row.synapses:,} synapses, return {row.mean_return:,.0f}, {row.kept:.0%} of the unpruned"

    def about(self) -> dict[str, Any]:
        """Returns the settings that make the result, as JSON values."""
        return {key: value for key, value in asdict(self.pruning).items() if key not in ("rounds", "keep")}

    def generator(self, use: int, number: int) -> torch.Generator:
        """Returns the random numbers for one use in a round."""
        return torch.Generator().manual_seed(self.run.seed_of(use, number))

    def read(self, path: Path) -> Student:
        """Reads the student of the last round."""
        found = load_policy(path)
        if found.note.get("pruning") != self.about():
            told = "; ".join(differences(found.note.get("pruning"), self.about()))
            raise ValueError(f"{self.out} holds a pruning with other settings: use the same, or delete it ({told})")
        student = student_of(self.student, self.make_model(found.policy.lstm_actor.cell.wiring))
        student.policy.load_state_dict(found.policy.state_dict())
        student.trained = [parameter.detach().clone() for parameter in student.parameters]
        return student


def settings_of_round(settings: DistilSettings, pruning: PruneSettings) -> DistilSettings:
    """Returns the settings of the training in a round, in which the learning rate rises and falls once."""
    if settings.learning_rate is None:
        raise ValueError("there is no learning rate yet: of_cell(name) gives the cell's default")
    return replace(
        settings,
        iterations=0,
        batches=pruning.batches or settings.batches,
        learning_rate=settings.learning_rate * pruning.rate,
    )


def pruned_wiring(wiring: Wiring, sensory: Tensor, synapses: Tensor, share: float) -> tuple[Wiring, Numbers] | None:
    """Returns the wiring of `smaller_wiring` without a share of the synapses, or a smaller share, so that a motor
    neuron stays.

    Returns None if every single synapse is needed for that.

    :param wiring: the larger wiring
    :param sensory: the loss without each sensory synapse, (S,)
    :param synapses: the loss without each other synapse, (E,)
    :param share: the share of all of them
    """
    count = max(1, round(share * (len(sensory) + len(synapses))))
    while count:
        try:
            return smaller_wiring(wiring, *without_weakest(sensory, synapses, count))
        except WiringError:
            count //= 2
    return None


@torch.no_grad()
def losses_without(student: Student, windows: LabelledWindows, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Returns the loss without each of the sensory synapses (S,), and without each of the others (E,).

    Each synapse is cut by itself, and the loss computed on the same windows. Gradients would be faster, but a synapse
    that is cut is far from what they know: without the half of the synapses that these losses choose, an LTC circuit
    had a third of the loss that it had without the half that `|w dL/dw|` chose.

    :param student: the student, with the weights that gave the windows' states
    :param windows: what it has learnt from
    :param generator: chooses the windows
    """
    cell: Any = student.circuit.cell
    check_prunable(cell)
    features, states, starts, labels, counts = windows.batch(WINDOWS, WINDOWS // 4, WINDOWS // 8, generator)

    def loss() -> float:
        outputs, _ = student.outputs(features, states, starts)
        return float(student.loss(student.errors(outputs[counts], labels[counts])))

    student.policy.set_training_mode(False)
    without_each = []
    for strength, places in zip(strengths(cell), places_of(cell), strict=True):
        losses = torch.zeros(len(places), dtype=torch.float64)
        for k, place in enumerate(places):
            before = strength[..., place].clone()
            strength[..., place] = cell.absent
            losses[k] = loss()
            strength[..., place] = before
        without_each.append(losses)
    if cell.feeds_itself:
        without_each[1][torch.as_tensor(cell.wiring.synapses.source == cell.wiring.synapses.target)] = -torch.inf
    return without_each[0], without_each[1]


def without_weakest(sensory: Tensor, synapses: Tensor, count: int) -> tuple[Mask, Mask]:
    """Returns which sensory synapses stay, and which others, without the weakest of all.

    :param sensory: the loss without each sensory synapse, (S,)
    :param synapses: the loss without each other synapse, (E,)
    :param count: how many of all of them go
    """
    losses = torch.cat([sensory, synapses])
    stays = np.ones(len(losses), dtype=bool)
    stays[torch.argsort(losses, stable=True)[:count].numpy()] = False
    return stays[: len(sensory)], stays[len(sensory) :]
