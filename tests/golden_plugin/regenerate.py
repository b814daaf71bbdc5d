"""Writes the golden plugins anew: `python -m tests.golden_plugin.regenerate`, then read the diff."""

from pathlib import Path

from tests.golden_plugin.plugin_golden_cases import CASES, write_case

HERE = Path(__file__).parent

if __name__ == "__main__":
    for case in CASES:
        write_case(case, HERE / case.name)
