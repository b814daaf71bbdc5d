"""Makes a tiny clone of an architecture and fits a `DecoderSpec` to it.

Run as `python fit_decoder_main.py REQUEST.json RESULT.json` in an interpreter that has torch and transformers.

Request: `config` (the checkpoint's config.json), `code` (folder of its code, null unless that may run), `clone` (folder
to write), `spec` and `capture` (files to write).
Result: `spec` (true where it was written), or `refused` with `why`, `block` and `candidates` ([name, error] pairs);
`network`: what kept code of the checkpoint from it; `clone`: what was made.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()


def progress(fraction: float, text: str) -> None:
    """Tell the parent where the work is."""
    print(f"@progress {fraction:.3f} {text}", flush=True)


def find_own_package() -> None:
    """Let this package be imported without putting anything before the interpreter's own packages."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE.parent]
    sys.path.append(str(HERE.parents[3]))


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Clone, fit, write. Refusals are results, not errors."""
    from huggingface_hub.errors import StrictDataclassError

    from autoadapter.probe.workers.capture import save_capture
    from autoadapter.probe.workers.clone import make_clone
    from autoadapter.probe.workers.fit.decoder import fit_decoder
    from autoadapter.probe.workers.fit.fitted import UnexplainedError

    folder = Path(request["clone"])
    code = Path(request["code"]) if request["code"] else None
    progress(0.05, "Making a tiny clone")
    try:
        report = make_clone(request["config"], folder, code=code)
    except (KeyError, ValueError, StrictDataclassError) as error:
        why = f"transformers does not know {error}" if isinstance(error, KeyError) else str(error)
        return {"refused": "clone", "why": why, "block": "the model", "candidates": []}
    made = {"clone": asdict(report)}
    if not report.causal:
        why = "a token changes the logits of earlier ones: it is not causal"
        return made | {"refused": "clone", "why": why, "block": "the model", "candidates": []}
    progress(0.3, "Fitting what it computes")
    try:
        spec = fit_decoder(folder, trust_remote_code=code is not None)
    except UnexplainedError as error:
        save_capture(folder, error.block, Path(request["capture"]), trust_remote_code=code is not None)
        return made | {"refused": "fit", "why": error.why, "block": error.block, "candidates": error.candidates}
    Path(request["spec"]).write_text(spec.to_json(), encoding="utf-8")
    return made | {"spec": True}


def main(request_file: str, result_file: str) -> None:
    """Read the request, write the result."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    network = "not needed"
    find_own_package()
    if request["code"]:
        from autoadapter.probe.workers.isolation import leave_network

        network = leave_network()
    result = work(request) | {"network": network}
    Path(result_file).write_text(json.dumps(result, default=str), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
