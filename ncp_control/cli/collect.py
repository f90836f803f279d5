"""`ncp-control collect`: collects rollouts of a policy and writes them as a Minari dataset."""

from __future__ import annotations

import json
import re
import shlex
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

SELDOM = ("bursts", "max_steps", "author", "author_email", "code_link", "shared")
LOCAL = "local"


@dataclass
class Arguments:
    """Collect rollouts of a policy as a Minari dataset. A share of its actions is replaced by random ones.

    Example: ncp-control collect --policy checkpoints/halfcheetah-teacher.safetensors --out ./cheetah-v0
    """

    env: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """The environment; by default the one that the policy was trained in, and HalfCheetah-v5 for random actions."""

    policy: Annotated[str, tyro.conf.arg(metavar="random|FILE")] = "random"
    """The policy: random, or a policy's .safetensors file."""

    episodes: int = 25
    """Number of episodes."""

    random: Annotated[float | None, tyro.conf.arg(metavar="P")] = None
    """The share of random actions; by default that of the training."""

    bursts: Annotated[float, tyro.conf.arg(metavar="P")] = 0.0
    """The probability that a step begins a burst: for 5 to 20 steps, actions of an earlier moment or random ones."""

    max_steps: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """End episodes after this many steps, rather than at the environment's own limit."""

    seed: int = 0
    """Random seed; the same seed gives the same result."""

    workers: int | None = None
    """The number of processes, by default 1; on a cluster one for each core. The result does not depend on it."""

    on: Annotated[str, tyro.conf.arg(metavar="PLACE")] = "local"
    """local (this machine), ray (start a cluster here), or a running cluster: HOST:PORT, ray://HOST:PORT, auto."""

    shared: bool = False
    """All nodes of the cluster see the dataset's folder under the same path. Otherwise Ray sends the rollouts back."""

    group: int = 16
    """Number of episodes in one batch of the policy. The result depends on it."""

    sample: bool = False
    """Sample the policy's actions instead of taking the deterministic ones."""

    out: Annotated[str | None, tyro.conf.arg(metavar="DATASET")] = None
    """A Minari id, for a dataset where Minari looks for it, or the path of a folder, such as ./cheetah-v0. The default
    is the id ncp/ENVIRONMENT/POLICY-rPERCENT-v0."""

    description: str | None = None
    """A description of the dataset; by default the policy, the environment and the share of random actions."""

    author: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The author, for a dataset that is published."""

    author_email: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """The author's address."""

    code_link: Annotated[str | None, tyro.conf.arg(metavar="URL")] = None
    """Where to find the code that made the dataset."""

    resume: bool = False
    """Continue a collection that was interrupted."""

    json: bool = False
    """Print one JSON object last."""


def run(arguments: Arguments) -> int:
    """Collects rollouts, writes the dataset, and prints a summary."""
    from ncp_control.cli import trained_in
    from ncp_control.data.collect import tidy, unfinished
    from ncp_control.data.env_specs import spec_of, with_limit
    from ncp_control.data.minari_files import place_of

    policy, name = read_policy(arguments.policy)
    note = {"env": "HalfCheetah-v5"} if isinstance(policy, str) else policy.note
    arguments = replace(arguments, random=trained_in.strength(note, "random", arguments.random))
    if arguments.env is None and not trained_in.layers(note, random=0.0) and not note.get("env_kwargs"):
        arguments = replace(arguments, env=trained_in.env_name(Path(arguments.policy), note, None))
    spec = spec_of(arguments.env) if arguments.env is not None else spec_in(note, Path(arguments.policy))
    spec = spec if arguments.max_steps is None else with_limit(spec, arguments.max_steps)
    dataset_id, folder = place_of(arguments.out or default_id(spec.id, name, arguments.random or 0.0))
    if folder.exists():
        rollouts = finished_before(folder, command(arguments, dataset_id), policy) if arguments.resume else None
        if rollouts is None:
            raise FileExistsError(f"{folder} exists already: choose another --out, or remove it first")
        tidy(folder)
    else:
        rollouts = gather(arguments, spec, policy, name, dataset_id, unfinished(folder))
    show(summary(rollouts, dataset_id, folder), arguments.json)
    return 0


def spec_in(note: dict[str, Any], path: Path) -> Any:
    """Returns the spec of the environment in which a policy was trained, with its wrappers.

    Random actions are not among them, because the collection itself adds and marks them.

    :param note: the note in the policy's file
    :param path: the file
    """
    from ncp_control.cli import trained_in
    from ncp_control.data.env_specs import spec_of, without_checks

    with closing(trained_in.make(trained_in.env_name(path, note, None), note, random=0.0)) as env:
        return without_checks(spec_of(env))


def gather(arguments: Arguments, spec: Any, policy: Any, name: str, dataset_id: str, keep: Path) -> Any:
    """Collects the rollouts and writes the dataset.

    :param keep: the folder for finished rollouts; the collection continues from those that are there
    :return: the rollouts
    """
    from ncp_control.data.collect import collect_dataset
    from ncp_control.data.collection import count_finished

    random = arguments.random or 0.0
    words = f"{arguments.episodes} rollouts of {name} in {spec.id}"
    words += f", {100 * random:.3g} % random actions" if random else ""
    words += f", bursts of others with probability {arguments.bursts:g}" if arguments.bursts else ""
    known = {
        "description": arguments.description or words,
        "command": command(arguments, dataset_id),
        "algorithm": algorithm_of(policy),
        "author": arguments.author,
        "author_email": arguments.author_email,
        "code_link": arguments.code_link,
    }
    elsewhere = None
    if arguments.on != LOCAL or arguments.shared:
        from ncp_control.scale.cluster import place_of
        from ncp_control.scale.collecting import on_place

        elsewhere = on_place(place_of(arguments.on, arguments.workers, arguments.shared or None), arguments.policy)
    try:
        return collect_dataset(
            policy,
            spec,
            arguments.out or dataset_id,
            record={key: value for key, value in known.items() if value is not None},
            resume=arguments.resume,
            rollouts=arguments.episodes,
            random_action_fraction=random,
            bursts=arguments.bursts,
            seed=arguments.seed,
            workers=1 if arguments.workers is None else arguments.workers,
            elsewhere=elsewhere,
            group=arguments.group,
            name=name,
            deterministic=not arguments.sample,
        )
    except FileExistsError as error:
        raise FileExistsError(f"{error} (--resume continues it)") from error
    except (KeyboardInterrupt, OSError) as error:
        kept = f"{count_finished(keep)} of {arguments.episodes} rollouts are kept in {keep}: continue with --resume"
        if isinstance(error, OSError) and error.strerror:
            error.strerror += f" ({kept})"
        elif isinstance(error, KeyboardInterrupt):
            print(f"\n{kept}", file=sys.stderr)  # the terminal has written ^C on the line
        raise


def algorithm_of(policy: Any) -> str | None:
    """Returns the algorithm that trained a policy, if the note in its file says so; "random" for random actions."""
    algorithm = policy if isinstance(policy, str) else policy.note.get("algo")
    return algorithm if isinstance(algorithm, str) else None


def finished_before(folder: Path, made_by: str, policy: Any) -> Any | None:
    """Returns the rollouts of a dataset if the same command with the same policy has made it; None otherwise."""
    from ncp_control.data import Rollouts

    try:
        rollouts = Rollouts.load(folder)
    except (ValueError, OSError):
        return None
    before = str(rollouts.about.get("command")).replace(" --rollouts ", " --episodes ")  # its name in version 0.2
    same = before == made_by
    controller = rollouts.about.get("controller") or {}
    return rollouts if same and controller.get("sha256") == getattr(policy, "sha256", None) else None


def read_policy(text: str) -> tuple[Any, str]:
    """Returns the policy that an argument names, and a name for it."""
    if text == "random":
        return text, text
    from ncp_control.rl import load_policy

    policy = load_policy(text)
    return policy, policy.name


def default_id(env: str, name: str, random: float) -> str:
    """Returns the Minari id for an environment, a policy's name and a share of random actions."""
    short = env.rsplit("/", 1)[-1].rsplit("-v", 1)[0].lower()
    plain = re.sub(r"[^\w-]+", "-", name)  # the characters that a Minari id may have
    return f"ncp/{short}/{plain}-r{round(100 * random):02d}-v0"


def command(arguments: Arguments, dataset_id: str) -> str:
    """Returns the command that makes the dataset again."""
    words = []
    for key, value in vars(arguments).items():
        if key == "bursts" and not value:  # earlier versions did not write it
            continue
        if value is not None and not isinstance(value, bool) and key not in ("out", "workers", "on", "shared"):
            words += [f"--{key.replace('_', '-')}", str(value)]
    flags = ["--sample"] if arguments.sample else []
    return shlex.join(["ncp-control", "collect", *words, *flags, "--out", arguments.out or dataset_id])


def summary(rollouts: Any, dataset_id: str, folder: Path) -> dict[str, Any]:
    """Summarises what was collected, in JSON values."""
    import numpy as np

    returns = [rollout.total_reward for rollout in rollouts]
    return {
        "id": dataset_id,
        "folder": str(folder),
        "rollouts": len(rollouts),
        "steps": rollouts.steps,
        "mean_return": float(np.mean(returns)),
        "std_return": float(np.std(returns)),
        "random_share": float(np.mean(np.concatenate([rollout.is_random for rollout in rollouts]))),
    }


def show(result: dict[str, Any], as_json: bool) -> None:
    """Prints the summary."""
    if as_json:
        print(json.dumps(result))
        return
    print(
        f"{result['rollouts']} rollouts, {result['steps']:,} steps, return {result['mean_return']:.1f} "
        f"+- {result['std_return']:.1f}, {result['random_share']:.2%} of the actions random\n"
        f"written to {result['folder']}\n"
        f"look at it:  ncp-control describe {shlex.quote(result['folder'])}"
    )
