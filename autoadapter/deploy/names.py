"""Names that Kubernetes, Compose and a checksum file accept, made from names that anybody may have chosen."""

import hashlib
import re

from autoadapter.artifacts import slugify

LONGEST = 45
"""Room for `llm-` before and a suffix after within a DNS label of 63."""


def object_name(model: str) -> str:
    """A DNS label that starts with a letter; two different models never share one.

    A name that the slug cannot carry (other scripts, punctuation, too long) gets six hex digits of its SHA-256.
    """
    slug = slugify(model)
    faithful = re.fullmatch(r"[A-Za-z0-9]+(?:[/._-][A-Za-z0-9]+)*", model, re.ASCII) and len(slug) <= LONGEST
    tail = "" if faithful else "-" + hashlib.sha256(model.encode(errors="surrogatepass")).hexdigest()[:6]
    return "llm-" + slug[: LONGEST - len(tail)].strip("-") + tail


def checksum_line(sha256: str, path: str) -> str:
    """One line that `sha256sum -c` reads, whatever the file is called.

    Source: GNU coreutils manual, "md5sum invocation": a leading backslash announces an escaped file name.
    """
    escaped = path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{'' if escaped == path else chr(92)}{sha256}  {escaped}\n"


def parse_checksum_line(line: str) -> tuple[str, str]:
    """(sha256, path) of a line that `checksum_line` made, without its line break.

    Raises:
        ValueError: not such a line.
    """
    escaped = line.startswith("\\")
    digest, separator, path = line.removeprefix("\\").partition("  ")
    if not separator or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError(line)
    return digest, re.sub(r"\\(.)", _unescape, path) if escaped else path


def _unescape(match: re.Match[str]) -> str:
    return {"n": "\n", "r": "\r"}.get(match[1], match[1])
