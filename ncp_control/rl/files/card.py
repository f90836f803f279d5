"""A trained policy's card: what it is, how good, and the command that made it, as Markdown beside its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.rl.circuit_log import actor_circuit
from ncp_control.rl.files.policy_file import load_policy
from ncp_control.storage.atomic_writes import write_atomically

POINTS = 15  # of a curve


def write_card(path: Path, description: str) -> None:
    """Writes the card of a policy's file beside it, from the note in it.

    The note has `env`, `seed`, `steps`, `command`, `seconds`, `versions`, `return`, `return_std`, `return_min`,
    `episodes` and `episodes_seed`, which they were evaluated from, and a `curve` of steps and returns.

    :param path: of the `.safetensors` file
    :param description: a sentence or two, what it is and what for
    """
    write_atomically(path.with_suffix(".md"), card(path, description).encode())


def card(path: Path, description: str) -> str:
    """The card's text."""
    policy = load_policy(path)
    note = policy.note
    episodes = f"--episodes {note['episodes']} --seed {note['episodes_seed']}"
    score = f"**{note['return']:,.0f}** ± {note['return_std']:,.0f} (lowest {note['return_min']:,.0f})"
    facts = [
        ("environment", note["env"]),
        (f"return, {note['episodes']} episodes, mode of the policy", score),
        ("measured by", f"`ncp-control evaluate {path.parent.name}/{path.name} {episodes}`"),
        ("made by", f"`{note['command']}`"),
        ("seed, steps", f"{note['seed']}, {note['steps']:,}"),
        ("training", f"{note['seconds'] / 60:.0f} minutes, one thread"),
        ("versions", ", ".join(f"{name} {found}" for name, found in note["versions"].items())),
    ]
    circuit = actor_circuit(policy.policy)
    if circuit is not None:
        wiring, size = circuit.cell.wiring, sum(parameter.numel() for parameter in circuit.parameters())
        layers = ", ".join(f"{part.stop - part.start} {name}" for name, part in wiring.layers.items())
        synapses = len(wiring.sensory) + len(wiring.synapses)
        cell = type(circuit.cell).__name__
        facts.insert(
            1, ("acts", f"{cell}, {wiring.units} neurons ({layers}), {synapses} synapses, {size:,} parameters")
        )
    facts.append(("file", f"{path.stat().st_size / 1e6:.2f} MB, SHA-256 of its content {policy.sha256[:16]}..."))
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts)
    curve = "\n".join(f"| {step:,} | {value:,.0f} |" for step, value in thinned(note["curve"]))
    return f"""# {path.name.removesuffix(".safetensors")}

{description}

| | |
|---|---|
{rows}

```python
from ncp_control.rl import load_policy

policy = load_policy("checkpoints/{path.name}")
action, state = policy.predict(observation, state)  # state: None at first
```

Return while it was trained:

| steps | return |
|---|---|
{curve}
"""


def thinned(curve: list[Any]) -> list[Any]:
    """About `POINTS` points of a curve, the last one included."""
    every = max(1, -(-len(curve) // POINTS))
    return curve[::-1][::every][::-1]
