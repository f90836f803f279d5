"""`ncp-control evaluate --in`: the return that a model of the dynamics predicts for a policy, beside the true one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any

# A model that drifts away, or that a policy makes flatter itself, does so in later steps.
PARTS = ((0, 50), (50, 200), (200, 1000))
LIMIT = 1000  # steps of an episode in the model where the environment itself has no limit


def evaluate(arguments: Any) -> dict[str, Any]:
    """Returns the returns in the model and in the environment, as JSON values.

    :param arguments: those of `ncp-control evaluate`
    """
    import numpy as np

    from ncp_control.cli import trained_in
    from ncp_control.cli.models import read_model
    from ncp_control.dynamics import imagined_rewards
    from ncp_control.dynamics.imitated import in_place_of
    from ncp_control.rl import load_policy
    from ncp_control.rl.evaluation import step_rewards
    from ncp_control.rl.recipes.env_making import wrap

    episodes, seed, shown = arguments.episodes, arguments.seed, not arguments.json
    policy, model = load_policy(arguments.policy), read_model(arguments.inside)
    note, asked = policy.note, trained_in.asked_of(arguments)
    conditions = trained_in.conditions(note, **asked)
    name = trained_in.env_name(arguments.policy, note, arguments.env)
    if episodes < 1:
        raise ValueError(f"an evaluation needs at least one episode, got {episodes}")
    # without its wrappers, which go around the model below
    with closing(trained_in.make(name, {**note, "env_wrapper": []})) as env:
        limit = (env.spec.max_episode_steps if env.spec else None) or LIMIT
        inside = in_place_of(env, model, episodes, name, limit)
    for described in conditions["env_wrapper"]:
        inside = wrap(inside, described)
    imagined = imagined_rewards(policy, inside, seed, not arguments.sample, shown)
    true = step_rewards(
        policy,
        lambda: trained_in.make(name, note, **asked),
        episodes,
        seed,
        deterministic=not arguments.sample,
        progress=shown,
    )
    returns, truth = imagined.sum(axis=1), np.array([sum(rewards) for rewards in true])
    mean, true_mean = float(returns.mean()), float(truth.mean())
    return {
        "checkpoint": str(arguments.policy),
        "model": [str(path) for path in arguments.inside],
        "env": name,
        **conditions,
        "episodes": episodes,
        "seed": seed,
        "model_return": mean,
        "model_std": float(returns.std()),
        "true_return": true_mean,
        "true_std": float(truth.std()),
        "ratio": mean / true_mean if true_mean > 0 else None,  # a ratio to a loss would mean nothing
        "steps": [
            {"from": start, "to": stop, "model": mean_of(imagined, start, stop), "true": mean_of(true, start, stop)}
            for start, stop in PARTS
            if start < imagined.shape[1]
        ],
    }


def mean_of(rewards: Iterable[Any], start: int, stop: int) -> float | None:
    """Returns the mean reward in steps start .. stop of episodes; None if all of them end before."""
    import numpy as np

    chosen = np.concatenate([np.asarray(episode[start:stop]) for episode in rewards])
    return float(chosen.mean()) if chosen.size else None


def show(result: dict[str, Any]) -> None:
    """Prints the returns, their ratio, and the rewards of early and late steps."""
    from ncp_control.cli.trained_in import in_words

    where, count = f"{result['env']}{in_words(result['env_wrapper'])}", result["episodes"]
    print(f"{result['checkpoint']} in {where}, {count} episode{'s' if count > 1 else ''}\n")
    print(f"{'':<24}{'in the model':>22}{'in reality':>22}")
    both = [f"{result[f'{kind}_return']:,.1f} +- {result[f'{kind}_std']:,.1f}" for kind in ("model", "true")]
    print(f"{'return':<24}{both[0]:>22}{both[1]:>22}")
    for part in result["steps"]:
        words = f"a step, {part['from']} to {part['to']}"
        print(f"{words:<24}" + "".join(f"{told(part[kind]):>22}" for kind in ("model", "true")))
    if result["ratio"] is not None:
        print(f"\nthe model predicts {result['ratio']:.2f} times the true return")


def told(value: float | None) -> str:
    """Writes a reward; a dash where no episode is that long."""
    return "-" if value is None else f"{value:.3f}"
