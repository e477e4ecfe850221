"""The record store in HBase for a backup: a snapshot of every table, all as of one moment.

Snapshots can be made in HBase's shell only, Thrift knows none. The shell is started and the tables
are flushed before ingest is asked to pause, so that the pause is that of the snapshots alone. That
ingest was between two attempts, or wrote nothing, is proved by the ledger: it is the same before
and after. A snapshot that holds a part of an attempt is like a driver's death in it.

In: the store's URL, the words that start the shell. Out: the snapshots' names. Never: a file of
HBase; it keeps the snapshots itself.
"""

from __future__ import annotations

import queue
import shlex
import subprocess
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from types import TracebackType

import msgspec

from bus.runtime.wall_clock import now_ms
from deploy.errors import OperatorError
from ingest.store.hbase.connection import HbaseConnection
from ingest.store.hbase.pause import PauseRequest
from ingest.store.open import hbase_connection, open_store
from ingest.store.port import StoreError

SHELL = "hbase shell -n"
SHELL_S = 300.0  # for one step; JRuby takes six seconds to begin on an idle machine, a flush longer
ANSWER_S = 10.0  # how long an ingest that has something to write may take for its batch
_LISTED_LINES = 20  # lines of the shell that are shown with an error


class TableSnapshots(msgspec.Struct, frozen=True, kw_only=True):
    """Table without the store's name -> snapshot. `paused_ms`: how long ingest had to wait."""

    url: str
    tables: dict[str, str]
    paused_ms: int
    answered: bool


class HbaseShell:
    """HBase's shell, statement by statement. Raises `OperatorError` with what it said."""

    def __init__(self, command: str) -> None:
        self._marks = 0
        self._lines: queue.Queue[str | None] = queue.Queue()
        try:
            self._process = subprocess.Popen(
                shlex.split(command), text=True, bufsize=1,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise OperatorError(
                f"HBase's shell ({command}) cannot be started: {error}; say --hbase-shell"
            ) from error
        threading.Thread(target=self._read, name="hbase-shell", daemon=True).start()

    def __enter__(self) -> HbaseShell:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def run(self, statements: Sequence[str]) -> list[str]:
        """Type them and wait until all are done; what the shell printed."""
        self._marks += 1
        mark = f"databus-{self._marks}-done"
        # The shell may print what it reads: the mark stands nowhere in that.
        ready = f"puts 'databus-{self._marks}' + '-done'; $stdout.flush"
        stdin = self._process.stdin
        try:
            if stdin is not None:
                stdin.write("\n".join([*statements, ready]) + "\n")
                stdin.flush()
        except OSError as error:
            raise OperatorError(f"HBase's shell has ended: {self._last_lines([])}") from error
        return self._until(mark)

    def _until(self, mark: str) -> list[str]:
        found: list[str] = []
        deadline = time.monotonic() + SHELL_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise OperatorError(
                    f"HBase's shell has not answered for {SHELL_S:.0f} s: {self._last_lines(found)}"
                ) from None
            if line is None:
                raise OperatorError(f"HBase's shell has ended: {self._last_lines(found)}")
            if mark in line:
                if any("ERROR" in one for one in found):
                    raise OperatorError(f"HBase's shell: {self._last_lines(found)}")
                return found
            found.append(line)

    def _last_lines(self, found: Sequence[str]) -> str:
        return " / ".join(line for line in found[-_LISTED_LINES:] if line.strip()) or "nothing"

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


def take_snapshots(url: str, command: str = SHELL) -> TableSnapshots:
    """Every table of the store. Raises `OperatorError`; then no snapshot of ours is left."""
    hbase, _ = hbase_connection(url)
    try:
        with closing(hbase), HbaseShell(command) as shell:
            return _take(url, hbase, shell)
    except StoreError as error:
        raise OperatorError(f"{url}: {error}") from error


def _take(url: str, hbase: HbaseConnection, shell: HbaseShell) -> TableSnapshots:
    names = _full_names(hbase)
    if not names:
        raise OperatorError(f"{url}: there are no tables of this name")
    stamp = now_ms()
    snapshots = {table: f"{full}_{stamp}" for table, full in names.items()}
    shell.run([f"flush '{full}'" for full in names.values()])
    request = PauseRequest(hbase)
    request.ask()
    try:
        answered = request.wait_until_answered(ANSWER_S)
        before, began_s = request.ledger(), time.monotonic()
        shell.run([f"snapshot '{names[one]}', '{name}'" for one, name in snapshots.items()])
        paused_ms = round((time.monotonic() - began_s) * 1000)
        same = request.ledger() == before
    finally:
        request.release()
    if not same:
        shell.run([f"delete_snapshot '{name}'" for name in snapshots.values()])
        raise OperatorError(
            f"{url}: ingest wrote while the tables were snapshotted (its last batch took longer "
            f"than {ANSWER_S:.0f} s); the snapshots are deleted: repeat it"
        )
    return TableSnapshots(url=url, tables=snapshots, paused_ms=paused_ms, answered=answered)


def put_back_snapshots(url: str, saved: Mapping[str, str], command: str, *, replace: bool) -> None:
    """The tables as they were. A writer that still runs is shut out afterwards: it belongs to what
    was replaced. Raises `OperatorError`."""
    hbase, _ = hbase_connection(url)
    try:
        with closing(hbase):
            there = _full_names(hbase)
            if there and not replace:
                raise OperatorError(f"{url}: its tables would be replaced; say --replace")
            with hbase.session() as session:
                names = {table: session.full_name(table) for table in saved}
            _put_back(url, names, saved, there, command)
            PauseRequest(hbase).release()  # the ledger was saved during one
        open_store(url, "write").close()
    except StoreError as error:
        raise OperatorError(f"{url}: {error}") from error


def _put_back(
    url: str,
    names: Mapping[str, str],
    saved: Mapping[str, str],
    there: Collection[str],
    command: str,
) -> None:
    with HbaseShell(command) as shell:
        found = "\n".join(shell.run(["list_snapshots"]))
        missing = [name for name in saved.values() if name not in found]
        if missing:
            raise OperatorError(f"{url}: HBase has no snapshot {', '.join(missing)} any more")
        for table, name in saved.items():
            shell.run(_statements(names[table], name, is_there=table in there))


def _statements(table: str, snapshot: str, *, is_there: bool) -> list[str]:
    if not is_there:
        return [f"clone_snapshot '{snapshot}', '{table}'"]
    # Of an earlier try that was interrupted it may be disabled already.
    return [
        f"disable '{table}' if is_enabled '{table}'",
        f"restore_snapshot '{snapshot}'",
        f"enable '{table}'",
    ]


def _full_names(hbase: HbaseConnection) -> dict[str, str]:
    with hbase.session() as session:
        return {table: session.full_name(table) for table in sorted(session.tables())}
