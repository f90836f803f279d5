"""Proofs about a circuit and its body as one system: from every start, with errors of the sensors, for ever."""

from ncp_control.loop.proof.proving import Forever, Proof, StartCell, body_named, prove
from ncp_control.loop.proof.training import Lesson, teach, write_taught

__all__ = ["Forever", "Lesson", "Proof", "StartCell", "body_named", "prove", "teach", "write_taught"]
