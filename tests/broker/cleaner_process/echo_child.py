"""A child whose requests are orders to itself; run as a process of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

from broker.cleaner_process.real_child import Pause, serve
from broker.disk.port import DiskError, DiskFull


def work(request: bytes, pause: Pause) -> Iterator[bytes]:
    """One report a step; what else a step does, its name says."""
    for step in json.loads(request):
        if step == "wait":
            while True:
                pause(1 << 20)
        if step == "full":
            raise DiskFull("no room", 28)
        if step == "broken disk":
            raise DiskError("an error of the device", 5)
        if step == "unreadable":
            raise ValueError("no request")
        if step == "bug":
            raise ZeroDivisionError("a bug")
        if step == "die":
            os._exit(3)
        if step == "babble":
            sys.stdout.buffer.write(b"no message\n")
            sys.stdout.buffer.flush()
        if isinstance(step, int):
            pause(step)
        yield json.dumps([step, os.getpid(), os.getpriority(os.PRIO_PROCESS, 0)]).encode()


if __name__ == "__main__":
    serve(work)
