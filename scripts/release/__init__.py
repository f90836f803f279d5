"""Builds a release and tests it: `python -m scripts.release`, or `make release`."""
