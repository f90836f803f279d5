"""Recordings: what is in them is what the circuit did."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

gym = pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

from stable_baselines3 import DQN, PPO, SAC  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

import ncp_control.activity.recording.record as recording  # noqa: E402
from helpers.oscillators import oscillators  # noqa: E402
from ncp_control import (  # noqa: E402
    CTGRU,
    CTRNN,
    GRU,
    LSTM,
    LTC,
    RNN,
    AutoNCP,
    CfC,
    GapJunctions,
    NeuralLTC,
    NeuralODE,
)
from ncp_control.activity import Activity, ActivityError, record, record_model, record_network  # noqa: E402
from ncp_control.activity.recording.ablate import ablate  # noqa: E402
from ncp_control.activity.recording.currents import currents_of  # noqa: E402
from ncp_control.cells import Cell, MixedMemory  # noqa: E402
from ncp_control.dynamics import DynamicsModel  # noqa: E402
from ncp_control.rl import NCPExtractor, RecurrentPPO, RecurrentSAC, load_policy, save_policy  # noqa: E402
from ncp_control.rl.circuit_log import actor_circuit  # noqa: E402
from ncp_envs import ActionDelay, History, IrregularTime, RandomActionOverwrite  # noqa: E402

PLAN = AutoNCP(12, 4, seed=1)


def cells() -> list[Cell]:
    torch.manual_seed(0)
    return [
        LTC(3, GapJunctions(PLAN, 2)), NeuralLTC(3, PLAN), CfC(3, PLAN), CfC(3, PLAN, mode="pure"), CTRNN(3, PLAN),
        NeuralODE(3, 5), CTGRU(3, 5), LSTM(3, 5), GRU(3, 5), MixedMemory(CfC(3, PLAN)),
    ]  # fmt: skip


def name_of(cell: Cell) -> str:
    return f"{type(cell).__name__}-{getattr(cell, 'mode', '')}"


def pendulum() -> Any:
    return gym.make("ncp_envs:ncp/PendulumNoVel-v0")


def agent(cell: str = "ltc", critic: str = "lstm", env: Any = None) -> RecurrentPPO:
    kwargs = dict(wiring=PLAN, cell=cell, critic=critic)
    return RecurrentPPO("NCPPolicy", env or pendulum(), n_steps=32, batch_size=32, seed=0, policy_kwargs=kwargs)


@pytest.mark.parametrize("cell", cells(), ids=name_of)
def test_a_network_is_recorded_as_it_runs(cell: Cell, tmp_path: Path) -> None:
    rnn = RNN(cell)
    inputs, reset = torch.randn(30, 3), torch.zeros(30, dtype=torch.bool)
    reset[13] = True
    elapsed = torch.rand(30) + 0.5
    found = record_network(rnn, inputs, tmp_path / "run.npz", elapsed=elapsed, reset=reset)
    state = rnn.initial_state(1)
    for t in range(30):  # a second, independent pass: cell by cell, on the reference
        state = rnn.initial_state(1) if reset[t] else state
        tau = cell.time_constants(inputs[t : t + 1], state)
        np.testing.assert_allclose(1 / found.time_constants[t], 1 / tau[0].detach().numpy(), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            state = cell.step(inputs[t : t + 1], state, float(elapsed[t]))
        own = found.get("states")
        np.testing.assert_allclose((found.neurons if own is None else own)[t], state[0].numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.outputs[t], cell.motor(state)[0].detach().numpy(), rtol=1e-5, atol=1e-6)
    assert found.episode_starts.tolist() == [t in (0, 13) for t in range(30)]
    assert found.wiring == rnn.wiring
    assert found.about["cell"]["cell"] == type(cell).__name__
    assert found.get("saliency") is not None


def test_saliency_is_the_derivative_times_the_inputs_spread(tmp_path: Path) -> None:
    torch.manual_seed(0)
    rnn = RNN(LTC(3, PLAN)).double()
    inputs = torch.randn(20, 3, dtype=torch.double)
    found = record_network(rnn, inputs, tmp_path / "run.npz").get("saliency")
    assert found is not None
    _, _, states = rnn(inputs, states=True)
    before = torch.cat([rnn.initial_state(1), states[:-1]]).detach()
    step = 1e-6
    for k in range(3):
        moved = inputs.clone()
        moved[:, k] += step
        with torch.no_grad():
            slope = (rnn.cell.step(moved, before) - rnn.cell.step(inputs, before)) / step
        wanted = slope.square().mean(0).sqrt() * inputs[:, k].std(correction=0)
        np.testing.assert_allclose(found[:, k], wanted.numpy(), rtol=1e-3, atol=1e-6)


def test_currents_of_an_ltc_make_its_voltages_move() -> None:
    torch.manual_seed(0)
    cell = LTC(3, GapJunctions(PLAN, 3)).double()
    inputs, v = torch.randn(7, 3, dtype=torch.double), 0.3 * torch.randn(7, 12, dtype=torch.double)
    found = currents_of(cell, inputs, v, v)
    flow = torch.zeros(7, 12, dtype=torch.double)
    flow.index_add_(1, cell.sensory_target, found.sensory).index_add_(1, cell.target, found.recurrent)
    flow.index_add_(1, cell.gap_ends[:, 0], found.gap).index_add_(1, cell.gap_ends[:, 1], -found.gap)
    constants = cell.constants()
    rate, drive = cell.rate_and_drive(constants, cell.sense(constants, inputs), v)
    slope = (flow + cell.gleak * (cell.vleak - v)) / cell.cm
    torch.testing.assert_close(slope, drive - rate * v)


@pytest.mark.parametrize("kind", [NeuralLTC, CTRNN, NeuralODE])
def test_currents_of_an_affine_cell_add_up_to_its_argument(kind: Any) -> None:
    torch.manual_seed(0)
    cell = kind(3, PLAN)
    inputs, x = torch.randn(7, 3), torch.randn(7, 12)
    found = currents_of(cell, inputs, x, x)
    total = torch.zeros(7, 12).index_add_(1, cell.sensory_target, found.sensory)
    total = total.index_add_(1, cell.target, found.recurrent) + cell.mu
    constants = cell.constants()
    torch.testing.assert_close(total, x @ constants.gamma_r + cell.sense(constants, inputs))


def test_currents_of_a_pure_cfc_add_up_to_its_argument() -> None:
    torch.manual_seed(0)
    cell = CfC(3, PLAN, mode="pure")
    inputs, before = torch.randn(5, 3), torch.randn(5, 12)
    with torch.no_grad():
        after = cell.step(inputs, before)
    found = currents_of(cell, inputs, before, after)
    total = torch.zeros(5, 12).index_add_(1, cell.sensory_target, found.sensory) + cell.bias[0]
    targets = torch.tensor(cell.wiring.synapses.target)
    total = total.index_add_(1, targets, found.recurrent)
    own = [k for k in range(12) if (k, k) not in {(s, t) for s, t, _ in cell.wiring.synapses}]
    diagonal = {int(t): k for k, (s, t) in enumerate(zip(cell.source, cell.target, strict=True)) if s == t}
    for neuron in own:  # the membrane is no synapse of the wiring
        total[:, neuron] += before[:, neuron] * cell.weight[0, diagonal[neuron]]
    f1 = total
    wanted = cell.A - cell.A * torch.exp(-(cell.w_tau.abs() + f1.abs())) * f1
    torch.testing.assert_close(wanted, after, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("cell", "critic"), [("ltc", "lstm"), ("cfc", "circuit"), ("lstm", "mlp"), ("cfc", "shared")])
def test_an_agent_is_recorded_as_it_acts(cell: str, critic: str, tmp_path: Path) -> None:
    model = RecurrentPPO(
        "NCPPolicy", pendulum(), seed=0,
        policy_kwargs=dict(wiring=6 if cell == "lstm" else PLAN, cell=cell, critic=critic),
    )  # fmt: skip
    env = pendulum()
    found = record(model, env, tmp_path / "run.npz", 220, seed=4, progress=False)
    assert found.about["seeds"] == [4, 5]
    assert np.flatnonzero(found.episode_starts).tolist() == [0, 200]
    # the same episodes, nobody listening
    rewards, states, actions, values = [], [], [], []
    circuit = actor_circuit(model.policy)
    assert circuit is not None
    for seed, steps in ((4, 200), (5, 20)):
        observation, _ = env.reset(seed=seed)
        state, h = None, circuit.cell.initial_state(1)
        for t in range(steps):
            with torch.no_grad():
                h = circuit.cell.step(torch.tensor(observation)[None], h)
            states.append(h[0].numpy())
            action, state = model.predict(observation, state, np.array([t == 0]), deterministic=True)
            actions.append(action)
            observation, reward, *_ = env.step(action)
            rewards.append(reward)
    np.testing.assert_allclose(found.get("rewards"), rewards, rtol=1e-5)
    np.testing.assert_allclose(found.get("actions"), actions, rtol=1e-5, atol=1e-6)
    kept = found.neurons if found.get("states") is None else found.get("states")
    np.testing.assert_allclose(kept, states, rtol=1e-4, atol=1e-5)
    # the values are those that training would see
    seen = torch.tensor(found.observations)
    starts = torch.tensor(found.episode_starts, dtype=torch.float32)
    for first, last in ((0, 200), (200, 220)):
        zero = (torch.zeros(1, 1, model.policy.lstm_hidden_state_shape[2]),) * 2
        with torch.no_grad():
            values.append(model.policy.predict_values(seen[first:last], zero, starts[first:last]).flatten())
    np.testing.assert_allclose(found.get("values"), torch.cat(values).numpy(), rtol=1e-4, atol=1e-4)


def test_chunks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = agent()
    whole = record(model, pendulum(), tmp_path / "whole.npz", 230, progress=False)
    monkeypatch.setattr(recording, "CHUNK", 32)
    parts = record(model, pendulum(), tmp_path / "parts.npz", 230, progress=False)
    for name in ("observations", "neurons", "currents", "sensory_currents", "outputs", "time_constants"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(parts.get("values"), whole.get("values"), rtol=1e-4, atol=1e-5)


def test_a_stored_agent_is_recorded_as_the_model_was(tmp_path: Path) -> None:
    env = VecNormalize(DummyVecEnv([pendulum]))
    model = agent(env=env)
    model.learn(64)
    save_policy(model, tmp_path / "agent.safetensors")
    one = record(model, pendulum(), tmp_path / "one.npz", 50, progress=False)
    two = record(load_policy(tmp_path / "agent.safetensors"), pendulum(), tmp_path / "two.npz", 50, progress=False)
    for name in ("observations", "inputs", "neurons", "outputs"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-4, atol=1e-5)
    assert not np.allclose(one.observations, one.inputs)  # the circuit reads what is normalised


@pytest.mark.parametrize("algorithm", [PPO, SAC, DQN])
@pytest.mark.parametrize("carry", [False, True])
def test_an_extractor_is_recorded(algorithm: Any, carry: bool, tmp_path: Path) -> None:
    discrete = algorithm is DQN

    def make() -> Any:
        return History(gym.make("ncp_envs:ncp/CartPoleNoVel-v0") if discrete else pendulum(), window=6)

    extractor = dict(wiring=PLAN, cell="ltc", carry=carry)
    kwargs = dict(features_extractor_class=NCPExtractor, features_extractor_kwargs=extractor)
    model = algorithm("MultiInputPolicy", make(), policy_kwargs=kwargs, seed=0)
    found = record(model, make(), tmp_path / "run.npz", 15, progress=False)
    circuit = actor_circuit(model.policy)
    assert circuit is not None
    seen = torch.tensor(found.observations)
    starts = np.flatnonzero(found.episode_starts)
    for t in range(15):
        begin = starts[starts <= t][-1]
        first = begin if carry else max(begin, t - 5)
        with torch.no_grad():
            _, _, states = circuit.rnn(seen[first : t + 1], states=True)
        np.testing.assert_allclose(found.neurons[t], states[-1].numpy(), rtol=1e-4, atol=1e-5)
    assert found.get("values") is None


def test_recurrent_sac_and_irregular_time(tmp_path: Path) -> None:
    def make() -> Any:
        return IrregularTime(pendulum(), frames=(1, 3), observe_elapsed="apart")

    model = RecurrentSAC("NCPPolicy", make(), policy_kwargs=dict(wiring=PLAN, cell="ltc"), sequence=8, seed=0)
    found = record(model, make(), tmp_path / "run.npz", 20, progress=False)
    elapsed = found.get("elapsed")
    assert elapsed is not None
    assert set(np.unique(elapsed[1:])) <= {1.0, 2.0, 3.0}
    assert len(set(elapsed[1:].tolist())) > 1
    circuit = actor_circuit(model.policy)
    assert circuit is not None
    with torch.no_grad():
        _, _, states = circuit.rnn(torch.tensor(found.inputs), elapsed=torch.tensor(elapsed), states=True)
    np.testing.assert_allclose(found.neurons, states.numpy(), rtol=1e-4, atol=1e-5)


def test_delayed_actions_are_recorded_as_executed(tmp_path: Path) -> None:
    found = record(agent(), ActionDelay(pendulum(), steps=2), tmp_path / "run.npz", 20, progress=False)
    acted, executed = found.get("actions"), found.get("executed_actions")
    assert acted is not None
    assert executed is not None
    assert found.get("is_random") is None
    np.testing.assert_array_equal(executed[2:], acted[:-2])


def test_random_actions_are_marked(tmp_path: Path) -> None:
    env = RandomActionOverwrite(pendulum(), probability=0.5)
    found = record(agent(), env, tmp_path / "run.npz", 60, progress=False)
    random, acted, executed = (found.get(key) for key in ("is_random", "actions", "executed_actions"))
    assert random is not None
    assert acted is not None
    assert executed is not None
    assert 10 < random.sum() < 50
    np.testing.assert_allclose(acted[~random], executed[~random], rtol=1e-6)
    assert not np.allclose(acted[random], executed[random])


def test_episodes_or_steps(tmp_path: Path) -> None:
    found = record(agent(), pendulum(), tmp_path / "run.npz", episodes=2, progress=False)
    assert found.steps == 400
    with pytest.raises(ValueError, match="give one of the two"):
        record(agent(), pendulum(), tmp_path / "no.npz", 10, 2)
    with pytest.raises(ValueError, match="at least one step"):
        record(agent(), pendulum(), tmp_path / "no.npz", 0)
    with pytest.raises(ValueError, match="has no circuit to record"):
        record(PPO("MlpPolicy", pendulum()), pendulum(), tmp_path / "no.npz", 5)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        record(agent(), pendulum(), tmp_path / "nowhere" / "no.npz", 5)
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


class Breaks(gym.Wrapper):  # type: ignore[type-arg, misc]
    """Fails at a step."""

    def __init__(self, env: Any, error: type[BaseException], at: int) -> None:
        super().__init__(env)
        self.error, self.left = error, at

    def step(self, action: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return self.env.step(action)


def test_what_was_recorded_before_ctrl_c_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recording, "CHUNK", 8)
    with pytest.raises(KeyboardInterrupt):
        record(agent(), Breaks(pendulum(), KeyboardInterrupt, 21), tmp_path / "run.npz", 50, progress=False)
    found = Activity.load(tmp_path / "run.npz")
    assert found.steps == 21
    assert f"interrupted: 21 steps are kept in {tmp_path / 'run.npz'}" in capsys.readouterr().err
    assert found.about["seeds"] == [0]
    with pytest.raises(OSError):  # noqa: PT011
        record(agent(), Breaks(pendulum(), OSError, 21), tmp_path / "broken.npz", 50, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_neurons_are_silenced_and_synapses_cut(tmp_path: Path) -> None:
    model = agent()
    circuit = actor_circuit(model.policy)
    assert circuit is not None
    before = circuit.rnn.cell
    names = circuit.cell.wiring.neuron_names
    source, target, _ = next(iter(circuit.cell.wiring.synapses))
    synapse = f"{names[source]}->{names[target]}"
    found = record(
        model, pendulum(), tmp_path / "a.npz", 20, hold={"motor1": 0.25, "inter0": 0.0}, cut=[synapse], progress=False
    )
    assert circuit.rnn.cell is before
    assert (found.neurons[:, names.index("motor1")] == 0.25).all()
    assert (found.neurons[:, names.index("inter0")] == 0).all()
    number = [(int(s), int(t)) for s, t, _ in found.wiring.synapses].index((source, target))
    assert np.abs(found.currents[:, number]).max() < 1e-6
    assert found.about["silenced"] == ["motor1=0.25", "inter0=0", synapse]
    for wrong, words in (
        ("motor9", "there is no neuron named 'motor9'"),
        ("input0", "there is no neuron named 'input0'"),
    ):
        with pytest.raises(ValueError, match=words):
            record(model, pendulum(), tmp_path / "b.npz", 5, hold={wrong: 0.0}, progress=False)
    for wrong, words in (("motor0", "written source->target"), ("motor0->inter0", "no synapse from motor0 to inter0")):
        with pytest.raises(ValueError, match=words):
            record(model, pendulum(), tmp_path / "b.npz", 5, cut=[wrong], progress=False)
    assert circuit.rnn.cell is before
    assert not (tmp_path / "b.npz").exists()


def test_ablation_orders_neurons_by_what_is_left(tmp_path: Path) -> None:
    model = agent()
    some, out = ["motor0", "inter1", "command0"], tmp_path / "table.csv"
    whole, found = ablate(model, pendulum, some, episodes=2, out=out, progress=False)
    again, one = ablate(model, pendulum, ["inter1"], episodes=2, progress=False)
    assert whole == again
    assert [row for row in found if row.name == "inter1"] == one
    assert [row.mean for row in found] == sorted(row.mean for row in found)
    assert {row.layer for row in found} == {"motor", "inter", "command"}
    rows = list(csv.reader(out.open()))
    assert rows[0] == ["neuron", "layer", "mean_return", "return_0", "return_1"]
    assert [row[0] for row in rows[1:]] == ["", *(row.name for row in found)]


def test_an_interrupted_ablation_keeps_what_it_found(tmp_path: Path) -> None:
    made = []

    def make() -> gym.Env:
        made.append(1)
        if len(made) > 2:  # the whole circuit, the first neuron
            raise KeyboardInterrupt
        return pendulum()

    with pytest.raises(KeyboardInterrupt):
        ablate(agent(), make, ["motor0", "inter1"], episodes=1, out=tmp_path / "table.csv", progress=False)
    rows = list(csv.reader((tmp_path / "table.csv").open()))
    assert [row[0] for row in rows] == ["neuron", "", "motor0"]


def test_what_an_agent_cannot_act_in_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    out, own = tmp_path / "run.npz", agent()
    for env, error, words in (
        ("Pendulum-v1", TypeError, r'give the environment itself, gymnasium\.make\("Pendulum-v1"\)'),
        (VecNormalize(DummyVecEnv([pendulum])), TypeError, "one environment, .* not a VecNormalize of 1"),
        (pendulum, TypeError, "not what makes it: call it first"),
        (3, TypeError, "not 3"),
        (gym.make("Pendulum-v1"), ValueError, "the policy was made for observations in"),
        (gym.make("CartPole-v1"), ValueError, "the policy was made for observations in"),
    ):
        with pytest.raises(error, match=words):
            record(own, env, out, 5, progress=False)
    assert not list(tmp_path.iterdir())


def test_a_recording_is_shown_in_a_line(tmp_path: Path) -> None:
    shown = repr(record(agent(), pendulum(), tmp_path / "run.npz", 5, progress=False))
    assert shown.startswith("Activity(policy in ncp/PendulumNoVel-v0: 5 steps, 12 neurons, ")
    assert "rewards" in shown
    assert "\n" not in shown
    assert len(shown) < 200


def test_a_model_of_dynamics_is_recorded(tmp_path: Path) -> None:
    rollouts = oscillators(actions=True, elapsed=True)
    torch.manual_seed(0)
    model = DynamicsModel.of(rollouts, "ltc", PLAN, inputs="observations+actions")
    first = rollouts[0]
    found = record_model(model, first, tmp_path / "all.npz")
    assert first.actions is not None
    assert first.elapsed is not None
    as_tensor = lambda values: torch.as_tensor(values, dtype=torch.float32)[None]  # noqa: E731
    with torch.no_grad():
        predictions, states = model.unrolled(
            as_tensor(first.observations[:-1]), as_tensor(first.actions), as_tensor(first.elapsed[1:])
        )
    np.testing.assert_allclose(found.neurons, states[0].numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.get("predictions"), predictions[0].numpy(), rtol=1e-4, atol=1e-4)
    free = record_model(model, first, tmp_path / "free.npz", warm_up=10, steps=30)
    wanted = model.predict(
        as_tensor(first.observations[:10]), 20, as_tensor(first.actions[:29]), as_tensor(first.elapsed[1:30])
    )
    np.testing.assert_allclose(free.observations[10:], wanted[0].numpy(), rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="one circuit"):
        record_model(DynamicsModel.of(rollouts, "mlp", 4), first, tmp_path / "no.npz")


def test_the_body_of_a_half_cheetah_is_kept(tmp_path: Path) -> None:
    env = gym.make("ncp_envs:ncp/HalfCheetahNoVel-v0")
    found = record(agent(env=env), env, tmp_path / "run.npz", 12, progress=False)
    ends, radii = found.get("body_ends"), found.get("body_radii")
    assert ends is not None
    assert radii is not None
    assert ends.shape == (12, len(radii), 2, 2)
    assert found.about["dt"] == pytest.approx(0.05)
    assert found.about["action_names"][0] == "bthigh"
    assert found.about["observation_names"][0] == "front tip z"
    assert np.abs(np.diff(ends, axis=0)).max() > 0.01


@pytest.mark.parametrize("damage", ["text", "cut", "foreign", "shape", "missing", "pickle", "version"])
def test_files_that_are_no_recordings_are_refused(damage: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = tmp_path / "run.npz"
    record_network(RNN(LTC(3, PLAN)), torch.randn(9, 3), path)
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    if damage == "text":
        path.write_text("not a recording")
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-200])
    else:
        if damage == "foreign":
            arrays = {"x": np.zeros(3)}
        elif damage == "shape":
            arrays["neurons"] = arrays["neurons"][:, :-1]
        elif damage == "missing":
            del arrays["currents"]
        elif damage == "pickle":
            arrays["about"] = np.array([{"format": "x"}], dtype=object)
        else:
            arrays["about"] = np.array(str(arrays["about"]).replace('"version": 1', '"version": 7'))
        np.savez(path, **arrays)
    with pytest.raises(ActivityError, match=r"run\.npz"):
        Activity.load(path)
    with pytest.raises(FileNotFoundError, match="no recorded rollout"):
        Activity.load(tmp_path / "nothing.npz")
