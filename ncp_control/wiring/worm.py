"""The touch reflex of a worm, the circuit that neural circuit policies take after, synapse by synapse."""

from __future__ import annotations

from typing import NamedTuple

from ncp_control.wiring.graph import Wiring


class Connection(NamedTuple):
    """What joins two classes of the worm's neurons.

    :param source: a class of neurons
    :param target: another
    :param contacts: chemical synapses or gap junctions, all cells of the two classes together
    :param polarity: of a chemical synapse; 0 for a gap junction
    :param sign: how its polarity is known: "inferred" by the literature, "assumed" here, or "none" for a gap junction
    """

    source: str
    target: str
    contacts: int
    polarity: int
    sign: str


INPUTS = ("head", "body", "tail")
TOUCHED = (("head", "ALM"), ("head", "AVM"), ("body", "PVD"), ("tail", "PLM"))
# How many cells of the worm a neuron here stands for; REV: DA1-9 and VA1-12, FWD: DB1-7 and VB1-11.
CELLS = {
    "ALM": 2, "AVM": 1, "PVD": 2, "PLM": 2, "AVD": 2, "DVA": 1, "PVC": 2, "AVA": 2, "AVB": 2, "REV": 21, "FWD": 18,
}  # fmt: skip

SYNAPSES = (
    Connection("ALM", "PVC", 9, -1, "inferred"),
    Connection("AVM", "PVC", 9, -1, "inferred"),
    Connection("AVM", "AVB", 12, -1, "inferred"),
    Connection("PLM", "AVA", 5, -1, "inferred"),
    Connection("PLM", "AVD", 5, -1, "inferred"),
    Connection("PLM", "PVC", 2, +1, "assumed"),
    Connection("PLM", "DVA", 5, +1, "assumed"),
    Connection("PVD", "AVA", 27, +1, "inferred"),
    Connection("PVD", "PVC", 30, +1, "inferred"),
    Connection("PVD", "DVA", 3, +1, "assumed"),
    Connection("AVD", "AVA", 63, +1, "inferred"),
    Connection("AVD", "REV", 28, +1, "inferred"),
    Connection("PVC", "AVB", 31, +1, "inferred"),
    Connection("PVC", "FWD", 48, +1, "inferred"),
    Connection("PVC", "AVA", 20, -1, "assumed"),
    Connection("PVC", "AVD", 13, -1, "assumed"),
    Connection("PVC", "DVA", 4, +1, "assumed"),
    Connection("DVA", "AVA", 4, +1, "inferred"),
    Connection("DVA", "PVC", 4, +1, "inferred"),
    Connection("AVA", "REV", 167, +1, "inferred"),
    Connection("AVA", "AVB", 2, -1, "assumed"),
    Connection("AVA", "PVC", 28, -1, "assumed"),
    Connection("AVA", "AVD", 4, +1, "assumed"),
    Connection("AVB", "AVA", 27, -1, "assumed"),
    Connection("AVB", "AVD", 3, -1, "assumed"),
)

# From the touch cells towards the motor neurons, though current flows either way.
GAP_JUNCTIONS = (
    Connection("ALM", "AVM", 2, 0, "none"),
    Connection("AVM", "AVD", 2, 0, "none"),
    Connection("PLM", "PVC", 2, 0, "none"),
    Connection("PVC", "AVA", 10, 0, "none"),
    Connection("DVA", "AVB", 2, 0, "none"),
    Connection("AVA", "REV", 102, 0, "none"),
    Connection("AVB", "FWD", 55, 0, "none"),
)


def tap_withdrawal(gap_junctions: bool = True) -> Wiring:
    """The tap-withdrawal circuit of C. elegans: touched at the tail the worm goes forward, at the head backward.

    A tap on its dish touches it everywhere, and the two sides compete (Rankin 1991, Wicks and Rankin 1995)::

        import ncp_control as nc
        cell = nc.LTC(3, nc.tap_withdrawal())  # 3 inputs, 11 neurons, 2 outputs

    Inputs are the stimuli: touch of the "head" (felt by ALM and AVM), harsh touch anywhere on the "body" (PVD), and
    touch of the "tail" (PLM). The touch cells are neurons here, the first inter layer, and not inputs as the sensory
    layer of an NCP is, because they excite their own side through gap junctions, which join neurons. Behind them are
    the inter neurons AVD, DVA and PVC, the command neurons AVA (backward) and AVB (forward), and the motor neurons REV
    and FWD, which stand for the A-type and B-type motor neurons. Left and right cells of a class are one neuron.

    That a synapse exists is certain: it was seen in electron micrographs (White et al. 1986; contacts as in the digital
    edition of Witvliet et al. 2021, whole animal, added up over the cells of both classes). Left out are pairs of
    classes with a single contact, synapses of a class with itself, what motor neurons send back, and contacts with
    motor neurons other than those of AVA, AVD, AVB and PVC with their own side's.

    Signs are less certain: none was measured at the synapse. "inferred": touch cells excite their own side by gap
    junctions and inhibit the other by synapses (Chalfie et al. 1985, WormAtlas under AVM and PLM); AVD serves touch of
    the head, PVC that of the tail, AVA drives the A-type, PVC the B-type (Chalfie et al. 1985); PVD and DVA keep both
    sides excitable (Wicks et al. 1996, WormAtlas under DVA). "assumed" here: the sides inhibit each other, as Rakowski
    et al. (2013) found likely of most command neurons, and the neurons of a side excite each other.

    ======== ======== ==== ======== ========
    from     to       n    polarity sign
    ======== ======== ==== ======== ========
    ALM      PVC      9    -        inferred
    AVM      PVC      9    -        inferred
    AVM      AVB      12   -        inferred
    PLM      AVA      5    -        inferred
    PLM      AVD      5    -        inferred
    PLM      PVC      2    +        assumed
    PLM      DVA      5    +        assumed
    PVD      AVA      27   +        inferred
    PVD      PVC      30   +        inferred
    PVD      DVA      3    +        assumed
    AVD      AVA      63   +        inferred
    AVD      REV      28   +        inferred
    PVC      AVB      31   +        inferred
    PVC      FWD      48   +        inferred
    PVC      AVA      20   -        assumed
    PVC      AVD      13   -        assumed
    PVC      DVA      4    +        assumed
    DVA      AVA      4    +        inferred
    DVA      PVC      4    +        inferred
    AVA      REV      167  +        inferred
    AVA      AVB      2    -        assumed
    AVA      PVC      28   -        assumed
    AVA      AVD      4    +        assumed
    AVB      AVA      27   -        assumed
    AVB      AVD      3    -        assumed
    ALM      AVM      2    gap      none
    AVM      AVD      2    gap      none
    PLM      PVC      2    gap      none
    PVC      AVA      10   gap      none
    DVA      AVB      2    gap      none
    AVA      REV      102  gap      none
    AVB      FWD      55   gap      none
    ======== ======== ==== ======== ========

    :param gap_junctions: false for cells other than LTC, which leave gap junctions out: then an excitatory synapse
        runs from the first neuron of each to the second, unless there is a synapse already
    """
    synapses = [(one.source, one.target, one.polarity) for one in SYNAPSES]
    gaps = [(one.source, one.target) for one in GAP_JUNCTIONS]
    if not gap_junctions:
        there = {(source, target) for source, target, _ in synapses}
        synapses += [(*pair, 1) for pair in gaps if pair not in there]
    return Wiring.from_edges(
        INPUTS,
        inter=[["ALM", "AVM", "PVD", "PLM"], ["AVD", "DVA", "PVC"]],
        command=["AVA", "AVB"],
        motor=["REV", "FWD"],
        sensory=TOUCHED,
        synapses=synapses,
        gap_junctions=gaps if gap_junctions else [],
    )
