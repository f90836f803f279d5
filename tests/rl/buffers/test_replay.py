"""The replay buffer of windows: what it stores is what happened, in its order, and nothing else."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from helpers.memory_tasks import Steps, joined
from ncp_control.rl.buffers.replay import (
    SequenceDictReplayBuffer,
    SequenceReplayBuffer,
)

# Episodes of one step, of a window's length and longer than the buffer; ends and time limits in turn.
LENGTHS = [(3, -5, 1, -4, 4), (-7, 7), (100,), (1,), (-4, 4, -12)]
SEQUENCE, BURN_IN, ROOM = 4, 3, 20
BOTH = pytest.mark.parametrize("as_dict", [False, True])


def make(as_dict: bool = False, **settings: Any) -> SequenceReplayBuffer:
    """An empty buffer with room for 20 steps of each of the five environments."""
    env = Steps(0, (1,), as_dict=as_dict)
    given = {"sequence": SEQUENCE, "burn_in": BURN_IN, "n_envs": len(LENGTHS), "device": "cpu", **settings}
    kind = SequenceDictReplayBuffer if as_dict else SequenceReplayBuffer
    return kind(ROOM * len(LENGTHS), env.observation_space, env.action_space, **given)


class World:
    """The five environments, and a record of every step: when it happened and what was done."""

    def __init__(self, as_dict: bool = False) -> None:
        self.envs: Any = DummyVecEnv([partial(Steps, i, lengths, as_dict=as_dict) for i, lengths in enumerate(LENGTHS)])
        self.generator = np.random.default_rng(0)
        self.when: dict[tuple[float, ...], int] = {}
        self.did: dict[tuple[int, int], dict[str, Any]] = {}
        self.time = 0
        self.seen = self.envs.reset()

    def fill(self, buffer: SequenceReplayBuffer, steps: int) -> None:
        """Takes steps and adds them as Stable-Baselines3 does."""
        for _ in range(steps):
            actions = self.generator.uniform(-1, 1, (len(LENGTHS), 2)).astype(np.float32)
            new, rewards, dones, infos = self.envs.step(actions)
            following = {key: value.copy() for key, value in new.items()} if isinstance(new, dict) else new.copy()
            for i, info in enumerate(infos):
                if dones[i] and isinstance(new, dict):
                    for key in new:
                        following[key][i] = info["terminal_observation"][key]
                elif dones[i]:
                    following[i] = info["terminal_observation"]
            for i, row in enumerate(joined(self.seen)):
                self.when[tuple(row)] = self.time
                cut = infos[i]["TimeLimit.truncated"]
                self.did[i, self.time] = {"action": actions[i], "reward": rewards[i], "end": dones[i] and not cut}
            buffer.add(self.seen, following, actions, rewards, dones, infos)
            self.seen, self.time = new, self.time + 1

    def reset(self, buffer: SequenceReplayBuffer) -> None:
        """Ends every episode from outside."""
        self.seen = self.envs.reset()
        buffer.starting[:] = True


def check(world: World, buffer: SequenceReplayBuffer, batch_size: int = 4000) -> set[tuple[int, int]]:
    """Compares a large batch with the record, and returns the trained steps as pairs of environment and time."""
    np.random.seed(0)  # a batch so large has every window
    batch = buffer.sample(batch_size)
    windows, count = batch.observations, batch_size // buffer.sequence
    rows, following = joined(windows.observations), joined(batch.next_observations.observations)
    width = buffer.burn_in + buffer.sequence
    assert batch.next_observations.windows is windows
    assert rows.shape == (count, width, 3)
    assert windows.starts.shape == (count, width)
    assert windows.starts.dtype == torch.bool
    assert windows.burn_in == buffer.burn_in
    assert following.shape == (count, buffer.sequence, 3)
    assert batch.actions.shape == (count * buffer.sequence, 2)
    assert batch.rewards.shape == batch.dones.shape == (count * buffer.sequence, 1)
    assert batch.discounts is None
    assert (windows.starts == (rows[..., 2] == 0)).all()
    times = np.array([[world.when[tuple(row)] for row in window] for window in rows.tolist()])
    envs = rows[..., 0].numpy().astype(int)
    assert (envs == envs[:, :1]).all()
    steps = np.diff(times, axis=1)
    # what would lie before the very first step is that step again, and only in the burn-in
    assert (steps[:, buffer.burn_in :] == 1).all()
    assert ((steps == 1) | ((steps == 0) & (times[:, 1:] == 0))).all()
    assert (times >= world.time - buffer.buffer_size).all()
    trained = [(int(e), int(t)) for e, t in zip(envs.flatten(), times.flatten(), strict=True)]
    trained = [place for k, place in enumerate(trained) if k % width >= buffer.burn_in]
    for k, place in enumerate(trained):
        did = world.did[place]
        np.testing.assert_array_equal(batch.actions[k], did["action"])
        assert batch.rewards[k] == did["reward"]
        assert batch.dones[k] == did["end"]
    after = rows[:, buffer.burn_in :] + torch.tensor([0.0, 0.0, 1.0])
    assert torch.equal(following, after)
    return set(trained)


@BOTH
@pytest.mark.parametrize("added", [SEQUENCE, SEQUENCE + BURN_IN, ROOM - 1, ROOM, ROOM + 1, 3 * ROOM - 1, 3 * ROOM + 5])
def test_windows_are_what_happened(added: int, as_dict: bool) -> None:
    world, buffer = World(as_dict), make(as_dict)
    world.fill(buffer, added)
    oldest = 0 if added < ROOM else added - ROOM + BURN_IN
    assert buffer.count_windows() == added - oldest - SEQUENCE + 1
    # every step that can be trained is, and none else: no window holds the oldest step and the newest as neighbours
    expected = {(env, time) for env in range(len(LENGTHS)) for time in range(oldest, added)}
    assert check(world, buffer) == expected


@pytest.mark.system
@pytest.mark.parametrize("burn_in", [0, 1, ROOM - SEQUENCE])
def test_windows_are_right_for_any_burn_in(burn_in: int) -> None:
    for added in (6, ROOM + 7):
        world, buffer = World(), make(burn_in=burn_in)
        world.fill(buffer, added)
        oldest = 0 if added < ROOM else added - ROOM + burn_in
        assert check(world, buffer) == {(env, time) for env in range(len(LENGTHS)) for time in range(oldest, added)}


def test_there_are_windows_as_soon_as_there_is_a_sequence() -> None:
    world, buffer = World(), make()
    for _ in range(SEQUENCE - 1):
        world.fill(buffer, 1)
        assert buffer.count_windows() == 0
        with pytest.raises(ValueError, match=r"steps of each environment are too few for a window of 4$"):
            buffer.sample(8)
    world.fill(buffer, 1)
    assert buffer.count_windows() == 1
    check(world, buffer)


@pytest.mark.system
@BOTH
def test_an_episode_that_is_ended_from_outside_is_followed_by_a_start(as_dict: bool) -> None:
    """The next step has the flag although no step was the last; the step before keeps the observation after it."""
    world, buffer = World(as_dict), make(as_dict)
    world.fill(buffer, 5)
    world.reset(buffer)
    world.fill(buffer, 6)
    check(world, buffer)
    assert buffer.episode_starts[5].all()
    assert not buffer.dones[4, 2]  # the long episode


@pytest.mark.system
def test_after_a_reset_nothing_is_left() -> None:
    world, buffer = World(), make()
    world.fill(buffer, 7)
    buffer.reset()
    assert buffer.count_windows() == 0
    world = World()
    world.envs.reset()
    world.seen = world.envs.reset()
    world.fill(buffer, 9)
    check(world, buffer)


def test_time_limits_may_count_as_ends() -> None:
    world, buffer = World(), make(handle_timeout_termination=False)
    world.fill(buffer, ROOM - 1)
    batch = buffer.sample(4000)
    rows = batch.observations.observations[:, BURN_IN:].reshape(-1, 3).numpy().astype(int)
    ends = [step + 1 == abs(LENGTHS[env][episode % len(LENGTHS[env])]) for env, episode, step in rows]
    assert batch.dones[:, 0].tolist() == ends


@pytest.mark.parametrize(("batch_size", "count"), [(1, 1), (4, 1), (11, 2), (256, 64)])
def test_a_batch_counts_trained_steps(batch_size: int, count: int) -> None:
    world, buffer = World(), make()
    world.fill(buffer, ROOM)
    batch = buffer.sample(batch_size)
    assert len(batch.observations.starts) == count
    assert len(batch.rewards) == count * SEQUENCE


@BOTH
def test_samples_are_normalised_as_the_environment_normalises(as_dict: bool) -> None:
    world, buffer = World(as_dict), make(as_dict)
    world.fill(buffer, ROOM)
    normaliser = VecNormalize(world.envs)
    normaliser.reset()
    for _ in range(5):
        normaliser.step(np.zeros((len(LENGTHS), 2), np.float32))
    batches = []
    for env in (None, normaliser):
        np.random.seed(0)
        batches.append(buffer.sample(80, env=env))
    raw, normal = batches

    def expected(seen: Any) -> Any:
        kept = {key: value.numpy() for key, value in seen.items()} if as_dict else seen.numpy()
        return joined(normaliser.normalize_obs(kept))

    np.testing.assert_array_equal(joined(normal.observations.observations), expected(raw.observations.observations))
    after, raw_after = normal.next_observations.observations, raw.next_observations.observations
    np.testing.assert_array_equal(joined(after), expected(raw_after))
    np.testing.assert_allclose(normal.rewards, normaliser.normalize_reward(raw.rewards.numpy()), rtol=1e-6)
    assert not torch.equal(joined(normal.observations.observations), joined(raw.observations.observations))
    assert joined(normal.observations.observations).dtype == torch.float32
    for name in ("actions", "dones"):
        assert torch.equal(getattr(raw, name), getattr(normal, name))


def test_the_seed_decides_what_is_sampled_and_samples_are_copies() -> None:
    world, buffer = World(), make()
    world.fill(buffer, ROOM + 3)
    found = []
    for seed in (0, 0, 1):
        np.random.seed(seed)
        found.append(buffer.sample(40).observations.observations)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    before = found[0].clone()
    world.fill(buffer, ROOM)
    assert torch.equal(found[0], before)


@BOTH
def test_a_pickled_buffer_continues(as_dict: bool) -> None:
    world, buffer = World(as_dict), make(as_dict)
    world.fill(buffer, ROOM + 3)
    buffer = pickle.loads(pickle.dumps(buffer))
    world.fill(buffer, 7)
    assert len(check(world, buffer)) == (ROOM - BURN_IN) * len(LENGTHS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sequence": 0}, "a sequence is a whole number of steps, at least one, got 0"),
        ({"sequence": 2.5}, r"a sequence is a whole number of steps, at least one, got 2\.5"),
        ({"burn_in": -1}, "burn_in is a whole number of steps, zero or more, got -1"),
        ({"burn_in": "3"}, "burn_in is a whole number of steps, zero or more, got '3'"),
        (
            {"optimize_memory_usage": True},
            "windows need the true last observation .*: leave optimize_memory_usage False",
        ),
        (
            {"sequence": 17, "burn_in": 4},
            r"keeps 20 steps of each environment has no room for a window of 4 \+ 17: make buffer_size at least 105",
        ),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make(**settings)
    assert "\n" not in str(caught.value)
