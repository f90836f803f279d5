"""An agent and its body in a closed loop, as one deterministic map from a state to the next, with its derivatives.

The state is where the body is, what the circuit's neurons hold, and the action that was chosen. One application of the
map executes the action, shows the observation to the agent, and lets it choose the next action. Everything is computed
in float64, without noise and without the environment's limit of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from ncp_control.data.bodies import TURN, BodyState, body_of
from ncp_control.data.env_specs import check_policy, range_of
from ncp_control.rl.controller import Controller

Array = NDArray[Any]
SMALL = 1e-6  # the steps of the finite differences
PROBES = 3  # states at which it is tried on what the loop depends
APART = 10  # steps between these
UNMOVED = 1e-4  # the most that a derivative may miss by finite differences


class LoopState(NamedTuple):
    """A state of the closed loop.

    :param body: the body's state
    :param neurons: the neurons' states, (N,)
    :param action: the action that comes next, (m,)
    """

    body: Array
    neurons: Array
    action: Array


class LoopStep(NamedTuple):
    """One application of the map.

    :param state: the state after it
    :param observation: what the agent saw, (n,)
    :param reward: the reward
    :param ended: whether the episode ended by itself
    """

    state: LoopState
    observation: Array
    reward: float
    ended: bool


class Derivatives(NamedTuple):
    """One application of the map with its derivatives.

    :param step: the application itself
    :param matrix: how a deviation is carried to the next state, (D, D)
    :param sensors: how an error of each observation changes the next state, (D, n)
    """

    step: LoopStep
    matrix: Array
    sensors: Array


class ClosedLoop:
    """The closed loop of an agent and the body in an environment.

    A deviation has `size` entries: those of the body on which the loop depends, the neurons, and the action. Entries on
    which nothing depends, such as how far a half-cheetah has run, are found by trying and left out.

    :param agent: a policy from `load_policy`, with or without a memory
    :param env: its environment, with no disturbance around it
    :ivar kept: which entries of the body's deviations are among those of the loop
    :ivar turns: for each entry of a deviation, whether a whole turn of this joint changes nothing
    """

    def __init__(self, agent: Any, env: gym.Env[Any, Any]) -> None:
        check_policy(agent, env)
        self.body: BodyState = body_of(env)
        self.body.sharpen()
        self.controller = Controller(agent).double()
        if self.controller.timed:
            raise ValueError(
                f"{agent.name} was trained with elapsed times that vary: the closed loop has one time step"
            )
        self.neurons = self.controller.state_size
        self.chooses = self.body.chooses
        space = env.action_space
        self.actions = 1 if self.chooses else int(np.prod(space.shape or (1,)))
        self.range = range_of(space)
        self.kept = np.arange(self.body.size)
        self.turns = np.zeros(self.body.size, bool)
        self.kept, turns = self._tried()
        self.turns = np.append(turns, np.zeros(self.neurons + self.actions, bool))

    @property
    def size(self) -> int:
        """The number of entries of a deviation, D."""
        return len(self.kept) + self.neurons + self.actions

    @property
    def names(self) -> list[str]:
        """A name for each entry of a deviation."""
        return [
            *(self.body.names[k] for k in self.kept),
            *self.neuron_names,
            *(f"action {k}" for k in range(self.actions)),
        ]

    @property
    def neuron_names(self) -> list[str]:
        """A name for each number of the circuit's state."""
        rnn = self.controller.rnn
        names = [] if rnn is None else list(rnn.wiring.neuron_names)
        if len(names) == self.neurons:
            return names
        # an LSTM also has a cell behind each neuron
        return [*names, *(f"cell of {name}" for name in names)][: self.neurons]

    def start(self, seed: int) -> LoopState:
        """Returns the state at the start of an episode."""
        return self._begun(*self.body.reset(seed))

    def thrown(self, random: np.random.Generator) -> LoopState:
        """Returns a state in which the body has any pose and speed, and the circuit its initial state."""
        return self._begun(*self.body.thrown(random))

    def step(self, state: LoopState) -> LoopStep:
        """Returns what follows a state."""
        return self.step_all([state])[0]

    def step_all(self, states: Sequence[LoopState]) -> list[LoopStep]:
        """Returns what follows each of several states, which is faster than one after another."""
        moved = [self.body.step_from(state.body, state.action) for state in states]
        seen = np.array([one.observation for one in moved])
        actions, neurons = self.act(seen, np.array([state.neurons for state in states]))
        return [
            LoopStep(LoopState(one.state, neurons[k], actions[k]), one.observation, one.reward, one.ended)
            for k, one in enumerate(moved)
        ]

    def act(self, observations: Array, neurons: Array) -> tuple[Array, Array]:
        """Returns actions (B, m) and neurons (B, N) after observations (B, n)."""
        with torch.no_grad():
            found, after = self.controller(torch.tensor(observations), torch.tensor(neurons))[:2]
        return found.double().numpy().reshape(len(observations), -1), after.numpy()

    def deviated(self, state: LoopState, deviation: Array) -> LoopState:
        """Returns the state that lies a deviation away from another one."""
        whole = np.zeros(self.body.size)
        whole[self.kept], neurons, action = np.split(deviation, np.cumsum([len(self.kept), self.neurons]))
        return LoopState(
            self.body.deviated(state.body, whole), state.neurons + neurons, self._in_range(state.action + action)
        )

    def deviation(self, of: LoopState, origin: LoopState) -> Array:
        """Returns the deviation by which one state lies away from another one; whole turns do not count."""
        of_body = self.body.deviation(of.body, origin.body)[self.kept]
        found = np.concatenate([of_body, of.neurons - origin.neurons, of.action - origin.action])
        found[self.turns] -= TURN * np.round(found[self.turns] / TURN)
        return found

    def derivatives(self, state: LoopState) -> Derivatives:
        """Returns what follows a state, and how that depends on the state, by central differences."""
        step = self.step(state)
        seen, n = step.observation, len(step.observation)
        body, motors = len(self.kept), self.actions
        # What the body does: its deviation and what it shows, by its own state and by the action.
        moves = np.zeros((body + n, body + motors))
        for k, entry in enumerate(self.kept):
            unit = np.zeros(self.body.size)
            unit[entry] = SMALL
            ends = [self.body.step_from(self.body.deviated(state.body, sign * unit), state.action) for sign in (1, -1)]
            moves[:, k] = self._slope(ends, 2 * SMALL)
        for k in range(0 if self.chooses else motors):
            pair = [self._pushed(state.action, k, sign * SMALL) for sign in (1, -1)]
            ends = [self.body.step_from(state.body, action) for action in pair]
            moves[:, body + k] = self._slope(ends, pair[0][k] - pair[1][k])
        # What the agent does: its action and its neurons, by the observation and by its neurons.
        (acts,) = slopes(lambda rows: self._after(rows[:, :n], rows[:, n:]), np.append(seen, state.neurons)[None])
        matrix = np.zeros((self.size, self.size))
        matrix[:body, :body], matrix[:body, body + self.neurons :] = moves[:body, :body], moves[:body, body:]
        matrix[body:, :body] = acts[:, :n] @ moves[body:, :body]
        matrix[body:, body + self.neurons :] = acts[:, :n] @ moves[body:, body:]
        matrix[body:, body : body + self.neurons] = acts[:, n:]
        return Derivatives(step, matrix, np.concatenate([np.zeros((body, n)), acts[:, :n]]))

    def _after(self, observations: Array, neurons: Array) -> Array:
        """Returns the neurons and the actions after observations, (B, N + m); a choice does not move with them."""
        actions, after = self.act(observations, neurons)
        return np.concatenate([after, np.zeros_like(actions) if self.chooses else actions], axis=1)

    def _slope(self, ends: list[Any], width: float) -> Array:
        """Returns the slope of what a body does between two of its steps."""
        moved = self.body.deviation(ends[0].state, ends[1].state)[self.kept]
        return np.concatenate([moved, ends[0].observation - ends[1].observation]) / width

    def _pushed(self, action: Array, entry: int, by: float) -> Array:
        """Returns an action with one entry moved, within the range of the actions."""
        pushed = action.copy()
        pushed[entry] += by
        return self._in_range(pushed)

    def _in_range(self, action: Array) -> Array:
        return action if self.range is None else np.clip(action, self.range[0], self.range[1])

    def _begun(self, body: Array, observation: Array) -> LoopState:
        initial = self.controller.initial_state().double().numpy()
        actions, neurons = self.act(observation[None], initial)
        return LoopState(body, neurons[0], actions[0])

    def _tried(self) -> tuple[Array, Array]:
        """Finds on which of the body's entries the loop depends, and of which a whole turn changes nothing."""
        body, state = self.body, self.start(0)
        needed, turned = np.zeros(body.size, bool), np.arange(body.size) < body.positions
        needed[body.positions :] = True
        for _ in range(PROBES):
            for _ in range(APART):
                state = self.step(state).state
            still = body.step_from(state.body, state.action)
            for k in range(body.positions):
                unit = np.zeros(body.size)
                unit[k] = 1.0
                moved = body.step_from(body.deviated(state.body, unit), state.action)
                needed[k] |= self._differs(still, moved, unit)
                moved = body.step_from(body.deviated(state.body, TURN * unit), state.action)
                turned[k] &= not self._differs(still, moved, TURN * unit)
        return np.flatnonzero(needed), turned[needed]

    def _differs(self, still: Any, moved: Any, by: Array) -> bool:
        """Whether a body that was moved does something else than to be moved."""
        found = self.body.deviation(moved.state, still.state) - by
        found[np.abs(by) == TURN] = np.sin(found[np.abs(by) == TURN])  # the difference of quaternions knows no turns
        return bool(max(np.abs(found).max(), np.abs(moved.observation - still.observation).max()) > UNMOVED)


def slopes(function: Callable[[Array], Array], points: Array) -> Array:
    """Returns the derivatives of a function at several points, by central differences, (S, outputs, inputs).

    :param function: from rows of inputs to rows of outputs
    :param points: (S, inputs)
    """
    count, size = points.shape
    units = SMALL * np.stack([np.eye(size), -np.eye(size)])
    ahead, behind = function((units[:, None] + points[:, None]).reshape(-1, size)).reshape(2, count, size, -1)
    found: Array = ((ahead - behind) / (2 * SMALL)).transpose(0, 2, 1)
    return found
