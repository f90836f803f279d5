"""Recording what a circuit does while its agent acts, a model predicts, or it reads a sequence."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.activity.recording.activity import Activity, Writer
from ncp_control.activity.recording.tap import ROWS, Tap, bounds_of, rows_of, saliency_of
from ncp_control.cells import Held, cell_config, without_synapses
from ncp_control.data.environments import check_env, check_policy
from ncp_control.data.normalizing import normalizer_of
from ncp_control.rnn import RNN
from ncp_control.support.progress import tracked
from ncp_control.wiring import Wiring

Array = NDArray[Any]
CHUNK = 1000  # steps in memory


def record(
    actor: Any,
    env: Any,
    out: str | Path,
    steps: int | None = None,
    episodes: int | None = None,
    *,
    seed: int = 0,
    deterministic: bool = True,
    hold: Mapping[str, float] | None = None,
    cut: Iterable[str] = (),
    controller: str = "",
    note: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Activity:
    """Lets an agent act and writes all that its circuit did.

    Example::

        agent = load_policy("checkpoints/halfcheetah.safetensors")
        activity = record(agent, gym.make("HalfCheetah-v5"), "episode.npz", steps=1000)

    :param actor: a policy of `load_policy`, or a model of Stable-Baselines3 whose policy has a circuit: recurrent, or
        with `NCPExtractor`
    :param env: a Gymnasium environment, without the `VecNormalize` that a model was trained under and brings along
    :param out: the `.npz`; a Ctrl-C keeps what was recorded until then
    :param steps: how many, over as many episodes as it takes; 1000 if neither is given
    :param episodes: or how many whole episodes
    :param seed: of the first episode; the next ones follow
    :param hold: neurons, by name, and the values at which they are held
    :param cut: synapses that carry nothing, written `inter3->command1`
    :param controller: what to call the actor
    :param note: anything to keep with it, as JSON values
    """
    if (steps is None) == (episodes is None) and steps is not None:
        raise ValueError("a recording is so many steps long, or so many episodes: give one of the two")
    if (steps is not None and steps < 1) or (episodes is not None and episodes < 1):
        raise ValueError("a recording needs at least one step or episode")
    if steps is None and episodes is None:
        steps = 1000
    check_env(env)
    check_policy(actor, env)
    policy = getattr(actor, "policy", actor)
    with changed(circuit_of(policy), hold or {}, cut) as (circuit, silenced):
        about = {
            "kind": "policy", "cell": cell_config(inner(circuit.rnn)), "env": env_id(env), "controller": controller,
            "seeds": [], "dt": dt_of(env), "observation_names": names_of(env), "action_names": action_names(env),
            "silenced": silenced, "note": dict(note or {}),
        }  # fmt: skip
        with Writer(out, about, circuit.rnn.wiring) as writer, Tap(circuit.rnn) as tap:
            run = Episodes(actor, policy, env, tap, writer, seed, deterministic)
            writer.fix(**bounds_of(circuit.rnn))
            writer.about["seeds"] = run.seeds
            try:
                with tracked("recording", steps or episodes or 0, unit="steps", shown=progress) as tracker:
                    while (run.steps < steps) if steps is not None else (run.episodes < (episodes or 0)):
                        ended = run.step()
                        tracker.advance(done=1 if steps is not None else int(ended), work=1)
            except KeyboardInterrupt:
                run.flush()
                if tap.sample:
                    writer.fix(saliency=tap.saliency())
                raise
            run.flush()
            writer.fix(saliency=tap.saliency())
    return Activity.load(out)


class Episodes:
    """An agent in its environment, step by step, with what there is to keep of each."""

    def __init__(
        self, actor: Any, policy: Any, env: Any, tap: Tap, writer: Writer, seed: int, deterministic: bool
    ) -> None:
        self.actor, self.policy, self.env, self.tap, self.writer = actor, policy, env, tap, writer
        self.deterministic, self.seed = deterministic, seed
        self.seeds: list[int] = []
        self.steps = self.episodes = 0
        self.rows: dict[str, list[Any]] = {}
        self.body = Body(env)
        self.normalize = normalizer_of(actor)
        self.judge = Judge(policy, getattr(actor, "normalize", self.normalize))
        self.shown: list[Any] = []
        self.seen: Any = None
        self.state: Any = None

    def step(self) -> bool:
        """One step; true where an episode ended with it."""
        starts = self.seen is None
        if starts:
            self.seeds.append(self.seed + self.episodes)
            self.seen, _ = self.env.reset(seed=self.seeds[-1])
            self.state = None
        self.shown.append(self.seen)
        self.keep("episode_starts", starts)
        self.body.keep()
        read = self.normalize(self.seen)
        action, self.state = self.actor.predict(read, self.state, np.array([starts]), deterministic=self.deterministic)
        self.seen, reward, terminated, truncated, info = self.env.step(action)
        self.keep("actions", np.asarray(action, np.float32).reshape(-1))
        self.keep("rewards", float(reward))
        if "is_random" in info:
            self.keep("is_random", bool(info["is_random"]))
        if "executed_action" in info:
            self.keep("executed_actions", np.asarray(info["executed_action"], np.float32).reshape(-1))
        self.steps += 1
        if self.steps % CHUNK == 0:
            self.flush()
        if terminated or truncated:
            self.seen = None
            self.episodes += 1
        return bool(terminated or truncated)

    def keep(self, name: str, value: Any) -> None:
        """A row of an array."""
        self.rows.setdefault(name, []).append(value)

    def flush(self) -> None:
        """Everything kept since the last time goes to the writer."""
        if not self.rows.get("rewards"):
            return
        count = len(self.rows["rewards"])  # a Ctrl-C may have come in the midst of a step
        shown, self.shown = self.shown[:count], []
        rows = {name: np.asarray(values[:count]) for name, values in self.rows.items()}
        rows["observations"] = np.stack([plain(one) for one in shown])
        values = self.judge.take(shown, rows["episode_starts"])
        if values is not None:
            rows["values"] = values
        body = self.body.take(count)
        if body is not None:
            rows["body_ends"] = body.ends
            self.writer.fix(body_radii=body.radii)
        circuit = self.tap.take()
        self.writer.append(**rows, **{name: own[:count] for name, own in circuit.items()})
        self.rows = {}


class Body:
    """The body of a MuJoCo environment as capsules; nothing for others."""

    def __init__(self, env: Any) -> None:
        inside = getattr(env, "unwrapped", env)
        self.model: Any = getattr(inside, "model", None)
        self.data: Any = getattr(inside, "data", None)
        self.there = hasattr(self.model, "geom_type") and hasattr(self.data, "geom_xpos")
        self.poses: list[tuple[Array, Array]] = []

    def keep(self) -> None:
        """The pose as it is now."""
        if self.there:
            import mujoco

            mujoco.mj_kinematics(self.model, self.data)  # a step leaves positions as they were before its last part
            self.poses.append((self.data.geom_xpos.copy(), self.data.geom_xmat.copy()))

    def take(self, count: int) -> Any:
        """The capsules of the first poses that were kept, or None."""
        if not self.there:
            return None
        from ncp_envs.body import capsules_of

        poses, self.poses = self.poses[:count], []
        found = capsules_of(self.model, *(np.stack(parts) for parts in zip(*poses, strict=True)))
        return found if len(found.radii) else None


class Judge:
    """The critic of a recurrent on-policy agent, asked once a chunk; other algorithms judge actions, not states."""

    def __init__(self, policy: Any, normalize: Any) -> None:
        self.policy, self.normalize = policy, normalize
        self.can = all(hasattr(policy, name) for name in ("lstm_actor", "value_net", "predict_values"))
        self.state: Any = None

    @torch.no_grad()
    def take(self, seen: list[Any], starts: Array) -> Array | None:
        """The values (T,) of observations, as the environment has them."""
        if not self.can:
            return None
        batch: Any = (
            {key: np.stack([row[key] for row in seen]) for key in seen[0]} if isinstance(seen[0], dict) else None
        )
        tensors, _ = self.policy.obs_to_tensor(self.normalize(np.stack(seen) if batch is None else batch))
        began = torch.as_tensor(starts, dtype=torch.float32, device=self.policy.device)
        return critic_values(self, tensors, began).float().cpu().numpy()


def critic_values(judge: Judge, observations: Any, starts: Tensor) -> Tensor:
    """Values (T,) of one sequence, going on from the critic's state."""
    from ncp_control.rl.policies.circuit import unroll

    policy = judge.policy
    features = policy.extract_features(observations)
    pi, vf = (features, features) if policy.share_features_extractor else features
    if policy.lstm_critic is not None or policy.critic is None:
        network, read = (policy.lstm_actor, pi) if policy.lstm_critic is None else (policy.lstm_critic, vf)
        if judge.state is None:
            judge.state = (read.new_zeros(1, 1, network.hidden_size), read.new_zeros(1, 1, network.hidden_size))
        latent, judge.state = unroll(network, read, judge.state, starts)
    else:
        latent = policy.critic(vf)
    found: Tensor = policy.value_net(policy.mlp_extractor.forward_critic(latent))
    return found.flatten()


def record_model(
    model: Any, rollout: Any, out: str | Path, *, warm_up: int | None = None, steps: int | None = None
) -> Activity:
    """Writes what the circuit of a model of dynamics does over a rollout: it looks for a while, then feeds itself.

    :param model: a `DynamicsModel`
    :param rollout: a `Rollout`, whose actions are executed
    :param warm_up: steps for which it looks; all of them by default
    :param steps: of the rollout; all of them by default
    """
    from ncp_control.dynamics import DynamicsModel
    from ncp_control.dynamics.open_loop import stretch

    if not isinstance(model, DynamicsModel) or not isinstance(model.rnn, RNN):
        raise ValueError("a recording follows one circuit: give a model whose cell is one, not an ensemble or an MLP")
    total = min(steps or rollout.steps, rollout.steps)
    looks = total if warm_up is None else min(warm_up, total)
    read = stretch(model, rollout, 0, total + 1)
    seen, actions, ahead = read["seen"], read["actions"], read["ahead"]
    assert seen is not None
    about = {
        "kind": "model", "cell": cell_config(model.rnn.cell), "env": None, "controller": "", "seeds": [rollout.seed],
        "dt": None, "observation_names": list(model.observation_names), "action_names": [], "silenced": [],
        "note": {"looks": looks},
    }  # fmt: skip
    with Writer(out, about, model.rnn.wiring) as writer, Tap(model.rnn) as tap, torch.no_grad():
        writer.fix(**bounds_of(model.rnn))
        state, shown, said = None, [], []
        last = seen[:, :1]
        for t in range(total):
            now = seen[:, t : t + 1] if t < looks else last
            own = [None if values is None else values[:, t : t + 1] for values in (actions, ahead)]
            last, state = model(now, own[0], state, own[1])
            shown.append(now[0, 0].cpu().numpy())
            said.append(last[0, 0].cpu().numpy())
        rows: dict[str, Array] = {"observations": np.stack(shown), "predictions": np.stack(said)}
        rows["episode_starts"] = np.arange(total) == 0
        if rollout.rewards is not None:
            rows["rewards"] = np.asarray(rollout.rewards[:total])
        if rollout.actions is not None:
            rows["actions"] = np.asarray(rollout.actions[:total]).reshape(total, -1)
        if model.features == 17:
            from ncp_envs.body import half_cheetah_capsules

            body = half_cheetah_capsules(rows["observations"])
            rows["body_ends"] = body.ends
            writer.fix(body_radii=body.radii)
        writer.append(**rows, **tap.take())
        writer.fix(saliency=tap.saliency())
    return Activity.load(out)


def record_network(
    rnn: RNN,
    inputs: Tensor,
    out: str | Path,
    *,
    elapsed: Tensor | float = 1.0,
    reset: Tensor | None = None,
    names: Iterable[str] = (),
) -> Activity:
    """Writes what a bare network does over one sequence.

    :param inputs: (T, I)
    :param elapsed: a number, or (T,)
    :param reset: (T,) bool
    :param names: of the inputs
    """
    if inputs.dim() != 2:
        raise ValueError(f"a recording follows one sequence, (time, inputs), got {tuple(inputs.shape)}")
    with torch.no_grad():
        _, _, states = rnn(inputs, elapsed=elapsed, reset=reset, states=True)
    first = rnn.initial_state(1)
    before = torch.cat([first, states[:-1]])
    starts = torch.zeros(len(inputs), dtype=torch.bool)
    starts[0] = True
    if reset is not None:
        starts |= reset.cpu()
        before = torch.where(starts[:, None].to(before.device), first, before)
    span = torch.as_tensor(elapsed, dtype=torch.float32).cpu().expand(len(inputs)).numpy()
    about = {
        "kind": "network", "cell": cell_config(rnn.cell), "env": None, "controller": "", "seeds": [], "dt": None,
        "observation_names": list(names) or list(rnn.wiring.input_names), "action_names": [], "silenced": [],
        "note": {},
    }  # fmt: skip
    with Writer(out, about, rnn.wiring) as writer:
        some = torch.linspace(0, len(inputs) - 1, min(ROWS, len(inputs))).long()
        saliency = saliency_of(rnn, inputs[some], before[some], torch.tensor(span)[some])
        writer.fix(**bounds_of(rnn), saliency=saliency)
        seen = inputs.detach().cpu().numpy()
        writer.append(observations=seen, episode_starts=starts.numpy(), **rows_of(rnn, inputs, before, states, span))
    return Activity.load(out)


def circuit_of(policy: Any) -> Any:
    """The circuit that acts."""
    from ncp_control.rl.circuit_log import actor_circuit

    found = actor_circuit(policy)
    if found is None:
        raise ValueError(
            f"{type(policy).__name__} has no circuit to record: train with NCPPolicy, or with NCPExtractor over History"
        )
    return found


@contextmanager
def changed(circuit: Any, hold: Mapping[str, float], cut: Iterable[str]) -> Iterator[tuple[Any, list[str]]]:
    """The circuit with neurons held and synapses cut, for the time of the block, and both in words."""
    cuts = list(cut)
    wiring: Wiring = circuit.rnn.wiring
    values = {wiring.neuron(name): value for name, value in hold.items()}
    synapses, sensory = find_synapses(wiring, cuts)
    whole = circuit.rnn.cell
    try:
        cell = whole
        if cuts:
            cell = without_synapses(cell, synapses, sensory)
        if values:
            cell = Held(copy.deepcopy(cell), values)
        circuit.rnn.cell = cell
        words = [f"{name}={value:g}" for name, value in hold.items()]
        yield circuit, words + cuts
    finally:
        circuit.rnn.cell = whole


def find_synapses(wiring: Wiring, written: Iterable[str]) -> tuple[list[int], list[int]]:
    """The numbers of synapses written `source->target`: those between neurons, and sensory ones."""
    inside: list[int] = []
    outside: list[int] = []
    for text in written:
        source, arrow, target = (part.strip() for part in text.partition("->"))
        if not arrow:
            raise ValueError(f"a synapse is written source->target, such as inter0->command1, not {text!r}")
        end = wiring.neuron(target)
        from_input = source in wiring.input_names and source not in wiring.neuron_names
        start = wiring.input_names.index(source) if from_input else wiring.neuron(source)
        edges = wiring.sensory if from_input else wiring.synapses
        pairs = list(zip([int(k) for k in edges.source], [int(k) for k in edges.target], strict=True))
        if (start, end) not in pairs:
            reached = [wiring.neuron_names[other] for begin, other in pairs if begin == start]
            raise ValueError(
                f"there is no synapse from {source} to {target}: it goes to {', '.join(reached) or 'no neuron'}"
            )
        (outside if from_input else inside).append(pairs.index((start, end)))
    return inside, outside


def inner(rnn: RNN) -> Any:
    """The cell without what holds it."""
    return rnn.cell.cell if isinstance(rnn.cell, Held) else rnn.cell


def plain(observation: Any) -> Array:
    """One observation as a vector: the newest of a window; a dictionary's entries side by side, but the time."""
    if isinstance(observation, dict):
        if {"observations", "starts"} <= set(observation):
            return np.asarray(observation["observations"][-1], np.float32)
        rest = [np.asarray(value, np.float32).reshape(-1) for key, value in observation.items() if key != "elapsed"]
        return np.concatenate(rest)
    return np.asarray(observation, np.float32).reshape(-1)


def env_id(env: Any) -> str | None:
    """The environment's id."""
    spec = getattr(env, "spec", None)
    return None if spec is None else str(spec.id)


def dt_of(env: Any) -> float | None:
    """Seconds between two steps."""
    inside = getattr(env, "unwrapped", env)
    for name in ("dt", "tau"):
        value = getattr(inside, name, None)
        if isinstance(value, int | float):
            return float(value)
    return None


def names_of(env: Any) -> list[str]:
    """Of the entries of a recorded observation."""
    from ncp_envs import observation_names

    found = list(observation_names(env))
    size = len(plain(env.observation_space.sample()))
    return found if len(found) == size else [f"observation {k}" for k in range(size)]


def action_names(env: Any) -> list[str]:
    """Of the entries of an action: MuJoCo's names of the actuators where there are any."""
    inside = getattr(env, "unwrapped", env)
    size = int(np.prod(env.action_space.shape)) if env.action_space.shape else 1
    model: Any = getattr(inside, "model", None)
    if getattr(model, "nu", None) == size:
        names = [model.actuator(k).name for k in range(size)]
        if all(names):
            return names
    return [f"action {k}" for k in range(size)]
