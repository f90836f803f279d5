"""The whole idea in one file: teach a small circuit to run, prove what it can never do, and write it as C.

Notable here:

- 48 liquid neurons (DualLTC) in three layers, with two weights per synapse: what to move towards, and how fast
- no cycles: each layer reads the sensors and the layers before it, so the circuit provably forgets
- a loop over time with few operations, three a step forwards and by hand one backwards; weights are applied before it
- DAgger: the circuit acts, a teacher that sees more says what it would have done, and the circuit learns that
- Muon for the weights, Adam for all else, and a running average of both, which is what acts
- a certificate by interval arithmetic for episodes of any length, wide enough for what float32 rounds
- C99 that allocates nothing, compared with torch step by step; `ncp_control` has all parts with all their settings

The body is a half-cheetah. Its teacher sees positions and velocities, and the circuit only the eight positions. After
`python scripts/whole.py`, three minutes of a core, it has 94 to 97 % of the teacher's undisturbed return (three seeds).
"""

from __future__ import annotations

import argparse
import ctypes
import math
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

Array = NDArray[Any]
Random = np.random.Generator
Played = tuple[Tensor, Tensor, Array]
Envs = list[Any]
TEACHER = Path(__file__).parents[1] / "checkpoints" / "halfcheetah-teacher.safetensors"
SENSORS, LAYERS, NEURONS, ACTIONS = 8, (16, 16, 16), 48, 6
TIME_CONSTANTS = (0.05, 2.0)  # in steps; the longest one says how long a neuron can remember
ROOM = 1e-5  # what float32 may round, as a share
LOW, HIGH = math.log(TIME_CONSTANTS[0] * (1 + ROOM)), math.log(TIME_CONSTANTS[1] / (1 + ROOM))
BRAKE = 0.6  # the strongest brake; below exp(-1 / 2), so that a braked neuron forgets as fast as any other
STEPS, RANDOM = 1000, 0.05  # of an episode; the share of random actions in every second one, to learn to recover
ROUNDS, HANDOVER = 10, 5  # rounds of DAgger, and those until the teacher no longer takes some of the actions
BATCH, WINDOW, WARM_UP = 64, 40, 8  # windows in a batch, steps in a window, and its first steps, which do not count
RATE, AVERAGE = 0.02, 0.995  # of learning, and what the average of the weights keeps of itself
UPDATES = 5000  # a minute: a number and no clock, so that a seed always gives the same circuit


# 1. The circuit --------------------------------------------------------------------------------------------------
class Remember(torch.autograd.Function):
    """A layer's loop over time, x' = m + k (x - m) with m = tanh(f - brake x), and its gradient by hand."""

    @staticmethod
    def forward(ctx: Any, f: Tensor, kept: Tensor, brake: Tensor, state: Tensor) -> Tensor:
        """Returns the states (T, B, n) after every step from f and k (T, B, n) and the state before them (B, n)."""
        states, towards = f.new_empty(len(f) + 1, *state.shape), torch.empty_like(f)
        states[0] = state
        x, opposed = states.unbind(0), -brake
        for t, (f_t, kept_t, m) in enumerate(zip(f.unbind(0), kept.unbind(0), towards.unbind(0), strict=True)):
            torch.addcmul(f_t, x[t], opposed, out=m).tanh_()
            torch.lerp(m, x[t], kept_t, out=x[t + 1])
        ctx.save_for_backward(kept, brake, states, towards)
        return states[1:]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the gradients of f, k, the brake and the first state."""
        kept, brake, states, towards = ctx.saved_tensors
        before = states[:-1]
        by_f = (1 - kept) * (1 - towards.square())
        by_state = kept - by_f * brake
        # A state counts by itself, and by the states that follow from it. Only this needs a loop, with one operation.
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        totals, slopes = total.unbind(0), by_state.unbind(0)
        for t in reversed(range(len(totals) - 1)):
            totals[t].addcmul_(totals[t + 1], slopes[t + 1])
        of_f = total * by_f
        return of_f, total * (before - towards), -(of_f * before).sum((0, 1)), total[0] * by_state[0]


class Circuit(nn.Module):
    """Layers of liquid neurons. With linear maps f and g of what a neuron reads, and its brake b::

        dx/dt = (tanh(f - b x) - x) / tau,    tau = low^s high^(1 - s),    s = sigmoid(g)

    A layer reads the new states of the layers before it, and solves a step of time 1 exactly for what it reads:
    x' = m + k (x - m) with the tanh as m and k = exp(-1 / tau). As a mean of x and m, x never leaves -1 to 1.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__()
        ends = [(SENSORS + sum(LAYERS[:k]), n) for k, n in enumerate(LAYERS)]
        # The first matrix of each pair is that of f, and the second one that of g.
        self.weights = nn.ParameterList([torch.randn(2, sources, n) / sources**0.5 for sources, n in ends])
        # Slow and fast neurons from the start: a velocity is the difference of two positions of different age.
        paces = [torch.linspace(-2, 2, n)[torch.randperm(n)] for n in LAYERS]
        self.biases = nn.ParameterList([torch.stack([torch.zeros_like(pace), pace]) for pace in paces])
        self.brakes = nn.ParameterList([torch.full((n,), -2.0) for n in LAYERS])
        self.output = nn.Parameter(torch.randn(1, LAYERS[-1], ACTIONS) / LAYERS[-1] ** 0.5)
        self.output_bias = nn.Parameter(torch.zeros(ACTIONS))
        self.register_buffer("mean", torch.zeros(SENSORS))
        self.register_buffer("deviation", torch.ones(SENSORS))

    def layers(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Returns the weights (2, sources, n), the biases (2, n) and the brakes (n,) of every layer."""
        parts = zip(self.weights, self.biases, self.brakes, strict=True)
        return [(weights, biases, BRAKE * torch.sigmoid(raw)) for weights, biases, raw in parts]

    def forward(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns actions (T, B, A) and states (T, B, N) from observations (T, B, S) and the state before them."""
        read = (observations - self.mean) / self.deviation
        for (weights, biases, brake), before in zip(self.layers(), state.split(LAYERS, dim=-1), strict=True):
            # No layer acts back on an earlier one, so each runs through all steps before the next one begins.
            f, g = (torch.matmul(read, one) + bias for one, bias in zip(weights, biases, strict=True))
            kept = torch.exp(-torch.exp((HIGH - LOW) * torch.sigmoid(g) - HIGH))
            after: Tensor = Remember.apply(f, kept, brake, before)  # type: ignore[no-untyped-call]
            read = torch.cat([read, after], dim=-1)
        return after @ self.output[0] + self.output_bias, read[..., SENSORS:]


# 2. The teacher, the bodies, and how the circuit learns ----------------------------------------------------------
def shipped_teacher() -> nn.Sequential:
    """Returns the teacher: a plain network, trained by SAC, from all 17 numbers of a body to actions (B, 6)."""
    tensors, layers = load_file(TEACHER), [nn.Linear(17, 256), nn.Linear(256, 256), nn.Linear(256, ACTIONS)]
    for layer, name in zip(layers, ("latent_pi.0", "latent_pi.2", "mu"), strict=True):
        layer.load_state_dict({part: tensors[f"policy.actor.{name}.{part}"] for part in ("weight", "bias")})
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2], nn.Tanh()).requires_grad_(False)


def play(envs: Envs, teacher: nn.Module, circuit: Circuit | None, random: Random, part: float, shocks: Array) -> Played:
    """Plays an episode in every body; returns positions (T, B, 8), the teacher's actions (T, B, 6), and returns (B,).

    Of the circuit's actions, the teacher takes at most the share `part`; without a circuit it takes all, with at most
    so much noise. Each episode draws its own. The shares `shocks` (B,) of all actions are random.
    """
    seen, count = np.stack([env.reset(seed=int(random.integers(2**31)))[0] for env in envs]), len(envs)
    positions, labels = torch.empty(STEPS, count, SENSORS), torch.empty(STEPS, count, ACTIONS)
    state, returns, level = torch.zeros(count, NEURONS), np.zeros(count), part * random.random((count, 1))
    for t in range(STEPS):
        positions[t], labels[t] = torch.as_tensor(seen[:, :SENSORS]), teacher(torch.as_tensor(seen).float())
        taught = labels[t].numpy()
        if circuit is None:
            actions = taught + level * random.standard_normal(taught.shape)
        else:
            with torch.no_grad():
                own, (state,) = circuit(positions[t : t + 1], state)
            actions = np.where(random.random((count, 1)) < level, taught, own[0].numpy())
        shocked, anything = random.random((count, 1)) < shocks[:, None], random.uniform(-1, 1, taught.shape)
        actions = np.where(shocked, anything, np.clip(actions, -1, 1)).astype(np.float32)
        for k, env in enumerate(envs):
            seen[k], reward, *_ = env.step(actions[k])
            returns[k] += reward
    return positions, labels, returns


def orthogonal(matrices: Tensor) -> Tensor:
    """Returns matrices (..., m, n) with all singular values near 1: the step of Muon, alike in all directions."""
    moved: Tensor = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-12)
    for _ in range(5):  # of a polynomial whose values stay near 1 once they are there
        gram = moved.mT @ moved
        moved = 3.4445 * moved + moved @ (2.0315 * gram @ gram - 4.775 * gram)
    # The root mean square of a step is then about that of Adam, so one rate fits both.
    return moved * (0.2 * math.sqrt(max(matrices.shape[-2:])))


def distil(circuit: Circuit, teacher: nn.Module, envs: Envs, minutes: float, seed: int) -> None:
    """Teaches the circuit by DAgger. Ctrl-C ends it early and keeps what was learnt."""
    random, started = np.random.default_rng(seed), time.perf_counter()
    rounds = min(ROUNDS, max(1, round(minutes * ROUNDS / 3)))
    updates = max(1, round(minutes * UPDATES / (rounds + 1)))  # in a round
    values = [one.data for one in circuit.parameters()]
    trained, average = ([one.clone() for one in values] for _ in range(2))
    # Muon for weights, Adam for biases and brakes.
    weights = [(one, torch.zeros_like(one)) for one in circuit.parameters() if one.dim() == 3]
    adam = torch.optim.Adam([one for one in circuit.parameters() if one.dim() < 3], betas=(0.9, 0.99))
    window, last_start, done, everything = torch.arange(WINDOW)[:, None], STEPS - WINDOW, 0, updates * (rounds + 1)
    # Half of the episodes are undisturbed, as this is how it runs fastest, and half of them teach to recover.
    shocks = RANDOM * (np.arange(len(envs)) % 2)
    try:
        # First the teacher acts alone, also with noise, so that the circuit sees how to come back.
        played = [play(envs, teacher, None, random, noise, shocks) for noise in (0.0, 0.4, 0.4)]
        first = torch.cat([positions for positions, _, _ in played], dim=1)
        torch._foreach_copy_([circuit.mean, circuit.deviation], [first.mean((0, 1)), first.std((0, 1))])
        for k in range(rounds + 1):
            # Then the circuit acts, and so it learns what to do where its own mistakes lead.
            if k:
                played.append(play(envs, teacher, circuit, random, max(0.0, 1 - k / HANDOVER), shocks))
            positions, labels = (torch.cat(parts, dim=1) for parts in list(zip(*played, strict=True))[:2])
            # Every window begins with the state that the circuit has there.
            state, total = torch.zeros(positions.shape[1], NEURONS), torch.zeros(())
            with torch.no_grad():
                before = torch.cat([state[None], circuit(positions, state)[1]])
            torch._foreach_copy_(values, trained)
            for _ in range(updates):
                episode, start = (torch.as_tensor(random.integers(n, size=BATCH)) for n in (len(state), last_start + 1))
                episode[: BATCH // 4] %= first.shape[1]  # always some of the teacher's own episodes,
                start[-BATCH // 7 :] = 0  # and some beginnings, so that it learns to begin
                # That state comes from older weights, so the first steps count only where an episode begins.
                counted, steps = (window >= WARM_UP) | (start == 0), start + window
                taught = labels[steps, episode]
                wrong = circuit(positions[steps, episode], before[start, episode])[0] - taught
                # Actions are clipped: beyond a limit at which the teacher is, too, nothing is wrong.
                beyond = ((taught > 0.99) & (wrong > 0)) | ((taught < -0.99) & (wrong < 0))
                wrong = wrong.masked_fill(beyond | ~counted[..., None], 0.0)
                loss = wrong.square().sum() / (ACTIONS * counted.sum())
                circuit.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(circuit.parameters(), 1.0)
                # The rate rises in the first tenth, and then falls along half a cosine.
                progress, done = done / everything, done + 1
                cosine = 0.5 + 0.5 * math.cos(math.pi * max(0.0, progress - 0.1) / 0.9)
                adam.param_groups[0]["lr"] = rate = RATE * min(0.04 + progress / 0.1, 0.001 + cosine)
                adam.step()
                for weight, momentum in weights:
                    assert weight.grad is not None
                    momentum.lerp_(weight.grad, 0.05)
                    weight.data -= rate * orthogonal(weight.grad.lerp(momentum, 0.95))
                torch._foreach_lerp_(average, values, max(1 - AVERAGE, 1 / (1 + done / 10)))
                total += loss.detach()
            # The average is better than any of the weights while the rate is high, so it is what acts.
            torch._foreach_copy_(trained, values)
            torch._foreach_copy_(values, average)
            ran, error, seconds = played[-1][2].mean(), (total / updates).sqrt(), time.perf_counter() - started
            print(f"round {k} of {rounds}: ran {ran:,.0f}, error {error:.3f}, {seconds:.0f} s", flush=True)
    except KeyboardInterrupt:
        torch._foreach_copy_(values, average)
        print(f"stopped after {done:,} of {everything:,} updates; what was learnt is kept")


# 3. The certificate ----------------------------------------------------------------------------------------------
def outward(low: Array, high: Array, size: Array | float = 1.0) -> tuple[Array, Array]:
    """Widens a range by more than float32 rounds in sums of this size: it holds for what torch and the C compute."""
    return low - ROOM * size, high + ROOM * size


def mapped(weights: Array, bias: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Returns the range of `v @ weights + bias` for all v from low to high."""
    rising, falling = np.maximum(weights, 0), np.minimum(weights, 0)
    size = np.maximum(np.abs(low), np.abs(high)) @ np.abs(weights) + np.abs(bias)
    return outward(low @ rising + high @ falling + bias, high @ rising + low @ falling + bias, size)


def certify(circuit: Circuit, reach: float) -> dict[str, Any]:
    """Returns what holds for all sequences of observations within `reach` deviations, however long, from the state 0.

    A step moves a state towards m = tanh(f - brake x), and never past it. So states do not leave the range of all m,
    with the 0 where they begin: first for x from -1 to 1, then for x in the smaller range found, and so on.

    Two copies with any two pasts that observe the same come together. The slope k - (1 - k) brake (1 - m^2) of x' by x
    lies from -brake to exp(-1 / longest), so a difference shrinks by itself in every step. To it comes at most what the
    layers before still differ by, times the slopes by their states. This part is shown for exact arithmetic.
    """
    own = {name: np.asarray(values.double()) for name, values in circuit.state_dict().items()}
    # A state is read like a sensor, so the ranges of all that is read grow layer by layer.
    read = outward(
        -reach * np.ones(SENSORS), reach * np.ones(SENSORS), reach + 2 * np.abs(own["mean"] / own["deviation"])
    )
    forgets, span = max(math.exp(-1 / TIME_CONSTANTS[1]), BRAKE), HIGH - LOW
    constants, slopes = [], []
    for k in range(len(LAYERS)):
        weights, biases, brake = own[f"weights.{k}"], own[f"biases.{k}"], BRAKE / (1 + np.exp(-own[f"brakes.{k}"]))
        (f_low, f_high), (g_low, g_high) = (mapped(*pair, *read) for pair in zip(weights, biases, strict=True))
        ends = outward(*(HIGH - span / (1 + np.exp(-g)) for g in (g_high, g_low)))
        short, long = (np.clip(np.exp(end), *TIME_CONSTANTS) for end in ends)
        x_low, x_high = -np.ones_like(brake), np.ones_like(brake)
        for _ in range(50):
            z_low, z_high = outward(f_low - brake * x_high, f_high - brake * x_low)
            x_low, x_high = outward(np.minimum(np.tanh(z_low), 0), np.maximum(np.tanh(z_high), 0))
        # Both curves are steepest at 0, and p exp(-p) with p = 1 / tau is greatest at p = 1.
        near_z, near_g = (np.maximum(0, np.maximum(a, -b)) for a, b in ((z_low, z_high), (g_low, g_high)))
        power = np.clip(1.0, 1 / long, 1 / short)
        by_f = (1 - np.exp(-1 / short)) * (1 - np.tanh(near_z) ** 2)
        by_g = (x_high - x_low) * power * np.exp(-power) * span / (2 + 2 * np.cosh(near_g))
        slopes.append((np.abs(weights[0]) * by_f + np.abs(weights[1]) * by_g)[SENSORS:])
        constants.append((short, long))
        read = np.concatenate([read[0], x_low]), np.concatenate([read[1], x_high])
    states = read[0][SENSORS:], read[1][SENSORS:]
    # At first two pasts differ by no more than the ranges, and the last layer moves the actions.
    apart, steps, widest = states[1] - states[0], 0, np.inf
    while widest > 0.01 * 2:
        for by_sources, n in zip(slopes, LAYERS, strict=True):
            at = slice(len(by_sources), len(by_sources) + n)
            shrunk = forgets * apart[at] + apart[: at.start] @ by_sources
            apart[at] = np.minimum(shrunk * (1 + ROOM), states[1][at] - states[0][at])
        steps, widest = steps + 1, (apart[-LAYERS[-1] :] @ np.abs(own["output"][0])).max()
    actions = mapped(own["output"][0], own["output_bias"], *(end[-LAYERS[-1] :] for end in states))
    times = np.concatenate(constants, axis=1)
    return {"states": states, "time constants": times, "actions": actions, "forgets": forgets, "steps": steps}


# 4. The C --------------------------------------------------------------------------------------------------------
SOURCE = """\
/* A circuit of liquid neurons. The caller owns the state, which is all zeros where an episode begins. */
#include <math.h>
TABLES
void circuit_step(float state[NEURONS], const float observation[SENSORS], float action[ACTIONS]) {
    float values[SENSORS + NEURONS];
    for (int i = 0; i < SENSORS; i++) values[i] = (observation[i] - mean[i]) / deviation[i];
    for (int i = 0, place = 0; i < NEURONS; i++) {
        float f = bias_f[i], g = bias_g[i];
        for (int j = 0; j < reads[i]; j++, place++) { /* sensors, and layers that have moved already */
            f += weight_f[place] * values[j], g += weight_g[place] * values[j];
        }
        const float towards = tanhf(f - brake[i] * state[i]);
        const float kept = expf(-expf(SPAN / (1.0f + expf(-g)) - HIGH));
        state[i] = towards + kept * (state[i] - towards);
        values[SENSORS + i] = state[i];
    }
    for (int i = 0; i < ACTIONS; i++) {
        float sum = output_bias[i];
        for (int j = 0; j < LAST; j++) sum += output[j * ACTIONS + i] * state[NEURONS - LAST + j];
        action[i] = sum < -1.0f ? -1.0f : sum > 1.0f ? 1.0f : sum;
    }
}
"""


def c_of(circuit: Circuit) -> str:
    """Returns the circuit as one file of C99, with constant tables and without an allocation."""
    tables = {name: getattr(circuit, name) for name in ("mean", "deviation", "output", "output_bias")}
    layers = circuit.layers()
    for k, name in enumerate("fg"):
        tables[f"weight_{name}"] = torch.cat([weights[k].T.flatten() for weights, _, _ in layers])
        tables[f"bias_{name}"] = torch.cat([biases[k] for _, biases, _ in layers])
    tables["brake"] = torch.cat([brake for _, _, brake in layers])
    lines = [f"enum {{ SENSORS = {SENSORS}, NEURONS = {NEURONS}, ACTIONS = {ACTIONS}, LAST = {LAYERS[-1]} }};"]
    reads = [str(weights.shape[1]) for weights, _, _ in layers for _ in range(weights.shape[2])]
    lines.append(f"static const int reads[] = {{{', '.join(reads)}}};")
    lines.append(f"static const float SPAN = {HIGH - LOW:.9g}f, HIGH = {HIGH:.9g}f;")
    for name, values in tables.items():
        numbers = ", ".join(f"{number:#.9g}f" for number in values.flatten().tolist())  # enough digits to be exact
        lines.append(f"static const float {name}[] = {{{numbers}}};")
    return SOURCE.replace("TABLES", "\n".join(lines))


def largest_difference(circuit: Circuit, source: Path, observations: Tensor) -> float | None:
    """Compiles the C, and returns how far it is from torch over observations (T, 8); None without a compiler."""
    compiler, library = shutil.which("cc"), source.with_suffix(".so").resolve()
    if compiler is None:
        return None
    words = [compiler, "-std=c99", "-O2", "-Wall", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
    subprocess.run(words, check=True)
    step = ctypes.CDLL(str(library)).circuit_step
    state, action, found = (ctypes.c_float * NEURONS)(), (ctypes.c_float * ACTIONS)(), []
    for observation in observations.tolist():
        step(state, (ctypes.c_float * SENSORS)(*observation), action)
        found.append([*state, *action])
    actions, states = circuit(observations[:, None], torch.zeros(1, NEURONS))
    expected = torch.cat([states, actions.clamp(-1, 1)], dim=-1)[:, 0].detach()
    return float((torch.tensor(found) - expected).abs().max())


def main() -> None:
    """Teaches, proves, writes, and reports."""
    parser = argparse.ArgumentParser(description="Teach a small circuit to run, prove what it cannot do, write its C.")
    parser.add_argument("--minutes", type=float, default=3.0, help="how much work, in minutes of a common core")
    parser.add_argument("--seed", type=int, default=0, help="everything random follows from it")
    parser.add_argument("--out", type=Path, default=Path("whole"), help="the folder of the weights and the C")
    asked = parser.parse_args()
    torch.set_num_threads(1)  # at this size more threads only wait for each other
    torch.manual_seed(asked.seed)
    started, computed = time.perf_counter(), time.process_time()
    count = min(12, max(2, round(4 * asked.minutes)))
    circuit, teacher = Circuit(), shipped_teacher()
    mujoco.set_mju_user_warning(lambda _: None)  # about an old setting in Gymnasium's file, which still holds
    envs = [gymnasium.make("HalfCheetah-v5", disable_env_checker=True).unwrapped for _ in range(count)]
    mujoco.set_mju_user_warning(None)
    distil(circuit, teacher, envs, asked.minutes, asked.seed)
    asked.out.mkdir(parents=True, exist_ok=True)
    save_file(circuit.state_dict(), asked.out / "circuit.safetensors")
    print(f"\n{NEURONS} neurons, {sum(p.numel() for p in circuit.parameters()):,} parameters; in {count} new episodes:")
    for share in (0.0, RANDOM):
        best = play(envs, teacher, None, np.random.default_rng(2**31), 0.0, np.full(count, share))[2].mean()
        positions, _, own = play(envs, teacher, circuit, np.random.default_rng(2**31), 0.0, np.full(count, share))
        means = f"teacher {best:,.0f}, circuit {own.mean():,.0f} (lowest {own.min():,.0f})"
        print(f"  {means}, {100 * own.mean() / best:.1f} % of it, with {100 * share:.0f} % random actions")
    shown = certify(circuit, 3.0)
    print("Shown for all observations within 3 standard deviations, in episodes of any length:")
    for name, (low, high) in (("states", shown["states"]), ("time constants", shown["time constants"])):
        print(f"  {name}: {low.min():.3f} to {high.max():.3f}; the narrowest is {(high - low).min():.3f} wide")
    print("  actions before limits:", ", ".join(f"{a:.1f} to {b:.1f}" for a, b in zip(*shown["actions"], strict=True)))
    print(f"  after {shown['steps']} steps two pasts differ in no action by more than 1 % of its range")
    print(f"  by itself, a neuron forgets by a factor of {shown['forgets']:.4f} a step, or faster")
    source = asked.out / "circuit.c"
    source.write_text(c_of(circuit))
    most = largest_difference(circuit, source, positions[:, 0])
    compared = "no cc is here to compile it" if most is None else f"at most {most:.1e} from torch in {STEPS:,} steps"
    print(f"C: {source}, {source.stat().st_size:,} bytes of text, {4 * NEURONS} bytes of state, {compared}")
    print(f"It took {time.perf_counter() - started:.0f} s, {time.process_time() - computed:.0f} s of processor time.")


if __name__ == "__main__":
    main()
