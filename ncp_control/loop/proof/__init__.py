"""Proofs about a circuit and its body as one system: from every start, with errors of the sensors, for ever."""

from ncp_control.loop.proof.adversary import attacked
from ncp_control.loop.proof.page import write_proof
from ncp_control.loop.proof.printed import monitor_of
from ncp_control.loop.proof.proving import Forever, LoopAttack, Proof, Rest, StartCell, body_named, prove
from ncp_control.loop.proof.rests import with_rests
from ncp_control.loop.proof.training import Lesson, teach, write_taught

__all__ = [
    "Forever", "Lesson", "LoopAttack", "Proof", "Rest", "StartCell", "attacked", "body_named", "monitor_of", "prove",
    "teach", "with_rests", "write_proof", "write_taught",
]  # fmt: skip
