"""Python workers of Spark that are disturbed around their writes into HBase.

Spark starts this module instead of `pyspark.daemon` (`spark.python.daemon.module`), so that what is
tested is left as it is. What happens is asked for by empty files in the folder that
`DATABUS_DISTURBED` names, each of them once, by whoever takes it first:

    slow-STAGE     behind the write the task sleeps, until Spark ends it for its twin
    die-STAGE      behind the write the task kills its executor
    stop-STAGE     before the write the worker stops itself; `late-STAGE` says that it wrote after all
STAGE is `rows` or `cells`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from pyspark import daemon

from ingest.store.hbase.connection import HbaseConnection, Row
from ingest.store.hbase.tables import REJECTED

VARIABLE = "DATABUS_DISTURBED"
SLOW_S = 30.0
FOLDER = Path(os.environ.get(VARIABLE, ""))
_put_many = HbaseConnection.put_many
_kill = os.kill


def asked(what: str) -> bool:
    """Whether this is to happen here: a file is taken once, in whatever process."""
    try:
        (FOLDER / what).unlink()
    except FileNotFoundError:
        return False
    return True


def disturbed_put_many(
    self: HbaseConnection, rows: Mapping[str, Sequence[Row]], timestamp_ms: int
) -> None:
    """Only rows have rejected ones among them, none or some."""
    stage = "rows" if REJECTED in rows else "cells"
    stopped = asked(f"stop-{stage}")
    if stopped:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the daemon's last word
        (FOLDER / f"stopped-{os.getpid()}").touch()
        _kill(os.getpid(), signal.SIGSTOP)
    _put_many(self, rows, timestamp_ms)
    if stopped:
        (FOLDER / f"late-{stage}").touch()
    if asked(f"slow-{stage}"):
        time.sleep(SLOW_S)
    if asked(f"die-{stage}"):
        executor = psutil.Process().parent()
        while executor is not None and "java" not in executor.name():
            executor = executor.parent()
        assert executor is not None
        executor.kill()


def spare_the_stopped(pid: int, number: int) -> None:
    """What ends a worker that Spark no longer wants; one on a machine that stands still is not
    reached by it."""
    if not (FOLDER / f"stopped-{pid}").exists():
        _kill(pid, number)


if __name__ == "__main__":
    HbaseConnection.put_many = disturbed_put_many  # type: ignore[method-assign]
    os.kill = spare_the_stopped
    daemon.manager()
