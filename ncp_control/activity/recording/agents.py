"""Recording what a circuit does while its agent acts, and what the agent's critic thinks of the states."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.activity.recording.activity import Activity
from ncp_control.activity.recording.ends import LoopEnd, body_in, end_of, set_back
from ncp_control.activity.recording.environment import (
    BodyPoses,
    action_names,
    as_vector,
    choice_names,
    env_id,
    seconds_per_step,
    vector_names,
)
from ncp_control.activity.recording.interventions import cell_without_holds, circuit_of, intervened
from ncp_control.activity.recording.pictures import Pictures
from ncp_control.activity.recording.tap import Tap, bounds_of
from ncp_control.activity.recording.writer import Writer
from ncp_control.base.progress import tracked
from ncp_control.data.env_specs import check_env, check_policy
from ncp_control.data.masks import has_masks, mask_of, takes_masks
from ncp_control.data.normalizing import normalizer_of
from ncp_control.neurons import Cell, cell_config

Array = NDArray[Any]
CHUNK = 1000  # so many steps are kept in memory before they are written
DEFAULT_STEPS = 1000


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
    after: Activity | LoopEnd | None = None,
    progress: bool = True,
) -> Activity:
    """Lets an agent act and writes everything that its circuit did.

    Example::

        agent = load_policy("checkpoints/halfcheetah.safetensors")
        activity = record(agent, gym.make("HalfCheetah-v5"), "episode.npz", steps=1000)

    :param actor: a policy from `load_policy`, or a model of Stable-Baselines3 whose policy has a circuit: a recurrent
        one of this package, or one with `NCPExtractor`
    :param env: a Gymnasium environment, without the `VecNormalize` that the model was trained with: the model brings
        its own normalisation. One without a MuJoCo body is shown in videos if it was made with
        `render_mode="rgb_array"`
    :param out: the `.npz` file; after a Ctrl-C it holds the steps that were recorded until then
    :param steps: how many steps to record, over as many episodes as they take; 1000 if `episodes` is not given either
    :param episodes: how many whole episodes to record instead
    :param seed: seed of the first episode; each further episode has the next number
    :param deterministic: take the deterministic action instead of a sample from the policy
    :param hold: neurons, by name, and the values at which they are held
    :param cut: synapses that are cut, written `inter3->command1`
    :param controller: the name under which the actor is recorded
    :param note: JSON values that are kept in the recording
    :param after: go on where this recording ended, or from this moment of an episode. Without random numbers in the
        environment, the two are what one longer recording would have been, up to the values of a critic with a memory
    :param progress: show a progress bar
    """
    if steps is not None and episodes is not None:
        raise ValueError("a recording is either so many steps or so many episodes long: give one of the two")
    if (steps is not None and steps < 1) or (episodes is not None and episodes < 1):
        raise ValueError("a recording needs at least one step or episode")
    if operator.index(seed) < 0:
        raise ValueError(f"the seed of a recording must be a whole number of at least 0, not {seed}")
    if steps is None and episodes is None:
        steps = DEFAULT_STEPS
    check_env(env)
    check_policy(actor, env)
    policy = getattr(actor, "policy", actor)
    circuit = circuit_of(policy)
    with intervened(circuit, hold or {}, cut) as silenced:
        about = policy_about(cell_without_holds(circuit.rnn), env, controller, note) | {"silenced": silenced}
        with Writer(out, about, circuit.rnn.wiring) as writer, Tap(circuit.rnn) as tap:
            recorder = EpisodeRecorder(actor, policy, env, tap, writer, seed, deterministic)
            if after is not None:
                writer.about["after"] = recorder.go_on(after)
            writer.fix(**bounds_of(circuit.rnn), **recorder.body.fixed)
            # The list of seeds still grows; the description is written at the end.
            writer.about |= {"seeds": recorder.seeds, "body": recorder.body.about}
            if recorder.pictures is not None:
                writer.about["pictures"] = recorder.pictures.about
            try:
                with tracked("recording", steps or episodes or 0, unit="steps", shown=progress) as tracker:
                    while (recorder.steps < steps) if steps is not None else (recorder.episodes < (episodes or 0)):
                        ended = recorder.step()
                        tracker.advance(done=1 if steps is not None else int(ended), work=1)
            except KeyboardInterrupt:
                recorder.finish()
                raise
            recorder.finish(whole=True)
    return Activity.load(out)


def policy_about(cell: Cell, env: Any, controller: str, note: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns what a recording says of an agent before anything happens; see the module `recording.activity`."""
    return {
        "kind": "policy", "cell": cell_config(cell), "env": env_id(env), "controller": controller, "seeds": [],
        "dt": seconds_per_step(env), "observation_names": vector_names(env), "action_names": action_names(env),
        "silenced": [], "note": dict(note or {}),
        **({"choice_names": named} if (named := choice_names(env)) else {}),
    }  # fmt: skip


class EpisodeRecorder:
    """Lets an agent act step by step and gives what happened to a `Writer`, chunk by chunk.

    :param actor: acts
    :param policy: the actor's, which has the circuit
    :param env: the environment
    :param tap: listens to the circuit
    :param writer: writes the recording
    :param seed: seed of the first episode
    :param deterministic: take the deterministic action
    """

    def __init__(
        self, actor: Any, policy: Any, env: Any, tap: Tap, writer: Writer, seed: int, deterministic: bool
    ) -> None:
        self.actor, self.env, self.tap, self.writer = actor, env, tap, writer
        self.deterministic, self.seed = deterministic, seed
        self.is_masked = takes_masks(actor) and has_masks(env)
        self.seeds: list[int] = []
        self.steps = self.episodes = self.episode_steps = 0
        self.rows: dict[str, list[Any]] = {}
        self.body = BodyPoses(env)
        self.pictures = Pictures(env) if self.body.about is None else None
        self.normalize = normalizer_of(actor)
        is_trained = getattr(actor, "has_trained_critic", True)
        self.critic = CriticValues(policy, getattr(actor, "normalize", self.normalize), is_trained)
        self.observations: list[Any] = []
        self.of_trials: set[str] = set()  # what the first step told of its trial
        self.observation: Any = None
        self.state: Any = None

    def step(self) -> bool:
        """Takes one step and says whether an episode ended with it."""
        starts = self.observation is None
        if starts:
            self.episode_steps = 0
            self.seeds.append(self.seed + self.episodes)
            self.observation, _ = self.env.reset(seed=self.seeds[-1])
            self.state = None
        self.observations.append(self.observation)
        self.keep("episode_starts", starts)
        self.body.keep()
        if self.pictures is not None:
            self.pictures.keep()
        masks = {"action_masks": mask_of(self.env)} if self.is_masked else {}
        action, self.state = self.actor.predict(
            self.normalize(self.observation), self.state, np.array([starts]), deterministic=self.deterministic, **masks
        )
        self.observation, reward, terminated, truncated, info = self.env.step(action)
        self.keep("actions", np.asarray(action, np.float32).reshape(-1))
        self.keep("rewards", float(reward))
        if "is_random" in info:
            self.keep("is_random", bool(info["is_random"]))
        if "executed_action" in info:
            self.keep("executed_actions", np.asarray(info["executed_action"], np.float32).reshape(-1))
        self.keep_trial(info)
        self.steps += 1
        self.episode_steps += 1
        if self.steps % CHUNK == 0:
            self.flush()
        if terminated or truncated:
            self.observation = None
            self.episodes += 1
        return bool(terminated or truncated)

    def keep_trial(self, info: Mapping[str, Any]) -> None:
        """Keeps what an environment of trials tells: the end of a trial, the right action, and how right the trial was.

        What the first step of a recording does not tell is not kept later; `performance` comes with a trial's end.
        """
        if self.steps == 0 and "new_trial" in info:
            self.of_trials = {"new_trial", "performance", *({"gt"} & info.keys())}
        if "new_trial" in self.of_trials:
            self.keep("new_trial", bool(info.get("new_trial", False)))
            self.keep("performance", float(info.get("performance", np.nan)))
        if "gt" in self.of_trials:
            self.keep("gt", np.asarray(info.get("gt", np.nan), np.float32))

    def keep(self, name: str, value: Any) -> None:
        """Keeps the next row of an array."""
        self.rows.setdefault(name, []).append(value)

    def flush(self) -> None:
        """Gives the steps since the last call to the writer."""
        if not self.rows.get("rewards"):
            return
        # A Ctrl-C in the middle of a step leaves some arrays a row longer than others.
        count = len(self.rows["rewards"])
        observations, self.observations = self.observations[:count], []
        rows = {name: np.asarray(values[:count]) for name, values in self.rows.items()}
        rows["observations"] = np.stack([as_vector(observation) for observation in observations])
        values = self.critic.take(observations, rows["episode_starts"])
        if values is not None:
            rows["values"] = values
        rows |= self.body.take(count)
        if self.pictures is not None:
            rows |= self.pictures.take(count)
        circuit = self.tap.take()
        self.writer.append(**rows, **{name: own[:count] for name, own in circuit.items()})
        self.rows = {}

    def go_on(self, after: Activity | LoopEnd) -> int:
        """Goes on where a recording ended, or from a moment; returns how many steps of the episode were before."""
        if isinstance(after, Activity):
            self.seed = [self.seed, *after.about["seeds"]][-1]
            after = end_of(after)
        set_back(self.env, after, self.seed)
        self.seeds.append(self.seed)
        self.observation, self.state, self.episode_steps = after.observation, after.memory, after.steps
        return after.steps

    def finish(self, whole: bool = False) -> None:
        """Gives the writer the last steps, and the arrays that are whole only at the end.

        :param whole: whether the last step was taken to its end, so that another recording can go on there
        """
        body = body_in(self.env) if whole and isinstance(self.observation, np.ndarray) else None
        if body is not None:
            end = LoopEnd(body.state(), self.observation.astype(np.float64), self.state, self.episode_steps)
            self.writer.fix(**end.arrays())
        self.flush()
        if self.tap.sample:  # nothing, if it was interrupted in the first step
            self.writer.fix(saliency=self.tap.saliency())
        if self.pictures is not None:
            self.writer.fix(**self.pictures.fixed)


class CriticValues:
    """Values from the critic of a recurrent on-policy agent, computed once for each chunk of a recording.

    Agents of other algorithms have no such values, because their critics rate actions rather than states; nor has a
    distilled agent, whose critic has learnt nothing.

    :param policy: of the agent
    :param normalize: maps observations of the environment to those that the policy reads
    :param is_trained: whether the critic has learnt
    """

    def __init__(self, policy: Any, normalize: Any, is_trained: bool = True) -> None:
        self.policy, self.normalize = policy, normalize
        is_recurrent = all(hasattr(policy, name) for name in ("lstm_actor", "value_net", "predict_values"))
        self.has_values = is_recurrent and is_trained
        self.state: Any = None

    @torch.no_grad()
    def take(self, observations: list[Any], starts: Array) -> Array | None:
        """Returns the values (T,) of the next observations, or None if the agent has no values.

        :param observations: T of them, as the environment returned them
        :param starts: (T,) bool, whether an episode begins at the step
        """
        if not self.has_values:
            return None
        batch: Any
        if isinstance(observations[0], dict):
            batch = {key: np.stack([row[key] for row in observations]) for key in observations[0]}
        else:
            batch = np.stack(observations)
        tensors, _ = self.policy.obs_to_tensor(self.normalize(batch))
        began = torch.as_tensor(starts, dtype=torch.float32, device=self.policy.device)
        return self.values(tensors, began).float().cpu().numpy()

    def values(self, observations: Any, starts: Tensor) -> Tensor:
        """Returns the values (T,) of one sequence and keeps the critic's state for the sequence that follows."""
        from ncp_control.rl.policies.circuit import unroll

        policy = self.policy
        features = policy.extract_features(observations)
        for_actor, for_critic = (features, features) if policy.share_features_extractor else features
        if policy.lstm_critic is not None or policy.critic is None:
            shared = policy.lstm_critic is None
            network, read = (policy.lstm_actor, for_actor) if shared else (policy.lstm_critic, for_critic)
            if self.state is None:
                self.state = (read.new_zeros(1, 1, network.hidden_size), read.new_zeros(1, 1, network.hidden_size))
            latent, self.state = unroll(network, read, self.state, starts)
        else:
            latent = policy.critic(for_critic)
        values: Tensor = policy.value_net(policy.mlp_extractor.forward_critic(latent))
        return values.flatten()
