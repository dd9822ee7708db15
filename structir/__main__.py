"""`python -m structir`: the command line."""

import sys

from structir.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
