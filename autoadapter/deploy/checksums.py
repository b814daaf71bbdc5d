"""SHA256SUMS: written last, over everything but itself; read before anything is started."""

from pathlib import Path

from autoadapter.artifacts import BundleFile, Deployment
from autoadapter.deploy.names import checksum_line, parse_checksum_line
from autoadapter.deploy.weights import sha256_of
from autoadapter.errors import UserError
from autoadapter.rendering import write_atomically

SUMS = "SHA256SUMS"
_REBUILD = "autoadapter deploy --force"


def files_of(bundle: Path) -> tuple[BundleFile, ...]:
    """Every file of the bundle but the manifest and the sums, by name."""
    paths = sorted(path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file())
    return tuple(_entry(bundle, path) for path in paths if path not in (SUMS, Deployment.file_name))


def _entry(bundle: Path, path: str) -> BundleFile:
    file = bundle / path
    return BundleFile(path=path, bytes=file.stat().st_size, sha256=sha256_of(file))


def write_sums(bundle: Path) -> None:
    """Write `SHA256SUMS` over the whole tree, the manifest included."""
    listed = (*files_of(bundle), _entry(bundle, Deployment.file_name))
    lines = [checksum_line(file.sha256, file.path) for file in sorted(listed, key=lambda file: file.path)]
    write_atomically(bundle / SUMS, "".join(lines))


def is_untouched(bundle: Path) -> bool:
    """Whether a bundle is byte for byte what `deploy` wrote."""
    try:
        require_untouched(bundle)
    except UserError:
        return False
    return True


def require_untouched(bundle: Path) -> None:
    """Refuse a bundle that is not byte for byte what `deploy` wrote.

    Raises:
        UserError: there is no bundle, or a file was changed, removed or added.
    """
    expected = _expected(bundle)
    found = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()} - {SUMS}
    if missing := sorted(set(expected) - found):
        raise UserError(f"{bundle} is incomplete: {missing[0]} is missing.", hint=_REBUILD)
    if added := sorted(found - set(expected)):
        raise UserError(f"{bundle} was changed: {added[0]} does not belong to it.", hint=_REBUILD)
    changed = [path for path, digest in expected.items() if sha256_of(bundle / path) != digest]
    if changed:
        raise UserError(f"{bundle} was changed: {changed[0]} is not what was validated.", hint=_REBUILD)


def _expected(bundle: Path) -> dict[str, str]:
    try:
        lines = (bundle / SUMS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UserError(f"{bundle} holds no bundle.", hint="autoadapter deploy") from None
    try:
        pairs = [parse_checksum_line(line) for line in lines]
    except ValueError:
        raise UserError(f"{bundle / SUMS} is not a list of checksums.", hint=_REBUILD) from None
    return {path: digest for digest, path in pairs}
