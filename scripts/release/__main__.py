"""Starts the release: `python -m scripts.release`."""

import sys

from scripts.release.release import main

if __name__ == "__main__":
    sys.exit(main())
