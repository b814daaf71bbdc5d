"""`python -m autoadapter` is the `autoadapter` command."""

from autoadapter.cli.app import main

if __name__ == "__main__":
    main()
