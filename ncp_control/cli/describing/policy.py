"""`ncp-control describe` for a policy's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.cli.describing import facts, network
from ncp_control.wiring import Wiring

Described = dict[str, Any]


def describe(path: Path) -> tuple[Described, Wiring | None]:
    """Returns a policy's class, size, spaces, circuit and note as JSON values, and the circuit's wiring or None."""
    from ncp_control.rl import load_policy
    from ncp_control.rl.policies.circuit import actor_circuit

    loaded = load_policy(path)
    circuit = actor_circuit(loaded.policy)
    description = {
        "class": type(loaded.policy).__name__,
        "actor_only": loaded.is_actor_only,
        "parameters": sum(parameter.numel() for parameter in loaded.policy.parameters()),
        "observation_space": str(loaded.observation_space),
        "action_space": str(loaded.action_space),
        "normalizes_observations": loaded.normalizes,
        "circuit": None if circuit is None else network.describe_circuit(circuit.rnn),
        "sha256": loaded.sha256,
        "note": loaded.note,
    }
    return description, None if circuit is None else circuit.rnn.wiring


def show(description: Described, wiring: Wiring | None) -> None:
    """Prints what `describe` found."""
    networks = "without the critics" if description["actor_only"] else "with the networks that only training uses"
    facts.show(
        [
            ("policy", description["class"]),
            ("parameters", f"{description['parameters']:,}, {networks}"),
            ("observations", description["observation_space"]),
            ("normalised", "yes" if description["normalizes_observations"] else "no"),
            ("actions", description["action_space"]),
            ("SHA-256", description["sha256"]),
            *facts.rows_of(description["note"]),
        ]
    )
    if wiring is not None:
        print(f"\nits circuit: {wiring.summary()}\n")
        facts.show(network.rows_of(description["circuit"]))
        network.show_bounds(description["circuit"])
