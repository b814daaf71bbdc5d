"""Writes the golden bundles anew: `python -m tests.golden_deploy.regenerate`, then read the diff."""

import tempfile
from pathlib import Path

from autoadapter.rendering import replace_folder, write_tree
from tests.golden_deploy.deploy_golden_cases import CASES, bundle_tree

HERE = Path(__file__).parent


def main() -> None:
    """Replace every tree."""
    for case in CASES:
        with tempfile.TemporaryDirectory() as scratch, replace_folder(HERE / case.name) as draft:
            write_tree(draft, bundle_tree(case, Path(scratch)))


if __name__ == "__main__":
    main()
