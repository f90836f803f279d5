"""Every neuron of the package in a row of its own: where its parts are, and which settings suit it.

No other place outside a neuron's own files names it: the command line, fits, distilling, certificates, C, laboratories
and their help pages read this catalogue. It imports a part only when that is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ncp_control.neurons.base import Cell


NOTHING: Mapping[str, Any] = MappingProxyType({})


class Neuron(NamedTuple):
    """One kind of neuron.

    :param name: the name of its class, by which command lines, files and `nc.NAME` know it
    :param module: the module of its class in `ncp_control.neurons`: its room, which is a folder, and the file
    :param about: its dynamics, as the guide's table has them
    :param bounded: what of it is bounded, as the guide's table has it
    :param short: a second name on command lines
    :param public: whether it is `nc.NAME`
    :param named: whether its name alone makes one; a `MixedMemory` needs another cell
    :param ranges: the class in its room's `ranges.py` for certificates; None if only its own bounds are certified
    :param code: the function in `code.py` that writes its C; None if it has no C form
    :param page: the function in `page.py` that gives its parameters to a laboratory; None if no laboratory can run it
    :param scripts: the scripts that run it in a laboratory, below `ncp_control/neurons`, in the order of loading
    :param kernels: the kinds of its programs that compiled kernels run (see `kind.py` and `kernel.h` of its room)
    :param fit_rate: the learning rate of fits, from trials with 32 to 64 neurons on traces of the half-cheetah
    :param rate: the learning rate of distilling with adam, from trials with 48 neurons on the half-cheetah's gait
    :param muon_rate: the learning rate of distilling with muon
    :param sparse_rate: the learning rate of distilling circuits of few synapses with muon
    :param muon: whether distilling takes muon unless told otherwise
    :param control: settings that suit control better than the class's own defaults
    :param student: settings that suit students better
    :param cost: how long a fit takes, roughly, in multiples of a short one
    """

    name: str
    module: str
    about: str
    bounded: str
    short: str | None = None
    public: bool = True
    named: bool = True
    ranges: str | None = None
    code: str | None = None
    page: str | None = None
    scripts: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    fit_rate: float = 0.005
    rate: float = 0.005
    muon_rate: float = 0.02
    sparse_rate: float = 0.02
    muon: bool = False
    control: Mapping[str, Any] = NOTHING
    student: Mapping[str, Any] = NOTHING
    cost: float = 1.0

    @property
    def home(self) -> str:
        """The module of the class."""
        return f"ncp_control.neurons.{self.module}"

    @property
    def room(self) -> str:
        """The package with everything that is known about the neuron."""
        return self.home.rpartition(".")[0]

    def part(self, file: str) -> Any:
        """Imports what the row names in a file of the room: "ranges", "code" or "page"."""
        return getattr(importlib.import_module(f"{self.room}.{file}"), getattr(self, file))

    @property
    def kind(self) -> type[Cell]:
        """The class."""
        kind: type[Cell] = getattr(importlib.import_module(self.home), self.name)
        return kind

    @property
    def word(self) -> str:
        """The name on command lines."""
        return self.short or self.name.lower()


OWN_BOUNDS = "see `cell.guarantee`"
NEURONS = (
    Neuron(
        "LTC", "ltc.neuron",
        "conductance synapses and gap junctions (the 2018 form, which neural circuit policies use)",
        "states and time constants",
        ranges="KnownLTC", code="ltc_piece", page="ltc_data", scripts=("ode.js", "ltc/neuron.js"),
        kernels=("ltc",),
        fit_rate=0.01, rate=0.05, cost=3.0,
        control={"init": "centred"},  # thresholds where normalised observations are
        student={"unfolds": 3},  # learns as well as with twice as many solver steps, in half the time
    ),
    Neuron(
        "NeuralLTC", "affine.neural_ltc",
        "Eq. 1 of the 2021 paper with f = act(gamma_r x + gamma I + mu)",
        "states and time constants with a sigmoid or `signed`; states with ReLU; neither with a plain tanh",
        ranges="KnownAffine", code="affine_piece", page="affine_data", scripts=("ode.js", "affine/neuron.js"),
        kernels=("affine", "affine_rk4"),
        cost=2.0,
    ),
    Neuron(
        "DualLTC", "dual.neuron",
        "a liquid neuron with two weights per synapse: `dx/dt = (tanh(f - b x) - x) / tau(g)`",
        "states and time constants",
        ranges="KnownDual", code="dual_piece", page="dual_data", scripts=("layered/neuron.js", "dual/neuron.js"),
        kernels=("dual",),
        rate=0.02, muon_rate=0.01, muon=True,
    ),
    Neuron(
        "CfC", "cfc.neuron",
        "the closed form: `default`, `no_gate`, `pure`; truly sparse on a wiring",
        "states (not in the mode `pure`)",
        ranges="KnownCfC", code="cfc_piece", page="cfc_data", scripts=("layered/neuron.js", "cfc/neuron.js"),
        kernels=("cfc",),
        rate=0.01,
    ),
    Neuron(
        "CTRNN", "affine.ctrnn",
        "a baseline: `dx/dt = f - x / tau` with the same f as `NeuralLTC`", OWN_BOUNDS,
        ranges="KnownAffine", code="affine_piece", page="affine_data", scripts=("ode.js", "affine/neuron.js"),
        kernels=("affine", "affine_rk4"),
    ),
    Neuron(
        "NeuralODE", "affine.neural_ode",
        "a baseline: `dx/dt = f`", OWN_BOUNDS,
        ranges="KnownAffine", code="affine_piece", page="affine_data", scripts=("ode.js", "affine/neuron.js"),
        kernels=("affine", "affine_rk4"),
        cost=3.0,
    ),
    Neuron(
        "CTGRU", "ct_gru.neuron",
        "a baseline: a GRU whose memories decay at several time scales", OWN_BOUNDS,
        code="ct_gru_piece", page="ct_gru_data", scripts=("ct_gru/neuron.js",),
        kernels=("ctgru",),
        cost=4.0,
    ),
    Neuron(
        "LSTM", "gated.neuron",
        "a baseline, as `torch.nn.LSTM`", OWN_BOUNDS,
        ranges="KnownLSTM", code="gated_piece", page="gated_data", scripts=("gated/neuron.js",),
        kernels=("lstm",),
        fit_rate=0.01, rate=0.003,
    ),
    Neuron(
        "GRU", "gated.neuron",
        "a baseline, as `torch.nn.GRU`", OWN_BOUNDS,
        ranges="KnownGRU", code="gated_piece", page="gated_data", scripts=("gated/neuron.js",),
        kernels=("gru",),
        rate=0.003,
    ),
    Neuron(
        "LaggedMLP", "lagged.neuron",
        "one layer on the last five inputs, to compare with cells that learn what to remember", OWN_BOUNDS,
        short="mlp", public=False,
        ranges="KnownLaggedMLP", code="lagged_piece", page="lagged_data", scripts=("lagged/neuron.js",),
        fit_rate=0.003, rate=0.001,
    ),
    Neuron(
        "MixedMemory", "mixed.neuron",
        "an LSTM as long-term memory before another cell; for agents, make a class of your own from it",
        "the inner cell's state",
        named=False, page="mixed_data", scripts=("mixed/neuron.js",),
    ),
)  # fmt: skip
UNKNOWN = Neuron("", "", "", "")  # what suits a neuron that is not in the catalogue


def plain_name(name: str) -> str:
    """Returns a name in lower case, without "-" and "_"."""
    return name.lower().replace("-", "").replace("_", "")


NAMES = {plain_name(name): row for row in NEURONS if row.named for name in (row.name, row.short) if name}


def row_named(name: str) -> Neuron:
    """Returns the row of a name as command lines have it, in any case, with or without "-" and "_"."""
    return NAMES.get(plain_name(name), UNKNOWN)


def row_of(kind: type) -> Neuron:
    """Returns the row of this very class; a subclass can step otherwise, so it has none."""
    return next((row for row in NEURONS if (row.home, row.name) == (kind.__module__, kind.__name__)), UNKNOWN)


def words() -> str:
    """Returns the names of all neurons for a help page."""
    return ", ".join(row.word for row in NEURONS if row.named)
