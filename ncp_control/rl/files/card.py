"""The facts, the example and the results on a trained policy's card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.base.notes import card_text, duration, origin_of, table
from ncp_control.base.text import markdown, markdown_code
from ncp_control.rl.files.policy_file import load_policy
from ncp_control.rl.policies.circuit import Circuit, actor_circuit

POINTS = 15  # of a learning curve, at most
CLONING = "behaviour cloning"  # the method in the note of a policy that learnt from recorded episodes alone


def policy_card(path: Path, description: str) -> str:
    """Returns the card of a policy, from the note in its file.

    The note has `env`, `seed`, `steps`, `command`, `seconds` and `versions` of the training; `return`, `return_std` and
    `return_min` over `episodes` episodes, evaluated from the seed `episodes_seed`; and `curve`, pairs of a step and a
    return. If actions were overwritten at random in these episodes, it has their share, `random`, and under
    `undisturbed` the returns of as many episodes without that. A distilled policy's note has its `teacher`, the
    `teacher_return` in the student's environment, and the `share` of it that the student has; the teacher of a cloned
    one is the dataset that it learnt from.

    :param path: the `.safetensors` file
    :param description: a sentence or two on what the policy is and what it is for
    """
    policy = load_policy(path)
    note, circuit = policy.note, actor_circuit(policy.policy)
    facts = [
        ("environment", markdown(note["env"])),
        *([("acts", circuit_in_words(circuit))] if circuit is not None else []),
        *returns_in_words(path, note),
        *([teacher_in_words(note)] if "teacher" in note else []),
        *([("then", f"recurrent PPO by its own rewards, {note['finetuned']:,} steps")] if "finetuned" in note else []),
        ("made by", markdown_code(note["command"])),
        ("seed, steps", f"{note['seed']}, {note['steps']:,}"),
        ("training", duration(note["seconds"])),
        *origin_of(path, policy.sha256, note),
    ]
    example = f"""from ncp_control.rl import load_policy

policy = load_policy("checkpoints/{path.name}")
action, state = policy.predict(observation, state)  # state: None at first"""
    unit = "batches" if note.get("method") == CLONING and "finetuned" not in note else "steps"
    curve = table((unit, "return"), [(f"{step:,}", f"{value:,.0f}") for step, value in thinned(note["curve"])])
    return card_text(path, description, facts, example, f"Return during training:\n\n{curve}")


def returns_in_words(path: Path, note: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the returns on a policy's card, each with the command that measures it."""
    command = f"ncp-control evaluate {path.parent.name}/{path.name} --episodes {note['episodes']}"
    name = f"return, {note['episodes']} episodes, deterministic actions"
    measured = [(note, name, "")]
    if "undisturbed" in note:
        share = f"{100 * note['random']:.3g} %"
        measured = [
            (note, f"{name}, {share} of them overwritten at random", f" --random {note['random']:g}"),
            (note["undisturbed"], f"{name}, none of them overwritten", " --random 0"),
        ]
    rows = []
    for found, words, option in measured:
        score = f"**{found['return']:,.0f}** ± {found['return_std']:,.0f} (lowest {found['return_min']:,.0f})"
        rows += [(words, score), ("measured by", markdown_code(f"{command} --seed {note['episodes_seed']}{option}"))]
    return rows


def teacher_in_words(note: dict[str, Any]) -> tuple[str, str]:
    """Returns how a policy was distilled, and from whom, and how much of the teacher's return it has."""
    teacher = note["teacher"]
    algorithm = f" ({markdown(teacher['algorithm'])})" if teacher["algorithm"] else ""
    has = f"{note['teacher_return']:,.0f} ± {note['teacher_std']:,.0f}"
    share = f"the student has {100 * note['share']:.1f} % of that"
    if note.get("method") != CLONING:
        return "taught by", f"{markdown(teacher['name'])}{algorithm}, which has {has} in this environment: {share}"
    policy = f" of {markdown(teacher['policy'])}{algorithm}" if teacher["policy"] else ""
    random = f" while {100 * teacher['random']:.3g} % of the actions were random" if teacher["random"] else ""
    return (
        CLONING,
        f"{teacher['episodes']:,} recorded episodes{policy}, {teacher['steps']:,} steps, in the dataset "
        f"{markdown(teacher['name'])}, SHA-256 {teacher['sha256'][:16]}. Their return is {has}{random}: {share}",
    )


def circuit_in_words(circuit: Circuit) -> str:
    """Returns a circuit's cell and its numbers of neurons, synapses and parameters."""
    wiring, size = circuit.cell.wiring, sum(parameter.numel() for parameter in circuit.parameters())
    layers = ", ".join(f"{part.stop - part.start} {name}" for name, part in wiring.layers.items())
    synapses = len(wiring.sensory) + len(wiring.synapses)
    cell = type(circuit.cell).__name__
    return f"{cell}, {wiring.units} neurons ({layers}), {synapses} synapses, {size:,} parameters"


def thinned(curve: list[Any]) -> list[Any]:
    """Returns evenly spaced points of a curve, at most `POINTS` and the last one among them."""
    every = max(1, -(-len(curve) // POINTS))
    return curve[::-1][::every][::-1]
