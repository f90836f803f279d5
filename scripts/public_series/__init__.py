"""The papers' public series: read from files that you have, and a table of cells: `python -m scripts.public_series`."""
