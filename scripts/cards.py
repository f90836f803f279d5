"""The cards of shipped files: Markdown beside a policy or a model, from the note in its file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ncp_control.base.files import write_atomically
from ncp_control.base.text import markdown, markdown_code
from ncp_control.distil.recorded import METHOD
from ncp_control.dynamics import Ensemble, load_model
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.model_file import checksum_of
from ncp_control.dynamics.simulator import Simulator
from ncp_control.rl import load_policy
from ncp_control.rl.policies.circuit import Circuit, actor_circuit

POINTS = 15  # of a learning curve, at most
MEANING = """\
Squared errors over the variances of the observations, on rollouts that the model has not seen, in the mean and, in
parentheses, in the median over their starts. The column "next" has the error of the next observation. The other columns
are so many steps ahead, from the model's own predictions: *recorded* after the actions that were recorded, *off-policy*
after those of other rollouts, executed in the simulator from the same states. *Simulator* is MuJoCo itself, started
with errors as large as the model's own one step ahead."""

CONFIDENCE = """\
How well the ensemble knows its own errors: the rank correlation of its members' disagreement and the error, over starts
and the horizons above; the share of steps within the 90 % interval of `predict_interval`; and the number of steps ahead
before the squared error of the median start reaches a tenth of the variance, as the ensemble expects and in truth."""

QUESTIONS = {
    "recorded": "",
    "simulator, recorded": "floor_",
    "off-policy": "off_policy_",
    "simulator, off-policy": "off_policy_floor_",
}


def write_card(path: Path, text: str) -> None:
    """Writes a card beside the file that it describes.

    :param path: the `.safetensors` file
    :param text: the card
    """
    write_atomically(path.with_suffix(".md"), text.encode())


def card_text(path: Path, description: str, facts: Iterable[tuple[str, str]], example: str, results: str) -> str:
    """Returns a card as Markdown.

    :param path: the `.safetensors` file
    :param description: a sentence or two on what the file is and what it is for
    :param facts: names and values
    :param example: Python code that loads the file and uses it
    :param results: Markdown on how good it is
    """
    title = markdown(path.name.removesuffix(".safetensors"))
    return f"# {title}\n\n{description}\n\n{table(('', ''), facts)}\n\n```python\n{example}\n```\n\n{results}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    titles = "".join(f" {title} |" if title else " |" for title in head)
    return "\n".join([f"|{titles}", f"|{'---|' * len(head)}", *lines])


def origin_of(path: Path, sha256: str, note: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the facts on where a file comes from and what identifies it: its versions, size and checksum.

    :param path: the `.safetensors` file
    :param sha256: the checksum of its content
    :param note: the note in it, with `versions`
    """
    return [
        ("versions", markdown(", ".join(f"{name} {version}" for name, version in note["versions"].items()))),
        ("file", f"{path.stat().st_size / 1e6:.2f} MB, SHA-256 of its content {sha256[:16]}..."),
    ]


def duration(seconds: float) -> str:
    """Returns how long one thread worked, in words."""
    return f"{seconds / 60:.0f} minutes, one thread"


def policy_card(path: Path, description: str) -> str:
    """Returns the card of a policy, from the note in its file.

    The note has `env`, `seed`, `steps`, `command`, `seconds` and `versions` of the training; `return`, `return_std` and
    `return_min` over `episodes` episodes, evaluated from the seed `episodes_seed`; and `curve`, pairs of a step and a
    return. If actions were overwritten at random in these episodes, it has their share, `random`, and under
    `undisturbed` the returns of as many episodes without that. A distilled policy's note has its `teacher`, the
    `teacher_return` in the student's environment, and the `share` of it that the student has; the teacher of a cloned
    one is the dataset that it learnt from. If it was measured in disturbances, `grid` has a row for each.

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
    unit = "batches" if note.get("method") == METHOD and "finetuned" not in note else "steps"
    curve = table((unit, "return"), [(f"{step:,}", f"{value:,.0f}") for step, value in thinned(note["curve"])])
    results = f"Return during training:\n\n{curve}"
    return card_text(path, description, facts, example, f"{grid_in_words(path, note)}{results}")


def grid_in_words(path: Path, note: dict[str, Any]) -> str:
    """Returns the returns on a policy's card in one disturbance after another; nothing if they were not measured."""
    if "grid" not in note:
        return ""
    command = f"ncp-control evaluate {path.parent.name}/{path.name} --grid --episodes {note['episodes']}"
    rows = [
        (row["disturbance"], f"{row['mean_return']:,.0f} ± {row['std_return']:,.0f}", f"{row['min_return']:,.0f}")
        for row in note["grid"]
    ]
    measured = f"{note['episodes']} episodes each (`{command} --seed {note['episodes_seed']}`)"
    return f"In disturbances, {measured}:\n\n{table(('disturbance', 'return', 'lowest'), rows)}\n\n"


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
    if note.get("method") != METHOD:
        return "taught by", f"{markdown(teacher['name'])}{algorithm}, which has {has} in this environment: {share}"
    policy = f" of {markdown(teacher['policy'])}{algorithm}" if teacher["policy"] else ""
    random = f" while {100 * teacher['random']:.3g} % of the actions were random" if teacher["random"] else ""
    return (
        METHOD,
        f"{teacher['episodes']:,} recorded episodes{policy}, {teacher['steps']:,} steps, in the dataset "
        f"{markdown(teacher['name'])}, SHA-256 {teacher['sha256'][:16]}. Their return is {has}{random}: {share}",
    )


def circuit_in_words(circuit: Circuit) -> str:
    """Returns a circuit's cell and its numbers of neurons, synapses and parameters."""
    wiring, size = circuit.cell.wiring, sum(parameter.numel() for parameter in circuit.parameters())
    layers = ", ".join(f"{part.stop - part.start} {name}" for name, part in wiring.layers.items())
    synapses = wiring.existing_synapses
    cell = type(circuit.cell).__name__
    return f"{cell}, {wiring.units} neurons ({layers}), {synapses} synapses, {size:,} parameters"


def thinned(curve: list[Any]) -> list[Any]:
    """Returns evenly spaced points of a curve, at most `POINTS` and the last one among them."""
    every = max(1, -(-len(curve) // POINTS))
    return curve[::-1][::every][::-1]


def model_card(path: Path, description: str) -> str:
    """Returns the card of a model, from the note in its file.

    The note has `command`, `seed`, `seconds` and `versions` of the fit; `collected` and `tested`, the commands that
    made the rollouts; `steps`, of training data; `horizons`; and `rows`, each with `name` and `one_step` and, for every
    horizon, one of `answers`, as `Answers.rows` returns them, or of `errors`, if there are any.
    For an ensemble it also has `confidence`: for each question, what `Confidence.as_values` returns.

    :param path: the `.safetensors` file
    :param description: a sentence or two on what the model is and what it is for
    """
    model = load_model(path)
    note = model.note
    actions = f" and {model.action_size} actions" if model.action_size else ""
    facts = [
        ("model", model_in_words(model)),
        ("reads", f"{model.features} observations{actions}"),
        ("rollouts", markdown_code(note["collected"])),
        ("predicted rollouts", markdown_code(note["tested"])),
        ("fitted by", markdown_code(note["command"])),
        ("seed, steps of training data", f"{note['seed']}, {note['steps']:,}"),
        ("fitting", duration(note["seconds"])),
        *origin_of(path, checksum_of(path), note),
    ]
    example = f"""from ncp_control.dynamics import load_model

model = load_model("checkpoints/{path.name}")
future = model.predict(history, horizon, actions)  # (B, T, n), H and (B, T + H - 1, m) to (B, H, n)"""
    horizons = tuple(f"{k} steps" if k > 1 else "1 step" for k in note["horizons"])
    rows = [line for row in note["rows"] for line in lines_of(row, len(horizons))]
    results = f"{MEANING}\n\n{table(('', 'next', *horizons), rows)}"
    if note.get("confidence"):
        head = ("actions", "correlation", "within the interval", "believed", "in truth")
        lines = [confidence_line(name, one) for name, one in note["confidence"].items()]
        results += f"\n\n{CONFIDENCE}\n\n{table(head, lines)}"
    return card_text(path, description, facts, example, results)


def confidence_line(question: str, found: dict[str, Any]) -> tuple[str, ...]:
    """Returns the line of the table about an ensemble's knowledge of its errors."""
    known = found["within"] is not None
    within, believed = (f"{found['within']:.0%}", f"{found['believed']} steps") if known else ("unknown", "unknown")
    return (question, f"{found['correlation']:.2f}", within, believed, f"{found['believable']} steps")


def lines_of(row: dict[str, Any], horizons: int) -> list[tuple[str, ...]]:
    """Returns the lines of the table about one model: what it was asked, and what the simulator answered."""
    name, of_next = markdown(row["name"]), f"{row['one_step']:.4f}"
    if "answers" not in row:
        errors = row.get("errors", [None] * horizons)
        return [(name, of_next, *("" if error is None else f"{error:.3f}" for error in errors))]
    found = []
    for title, key in QUESTIONS.items():
        known = [(one[f"{key}mean"], one[f"{key}median"]) for one in row["answers"]]
        if None not in known[0]:
            cells = (f"{mean:.3f} ({median:.3f})" for mean, median in known)
            found.append((f"{name}, {title}", "" if key else of_next, *cells))
    return found


def model_in_words(model: Simulator) -> str:
    """Returns a model's cell, its numbers of neurons and parameters, and what it predicts."""
    first = model.models[0] if isinstance(model, Ensemble) else model
    assert isinstance(first, DynamicsModel)
    about = first.about()
    units = about["wiring"] if isinstance(about["wiring"], int) else first.rnn.wiring.units
    members = f"{len(model.models)} times " if isinstance(model, Ensemble) else ""
    size = sum(parameter.numel() for parameter in model.parameters())
    predicts = "change of the observations" if first.residual else "next observation"
    return f"{members}{about['cell']['cell']}, {units} neurons, {size:,} parameters; predicts the {predicts}"
