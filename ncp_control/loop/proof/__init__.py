"""Proofs about a circuit and its body as one system: from every start, with errors of the sensors, for ever."""

from ncp_control.loop.proof.adversary import attacked
from ncp_control.loop.proof.page import write_proof
from ncp_control.loop.proof.proving import Forever, LoopAttack, Proof, StartCell, body_named, prove
from ncp_control.loop.proof.training import Lesson, teach, write_taught

__all__ = [
    "Forever",
    "Lesson",
    "LoopAttack",
    "Proof",
    "StartCell",
    "attacked",
    "body_named",
    "prove",
    "teach",
    "write_proof",
    "write_taught",
]  # fmt: skip
