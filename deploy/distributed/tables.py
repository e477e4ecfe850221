"""The tables of a store in HBase, divided beforehand: what an operator does once in HBase's shell.

    python -m deploy.distributed.tables FOLDER REGIONS [--config FILE] [--set NAME=VALUE]…
In: the folder with a server's `hbase-site.xml`, the words of the settings. Out: every table that
was missing; then this process waits for its end, so that others may need it. Never: a table that
is there: how that one is divided HBase has decided meanwhile.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from deploy.distributed.layout import HbasePlan
from deploy.errors import Unavailable
from deploy.roles.table import environment
from deploy.servers.hbase_shell import run_shell
from deploy.settings.composed import Settings, load_arguments
from deploy.setup.server_jars import hbase_shell_jars
from deploy.supervisor.child import Child
from deploy.supervisor.process_end import end_with_the_supervisor
from ingest.store.hbase.tables import REGIONS
from ingest.store.open import hbase_connection, hbase_statements
from spark_apps.session.retry import retry

NAME = "hbase-tables"
READY_LINE = f"{NAME}: ready"
REGIONS_PER_SERVER = 2
WAIT_S = 240.0  # for HBase, whose Thrift servers listen before it can be asked
_TABLE = re.compile(r"create '(\w+)'")


def tables_process(settings: Settings, plan: HbasePlan, needs: Sequence[str]) -> Child:
    """`needs`: the Thrift servers, by which it asks for the tables that are there."""
    folder = plan.home / needs[0]
    words = ["deploy.distributed.tables", str(folder), str(regions_for(plan.region_servers))]
    return Child(
        name=NAME,
        command=(sys.executable, "-m", *words, *settings.arguments),
        environment=environment(),
        needs=tuple(needs),
        ready_line=READY_LINE,
    )


def regions_for(servers: int) -> int:
    """Of each table: some for every server. Pure."""
    return next((n for n in REGIONS if n >= REGIONS_PER_SERVER * servers), REGIONS[-1])


def missing(statements: Sequence[str], there: Collection[str]) -> list[str]:
    """Those that make a table which is not there. Pure."""
    return [one for one in statements if _TABLE.findall(one)[0] not in there]


def make_tables(settings: Settings, folder: Path, regions: int) -> int:
    """Make what is missing; how many. Raises `Unavailable`, `StoreError`."""
    url = settings.store.records_url(settings.site)
    hbase, _ = hbase_connection(url)
    with hbase.session() as session:
        there = {session.full_name(name) for name in session.tables()}
    hbase.close()
    wanted = missing(hbase_statements(url, settings.retention, regions), there)
    if wanted:
        run_shell(folder, wanted)
    return len(wanted)


def main(words: list[str]) -> None:
    """Make them, say so, and wait; ends with the supervisor that started it."""
    folder, regions, *arguments = words
    end_with_the_supervisor()
    work = partial(make_tables, load_arguments(arguments), Path(folder), int(regions))
    try:
        hbase_shell_jars()
        made = retry(work, threading.Event(), NAME, WAIT_S)
        print(f"made {made} tables of {regions} regions", flush=True)
    except Unavailable as error:
        print(f"{error}\nthe writer makes what is missing, of one region each", flush=True)
    print(READY_LINE, flush=True)
    os.execvp("sleep", ["sleep", "infinity"])


if __name__ == "__main__":
    main(sys.argv[1:])
