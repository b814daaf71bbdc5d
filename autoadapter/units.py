"""Sizes as people read them. Imports nothing: `--help` stays instant."""


def human_bytes(count: float) -> str:
    """1536 → `1.5 KiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} TiB"


def human_count(count: float) -> str:
    """134515008 → `134.5M`."""
    for unit in ("", "K", "M"):
        if count < 1000:
            return f"{count:.0f}{unit}" if unit == "" else f"{count:.1f}{unit}"
        count /= 1000
    return f"{count:.2f}B" if count < 1000 else f"{count / 1000:.2f}T"
