"""What the papers prove and measure about liquid networks, measured again: see `scripts/paper/`."""
