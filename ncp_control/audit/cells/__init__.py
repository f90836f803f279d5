"""What is known about each kind of cell."""
