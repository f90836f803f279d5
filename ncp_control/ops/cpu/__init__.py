"""The scan on a CPU, compiled from C++."""
