"""Runs one command and prints what it took. A process of its own, as small as Python can be.

Linux counts the memory of the parent as that of its child until the child is a program of its own, so that whoever
measures must hold less than what is measured.
"""

import json
import os
import sys
import time


def main() -> None:
    """`launcher.py SECONDS COMMAND…` → one JSON object."""
    limit, command = float(sys.argv[1]), sys.argv[2:]
    quiet = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, quiet, 0), (os.POSIX_SPAWN_DUP2, quiet, 1)]
    began = time.perf_counter()
    child = os.posix_spawnp(command[0], command, os.environ, file_actions=actions)
    while True:
        found, status, usage = os.wait4(child, os.WNOHANG)
        seconds = time.perf_counter() - began
        if found:
            break
        if seconds > limit:
            os.kill(child, 9)
            os.waitpid(child, 0)
            print(json.dumps({"timed_out": True}))
            return
        time.sleep(0.001)
    cpu = usage.ru_utime + usage.ru_stime
    code = os.waitstatus_to_exitcode(status)
    print(json.dumps({"code": code, "seconds": seconds, "cpu_seconds": cpu, "peak_mb": usage.ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
