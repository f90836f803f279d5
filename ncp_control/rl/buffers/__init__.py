"""What the recurrent algorithms train on: sequences of a rollout, and windows of a replay buffer."""
