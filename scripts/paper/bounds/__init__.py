"""One study of the LTC paper: `python -m scripts.paper.bounds`."""
