"""The data that recurrent algorithms train on: sequences of a rollout, and windows from a replay buffer."""
