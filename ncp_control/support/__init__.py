"""Helpers for every room: progress, devices, timing, worker processes, pictures, lazy imports, moved modules."""
