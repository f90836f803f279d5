"""The scan on a GPU, compiled by Triton."""
