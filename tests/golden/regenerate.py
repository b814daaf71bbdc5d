"""Writes the golden trees anew: python tests/golden/regenerate.py. Read the diff before you commit it."""

from pathlib import Path

from golden_cases import CASES, write_case

if __name__ == "__main__":
    for case in CASES:
        write_case(case, Path(__file__).parent / case.name)
