"""Agents on disk: policies, the state of a training, cards."""
