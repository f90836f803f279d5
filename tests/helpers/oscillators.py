"""Small rollouts with known dynamics, for the tests of models of the dynamics."""

import numpy as np

from ncp_control.data import Rollout, Rollouts

TURN = 0.3  # radians a step
MATRIX = np.array([[np.cos(TURN), np.sin(TURN)], [-np.sin(TURN), np.cos(TURN)]])


def oscillators(
    count: int = 6, steps: int = 80, seed: int = 0, actions: bool = False, elapsed: bool = False, offset: float = 3.0
) -> Rollouts:
    """Returns rollouts of points that turn around `offset` in the plane, with pushes as actions or irregular times."""
    random = np.random.default_rng(seed)
    found = []
    for k in range(count):
        times = random.choice([0.5, 1.0, 2.0], steps + 1) if elapsed else np.ones(steps + 1)
        pushes = random.uniform(-1, 1, (steps, 1))
        seen = [random.normal(size=2)]
        for t in range(steps):
            angle = TURN * times[t + 1]
            turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
            seen.append(turn @ seen[-1] + (np.array([0.0, 0.3]) * pushes[t] if actions else 0))
        found.append(
            Rollout(
                np.stack(seen) + offset,
                actions=pushes if actions else None,
                elapsed=times if elapsed else None,
                name=f"oscillator {k}",
            )
        )
    return Rollouts(tuple(found), observation_names=("x", "y"))
