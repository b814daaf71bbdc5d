"""Writes the golden trees anew: python tests/golden/regenerate.py. Read the diff before you commit it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from golden_cases import CASES, write_case

if __name__ == "__main__":
    for case in CASES:
        write_case(case, Path(__file__).parent / case.name)
