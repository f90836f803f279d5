"""Trains from recipes with odd keys and values, and counts what a user should never see.

Every case is one recipe of a tiny environment with one to three odd values, as a file or as words for `--set`. It must
end in a short training, or in one sentence (the errors that `ncp-control` prints in one line) that leaves no folder in
which the corrected recipe is refused. Anything else counts: a traceback, a hang, a folder.

    nice python scripts/stress/recipes.py --cases 2000 --seed 0
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import yaml

ON_POLICY = {"n_steps": 8, "batch_size": 8, "n_epochs": 1}
OFF_POLICY = {"learning_starts": 4, "batch_size": 8, "buffer_size": 32, "train_freq": 4, "gradient_steps": 1}
CIRCUIT = {"policy_kwargs": {"wiring": "AutoNCP(7, 2)", "critic": "mlp", "critic_units": 3}}
WINDOWS = {"sequence": 4, "burn_in": 2}
BASES: dict[str, dict[str, Any]] = {
    "RecurrentPPO": {**CIRCUIT, **ON_POLICY, "sequence": 4},
    "RecurrentA2C": {**CIRCUIT, "n_steps": 8},
    "RecurrentSAC": {**CIRCUIT, **OFF_POLICY, **WINDOWS},
    "RecurrentTD3": {**CIRCUIT, **OFF_POLICY, **WINDOWS},
    "PPO": {"policy": "MlpPolicy", **ON_POLICY},
    "A2C": {"policy": "MlpPolicy", "n_steps": 8},
    "SAC": {"policy": "MlpPolicy", **OFF_POLICY},
    "TQC": {"policy": "MlpPolicy", **OFF_POLICY, "top_quantiles_to_drop_per_net": 1},
    "CrossQ": {"policy": "MlpPolicy", **OFF_POLICY, "policy_kwargs": {"net_arch": [8]}},
    "TD3": {"policy": "MlpPolicy", **OFF_POLICY},
    "DQN": {"policy": "MlpPolicy", "env": "CartPole-v1", **OFF_POLICY},
}
KEYS = (
    "env", "algo", "n_timesteps", "n_envs", "env_kwargs", "env_wrapper", "normalize", "policy", "policy_kwargs",
    "based_on", "also_evaluate", "updates_per_step",
    "learning_rate", "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "clip_range",
    "clip_range_vf", "normalize_advantage", "ent_coef", "vf_coef", "max_grad_norm", "use_sde", "sde_sample_freq",
    "target_kl", "buffer_size", "learning_starts", "tau", "train_freq", "gradient_steps", "target_update_interval",
    "target_entropy", "policy_delay", "top_quantiles_to_drop_per_net",
    "target_policy_noise", "target_noise_clip", "exploration_fraction",
    "exploration_initial_eps", "exploration_final_eps", "stats_window_size", "optimize_memory_usage", "sequence",
    "burn_in", "verbose", "tensorboard_log", "seed", "device", "replay_buffer_class", "replay_buffer_kwargs",
    "rollout_buffer_class", "rollout_buffer_kwargs", "action_noise", "_init_setup_model", "monitor_wrapper",
    "use_rms_prop", "rms_prop_eps", "use_sde_at_warmup", "supported_action_spaces", "self", "args", "kwargs", "n_step",
    "policy_kwargs.wiring", "policy_kwargs.cell", "policy_kwargs.cell_kwargs", "policy_kwargs.critic",
    "policy_kwargs.critic_units", "policy_kwargs.critic_lr_scale", "policy_kwargs.circuit_lr_scale",
    "policy_kwargs.head", "policy_kwargs.net_arch", "policy_kwargs.activation_fn", "policy_kwargs.log_std_init",
    "policy_kwargs.ortho_init", "policy_kwargs.full_std", "policy_kwargs.use_expln", "policy_kwargs.squash_output",
    "policy_kwargs.features_extractor_class", "policy_kwargs.features_extractor_kwargs",
    "policy_kwargs.share_features_extractor", "policy_kwargs.normalize_images", "policy_kwargs.optimizer_class",
    "policy_kwargs.optimizer_kwargs", "policy_kwargs.optimizer_kwargs.eps", "policy_kwargs.optimizer_kwargs.betas",
    "policy_kwargs.n_critics", "policy_kwargs.n_quantiles", "policy_kwargs.batch_norm",
    "policy_kwargs.batch_norm_momentum", "policy_kwargs.batch_norm_eps", "policy_kwargs.renorm_warmup_steps",
    "policy_kwargs.lstm_hidden_size", "policy_kwargs.cell_kwargs.init",
    "policy_kwargs.cell_kwargs.time_constants", "policy_kwargs.cell_kwargs.unfolds", "normalize.gamma",
    "normalize.clip_obs", "normalize.epsilon", "normalize.norm_obs_keys", "normalize.venv", "normalize.training",
    "env_kwargs.g", "env_kwargs.max_episode_steps", "env_kwargs.id", "env_kwargs.render_mode", "env_kwargs.bogus",
    "env_kwargs.disable_env_checker",
)  # fmt: skip
PLAIN = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 10**3, 10**9, 10**12, 10**30, -(10**30), 0.0, 0.5, 1.0, 1.5, 8.0, -0.5,
    1e-300, 1e300, float("inf"), float("-inf"), "1e-1", "9e-1", "1e0", "1e1", "8e0", "1e999", "lin_1e-3", "lin_",
    "lin_x", "lin_-1", "lin_nan", "nan", "inf", "", " ", "abc", "auto", "auto_0.1", "auto_x", "null", "5", "0x10",
    "1_000", "None", "os:system", "module:Id", "innocent:Pendulum-v1", "../x", "\x00", "\u00e4\u4e16\U0001f600", "a" *
    500, "%s{0}", "ltc", "cfc", "lstm", "mlp", "circuit", "shared", "motor", "MlpPolicy", "NCPPolicy",
    "MultiInputPolicy", "CnnPolicy", "Tanh", "tanh", "NCPExtractor", "AutoNCP(9, 3)", "AutoNCP(3, 9)", "AutoNCP('a')",
    "AutoNCP(1e9, 2)", "NCP()", "centred", "CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v3", "Blackjack-v1",
    "ncp/PendulumNoVel-v0", "human",
)  # fmt: skip
LIKELY = (True, False, 0, 1, 2, 3, 7, 64, 0.0, 0.5, 1.0, 8.0, 1e-300, 1e30, "1e-1", "9e-1", "1e1", "lin_1e-3", None)
WRAPPERS = (
    "ObservationNoise", "ObservationDropout", "ActionChangeCost", "ChangedBody", "Pushes", "History", "IrregularTime",
    "ActionDelay", "KeepObservations", "PreviousAction", "RandomActionOverwrite", "VectorHistory",
    "VectorObservationNoise", "observation_names", "without_mass_warning", "TimeLimit", "__all__", "os:system",
)  # fmt: skip
ARGUMENTS = (
    "std", "probability", "window", "frames", "observe_elapsed", "nominal", "seed", "delay", "steps", "keep", "fill",
    "whole", "env", "bogus", "indices",
)  # fmt: skip
# Keys that belong to some algorithms only.
SETTINGS = set(KEYS[KEYS.index("learning_rate") : KEYS.index("tensorboard_log")])
SECONDS = 60  # of this process, so that a busy machine does not count as a hang
REFUSALS = (ValueError, OSError, ModuleNotFoundError)  # what `ncp-control` prints in one line


class Hung(BaseException):
    """A case did not come to an end; no `except` of the package catches this."""


def ring(signum: int, frame: FrameType | None) -> None:
    """Ends a case that hangs."""
    raise Hung


def odd_value(random: Random, depth: int = 0) -> Any:
    """Returns a value of any type, perhaps with others in it; often one that some key takes."""
    if random.random() < 0.4:
        return random.choice(LIKELY)
    kind = random.random()
    if kind < 0.75 or depth > 2:
        return random.choice(PLAIN)
    count = random.choice((0, 1, 1, 2, 3))
    if kind < 0.88:
        return [odd_value(random, depth + 1) for _ in range(count)]
    keys = (*ARGUMENTS, "pi", "vf", "qf", "wiring", "cell", "eps", "abc", "")
    return {random.choice(keys): odd_value(random, depth + 1) for _ in range(count)}


def odd_wrapper(random: Random) -> Any:
    """Returns an entry of `env_wrapper`."""
    name = random.choice(WRAPPERS)
    kind = random.random()
    if kind < 0.2:
        return name
    if kind < 0.35:
        return {name: odd_value(random)}
    return {name: {random.choice(ARGUMENTS): odd_value(random) for _ in range(random.choice((1, 1, 2)))}}


def odd_changes(random: Random, algo: str) -> dict[str, Any]:
    """Returns one to three odd values by their keys, most of which the algorithm has."""
    found = {}
    foreign = SETTINGS - keys_of(algo)
    fitting = [key for key in KEYS if key not in foreign]
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        key = random.choice(KEYS if random.random() < 0.1 else fitting)
        if key == "env_wrapper" or random.random() < 0.08:
            found["env_wrapper"] = [odd_wrapper(random) for _ in range(random.choice((1, 1, 2)))]
        else:
            found[key] = odd_value(random)
    return found


def keys_of(algo: str) -> set[str]:
    """Returns the names of an algorithm's arguments."""
    from ncp_control.rl.recipes.building import class_of
    from ncp_control.rl.recipes.limits import arguments_of

    return set(arguments_of(class_of(algo)))


def base(algo: str) -> dict[str, Any]:
    """Returns a recipe that trains in a moment."""
    return {"env": "Pendulum-v1", "algo": algo, "n_timesteps": 24, **json.loads(json.dumps(BASES[algo]))}


def apply(flat: dict[str, Any], changes: dict[str, Any]) -> None:
    """Sets values in a recipe, by keys such as policy_kwargs.cell."""
    for key, value in changes.items():
        *path, last = key.split(".")
        inner = flat
        for name in path:
            if not isinstance(inner.get(name), dict):
                inner[name] = {}
            inner = inner[name]
        inner[last] = value


def shorten(recipe: Any) -> None:
    """Makes a training of a valid recipe short: a valid, but huge, number of steps is only seen to be accepted."""
    recipe.n_timesteps = min(recipe.n_timesteps, 24)


def attempt(words: list[str], path: Path, out: Path) -> None:
    """Builds and trains from a recipe, as `ncp-control train` does.

    :param words: changes as KEY=VALUE
    :param path: the recipe
    :param out: the run's folder
    """
    from stable_baselines3.common.callbacks import BaseCallback

    from ncp_control.base.plain_yaml import read_changes
    from ncp_control.rl.recipes.recipe import load_recipe
    from ncp_control.rl.training import train

    class Enough(BaseCallback):
        """Ends a training whose rollouts or learning would take long."""

        def _on_step(self) -> bool:
            return self.n_calls < 64

    recipe = load_recipe(path, read_changes(words))
    shorten(recipe)
    train(recipe, out, eval_every=24, eval_episodes=1, progress=False, callbacks=[Enough()])


def one_case(seed: int, place: Path) -> tuple[str, str]:
    """Runs one case.

    :param seed: everything random follows from it
    :param place: a folder that only this case uses
    :return: "trained", "refused" or a fault, and details
    """
    random = Random(seed)
    algo = random.choice(list(BASES))
    flat, changes, words = base(algo), odd_changes(random, algo), []
    if random.random() < 0.4:
        words = [
            f"{key}={yaml.safe_dump(value, default_flow_style=True, width=10**6)}" for key, value in changes.items()
        ]
        words = [word.removesuffix("\n").removesuffix("...").removesuffix("\n") for word in words]
    else:
        apply(flat, changes)
    path, out = place / "recipe.yml", place / "run"
    path.write_text(yaml.safe_dump(flat), encoding="utf-8", errors="surrogatepass")
    told = f"seed {seed}, {algo}: {json.dumps(changes, default=str)[:300]}"
    loaded = {name for name in sys.modules if name.startswith("innocent")}
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        attempt(words, path, out)
        outcome = ("trained", told)
    except REFUSALS as error:
        sentence = " ".join(str(error).split())
        outcome = ("refused", f"{told}\n    {sentence[:400]}")
        if not sentence:
            outcome = ("empty sentence", told)
    except Hung:
        outcome = ("hang", told)
    except BaseException as error:
        outcome = ("traceback", f"{told}\n    {type(error).__name__}: {str(error)[:300]}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if loaded != {name for name in sys.modules if name.startswith("innocent")}:
        outcome = ("import", told)
    if outcome[0] == "refused" and out.exists() and not accepts(out):
        outcome = ("folder", outcome[1])
    return outcome


def accepts(out: Path) -> bool:
    """Whether a run folder that a refused recipe left accepts another recipe, or holds a policy worth keeping."""
    from ncp_control.runs.curve import CURVE
    from ncp_control.runs.run import BEST, STATE, Run

    if (out / BEST).exists():
        return True
    try:
        with Run(out).open({"recipe": "another"}, (), results=(STATE, CURVE)):
            pass
    except FileExistsError:
        return False
    return True


def stress(cases: range, quiet: bool = True) -> tuple[Counter[str], list[str]]:
    """Runs cases and returns how many ended in which way, and the faults.

    :param cases: their seeds
    :param quiet: forget what the cases print
    """
    counts: Counter[str] = Counter()
    faults = []
    before = signal.signal(signal.SIGPROF, ring)
    here = Path.cwd()
    try:
        for seed in cases:
            place = Path(tempfile.mkdtemp(prefix="ncp-stress-"))
            os.chdir(place)
            (place / "innocent.py").write_text("")
            with contextlib.ExitStack() as held:
                held.callback(shutil.rmtree, place, ignore_errors=True)
                held.enter_context(warnings.catch_warnings(record=True))
                if quiet:
                    held.enter_context(contextlib.redirect_stdout(io.StringIO()))
                    held.enter_context(contextlib.redirect_stderr(io.StringIO()))
                outcome, told = one_case(seed, place)
            counts[outcome] += 1
            if outcome not in ("trained", "refused"):
                faults.append(f"{outcome}: {told}")
            elif not quiet:
                print(f"{outcome}: {told}", flush=True)
    finally:
        os.chdir(here)
        signal.signal(signal.SIGPROF, before)
    return counts, faults


def main() -> int:
    """Runs the cases and prints the counts; returns 1 if there is any fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case; each further one has the next")
    parser.add_argument("--show", action="store_true", help="print every case")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    counts, faults = stress(range(arguments.seed, arguments.seed + arguments.cases), quiet=not arguments.show)
    for fault in faults:
        print(fault)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"{arguments.cases} recipes from seed {arguments.seed}: {told}; {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
