"""What a teacher sees of the simulator that a student acts in.

A student's environment and its teacher's are two stacks of wrappers, and the simulator at their bottom is the same
kind. Here both stacks stand on one simulator: every step that the student's stack takes is shown to the teacher's
stack too, whose wrappers make the teacher's observation of it. So the teacher sees all of the state where the student
sees its noisy, late or incomplete part.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from ncp_control.data.episodes import copy_of

Info = dict[str, Any]
Step = tuple[Any, Any, bool, bool, Info]


class Shown(gym.Wrapper[Any, Any, Any, Any]):
    """Stands directly around the student's simulator, and shows each of its steps to the teacher's stack.

    :param env: the simulator
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.view: TeacherView | None = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Resets the simulator, and begins an episode of the teacher's stack."""
        found = self.env.reset(seed=seed, options=options)
        if self.view is not None:
            self.view.begin(found, seed)
        return found

    def step(self, action: Any) -> Step:
        """Steps the simulator, and then the teacher's stack."""
        found = self.env.step(action)
        if self.view is not None:
            self.view.follow(action, found)
        return found


class Replayed(gym.Env[Any, Any]):
    """Stands at the bottom of the teacher's stack, and returns the last step of the student's simulator.

    :param simulator: the student's simulator
    """

    def __init__(self, simulator: gym.Env[Any, Any]) -> None:
        self.simulator = simulator
        self.observation_space, self.action_space = simulator.observation_space, simulator.action_space
        self.last: Any = None
        self.shown = 0  # how often the last step was shown

    @property
    def unwrapped(self) -> Any:
        """The simulator, which wrappers may ask for what they need."""
        return self.simulator.unwrapped

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Returns the simulator's first observation; the seed is for wrappers that draw from this stack's generator."""
        super().reset(seed=seed)
        observation, info = self.last
        return copy_of(observation), dict(info)

    def step(self, action: Any) -> Step:
        """Returns the simulator's last step."""
        observation, reward, terminated, truncated, info = self.last
        self.shown += 1
        return copy_of(observation), reward, terminated, truncated, dict(info)


class TeacherView:
    """The teacher's observations of the simulator that a student acts in.

    :param student: the student's environment; it is changed so that its simulator shows its steps
    :param teacher: an environment as the teacher was trained in. Its wrappers are used, and its simulator is closed.
        None lets the teacher see everything that the simulator shows
    """

    def __init__(self, student: gym.Env[Any, Any], teacher: gym.Env[Any, Any] | None = None) -> None:
        self.observation: Any = None
        simulator = student.unwrapped
        if teacher is not None:
            check_same_simulator(simulator, teacher.unwrapped)
            check_same_actions(student.action_space, teacher.action_space)
        shown = Shown(simulator)
        put_below(student, shown)
        self._bottom = Replayed(shown)
        self._stack: gym.Env[Any, Any] = self._bottom
        if teacher is not None:
            teacher.unwrapped.close()
            self._stack = put_below(gym.Wrapper(teacher), self._bottom)
        self.observation_space = self._stack.observation_space
        shown.view = self

    def begin(self, found: tuple[Any, Info], seed: int | None) -> None:
        """Begins an episode with what the simulator's `reset` returned."""
        self._bottom.last = found
        self.observation, _ = self._stack.reset(seed=seed)

    def follow(self, action: Any, found: Step) -> None:
        """Takes one step of the simulator.

        :param action: the action that the simulator executed
        :param found: what its `step` returned
        """
        self._bottom.last, self._bottom.shown = found, 0
        self.observation = self._stack.step(action)[0]
        if self._bottom.shown != 1:
            raise ValueError(
                f"the teacher's environment took {self._bottom.shown} steps at once, and its simulator is shown each "
                "step once: choose a teacher's environment without a wrapper that repeats actions"
            )


def put_below(stack: gym.Env[Any, Any], bottom: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Puts another environment in the place of the simulator at the bottom of a stack of wrappers, and returns the
    stack.
    """
    lowest: Any = stack
    if not isinstance(lowest, gym.Wrapper):
        raise ValueError(f"{lowest} has no wrapper around its simulator: make it with gymnasium.make")
    while isinstance(lowest.env, gym.Wrapper):
        lowest = lowest.env
    lowest.env = bottom
    return stack


def check_same_simulator(student: gym.Env[Any, Any], teacher: gym.Env[Any, Any]) -> None:
    """Refuses a teacher whose environment has another simulator than the student's, or other options of it."""
    kinds = type(student), type(teacher)
    if not (issubclass(kinds[0], kinds[1]) or issubclass(kinds[1], kinds[0])):
        raise ValueError(
            f"the student's environment is a {kinds[0].__name__} and the teacher's a {kinds[1].__name__}: choose an "
            "environment of the simulator that the teacher knows"
        )
    for what in ("observation_space", "action_space"):
        one, other = getattr(student, what), getattr(teacher, what)
        if one != other:
            raise ValueError(
                f"the student's {kinds[0].__name__} has the {what.replace('_', ' ')} {one} and the teacher's {other}: "
                "make both with the same options"
            )


def check_same_actions(student: gym.Space[Any], teacher: gym.Space[Any]) -> None:
    """Refuses wrappers by which an action means one thing to the teacher and another to the student.

    Bounds that are infinite come from a wrapper that clips actions, and change no meaning.
    """
    is_free = isinstance(teacher, gym.spaces.Box) and not teacher.is_bounded()
    if student != teacher and not is_free:
        raise ValueError(
            f"the student's actions are {student} and the teacher's {teacher}: put the same wrappers that change "
            "actions around both, or none"
        )
