"""Which processes of this machine have not read a file since it was changed.

In: the data directory, files. Out: names. Never: a process of another machine, which nobody here
knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from deploy.supervisor.state_file import SUPERVISOR, supervised

SERVERS = ("broker", "zookeeper", "spark", "hbase")
"""How those are called that read changed files by themselves, or none."""


def started_before(data_path: Path, files: Iterable[Path]) -> list[str]:
    """Of those that a supervisor keeps here, the ones that read an account when they start."""
    import psutil  # few commands need it

    newest_s = max((path.stat().st_mtime for path in files), default=0.0)
    found = []
    for one in supervised(data_path):
        if one.role == SUPERVISOR or one.role.startswith(SERVERS) or one.pid is None:
            continue
        with suppress(psutil.Error):  # it has just ended: its next process reads the files
            if psutil.Process(one.pid).create_time() < newest_s:
                found.append(one.role)
    return found
