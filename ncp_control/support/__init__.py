"""What every floor may lean on: progress bars, devices, timing, worker processes, pictures, lazy imports."""
