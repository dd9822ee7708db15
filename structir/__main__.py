"""`python -m structir`: the command line."""

from structir.tools.cli import main

if __name__ == "__main__":
    main()
