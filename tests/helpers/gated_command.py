"""`python -m helpers.gated_command` is `ncp-control`, whose processes stop at the gate of the environment.

The module is imported again by every process that the command spawns, so that they heed the gate as well.
"""

import os
import sys

from helpers.gates import VARIABLE, heed

heed(os.environ[VARIABLE])

if __name__ == "__main__":
    from ncp_control.cli import main

    sys.exit(main())
