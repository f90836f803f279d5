"""The continuous-time GRU."""
