"""Collecting demonstrations: the student and its teacher act side by side, and the teacher labels every step.

An episode is lost when the teacher itself does not recover it. A student does badly when its mean reward over
`patience` steps is below the floor: the least that the teacher had over so many steps of its own episodes. Then the
teacher takes over. If after as many steps it is below the floor too, the episode ends, and what came after the handover
is left out: a small student would waste itself on states that it must never visit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ncp_control.data.batch_policies import FunctionPolicy, as_actions, check_actions
from ncp_control.data.collection import spawned_seed
from ncp_control.data.episodes import copy_of, stack
from ncp_control.data.normalizing import normalizer_of
from ncp_control.distil.demonstrations import Demonstrations, demonstrations_of
from ncp_control.distil.views import TeacherView
from ncp_envs.delay import OPTION, delays_of, steps_late

Array = NDArray[Any]


class Actor:
    """Chooses deterministic actions, and carries the state of a policy with a memory from step to step.

    :param policy: a model with Stable-Baselines3's `predict`, whose observations are normalised first if it was trained
        under a `VecNormalize`; or a function from observations (B, ...) to actions (B, ...)
    :param action_space: the action space of one environment; actions of a `Box` are clipped to it
    :param name: the name of the policy in error messages
    """

    def __init__(self, policy: Any, action_space: gym.Space[Any], name: str = "the policy") -> None:
        self.name = name
        self._predict = getattr(policy, "predict", None)
        self._policy = policy if self._predict is not None else FunctionPolicy(policy)
        self._normalize = normalizer_of(policy)
        self._space, self._state, self._steps = action_space, None, 0

    @property
    def has_memory(self) -> bool:
        """Whether the policy has returned a state that it needs for the next step."""
        return self._state is not None

    def begin(self) -> None:
        """Forgets everything of earlier episodes."""
        self._state, self._steps = None, 0

    def act(self, observations: Any, starts: Array) -> Array:
        """Returns actions (B, ...).

        :param observations: an observation for each environment, (B, ...)
        :param starts: (B,) bool, true where an episode begins
        """
        if self._predict is None:
            actions = self._policy.act(observations)
        else:
            actions, self._state = self._predict(
                self._normalize(observations), state=self._state, episode_start=starts, deterministic=True
            )
        try:
            actions = as_actions(actions)
            check_actions(actions, self._space, len(starts), self._steps)
        except ValueError as error:
            raise ValueError(str(error).replace("the policy", self.name, 1)) from None
        self._steps += 1
        if isinstance(self._space, gym.spaces.Box):
            # A function of NumPy's gives float64 easily, which is no action of a space of float32.
            actions = np.clip(actions, self._space.low, self._space.high).astype(self._space.dtype)
        return actions


Report = Callable[[int], None]
REPORT_EVERY = 1000


class TeachingEnv(gym.Wrapper[Any, Any, Any, Any]):
    """An environment in which a student acts, with what its teacher sees of it.

    :param env: the student's environment
    :param view: the teacher's view; None if the teacher sees what the student sees
    """

    def __init__(self, env: gym.Env[Any, Any], view: TeacherView | None = None) -> None:
        super().__init__(env)
        self.view = view

    def seen_by_teacher(self, observation: Any) -> Any:
        """Returns the teacher's observation.

        :param observation: the student's
        """
        return observation if self.view is None else self.view.observation


class Running:
    """An episode under way.

    :param env: its environment
    :param seed: everything random in the episode follows from it
    :param patience: steps over which rewards are averaged
    :param own: whether the teacher takes all actions, none of which is late then: only the student may learn to live
        with that
    """

    def __init__(self, env: TeachingEnv, seed: int, patience: int, own: bool = False) -> None:
        self.env, self.random, self.patience = env, np.random.default_rng(spawned_seed(seed, 1)), patience
        self.level = self.random.random()  # the episode's own share of the largest noise, or of the teacher's part
        options = {OPTION: 0} if own and delays_of(env) else None
        self.observation = copy_of(env.reset(seed=seed, options=options)[0])
        self.late = steps_late(env)
        self.seen: list[Any] = []
        self.labels: list[Any] = []
        self.rewards: list[float] = []
        self.judged_from = 0  # the step from which rewards count
        self.rescued_at: int | None = None
        self.is_lost = False

    @property
    def seen_by_teacher(self) -> Any:
        """What the teacher sees now."""
        return self.env.seen_by_teacher(self.observation)

    def step(self, label: Any, action: Any) -> bool:
        """Executes an action, and returns whether the episode is over.

        :param label: the teacher's action
        :param action: the action to execute
        """
        self.seen.append(self.observation)
        self.labels.append(label)
        found, reward, terminated, truncated, _ = self.env.step(action)
        self.observation = copy_of(found)
        self.rewards.append(float(reward))
        return bool(terminated or truncated)

    def check(self, floor: float) -> bool:
        """Lets the teacher take over or step back; returns whether the episode is lost."""
        if len(self.rewards) - self.judged_from < self.patience:
            return False
        is_bad = mean_of_last(self.rewards, self.patience) < floor
        if is_bad and self.rescued_at is not None:
            self.is_lost = True
        elif is_bad or self.rescued_at is not None:
            self.rescued_at = len(self.rewards) if is_bad else None
            self.judged_from = len(self.rewards)  # whoever acts now is judged by new rewards alone
        return self.is_lost

    def build(self, own: bool) -> Demonstrations:
        """Returns the steps; without those after a handover that has not helped yet.

        An action that is executed n steps late should be what the teacher does n steps later.
        """
        end = len(self.seen) if self.rescued_at is None else self.rescued_at
        return demonstrations_of(self.seen[: max(0, end - self.late)], self.labels[self.late : end], own)


def mean_of_last(rewards: Sequence[float] | Array, count: int) -> float:
    """Returns the mean of the last rewards, in the same rounding for a student and for the floor it is held to."""
    return float(np.mean(rewards[-count:]))


@dataclass
class Collected:
    """What was collected.

    :param demonstrations: all steps but those after a handover that did not help, or not yet
    :param rewards: the rewards of every episode that has ended, or that was lost
    :param lost: how many episodes were lost
    """

    demonstrations: Demonstrations
    rewards: list[Array]
    lost: int

    @property
    def returns(self) -> list[float]:
        """The returns of these episodes."""
        return [float(one.sum()) for one in self.rewards]


class Collector:
    """Lets a student and its teacher act.

    :param envs: environments of one kind
    :param teacher: acts by what it sees of each of them
    :param student: acts by what their `step` returns
    :param patience: steps over which rewards are averaged
    :ivar floor: the mean reward over so many steps below which the teacher takes over
    """

    def __init__(self, envs: Sequence[TeachingEnv], teacher: Actor, student: Actor, patience: int) -> None:
        self.envs, self.teacher, self.student, self.patience = envs, teacher, student, patience
        self.space = envs[0].action_space
        self.floor = -np.inf

    def set_floor(self, rewards: Sequence[Array]) -> None:
        """Sets the floor to the least mean reward over `patience` steps in episodes of the teacher."""
        means = (
            mean_of_last(own[:end], self.patience) for own in rewards for end in range(self.patience, len(own) + 1)
        )
        self.floor = min(means, default=-np.inf)

    def collect(
        self,
        seed: int,
        teachers_share: float,
        disturbance: float = 0.0,
        steps: int | None = None,
        episodes: int | None = None,
        report: Report | None = None,
    ) -> Collected:
        """Collects steps.

        :param seed: everything random follows from it
        :param teachers_share: the largest probability that the teacher takes a step's action, of which every episode
            draws its own; or 1, with which the teacher takes all actions
        :param disturbance: the largest noise on the teacher's actions, if it takes all of them, as a share of half
            their range; every episode draws its own
        :param steps: how many steps to take; episodes under way are then cut
        :param episodes: how many whole episodes to play
        :param report: called with the number of steps since the last call
        """
        parts: list[Demonstrations] = []
        rewards: list[Array] = []
        own, begun, lost, taken, reported = teachers_share >= 1, 0, 0, 0, 0
        running: list[Running] = []
        for env in self.envs[:episodes]:
            running.append(Running(env, spawned_seed(seed, begun), self.patience, own))
            begun += 1
        starts, ended = np.ones(len(running), dtype=bool), np.zeros(len(running), dtype=bool)
        self.teacher.begin()
        self.student.begin()
        while not ended.all() and taken != steps:
            # The teacher sees every step, whoever acts, because its memory must follow the episode.
            labels = self.teacher.act(stack([episode.seen_by_teacher for episode in running]), starts)
            actions = labels if own else self.student.act(stack([episode.observation for episode in running]), starts)
            starts = np.zeros(len(running), dtype=bool)
            for k, episode in enumerate(running):
                if ended[k] or taken == steps:
                    continue
                taken += 1
                action = self._chosen(episode, labels[k], actions[k], teachers_share, disturbance)
                over = episode.step(labels[k], action)
                if not (episode.check(self.floor) or over):
                    continue
                parts.append(episode.build(own))
                lost += episode.is_lost
                rewards.append(np.array(episode.rewards))
                ended[k] = begun == episodes  # as many have begun as are asked for, so this environment rests
                if not ended[k]:
                    running[k], starts[k] = Running(episode.env, spawned_seed(seed, begun), self.patience, own), True
                    begun += 1
            if report is not None and (taken - reported >= REPORT_EVERY or taken == steps or ended.all()):
                report(taken - reported)
                reported = taken
        parts += [episode.build(own) for k, episode in enumerate(running) if not ended[k]]
        return Collected(Demonstrations.joined(parts), rewards, lost)

    def _chosen(self, episode: Running, label: Any, action: Any, share: float, disturbance: float) -> Any:
        """Returns the action to execute: the teacher's or the student's."""
        if episode.rescued_at is not None:
            return label
        if share < 1:
            # A mixture of both policies, as in DAgger: each episode has its own share, from none to the largest.
            return label if episode.random.random() < share * episode.level else action
        if not disturbance or not isinstance(self.space, gym.spaces.Box):
            return label
        half = (self.space.high - self.space.low) / 2
        noise = episode.random.normal(size=self.space.shape) * disturbance * episode.level * half
        return np.clip(label + noise, self.space.low, self.space.high).astype(self.space.dtype)
