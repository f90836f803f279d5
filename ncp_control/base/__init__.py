"""What every room stands on: files and their kinds, text, progress, processes, devices, pages and pictures."""
