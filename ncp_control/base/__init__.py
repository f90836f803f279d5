"""What every room stands on: files and run folders, text, progress, processes, devices, pages and pictures."""
