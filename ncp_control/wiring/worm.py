"""The touch reflex of a worm, synapse by synapse: neural circuit policies are modelled on this circuit."""

from __future__ import annotations

from typing import NamedTuple

from ncp_control.wiring.graph import Wiring


class Connection(NamedTuple):
    """What connects two classes of the worm's neurons.

    :param source: a class of neurons
    :param target: another class of neurons
    :param contacts: number of chemical synapses or gap junctions between all cells of the two classes
    :param polarity: +1 or -1 for a chemical synapse, 0 for a gap junction
    :param sign: where the polarity comes from: "inferred" in the literature, "assumed" here, "none" for a gap junction
    """

    source: str
    target: str
    contacts: int
    polarity: int
    sign: str


INPUTS = ("head", "body", "tail")
TOUCHED = (("head", "ALM"), ("head", "AVM"), ("body", "PVD"), ("tail", "PLM"))
# How many cells of the worm each neuron stands for. REV stands for DA1-9 and VA1-12, FWD for DB1-7 and VB1-11.
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

# Listed in the direction from the touch cells to the motor neurons, but current flows both ways.
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
    """Returns the tap-withdrawal circuit of C. elegans, with which the worm moves away from a touch.

    Touched at the tail the worm goes forward, touched at the head it goes backward. A tap on the dish touches it
    everywhere, and the two sides compete (Rankin 1991, Wicks and Rankin 1995)::

        import ncp_control as nc
        cell = nc.LTC(3, nc.tap_withdrawal())  # 3 inputs, 11 neurons, 2 outputs

    The inputs are the stimuli: touch at the "head" (felt by ALM and AVM), harsh touch anywhere on the "body" (PVD), and
    touch at the "tail" (PLM). The touch cells are neurons here, the first inter layer, and not inputs like the sensory
    layer of an NCP, because they excite their own side through gap junctions, which connect neurons. Then come the
    inter neurons AVD, DVA and PVC, the command neurons AVA (backward) and AVB (forward), and the motor neurons REV and
    FWD, which stand for the A-type and B-type motor neurons. The left and right cells of a class are one neuron.

    It is certain that these synapses exist: they were seen in electron micrographs (White et al. 1986; contacts as in
    the digital edition of Witvliet et al. 2021, whole animal, added up over the cells of both classes). Some are left
    out: pairs of classes with a single contact, synapses of a class with itself, synapses from motor neurons, and
    synapses to motor neurons except from AVA, AVD, AVB and PVC to their own side.

    The signs are less certain: none was measured at the synapse. Those called "inferred" follow from the literature:
    touch cells excite their own side through gap junctions and inhibit the other side through synapses (Chalfie et al.
    1985, WormAtlas under AVM and PLM); AVD responds to touch at the head and PVC to touch at the tail, AVA drives the
    A-type and PVC the B-type (Chalfie et al. 1985); PVD and DVA keep both sides excitable (Wicks et al. 1996, WormAtlas
    under DVA). Those called "assumed" follow two assumptions: the sides inhibit each other, which Rakowski et al.
    (2013) found likely for most command neurons, and the neurons of one side excite each other.

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

    :param gap_junctions: false for cells other than LTC, which ignore gap junctions: then each becomes an excitatory
        synapse from its first neuron to its second, unless these have a synapse already
    """
    synapses = [(connection.source, connection.target, connection.polarity) for connection in SYNAPSES]
    gaps = [(connection.source, connection.target) for connection in GAP_JUNCTIONS]
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
