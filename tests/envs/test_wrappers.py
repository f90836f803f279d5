"""What holds for every wrapper: checkers accept it, its spec makes it again, seeds repeat it, no array is shared."""

import warnings
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env, data_equivalence  # noqa: E402

import ncp_envs  # noqa: E402
from helpers.episode_counter import EpisodeCounter  # noqa: E402
from ncp_envs.streams import RandomStream, Stream  # noqa: E402

PLAIN: dict[str, Any] = {
    "overwrite": partial(ncp_envs.RandomActionOverwrite, probability=0.3),
    "bursts": partial(ncp_envs.ActionBursts, probability=0.1),
    "overwrite-always": partial(ncp_envs.RandomActionOverwrite, probability=1),
    "noise": partial(ncp_envs.ObservationNoise, std=0.1),
    "noise-each": partial(ncp_envs.ObservationNoise, std=np.array([0.0, 0.1, 2.0])),
    "noise-clean": partial(ncp_envs.ObservationNoise, std=0.1, clean=True),
    "change-cost": partial(ncp_envs.ActionChangeCost, weight=0.1),
    "dropout": partial(ncp_envs.ObservationDropout, probability=0.3),
    "dropout-fill": partial(ncp_envs.ObservationDropout, probability=0.5, fill=99.0, whole=True),
    "dropout-last": partial(ncp_envs.ObservationDropout, probability=0.5, fill="last"),
    "delay": partial(ncp_envs.ActionDelay, steps=2),
    "delay-first": partial(ncp_envs.ActionDelay, steps=2, first=np.array([0.5])),
    "delay-range": partial(ncp_envs.ActionDelay, steps=(0, 2)),
    "delay-told": partial(ncp_envs.ActionDelay, steps=[1, 3], told=True),
    "no-delay": partial(ncp_envs.ActionDelay, steps=0),
    "irregular": partial(ncp_envs.IrregularTime, frames=4),
    "irregular-seen": partial(ncp_envs.IrregularTime, frames=(2, 3), observe_elapsed=True, nominal=2.5),
    "irregular-apart": partial(ncp_envs.IrregularTime, frames=(2, 3), observe_elapsed="apart"),
    "history": partial(ncp_envs.History, window=4),
    "previous": partial(ncp_envs.PreviousAction),
    "previous-reward": partial(ncp_envs.PreviousAction, reward=True),
}


def everything(env: Any) -> Any:
    """Several wrappers, one inside the other."""
    env = ncp_envs.ActionDelay(env, 1)
    env = ncp_envs.IrregularTime(env, 3, observe_elapsed=True)
    env = ncp_envs.RandomActionOverwrite(env, 0.2)
    env = ncp_envs.ObservationNoise(ncp_envs.ObservationNoise(env, 0.1), 0.1)
    env = ncp_envs.ObservationDropout(env, 0.2, fill="last")
    env = ncp_envs.KeepObservations(env, (0, 3, 1))
    return ncp_envs.History(env, 3)


def make_everything() -> Any:
    return everything(EpisodeCounter((3, 5)))


WRAPPERS = {**PLAIN, "everything": everything}
RANDOM = [
    "overwrite", "bursts", "noise", "noise-each", "noise-clean", "dropout", "dropout-fill", "dropout-last",
    "delay-range", "delay-told",
    "irregular", "irregular-seen", "irregular-apart", "everything",
]  # fmt: skip


@pytest.fixture(params=WRAPPERS)
def wrap(request: pytest.FixtureRequest) -> Any:
    return WRAPPERS[request.param]


def play(env: Any, seed: int | None, steps: int = 30) -> list[Any]:
    """Returns everything that an environment returns for a fixed sequence of actions."""
    actions = np.random.default_rng(5).uniform(-1.0, 1.0, (steps, 1)).astype(np.float32)
    seen: list[Any] = [env.reset(seed=seed)]
    for action in actions:
        seen.append(env.step(action))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def test_gymnasium_accepts_them(wrap: Any) -> None:
    env = wrap(gym.make("Pendulum-v1"))
    with warnings.catch_warnings():
        # The checker prefers unwrapped environments, bounded spaces and actions between -1 and 1.
        warnings.filterwarnings("ignore", module="gymnasium")
        check_env(env, skip_render_check=True)


def test_stable_baselines_accepts_them(wrap: Any) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning)
        warnings.filterwarnings("ignore", "We recommend you to use a symmetric and normalized Box action")
        warnings.filterwarnings("ignore", "Your observation observations has an unconventional shape")
        checker.check_env(wrap(gym.make("Pendulum-v1")))


@pytest.mark.parametrize("as_json", [False, True])
def test_a_spec_makes_the_same_environment_again(wrap: Any, as_json: bool) -> None:
    env = wrap(gym.make("Pendulum-v1"))
    spec = type(env.spec).from_json(env.spec.to_json()) if as_json else env.spec
    again = gym.make(spec)
    assert type(again) is type(env)
    assert again.observation_space == env.observation_space
    assert data_equivalence(play(env, 3), play(again, 3), exact=True)


def test_a_seed_repeats_everything_whatever_ran_before(wrap: Any) -> None:
    first = wrap(EpisodeCounter((7, 4)))
    second = wrap(EpisodeCounter((7, 4)))
    play(second, seed=None, steps=11)
    assert data_equivalence(play(first, 3), play(second, 3), exact=True)


@pytest.mark.parametrize("name", RANDOM)
def test_another_seed_gives_another_episode_and_so_does_none(name: str) -> None:
    env = WRAPPERS[name](EpisodeCounter((1000,)))
    seeded, other, going_on = play(env, 3), play(env, 4), play(env, None)
    assert not data_equivalence(seeded[1:], other[1:])
    assert not data_equivalence(other[1:], going_on[1:])


@pytest.mark.parametrize("name", [name for name in RANDOM if name != "everything"])
def test_a_seed_of_the_wrapper_repeats_everything_too(name: str) -> None:
    def seeded(seed: int) -> list[Any]:
        return play(WRAPPERS[name](EpisodeCounter((7, 4)), seed=seed), None)

    assert data_equivalence(seeded(8), seeded(8), exact=True)
    assert not data_equivalence(seeded(8), seeded(9))


def test_no_two_returned_arrays_share_memory(wrap: Any) -> None:
    kept = play(wrap(EpisodeCounter((6, 6))), 3, steps=20)
    arrays = [list(arrays_in(returned)) for returned in kept]
    for first, second in combinations(arrays, 2):
        assert not any(np.shares_memory(one, other) for one in first for other in second)


def test_writing_into_what_was_returned_changes_nothing_later(wrap: Any) -> None:
    env, untouched = wrap(EpisodeCounter((1000,))), wrap(EpisodeCounter((1000,)))
    spoil(env.reset(seed=3))
    untouched.reset(seed=3)
    for value in np.linspace(-1, 1, 10, dtype=np.float32):
        action = np.array([value])
        result, expected = env.step(action), untouched.step(np.array([value]))
        assert data_equivalence(result, expected, exact=True)
        spoil(result)
        action[:] = 77.0


def spoil(data: Any) -> None:
    """Overwrites every array in `data`."""
    for array in arrays_in(data):
        array[...] = 1


def arrays_in(data: Any) -> Iterator[Any]:
    """Yields every array in `data`, at any depth."""
    if isinstance(data, np.ndarray):
        yield data
    elif isinstance(data, dict | tuple | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from arrays_in(value)


class Reusing(EpisodeCounter):
    """Writes every observation into the same array."""

    def __init__(self) -> None:
        super().__init__()
        self._array = np.zeros(3, dtype=np.float32)

    def _observe(self, action: float) -> Any:
        self._array[:] = super()._observe(action)
        return self._array


@pytest.mark.parametrize("name", list(WRAPPERS))
def test_a_returned_array_does_not_change_later(name: str) -> None:
    """Even where the environment and the agent reuse their arrays."""
    passes_observations_on = (
        name.startswith(("overwrite", "bursts", "delay", "no-delay", "change")) or name == "irregular"
    )
    env = WRAPPERS[name](EpisodeCounter() if passes_observations_on else Reusing())
    kept, action = [env.reset(seed=3)], np.zeros(1, dtype=np.float32)
    before = deepcopy(kept)
    for value in np.linspace(-1, 1, 10):
        action[:] = value
        kept.append(env.step(action))
        before.append(deepcopy(kept[-1]))
    assert data_equivalence(kept, before, exact=True)


def test_streams_of_one_seed_are_all_different() -> None:
    streams = [RandomStream(stream, layer, 3).generator for stream in Stream for layer in (0, 1)]
    space = gym.spaces.Box(0, 1, ())
    space.seed(3)
    draws = [stream.random() for stream in [*streams, np.random.default_rng(3), space.np_random]]
    assert len(set(draws)) == len(draws) - 1  # the two of Gymnasium are the same


def test_every_wrapper_is_tested() -> None:
    public = {name for name in ncp_envs.__all__ if isinstance(getattr(ncp_envs, name), type)}
    single = {name for name in public if issubclass(getattr(ncp_envs, name), gym.Wrapper)}
    elsewhere = {"KeepObservations", "ChangedBody", "Pushes"}  # in test_observations.py and test_changed_body.py
    assert {make.func.__name__ for make in PLAIN.values()} == single - elsewhere


def test_no_two_wrappers_draw_from_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[tuple[int, int]] = []
    begin = RandomStream.__init__

    def keep(self: RandomStream, stream: int, layer: int, seed: int | None) -> None:
        keys.append((int(stream), layer))
        begin(self, stream, layer, seed)

    monkeypatch.setattr(RandomStream, "__init__", keep)
    kinds = {PLAIN[name].func: PLAIN[name] for name in RANDOM if name in PLAIN}
    for make in kinds.values():
        make(make(EpisodeCounter()))
    assert len(set(keys)) == len(keys) == 2 * len(kinds)


def test_two_wrappers_of_one_class_draw_different_numbers() -> None:
    env = ncp_envs.ObservationNoise(ncp_envs.ObservationNoise(EpisodeCounter(), 1.0), 1.0)
    outer, info = env.reset(seed=3)
    inner, _ = env.env.reset(seed=3)
    clean = info["clean_observation"]
    np.testing.assert_array_equal(clean, [0, 0, 0])  # from before the inner wrapper, not the outer one
    assert not np.isclose(outer - inner, inner - clean).any()


@pytest.mark.parametrize(
    ("make", "error", "reason"),
    [
        (lambda env: ncp_envs.RandomActionOverwrite(env, 1.5), ValueError, "between 0 and 1, and got 1.5"),
        (lambda env: ncp_envs.RandomActionOverwrite(env, float("nan")), ValueError, "between 0 and 1, and got nan"),
        (lambda env: ncp_envs.ObservationDropout(env, -0.1), ValueError, "between 0 and 1, and got -0.1"),
        (lambda env: ncp_envs.ObservationDropout(env, 0.1, fill=float("nan")), ValueError, "finite number for fill"),
        (lambda env: ncp_envs.ObservationDropout(env, 0.1, fill="first"), ValueError, "or \"last\", and got 'first'"),
        (lambda env: ncp_envs.ObservationNoise(env, -1.0), ValueError, "not negative, and got -1.0"),
        (lambda env: ncp_envs.ObservationNoise(env, (1.0, 2.0)), ValueError, r"shape \(3,\), and got shape \(2,\)"),
        (lambda env: ncp_envs.ActionDelay(env, -1), ValueError, "steps of at least 0, and got -1"),
        (lambda env: ncp_envs.ActionDelay(env, 1.5), TypeError, "whole number for steps, and got 1.5"),
        (
            lambda env: ncp_envs.ActionDelay(env, (2, 1)),
            ValueError,
            r"a range \(least, most\) of steps, and got \(2, 1\)",
        ),
        (lambda env: ncp_envs.ActionDelay(env, (0, 1, 2)), ValueError, r"or a range \(least, most\), and got"),
        (lambda env: ncp_envs.ActionDelay(env, True), TypeError, "whole number for steps, and got True"),
        (
            lambda env: ncp_envs.ActionDelay(env, 1, first=[7.0]),
            ValueError,
            r"with \[7.0\], which is not an action",
        ),
        (lambda env: ncp_envs.IrregularTime(env, 0), ValueError, "most frames of at least 1, and got 0"),
        (lambda env: ncp_envs.IrregularTime(env, (3, 2)), ValueError, "most frames of at least 3, and got 2"),
        (lambda env: ncp_envs.IrregularTime(env, (1, 2, 3)), ValueError, r"or \(low, high\), and got \(1, 2, 3\)"),
        (lambda env: ncp_envs.IrregularTime(env, 2, nominal=0.0), ValueError, "above zero, and got 0.0"),
        (lambda env: ncp_envs.History(env, 0), ValueError, "window of at least 1, and got 0"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(make: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason) as refusal:
        make(EpisodeCounter())
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["noise", "dropout", "history", "irregular-seen", "previous"])
def test_observations_that_are_not_a_box_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=r"needs .*observations"):
        WRAPPERS[name](gym.make("Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"))


def test_matrices_and_integers_are_refused_where_they_do_not_work() -> None:
    class Grid(EpisodeCounter):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = gym.spaces.Box(0, 255, (2, 2), np.uint8)

    for wrapper in (
        partial(ncp_envs.History, window=2),
        partial(ncp_envs.IrregularTime, frames=2, observe_elapsed=True),
    ):
        with pytest.raises(TypeError, match=r"a Box of shape \(size,\)"):
            wrapper(Grid())
    with pytest.raises(TypeError, match="floating-point"):
        ncp_envs.ObservationNoise(Grid(), 0.1)
    with pytest.raises(ValueError, match=r"cannot fill observations of uint8 with 0\.5"):
        ncp_envs.ObservationDropout(Grid(), 0.1, fill=0.5)
    assert ncp_envs.ObservationDropout(Grid(), 0.1, fill=7).observation_space == Grid().observation_space


@pytest.mark.parametrize("kind", ["DummyVecEnv", "SubprocVecEnv"])
def test_stable_baselines_vector_environments(kind: str) -> None:
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    options = {"start_method": "fork"} if kind == "SubprocVecEnv" else {}
    envs = getattr(vec_env, kind)([make_everything] * 2, **options)
    envs.seed(4)
    alone = [make_everything() for _ in range(2)]
    expected = [env.reset(seed=4 + place)[0] for place, env in enumerate(alone)]
    observations = envs.reset()
    for _ in range(20):
        for place in range(2):
            assert data_equivalence({key: observations[key][place] for key in observations}, expected[place])
        actions = np.full((2, 1), 0.25, dtype=np.float32)
        observations, _, dones, _ = envs.step(actions)
        for place, env in enumerate(alone):
            expected[place], _, terminated, truncated, _ = env.step(actions[place])
            assert dones[place] == (terminated or truncated)
            if dones[place]:
                expected[place], _ = env.reset()
    envs.close()


def test_an_algorithm_without_memory_learns_from_a_history() -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    env = ncp_envs.History(gym.make("ncp/PendulumNoVel-v0"), 4)
    model = stable_baselines3.PPO("MultiInputPolicy", env, n_steps=32, batch_size=32, n_epochs=1, device="cpu")
    model.learn(32)
    assert model.policy.features_extractor.features_dim == 4 * 2 + 4  # every entry and every flag, and no image
    with pytest.raises(ValueError, match="norm_obs_keys"):
        stable_baselines3.common.vec_env.VecNormalize(model.env)
