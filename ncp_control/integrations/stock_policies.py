"""Models in the `.zip` files of Stable-Baselines3, converted to policy files, which run no code.

Such a zip holds pickles. A process of its own reads it, writes the policy file, and ends; the process that asked for
it reads nothing but safetensors files. Run as a program, this module is that process.

The LSTM of sb3-contrib's `RecurrentPPO` becomes an `NCPPolicy` with the cell `lstm`, which has the same parameters.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.recurrent import policies as contrib
from torch import Tensor

from ncp_control.base.files import temporary_folder
from ncp_control.base.imports import search_working_folder
from ncp_control.base.processes import how_it_ended
from ncp_control.base.tensors import CheckpointError, read_tensors, write_tensors
from ncp_control.data.env_specs import check_policy
from ncp_control.data.normalizing import normalization_of, normalizer_of
from ncp_control.distil.stock_files import algorithm_of, load_model, read_settings, warn_of_code, words_of
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_file import check_name, load_policy, save_policy, with_note
from ncp_control.rl.policies.elapsed import KEY, is_timed
from ncp_control.rl.policies.recurrent import NCPPolicy
from ncp_control.rl.recipes.env_making import make_env

Array = NDArray[Any]
FORMAT, VERSION = "ncp_control.acted", 1
AGENT, ACTED, REFUSAL, OUTPUT = "agent.safetensors", "acted.safetensors", "refusal.txt", "output.txt"
# On how many observations the file is compared with the model, and how many of them an episode has.
STEPS, EPISODE = 300, 60
CLOSE = 1e-4  # the most that actions may differ, relative to the largest one
ENOUGH = 0.99  # the share of choices that must be the same: at a tie, rounding decides
WIDE = 1e3  # observations are not drawn evenly from a range as wide as this
LONGEST = 600  # characters of a refusal
# The arguments of sb3-contrib's policies that ours take as they are.
KEPT = (
    "net_arch", "activation_fn", "ortho_init", "use_sde", "log_std_init", "full_std", "use_expln", "squash_output",
    "features_extractor_class", "features_extractor_kwargs",
)  # fmt: skip
DISTIL = "distil it instead (ncp-control distil)"


@dataclass(frozen=True)
class Conversion:
    """What was converted.

    :param agent: the policy in the new file
    :param algorithm: the name of the algorithm that trained it
    :param steps: on how many observations the model and the new file acted
    :param difference: by how much their actions differ at most; of choices, how many differ
    """

    agent: LoadedPolicy
    algorithm: str
    steps: int
    difference: float


def convert(
    source: str | Path,
    out: str | Path,
    algo: str | None = None,
    normalize: str | Path | None = None,
    env: str | None = None,
    note: Mapping[str, Any] | None = None,
) -> Conversion:
    """Converts a model of Stable-Baselines3, sb3-contrib, or a recurrent algorithm of this package to a policy file.

    Reading the model runs code from its file, in a process of its own. The new file runs none. The two act on 300
    observations, drawn at random; a file whose actions are others is not written.

    :param source: the `.zip` that the model's `save` wrote
    :param out: the new `.safetensors` file; replaced as a whole if it exists
    :param algo: the name of the algorithm, such as "RecurrentPPO"
    :param normalize: the file of the `VecNormalize` that the model was trained under
    :param env: the id of the environment that the model was trained in, which its file does not hold
    :param note: anything else worth keeping with the policy, as JSON values
    """
    source, out = Path(source), Path(out)
    normalize = None if normalize is None else Path(normalize)
    algorithm = algorithm_of(source, read_settings(source), algo).__name__
    if normalize is not None and not normalize.is_file():
        raise FileNotFoundError(f"there is no VecNormalize at {normalize}")
    check_name(out)
    if env is not None:
        make_env(env).close()  # a wrong id is refused before code runs
    about = {"file": source.name, "sha256": hashlib.sha256(source.read_bytes()).hexdigest()}
    if normalize is not None:
        about["normalize"] = normalize.name
    warn_of_code(source, normalize)
    with temporary_folder(out) as folder:
        _read_elsewhere(source, algorithm, normalize, folder)
        try:
            read = load_policy(folder / AGENT)
            _, acted = read_tensors(folder / ACTED, FORMAT, VERSION, (), "this process")
            steps, difference = compare(read, acted)
        except (CheckpointError, OSError, KeyError, ValueError) as error:
            reason = words_of(error).replace(f"{folder}{os.sep}", "")
            raise ValueError(
                f"the process that read {source} wrote nothing that can be used ({reason}): save the model again with "
                f"the versions of its packages that are installed here, or {DISTIL}"
            ) from error
        if env is not None:
            check_env(read, env, source)
        known = {} if env is None else {"env": env}
        with_note(folder / AGENT, out, {**known, "algo": algorithm, **(note or {}), "converted": about})
    return Conversion(load_policy(out), algorithm, steps, difference)


def check_env(policy: LoadedPolicy, env: str, source: Path) -> None:
    """Refuses an environment whose spaces are not those of a policy."""
    made = make_env(env)
    try:
        check_policy(policy, made)
    except ValueError as error:
        raise ValueError(f"{source} was not trained in {env}: {error}") from error
    finally:
        made.close()


def _read_elsewhere(source: Path, algorithm: str, normalize: Path | None, folder: Path) -> None:
    """Lets another process read a model and write its policy and its actions into a folder.

    The process is in a session of its own, so that Ctrl-C reaches this process alone, which then ends the other one.
    """
    words = [str(source), algorithm, str(folder), *([] if normalize is None else [str(normalize)])]
    search = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
    with (folder / OUTPUT).open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", __name__, *words], env={**os.environ, **search}, stdin=subprocess.PIPE,
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        try:
            code = child.wait()
        except BaseException:
            _kill(child)
            raise
        finally:
            assert child.stdin is not None
            child.stdin.close()
    refusal = folder / REFUSAL
    if refusal.is_file():
        raise ValueError(refusal.read_bytes()[: 4 * LONGEST].decode("utf-8", "replace")[:LONGEST])
    if code:
        raise ValueError(
            f"the process that read {source} {how_it_ended(code)}{_last_words(folder / OUTPUT)}: save the model again "
            "with the versions of its packages that are installed here"
        )


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Ends a process and those that it has started, and waits for its end."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()


def _last_words(output: Path) -> str:
    """Returns the last line that a process has printed, in brackets; empty without one."""
    lines = output.read_bytes()[-4 * LONGEST :].decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f" ({last[:LONGEST]})" if last else ""


def compare(policy: LoadedPolicy, acted: Mapping[str, Tensor]) -> tuple[int, float]:
    """Returns on how many observations a policy acted as the model did, and by how much the actions differ at most;
    actions that are others are refused.

    :param policy: the policy
    :param acted: what `act` returned for the model
    """
    wanted, starts = acted["actions"].numpy(), acted["starts"].numpy()
    observations = {name: value.numpy() for name, value in acted.items() if name.startswith("observation")}
    if len(starts) != STEPS or len(wanted) != STEPS or any(len(values) != STEPS for values in observations.values()):
        raise ValueError(f"it did not act {STEPS} times")
    actions = _actions(policy, _rows(observations, policy.observation_space), starts)
    if actions.shape != wanted.shape:
        raise ValueError(f"its actions have the shape {wanted.shape[1:]}, and not {actions.shape[1:]}")
    if not isinstance(policy.action_space, spaces.Box):
        others = int((actions != wanted).reshape(STEPS, -1).any(axis=1).sum())
        if others > (1 - ENOUGH) * STEPS:
            raise ValueError(f"{others} of {STEPS} choices are others")
        return STEPS, others
    difference = float(np.abs(actions - wanted).max(initial=0.0))
    if not difference <= CLOSE * max(1.0, float(np.abs(wanted).max(initial=0.0))):
        raise ValueError(f"the actions differ by {difference:.3g}")
    return STEPS, difference


def act(model: Any) -> dict[str, Tensor]:
    """Lets a model act on observations that are drawn at random, with episodes that begin anew in between.

    :param model: the algorithm, with the `VecNormalize` that it was trained under
    :return: the `observation`, or `observation.KEY` for each entry, the `starts` of episodes, and the `actions`
    """
    random, described = np.random.default_rng(0), normalization_of(model) or {"tensors": {}}
    space, tensors = model.observation_space, described["tensors"]
    space.seed(0)
    starts = np.arange(STEPS) % EPISODE == 0

    def drawn(own: Any, key: str) -> Array:
        moments = [tensors.get(f"normalize.{name}{key}") for name in ("mean", "var")]
        return np.stack([draw(own, moments, random) for _ in range(STEPS)])

    if isinstance(space, spaces.Dict):
        observations = {f"observation.{key}": drawn(own, f".{key}") for key, own in space.spaces.items()}
    else:
        observations = {"observation": drawn(space, "")}
    normalizes = normalizer_of(model)
    rows = [normalizes(row) for row in _rows(observations, space)]
    arrays = {**observations, "starts": starts, "actions": _actions(model, rows, starts)}
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}


def draw(space: spaces.Space[Any], moments: list[Tensor | None], random: np.random.Generator) -> Array:
    """Draws an observation: as it was in training where that is known, otherwise evenly where the space has bounds.

    :param space: the observation's space
    :param moments: the mean and the variance of observations in training, or two times None
    :param random: draws the numbers
    """
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        return np.asarray(space.sample())
    normal = random.normal(size=space.shape)
    mean, variance = moments
    if mean is not None and variance is not None:
        values = mean.numpy() + np.sqrt(variance.numpy()) * normal
    else:
        low, high = (
            np.nan_to_num(bound.astype(np.float64), posinf=0.0, neginf=0.0) for bound in (space.low, space.high)
        )
        is_narrow = space.bounded_below & space.bounded_above & (high - low < WIDE)
        values = np.where(is_narrow, low + (high - low) * random.random(space.shape), normal)
    drawn: Array = np.clip(values, space.low, space.high).astype(space.dtype)
    return drawn


def _rows(observations: Mapping[str, Array], space: spaces.Space[Any]) -> list[Any]:
    """Returns a batch of one observation for each step."""
    if not isinstance(space, spaces.Dict):
        return [observations["observation"][k : k + 1] for k in range(STEPS)]
    return [{key: observations[f"observation.{key}"][k : k + 1] for key in space.spaces} for k in range(STEPS)]


def _actions(policy: Any, rows: list[Any], starts: Array) -> Array:
    """Returns the deterministic actions of a policy, one step after the other."""
    actions, state = [], None
    for row, start in zip(rows, starts, strict=True):
        action, state = policy.predict(row, state, np.array([start]), deterministic=True)
        actions.append(np.array(action[0]))
    return np.stack(actions)


def converted(policy: Any) -> Any:
    """Returns a policy that a policy file can hold: of sb3-contrib's recurrent ones, an `NCPPolicy` that does the same.

    :param policy: the policy of a model
    """
    if isinstance(policy, NCPPolicy) or not isinstance(policy, contrib.RecurrentActorCriticPolicy):
        return policy
    if type(policy) not in (contrib.RecurrentActorCriticPolicy, contrib.RecurrentMultiInputActorCriticPolicy):
        raise TypeError(
            f"of recurrent policies, MlpLstmPolicy and MultiInputLstmPolicy convert, and not {type(policy).__name__}"
        )
    check_lstm(policy)
    arguments = policy._get_constructor_parameters()
    critic = "shared" if policy.shared_lstm else "linear" if policy.lstm_critic is None else "lstm"
    made = NCPPolicy(
        policy.observation_space, policy.action_space, lambda _: 0.0,
        **{name: arguments[name] for name in KEPT if arguments.get(name) is not None},
        share_features_extractor=policy.share_features_extractor,
        wiring=policy.lstm_actor.hidden_size, cell="lstm", critic=critic, critic_units=policy.lstm_actor.hidden_size,
    )  # fmt: skip
    weights = {our_name(name): value for name, value in policy.state_dict().items()}
    for name, value in made.state_dict().items():
        if name.endswith(("bias_ih", "bias_hh")):  # an LSTM may have been made without
            weights.setdefault(name, torch.zeros_like(value))
    made.load_state_dict(weights)
    return made


def check_lstm(policy: Any) -> None:
    """Refuses an LSTM that is not the one of the cell `lstm`."""
    lstm = policy.lstm_actor
    if lstm.num_layers > 1:
        raise TypeError(f"its LSTM has {lstm.num_layers} layers, and a circuit of LSTM neurons has one")
    for name in ("proj_size", "bidirectional", "batch_first"):
        if getattr(lstm, name):
            raise TypeError(f"its LSTM was made with {name}={getattr(lstm, name)!r}, which a circuit does not have")
    if is_timed(policy.observation_space):
        raise TypeError(f"it reads an observation {KEY!r}, which a circuit takes for the elapsed time")


def our_name(name: str) -> str:
    """Returns the name that a weight of sb3-contrib's recurrent policies has in an `NCPPolicy`."""
    for stock, ours in (
        ("lstm_actor.", "lstm_actor.rnn.cell."),
        ("lstm_critic.", "lstm_critic.rnn.cell."),
        ("mlp_extractor.policy_net.", "mlp_extractor.actor."),
        ("mlp_extractor.value_net.", "mlp_extractor.critic."),
    ):
        if name.startswith(stock):
            return ours + name.removeprefix(stock).removesuffix("_l0")
    return name


def read_here(source: Path, algorithm: str, folder: Path, normalize: Path | None = None) -> None:
    """Reads a model, and with it code from its file, and writes its policy and its actions into a folder.

    :param source: the `.zip`
    :param algorithm: the algorithm's name
    :param folder: the folder
    :param normalize: the file of the model's `VecNormalize`
    """
    model = load_model(source, algorithm, normalize)
    try:
        acted = act(model)
        model.policy = converted(model.policy)
        save_policy(model, folder / AGENT)
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"{source} cannot be converted, because {words_of(error)}: {DISTIL}") from error
    write_tensors(folder / ACTED, FORMAT, VERSION, {}, acted)


def main(words: list[str]) -> int:
    """Does the work of the other process; a refusal becomes a file."""
    source, algorithm, folder, *normalize = words
    threading.Thread(target=_end_with_parent, daemon=True).start()
    search_working_folder()
    try:
        read_here(Path(source), algorithm, Path(folder), Path(normalize[0]) if normalize else None)
    except (ValueError, OSError) as error:
        (Path(folder) / REFUSAL).write_text(str(error), encoding="utf-8")
        return 1
    return 0


def _end_with_parent() -> None:
    """Ends this process as soon as the one that started it has ended, in whatever way."""
    os.read(0, 1)  # not of sys.stdin, whose lock would be missed when Python ends
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
