"""A network without a memory, on the last observations."""
