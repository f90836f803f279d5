"""KeepObservations keeps the entries that it is asked for, and refuses others."""

import pytest

gym = pytest.importorskip("gymnasium")

from ncp_envs import KeepObservations  # noqa: E402


def test_entries_come_in_the_order_that_was_asked_for() -> None:
    base, env = gym.make("CartPole-v1"), KeepObservations(gym.make("CartPole-v1"), indices=(3, 0))
    full, _ = base.reset(seed=0)
    kept, _ = env.reset(seed=0)
    assert kept.tolist() == [full[3], full[0]]
    kept[:] = 7.0  # an agent may write into it: the environment has an array of its own
    assert 7.0 not in env.unwrapped.state


@pytest.mark.parametrize(
    ("indices", "reason"),
    [
        ((), "at least one"),
        ((0, 4), "entry 4 does not exist: the observation has 4 entries, 0 to 3"),
        ((-1,), "entry -1 does not exist"),
        ((0, 2, 0), r"\[0, 2, 0\] names one more often"),
    ],
)
def test_entries_that_do_not_exist_or_come_twice_are_refused(indices: tuple[int, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        KeepObservations(gym.make("CartPole-v1"), indices=indices)


def test_only_vectors_have_entries_to_keep() -> None:
    grid = gym.wrappers.FrameStackObservation(gym.make("CartPole-v1"), 2)
    with pytest.raises(TypeError, match="vector observations"):
        KeepObservations(grid, indices=(0,))


def test_positions_and_velocities_are_kept_by_name() -> None:
    pytest.importorskip("mujoco")
    base = gym.make("Walker2d-v5")
    full, _ = base.reset(seed=0)
    for part, entries in (("positions", slice(0, 8)), ("velocities", slice(8, 17))):
        env = KeepObservations(gym.make("Walker2d-v5"), part)
        assert env.reset(seed=0)[0].tolist() == full[entries].tolist()
        again = gym.make(type(env.spec).from_json(env.spec.to_json()))
        assert again.observation_space == env.observation_space


def test_positions_that_nobody_knows_of_are_refused() -> None:
    with pytest.raises(ValueError, match="CartPoleEnv does not: list the entries to keep"):
        KeepObservations(gym.make("CartPole-v1"), "positions")
    pytest.importorskip("mujoco")
    hopper = gym.make("Hopper-v5")
    with pytest.raises(ValueError, match="the part to keep is 'positions' or 'velocities', not 'forces'"):
        KeepObservations(hopper, "forces")
    with pytest.raises(ValueError, match="has 11 entries, but a wrapper has made 5 of them: keep the"):
        KeepObservations(KeepObservations(hopper, "positions"), "velocities")
    with pytest.raises(ValueError, match="17 entries, but this environment has 11"):
        KeepObservations(hopper, "positions", size=17)
