"""A process without network, for code that came with a checkpoint. To be called before threads are started."""

import ctypes
import os
from pathlib import Path

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000  # linux/sched.h


def leave_network() -> str:
    """Move this process, while it has one thread, to a network namespace that has nothing in it.

    Returns:
        `namespace` where the kernel did it, `environment` where only the offline variables keep libraries quiet.
    """
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_USER | NEW_NETWORK) != 0:
        return "environment"
    own = Path("/proc/self")
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        try:
            (own / name).write_text(line, encoding="ascii")
        except OSError:  # without a map files still belong to the same user
            continue
    return "namespace"
