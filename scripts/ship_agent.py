"""Make a checkpoint and its card from a run of `ncp-control train` or `ncp-control distil`, with the best policy
evaluated on new episodes.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro
from cards import policy_card, write_card

from ncp_control.base.kinds import RECORD
from ncp_control.cli.evaluate_grid import makers_of
from ncp_control.cli.trained_in import make, strength
from ncp_control.distil.lessons import share_of
from ncp_control.distil.recorded import METHOD
from ncp_control.loop import disturbed
from ncp_control.rl import LoadedPolicy, evaluate, load_policy
from ncp_control.rl.files.policy_file import with_note
from ncp_control.rl.files.policy_json import can_leave_critics
from ncp_control.rl.files.run_state import read_about
from ncp_control.runs.curve import read_curve
from ncp_control.runs.run import BEST, STATE

EPISODES, SEED = 100, 1000


@dataclass
class Arguments:
    """Make a checkpoint with its card from a run of `train` or `distil`.

    Example: python scripts/ship_agent.py runs/halfcheetah-positions-s0 checkpoints/halfcheetah-positions.safetensors
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""

    out: Annotated[Path, tyro.conf.Positional]
    """The checkpoint; the card beside it ends in .md."""

    description: str = "An agent whose actor is a neural circuit."
    """A sentence or two on what the agent is and what it is for."""

    critics: bool = False
    """Keep the critics of an off-policy agent, which are most of its file and which only training needs."""

    grid: bool = False
    """Also measure it in every disturbance of `evaluate --grid`, for its card."""


def returns_of(policy: LoadedPolicy, random: float) -> dict[str, float]:
    """Returns the mean, the standard deviation and the lowest of the returns with a share of random actions."""
    note = policy.note
    returns, _ = evaluate(policy, lambda: make(note["env"], note, random=random), EPISODES, SEED, progress=True)
    return {"return": float(np.mean(returns)), "return_std": float(np.std(returns)), "return_min": min(returns)}


def main() -> None:
    """Evaluates the best policy, and writes the checkpoint and the card."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    best = arguments.run / BEST
    policy = load_policy(best)
    note = policy.note
    share, is_student = strength(note, "random"), "teacher" in note
    found = {random: returns_of(policy, random) for random in dict.fromkeys((share, 0.0))}
    record = json.loads((arguments.run / RECORD).read_text(encoding="utf-8"))
    curve = [(int(row["steps"]), round(row["mean_return"], 1)) for row in read_curve(arguments.run)]
    if note.get("method") == METHOD and "finetuned" not in note:
        curve = [(step, round(mean, 1)) for step, mean in note["curve"]]  # against batches
    note |= {
        "command": shlex.join(word for word in shlex.split(record["command"]) if word != "--json"),
        "versions": record["versions"],
        "seconds": note["seconds"] if is_student else read_about(arguments.run / STATE)["seconds"],
        "episodes": EPISODES,
        "episodes_seed": SEED,
        **found[share],
        **({"random": share, "undisturbed": found[0.0]} if share else {}),
        "curve": curve,
    }
    if is_student:
        note["share"] = share_of(note["return"], note["teacher_return"])
    if arguments.grid:
        makers = makers_of(best, policy)[1]
        note["grid"] = [row.to_json() for row in disturbed(policy, makers, EPISODES, SEED, progress=True)]
    critics = arguments.critics or not can_leave_critics(policy.policy)
    with_note(best, arguments.out, note, critics)
    write_card(arguments.out, policy_card(arguments.out, arguments.description))
    print(f"{arguments.out}: return {note['return']:,.0f} +- {note['return_std']:,.0f} over {EPISODES} episodes")


if __name__ == "__main__":
    main()
