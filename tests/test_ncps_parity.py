"""Networks read from the `ncps` package give what it gives: the same outputs, states and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ncp_control as nc
from ncp_control.ncps_reader import neuron_order, read_wiring

ncps_torch = pytest.importorskip("ncps.torch")
wirings = pytest.importorskip("ncps.wirings")

# All of this is in float64, where no other equation hides behind rounding. What is left, up to 2e-7 in gradients, is
# the epsilon of 1e-8 that ncps adds to denominators.
EXACT = 1e-6

NEURON_PARAMETERS = {"gleak_raw": "gleak", "vleak": "vleak", "cm_raw": "cm"}
SYNAPSE_PARAMETERS = {"w_raw": "w", "mu": "mu", "sigma": "sigma", "E": "erev"}
MAPS = {"input_scale": "input_w", "input_shift": "input_b", "output_scale": "output_w", "output_shift": "output_b"}


@pytest.fixture(autouse=True)
def in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def ncps_ncp():
    return wirings.NCP(
        inter_neurons=9,
        command_neurons=7,
        motor_neurons=3,
        sensory_fanout=4,
        inter_fanout=3,
        recurrent_command_synapses=6,
        motor_fanin=4,
        seed=5,
    )


PLANS = {
    "dense": lambda: wirings.FullyConnected(12, 5),
    "all motor": lambda: wirings.FullyConnected(8),
    "AutoNCP": lambda: wirings.AutoNCP(32, 6),
    "NCP": ncps_ncp,
    "Random": lambda: wirings.Random(10, 4, sparsity_level=0.4),
}


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    difference = (ours - theirs).detach().abs().max() / theirs.detach().abs().max().clamp(min=1e-12)
    return float(difference)


def ltc_pair(plan: str, implicit: bool = False, inputs: int = 7, **settings):
    torch.manual_seed(3)
    theirs = ncps_torch.LTC(inputs, PLANS[plan](), implicit_param_constraints=implicit, **settings)
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad and parameter.dim() == 1 and parameter.shape[0] != theirs.state_size:
                parameter += 0.1 * torch.randn_like(parameter)
    return theirs, nc.from_ncps(theirs)


@pytest.mark.parametrize("implicit", [False, True], ids=["clipped", "softplus"])
@pytest.mark.parametrize("plan", PLANS)
def test_ltc_outputs_states_and_every_gradient_agree(plan, implicit):
    theirs, ours = ltc_pair(plan, implicit)
    order = torch.as_tensor(neuron_order(theirs.rnn_cell._wiring))
    x_theirs = torch.randn(4, 20, 7, requires_grad=True)
    x_ours = x_theirs.detach().clone().requires_grad_()
    state_theirs = torch.rand(4, theirs.state_size, requires_grad=True)
    state_ours = state_theirs.detach()[:, order].clone().requires_grad_()
    out_theirs, last_theirs = theirs(x_theirs, state_theirs)
    out_ours, last_ours = ours(x_ours, state_ours)
    assert relative(out_ours, out_theirs) < EXACT
    assert relative(last_ours, last_theirs[:, order]) < EXACT

    weights = torch.randn_like(out_theirs)
    (out_theirs * weights).sum().backward()
    (out_ours * weights).sum().backward()
    cell, reference = ours.cell, theirs.rnn_cell
    synapses = (order[cell.source], order[cell.target])
    sensory = (cell.sensory_source, order[cell.sensory_target])
    pairs = {"inputs": (x_ours.grad, x_theirs.grad), "state": (state_ours.grad, state_theirs.grad[:, order])}
    for name, their_name in NEURON_PARAMETERS.items():
        pairs[name] = (getattr(cell, name).grad, getattr(reference, their_name).grad[order])
    for name, their_name in SYNAPSE_PARAMETERS.items():
        pairs[name] = (getattr(cell, name).grad, getattr(reference, their_name).grad[synapses])
        sensory_grad = getattr(reference, f"sensory_{their_name}").grad[sensory]
        pairs[f"sensory_{name}"] = (getattr(cell, f"sensory_{name}").grad, sensory_grad)
    for name, their_name in MAPS.items():
        grad = getattr(reference, their_name).grad
        pairs[name] = (getattr(cell, name).grad, grad[order[cell.wiring.motor]] if "output" in name else grad)
    assert len(pairs) == 17
    for name, (mine, their) in pairs.items():
        if name.endswith("_raw") and not implicit:
            mine = mine / torch.sigmoid(getattr(cell, name).detach())  # the softplus between raw and positive
        assert relative(mine, their) < EXACT, name


def test_ltc_agrees_with_irregular_time():
    theirs, ours = ltc_pair("AutoNCP")
    times = torch.rand(1, 15) * 3 + 0.1  # one row: with more rows ncps broadcasts the times wrongly
    x = torch.randn(1, 15, 7)
    assert relative(ours(x, elapsed=times)[0], theirs(x, timespans=times)[0]) < EXACT


@pytest.mark.parametrize(("input_map", "output_map"), [("linear", None), (None, "linear"), (None, None)])
def test_ltc_agrees_with_every_input_and_output_map(input_map, output_map):
    theirs, ours = ltc_pair("NCP", input_mapping=input_map, output_mapping=output_map)
    x = torch.randn(2, 9, 7)
    assert relative(ours(x)[0], theirs(x)[0]) < EXACT


def test_only_existing_synapses_have_parameters():
    theirs, ours = ltc_pair("AutoNCP")
    wiring = theirs.rnn_cell._wiring
    synapses = int(np.abs(wiring.adjacency_matrix).sum())
    sensory = int(np.abs(wiring.sensory_adjacency_matrix).sum())
    assert ours.cell.w_raw.shape == (synapses,)
    assert ours.cell.sensory_w_raw.shape == (sensory,)
    # the package returns the number of recurrent synapses for both
    assert theirs.rnn_cell.sensory_synapse_count == synapses != sensory


@pytest.mark.parametrize("plan", PLANS)
def test_a_wiring_is_read_with_its_polarities(plan):
    theirs = PLANS[plan]()
    theirs.build(6)
    ours = read_wiring(theirs)
    order = neuron_order(theirs)
    back = np.zeros_like(theirs.adjacency_matrix)
    for source, target, polarity in ours.synapses:
        back[order[source], order[target]] = polarity
    sensory = np.zeros_like(theirs.sensory_adjacency_matrix)
    for source, target, polarity in ours.sensory:
        sensory[source, order[target]] = polarity
    assert (back == theirs.adjacency_matrix).all()
    assert (sensory == theirs.sensory_adjacency_matrix).all()
    assert sorted(order.tolist()) == list(range(theirs.units))
    assert ours.outputs == theirs.output_dim
    assert (order[ours.motor] == np.arange(theirs.output_dim)).all()  # motor neurons come first in ncps and last here


CFCS = {
    "backbone": dict(units=9),
    "two backbone layers": dict(units=9, backbone_units=20, backbone_layers=2),
    "no backbone": dict(units=9, backbone_layers=0),
    "wired dense": dict(units=lambda: wirings.FullyConnected(9)),
    "wired AutoNCP": dict(units=lambda: wirings.AutoNCP(20, 4)),
    "wired NCP": dict(units=ncps_ncp),
}


def cfc_pair(kind: str, mode: str, **settings):
    torch.manual_seed(4)
    settings = {**CFCS[kind], **settings}
    if callable(settings["units"]):
        settings["units"] = settings["units"]()
    theirs = ncps_torch.CfC(6, mode=mode, **settings)
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn_like(parameter)
    return theirs, nc.from_ncps(theirs)


@pytest.mark.parametrize("mode", ["default", "no_gate", "pure"])
@pytest.mark.parametrize("kind", CFCS)
def test_cfc_outputs_states_and_input_gradients_agree(kind, mode):
    theirs, ours = cfc_pair(kind, mode)
    times = torch.rand(1, 12) + 0.2
    x_theirs = torch.randn(3, 12, 6, requires_grad=True)
    x_ours = x_theirs.detach().clone().requires_grad_()
    out_theirs, last_theirs = theirs(x_theirs, timespans=times)
    out_ours, last_ours = ours(x_ours, elapsed=times.expand(3, 12))
    assert relative(out_ours, out_theirs) < EXACT
    assert relative(last_ours, last_theirs) < EXACT
    out_theirs.square().sum().backward()
    out_ours.square().sum().backward()
    assert relative(x_ours.grad, x_theirs.grad) < EXACT


@pytest.mark.parametrize("mode", ["default", "no_gate", "pure"])
def test_cfc_parameter_gradients_agree(mode):
    theirs, ours = cfc_pair("backbone", mode)
    x = torch.randn(3, 12, 6)
    theirs(x)[0].square().sum().backward()
    ours(x)[0].square().sum().backward()
    reference, cell = theirs.rnn_cell, ours.cell
    maps = [reference.ff1] if mode == "pure" else [reference.ff1, reference.ff2, reference.time_a, reference.time_b]
    assert relative(cell.head.grad, torch.cat([layer.weight.grad for layer in maps])) < EXACT
    assert relative(cell.bias.grad, torch.stack([layer.bias.grad for layer in maps])) < EXACT
    assert relative(cell.backbone[0].weight.grad, reference.backbone[0].weight.grad) < EXACT
    assert relative(cell.backbone[0].bias.grad, reference.backbone[0].bias.grad) < EXACT
    if mode == "pure":
        assert relative(cell.w_tau.grad, reference.w_tau.grad[0]) < EXACT
        assert relative(cell.A.grad, reference.A.grad[0]) < EXACT


@pytest.mark.parametrize("mode", ["default", "no_gate", "pure"])
def test_unwired_cfc_weight_gradients_agree(mode):
    theirs, ours = cfc_pair("no backbone", mode)
    x = torch.randn(3, 12, 6)
    theirs(x)[0].square().sum().backward()
    ours(x)[0].square().sum().backward()
    cell = ours.cell
    layers = [theirs.rnn_cell.ff1]
    if mode != "pure":
        layers += [theirs.rnn_cell.ff2, theirs.rnn_cell.time_a, theirs.rnn_cell.time_b]
    for row, layer in enumerate(layers):
        grad = layer.weight.grad
        assert relative(cell.sensory_weight.grad[row], grad[cell.sensory_target, cell.sensory_source]) < EXACT
        assert relative(cell.weight.grad[row], grad[cell.target, 6 + cell.source]) < EXACT


def test_a_wired_cfc_of_ours_is_sparser_than_theirs():
    """A deliberate difference: time gates and recurrence within a layer ignore the wiring in ncps, but not here."""
    theirs, read = cfc_pair("wired AutoNCP", "default")
    sparse = nc.CfC(6, read_wiring(theirs.rnn_cell._wiring))
    assert sparse.weight.shape[1] < read.cell.weight.shape[1] / 2
    assert sparse.sensory_weight.shape[1] < read.cell.sensory_weight.shape[1]


@pytest.mark.parametrize("kind", ["LTC", "LTC dense", "CfC", "wired CfC"])
def test_mixed_memory_agrees(kind):
    torch.manual_seed(5)
    make = {
        "LTC": lambda: ncps_torch.LTC(6, wirings.AutoNCP(14, 3), mixed_memory=True),
        "LTC dense": lambda: ncps_torch.LTC(6, wirings.FullyConnected(9, 4), mixed_memory=True),
        "CfC": lambda: ncps_torch.CfC(6, 11, mixed_memory=True),
        "wired CfC": lambda: ncps_torch.CfC(6, wirings.AutoNCP(14, 3), mixed_memory=True, mode="pure"),
    }
    theirs = make[kind]()
    ours = nc.from_ncps(theirs)
    x = torch.randn(3, 10, 6)
    assert relative(ours(x)[0], theirs(x)[0]) < EXACT


def test_a_cell_whose_wiring_was_built_again_is_read_by_its_masks():
    wiring = ncps_ncp()
    theirs = ncps_torch.LTC(7, wiring)
    before = wiring.adjacency_matrix.copy()
    ncps_torch.LTC(7, wiring)
    assert (before != wiring.adjacency_matrix).any()  # the second build drew other synapses
    x = torch.randn(2, 9, 7)
    assert relative(nc.from_ncps(theirs)(x)[0], theirs(x)[0]) < EXACT


def test_reading_leaves_the_random_state_alone():
    theirs, _ = ltc_pair("NCP")
    before = torch.get_rng_state()
    nc.from_ncps(theirs)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("pair", [ltc_pair, cfc_pair])
def test_single_precision_is_kept(pair):
    torch.set_default_dtype(torch.float32)
    theirs, _ = pair("NCP") if pair is ltc_pair else pair("wired NCP", "default")
    ours = nc.from_ncps(theirs)
    x = torch.randn(2, 6, ours.cell.inputs)
    found = ours(x)[0]
    assert found.dtype == torch.float32
    assert relative(found, theirs(x)[0]) < 1e-4  # some units of 6e-8 for each of up to 40 terms, through six steps


@pytest.mark.parametrize("settings", [{"epsilon": 0.3}, {"ode_unfolds": 2}, {"epsilon": 0.3, "mixed_memory": True}])
def test_every_setting_of_an_ltc_counts(settings):
    theirs, ours = ltc_pair("NCP", **settings)
    plain, _ = ltc_pair("NCP")
    plain.load_state_dict(theirs.state_dict(), strict=False)
    x, times = torch.randn(1, 9, 7), torch.rand(1, 9) + 0.1
    assert relative(ours(x, elapsed=times)[0], theirs(x, timespans=times)[0]) < EXACT
    assert relative(plain(x, timespans=times)[0], theirs(x, timespans=times)[0]) > 1e-3


MODULES = {
    "LTC": lambda **settings: ncps_torch.LTC(7, PLANS["NCP"](), **settings),
    "CfC": lambda **settings: ncps_torch.CfC(7, 9, **settings),
    "wired CfC": lambda **settings: ncps_torch.CfC(7, PLANS["NCP"](), **settings),
}


@pytest.mark.parametrize("kind", MODULES)
def test_an_order_of_dimensions_that_an_rnn_does_not_have_is_refused_and_the_advice_works(kind):
    theirs = MODULES[kind](batch_first=False)
    x = torch.randn(9, 2, 7)
    wanted = theirs(x)[0]
    with pytest.raises(ValueError, match=r"batch_first=False.*set module.batch_first = True.*inputs.transpose\(0, 1\)"):
        nc.from_ncps(theirs)
    theirs.batch_first = True
    assert relative(nc.from_ncps(theirs)(x.transpose(0, 1))[0], wanted.transpose(0, 1)) < EXACT


@pytest.mark.parametrize("kind", MODULES)
def test_the_last_output_alone_is_refused_and_the_advice_works(kind):
    theirs = MODULES[kind](return_sequences=False)
    x = torch.randn(2, 9, 7)
    wanted = theirs(x)[0]
    with pytest.raises(
        ValueError, match=r"return_sequences=False.*set module.return_sequences = True.*outputs\[:, -1\]"
    ):
        nc.from_ncps(theirs)
    theirs.return_sequences = True
    assert relative(nc.from_ncps(theirs)(x)[0][:, -1], wanted) < EXACT


def test_a_backbone_with_dropout_is_read_as_it_evaluates():
    theirs = ncps_torch.CfC(7, 9, backbone_layers=2, backbone_dropout=0.5)
    with pytest.raises(ValueError, match=r"drops out 0.5 of its backbone while it trains.*call module.eval\(\)"):
        nc.from_ncps(theirs)
    x = torch.randn(2, 9, 7)
    assert relative(nc.from_ncps(theirs.eval())(x)[0], theirs(x)[0]) < EXACT


def test_negative_conductances_are_refused_until_they_are_clipped():
    theirs = ncps_torch.LTC(7, PLANS["NCP"](), implicit_param_constraints=False)
    with torch.no_grad():
        theirs.rnn_cell.w.sub_(0.5)
    with pytest.raises(ValueError, match=r"a negative w: call module.rnn_cell.apply_weight_constraints\(\)"):
        nc.from_ncps(theirs)
    theirs.rnn_cell.apply_weight_constraints()
    x = torch.randn(2, 9, 7)
    assert relative(nc.from_ncps(theirs)(x)[0], theirs(x)[0]) < EXACT


def test_what_cannot_be_read_is_refused():
    with pytest.raises(TypeError, match=r"ncps.torch.LTC and ncps.torch.CfC, got Linear"):
        nc.from_ncps(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="proj_size"):
        nc.from_ncps(ncps_torch.CfC(4, 8, proj_size=3))
    with pytest.raises(ValueError, match="only lecun_tanh"):
        nc.from_ncps(ncps_torch.CfC(4, 8, activation="relu"))
    with pytest.raises(ValueError, match="one layer with fewer outputs"):
        nc.from_ncps(ncps_torch.CfC(4, wirings.FullyConnected(8, 3)))
