"""Where the model and the server are. A test whose variable is missing is skipped and says which.

Written by AutoAdapter 0.1.0 from adapter/tests/conftest.py.j2; change the plan, not this file.
"""

import json
import os
import sys
from pathlib import Path

import httpx
import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tokenizer"))

TIMEOUT_SECONDS = 300.0


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """Folder of the checkpoint that is served."""
    folder = os.environ.get("AUTOADAPTER_MODEL")
    if not folder:
        pytest.skip("AUTOADAPTER_MODEL is not set: it names the model folder")
    return Path(folder)


@pytest.fixture(scope="session")
def server() -> httpx.Client:
    """A client of the running server."""
    url = os.environ.get("AUTOADAPTER_BASE_URL")
    if not url:
        pytest.skip("AUTOADAPTER_BASE_URL is not set: it names the server, http://127.0.0.1:8000")
    key = os.environ.get("AUTOADAPTER_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=TIMEOUT_SECONDS)


@pytest.fixture(scope="session")
def corpus() -> dict[str, str]:
    """Texts in many scripts, with emoji and code."""
    texts: dict[str, str] = json.loads((HERE / "corpus.json").read_text(encoding="utf-8"))
    return texts
