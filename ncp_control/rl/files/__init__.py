"""Agents on disk: policies, the state of a training run, and cards."""
