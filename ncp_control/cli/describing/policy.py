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
    found = {
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
    return found, None if circuit is None else circuit.rnn.wiring


def show(found: Described, wiring: Wiring | None) -> None:
    """Prints what `describe` found."""
    others = "without the critics" if found["actor_only"] else "with the networks that only training uses"
    facts.show(
        [
            ("policy", found["class"]),
            ("parameters", f"{found['parameters']:,}, {others}"),
            ("observations", found["observation_space"]),
            ("normalised", "yes" if found["normalizes_observations"] else "no"),
            ("actions", found["action_space"]),
            ("SHA-256", found["sha256"]),
            *facts.rows_of(found["note"]),
        ]
    )
    if wiring is not None:
        print(f"\nits circuit: {wiring.summary()}\n")
        facts.show(network.rows_of(found["circuit"]))
        network.show_bounds(found["circuit"])
