"""`python -m ncp_control.cli` is `ncp-control`."""

import sys

from ncp_control.cli import main

sys.exit(main())
