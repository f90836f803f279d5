"""A trained recurrent network of any kind becomes a small liquid circuit, which learns what it does: `follow_network`.

Nothing is known of the network but its outputs. It runs over sequences of inputs, and a sparse circuit of `DualLTC`
neurons with a linear read-out is fitted to its outputs. The result is a policy file: the inputs are its observations,
and the outputs its actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from ncp_control.base.imports import import_named
from ncp_control.base.kinds import Kind, kind_of
from ncp_control.checkpoint import load as load_network
from ncp_control.data.normalizing import normalization
from ncp_control.dynamics.settings import FitSettings
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.policy_file import check_name, load_policy, write_policy
from ncp_control.rl.policies.recurrent import policy_around, rescaled
from ncp_control.series.data import Series, SeriesData
from ncp_control.series.fitting import fit_series
from ncp_control.series.model import SeriesModel
from ncp_control.series.splitting import split_series
from ncp_control.wiring import Random, WiringError

Array = NDArray[np.float64]
CELL, RATE, AVERAGE, MAX_GRAD_NORM = "dualltc", 0.01, 0.99, 1.0  # Muon's rate; these learnt ten networks of six kinds
ROWS = 1024  # steps in a batch, at most; and at most an eighth of the sequences
SEQUENCES, LENGTH = 2700, 64  # that are drawn; three quarters of them are for training
MOST_UNITS = 64
FEWEST = 20  # sequences, of which two are for validation and three for testing
MARGIN = 0.1  # by how much of their range the new outputs may leave that of the network's
SAME = 1e-5  # differences that are a smaller share of the outputs' standard deviation are rounding


@dataclass(frozen=True)
class Followed:
    """A circuit that follows a network.

    :param agent: the policy in the new file
    :param inputs: of how many numbers the network reads
    :param parameters: of the network
    :param sequences: on how many test sequences it was followed, and `steps`, of how many steps
    :param errors: the mean squared error of each output on these sequences, over the output's variance, (O,)
    """

    agent: LoadedPolicy
    inputs: int
    parameters: int
    sequences: int
    steps: int
    errors: Array

    @property
    def error(self) -> float:
        """The mean of the errors."""
        return float(self.errors.mean())


def follow_network(
    network: nn.Module,
    out: str | Path,
    data: Array | None = None,
    *,
    synapses: int = 300,
    steps: int = 8_000_000,
    seed: int = 0,
    note: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Followed:
    """Fits a liquid circuit to what a recurrent network does, and writes it as a policy file.

    The network has its initial state before every sequence. The outputs of the new file are limited to the range of the
    network's outputs, and a tenth of it on either side. After Ctrl-C the best circuit so far is written.

    Example::

        followed = follow_network(torch.nn.LSTM(2, 32, batch_first=True), "circuit.safetensors")
        print(followed.error)

    :param network: maps (B, T, I) to (B, T, O), or to (outputs, state): an LSTM, a GRU, an LTC or CfC of the `ncps`
        package, an `RNN`, or a module with one of them inside
    :param out: the new `.safetensors` file; replaced as a whole if it exists
    :param data: sequences of inputs (S, T, I) such as the network knows; by default they are drawn by `draw_inputs`
    :param synapses: how many synapses the circuit has at most
    :param steps: how many steps of sequences it learns from, one pass over all of them after the other
    :param seed: everything random follows from it
    :param note: anything worth keeping with the policy, as JSON values
    :param progress: show a progress bar on stderr
    """
    out = Path(out)
    check_name(out)
    for name, value in (("steps", steps), ("synapses", synapses)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    drawn = data is None
    inputs = draw_inputs(features_of(network), SEQUENCES, LENGTH, seed) if data is None else checked_inputs(data)
    units = units_of(network)
    if units > MOST_UNITS:
        raise ValueError(f"the network has {units} units, and a circuit can follow at most {MOST_UNITS}")
    network.eval()
    outputs = outputs_of(network, inputs)
    check_memory(network, inputs, outputs)
    parts = split_series(series_of(inputs, outputs), seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SeriesModel.of(parts.train, CELL, plan_of(inputs.shape[-1], synapses, seed))
    fit(model, parts, steps, seed, progress)
    low, high = outputs.min(axis=(0, 1)), outputs.max(axis=(0, 1))
    about = {
        "algo": "convert", "critic": "untrained", **(note or {}),
        "followed": {"drawn": drawn, "sequences": len(inputs), "steps": inputs.shape[1], "seed": seed},
    }  # fmt: skip
    write(model, out, low - MARGIN * (high - low), high + MARGIN * (high - low), about)
    agent = load_policy(out)
    tested, truth = (np.stack([getattr(one, name) for one in parts.test.series]) for name in ("inputs", "targets"))
    errors = ((actions_of(agent, tested) - truth) ** 2).mean(axis=(0, 1)) / truth.var(axis=(0, 1))
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return Followed(agent, inputs.shape[-1], parameters, len(tested), tested.shape[1], errors)


def load_source(word: str) -> nn.Module:
    """Returns the network that a word names.

    :param word: a `.safetensors` file of `save`, or `module:name`, which names a module of torch or a function that
        returns one
    """
    path = Path(word)
    if path.suffix == ".safetensors":
        if path.is_file() and kind_of(path) is not Kind.NETWORK:
            kind = kind_of(path)
            raise ValueError(
                f"{path} is {'no network' if kind is None else kind.value}: name a file of nc.save. An agent is taught "
                "to a circuit by ncp-control distil"
            )
        network: nn.Module = load_network(path)
        return network
    if ":" not in word:
        raise ValueError(
            f"{word} is no network: give MODULE:NAME, a .safetensors file of nc.save, or a .zip of an agent"
        )
    found = named(word, "network")
    made = found if isinstance(found, nn.Module) or not callable(found) else found()
    if not isinstance(made, nn.Module):
        raise ValueError(f"{word} is a {type(made).__name__}: name a torch.nn.Module, or a function that returns one")
    return made


def load_inputs(word: str, seed: int = 0) -> Array:
    """Returns the sequences of inputs that a word names, (S, T, I).

    :param word: a `.npy` file, an `.npz` file with one array or one named "inputs", or `module:function`, which
        names a function of the number of sequences and a `numpy.random.Generator`
    :param seed: the seed of the generator
    """
    path = Path(word)
    if path.suffix not in (".npy", ".npz"):
        draw = named(word, "function that draws inputs")
        if not callable(draw):
            raise ValueError(f"{word} is a {type(draw).__name__}: name a function of a number and a numpy Generator")
        return checked_inputs(draw(SEQUENCES, np.random.default_rng(seed)))
    try:
        loaded: Any = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is no array of numbers: write it with numpy.save") from error
    if path.suffix == ".npz":
        with loaded:
            names = loaded.files
            if "inputs" not in names and len(names) != 1:
                raise ValueError(f"{path} has the arrays {', '.join(names)}: name the one of the inputs 'inputs'")
            loaded = loaded["inputs" if "inputs" in names else names[0]]
    return checked_inputs(loaded)


def named(word: str, what: str) -> Any:
    """Returns what `module:name` names.

    :param word: the module and the name
    :param what: what it should be, for messages
    """
    module, colon, name = word.partition(":")
    if not (colon and module and name):
        raise ValueError(f"{word!r} names no {what}: give it as MODULE:NAME")
    return import_named(module, name, what)


def checked_inputs(values: Any) -> Array:
    """Returns sequences of inputs as float64, and refuses what is none."""
    inputs = np.asarray(values)
    if inputs.ndim != 3 or inputs.dtype.kind not in "fiu" or min(inputs.shape) < 1:
        raise ValueError(
            f"the data have the shape {inputs.shape} and the type {inputs.dtype}: give numbers of the shape "
            "(sequences, steps, inputs)"
        )
    if len(inputs) < FEWEST or inputs.shape[1] < 2:
        raise ValueError(
            f"the data have {len(inputs)} sequences of {inputs.shape[1]} steps: give at least {FEWEST} of at least 2"
        )
    if not np.isfinite(inputs).all():
        raise ValueError("the data contain NaN or infinity: clean them first")
    return inputs.astype(np.float64)


def draw_inputs(features: int, sequences: int = SEQUENCES, steps: int = LENGTH, seed: int = 0) -> Array:
    """Draws sequences whose values have a mean of 0 and a standard deviation of about 1, (S, T, I).

    A third of the sequences is white noise; a third is smoothed noise, from nearly white to random walks; and a third
    is sines of any frequency and phase with a little noise.

    :param features: the number of inputs
    :param sequences: how many sequences
    :param steps: how many steps each has
    :param seed: the seed of the numbers
    """
    random = np.random.default_rng(seed)
    shape = (sequences, steps, features)
    white = random.normal(size=shape)
    keep = random.uniform(0, 1, (sequences, features)) ** 0.25  # mostly near 1, where it moves slowly
    walks = white.copy()
    for k in range(1, steps):
        walks[:, k] = keep * walks[:, k - 1] + np.sqrt(1 - keep**2) * white[:, k]
    rates, phases = random.uniform(size=(2, sequences, 1, features))
    waves = np.sin(rates * np.arange(steps)[:, None] + 2 * np.pi * phases)
    sines = sqrt(2) * random.uniform(0.5, 1.2, (sequences, 1, features)) * waves + 0.1 * white
    kind = random.permutation(sequences)[:, None, None] % 3
    return np.where(kind == 0, white, np.where(kind == 1, walks, sines))


def features_of(network: nn.Module) -> int:
    """Returns how many inputs a network reads, which its first layer says."""
    for module in network.modules():
        for name in ("input_size", "in_features", "inputs"):
            if isinstance(size := getattr(module, name, None), int):
                return size
    raise ValueError("the network does not say how many inputs it reads: give --data (sequences, steps, inputs)")


def units_of(network: nn.Module) -> int:
    """Returns how many units the layers with a memory have in all; 0 if none says it."""
    units = 0
    for module in network.modules():
        if isinstance(module, nn.RNNBase):
            units += module.hidden_size * module.num_layers
        elif isinstance(size := getattr(module, "state_size", None), int) and not any(module.children()):
            units += size
    return units


def outputs_of(network: nn.Module, inputs: Array) -> Array:
    """Returns what a network tells of sequences, (S, T, O); refuses outputs that no circuit could follow.

    :param network: the network
    :param inputs: (S, T, I)
    """
    dtype = next((value.dtype for value in network.parameters() if value.is_floating_point()), torch.float32)
    device = next((value.device for value in network.parameters()), torch.device("cpu"))
    steps_first = isinstance(network, nn.RNNBase) and not network.batch_first
    parts = []
    for part in torch.as_tensor(inputs, dtype=dtype, device=device).split(256):
        try:
            with torch.no_grad():
                found: Any = network(part.transpose(0, 1) if steps_first else part)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise ValueError(f"the network refuses inputs of the shape {tuple(part.shape)}: {error}") from error
        outputs = found[0] if isinstance(found, tuple) else found
        if not isinstance(outputs, Tensor):
            raise ValueError(f"the network returns a {type(outputs).__name__}: let it return (B, T, O) first")
        outputs = outputs.transpose(0, 1) if steps_first and outputs.dim() == 3 else outputs
        if outputs.dim() != 3 or outputs.shape[:2] != part.shape[:2]:
            raise ValueError(
                f"the network maps {tuple(part.shape)} to {tuple(outputs.shape)}: let it return an output for every "
                "step, (B, T, O)"
            )
        parts.append(outputs.double().cpu().numpy())
    told: Array = np.concatenate(parts)
    if not np.isfinite(told).all():
        raise ValueError("the network's outputs contain NaN or infinity: train it again, or give --data that it knows")
    still = told.std(axis=(0, 1)) <= SAME * np.maximum(1e-3, np.abs(told).max(axis=(0, 1)))
    if still.any():
        raise ValueError(
            f"output {int(still.argmax())} of the network is always {told[0, 0, still.argmax()]:.4g}: leave it out, or "
            "give --data that moves it"
        )
    return told


def check_memory(network: nn.Module, inputs: Array, outputs: Array) -> None:
    """Refuses a network whose outputs do not follow from the inputs so far, or whose inputs leave no trace.

    :param network: the network
    :param inputs: (S, T, I)
    :param outputs: what it tells of them, (S, T, O)
    """
    inputs, outputs = inputs[:256], outputs[:256]
    least = SAME * outputs.std(axis=(0, 1))

    def moved(step: int, steps: slice) -> bool:
        other = inputs.copy()
        other[:, step] = np.roll(inputs[:, step], 1, axis=0) + 0.5 * inputs.std(axis=(0, 1))
        return bool((np.abs(outputs_of(network, other) - outputs)[:, steps] > least).any())

    if moved(-1, slice(0, -1)):
        raise ValueError("the network looks ahead: its outputs change with later inputs, which no circuit can follow")
    if not moved(0, slice(1, None)):
        raise ValueError(
            "the network is not recurrent: its outputs follow from the inputs of the same step alone, and need no "
            "circuit with a memory"
        )


def series_of(inputs: Array, outputs: Array) -> SeriesData:
    """Returns sequences and what is to be told of them as series."""
    series = tuple(Series(read, told) for read, told in zip(inputs, outputs, strict=True))
    return SeriesData(
        series,
        tuple(f"input {k}" for k in range(inputs.shape[-1])),
        tuple(f"output {k}" for k in range(outputs.shape[-1])),
    )


def plan_of(inputs: int, synapses: int, seed: int) -> Random:
    """Returns the wiring of a circuit: random synapses, about half of those that its neurons could have.

    :param inputs: how many inputs it reads
    :param synapses: how many synapses it has at most
    :param seed: the wiring follows from it
    """
    # With 300 synapses, 24 neurons of which 16 are read out followed better than 16, 20, 24 or 40 that all are.
    units = max(1, round(sqrt(2 * synapses)))
    sparsity = max(0.0, 1 - (synapses - 0.1) / (units * (units + inputs)))
    plan = Random(units, max(1, round(2 / 3 * units)), sparsity, seed)
    try:
        plan.build(inputs)
    except WiringError as error:
        raise ValueError(
            f"{synapses} synapses are too few for {inputs} inputs: ask for more with --synapses"
        ) from error
    return plan


def fit(model: SeriesModel, parts: Any, steps: int, seed: int, progress: bool) -> None:
    """Fits a model to series; Ctrl-C ends the fit as soon as there is a model that has learnt something."""
    sequences, length = len(parts.train.series), len(parts.train.series[0].inputs)
    settings = FitSettings(
        epochs=max(1, round(steps / (sequences * length))),
        batch=max(1, min(round(ROWS / length), sequences // 8)),
        length=length, learning_rate=RATE, optimizer="muon", schedule="cosine", average=AVERAGE,
        max_grad_norm=MAX_GRAD_NORM,
    )  # fmt: skip
    done = 0

    def count(epochs: int) -> None:
        nonlocal done
        done = epochs

    try:
        fit_series(model, parts, settings, seed=seed, device="cpu", progress=progress, on_epoch=count)
    except KeyboardInterrupt:
        if not done:
            raise


def write(model: SeriesModel, out: Path, low: Array, high: Array, note: dict[str, Any]) -> None:
    """Writes a fitted model as a policy file.

    :param model: the model
    :param out: the file
    :param low: the least outputs, and `high`, the greatest
    :param note: kept in the file
    """
    seen = spaces.Box(-np.inf, np.inf, (len(model.inputs),), np.float32)
    acted = spaces.Box(low.astype(np.float32), high.astype(np.float32))
    readout = rescaled(model.readout, model.target_std, model.target_mean)
    policy = policy_around(model.rnn.cell, [readout], seen, acted)
    scales = {"": (model.mean.double().numpy(), model.std.double().numpy() ** 2)}
    write_policy(policy, out, note, normalization(scales, 0.0, model.clip))


def actions_of(agent: LoadedPolicy, inputs: Array) -> Array:
    """Returns the actions of an agent whose observations are given, step by step, (S, T, A)."""
    state, starts, actions = None, np.ones(len(inputs), bool), []
    for step in range(inputs.shape[1]):
        action, state = agent.predict(inputs[:, step].astype(np.float32), state, starts, deterministic=True)
        actions.append(action)
        starts = np.zeros(len(inputs), bool)
    return np.stack(actions, axis=1).astype(np.float64)
