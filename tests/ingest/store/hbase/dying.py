"""A line to HBase on which a writer dies at any call: before it, behind it, or with the write still
on its way and carried out much later, as HBase does with what timed out at the client.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ingest.store.hbase.connection import Cells, HbaseConnection, ThriftSession

Result = TypeVar("Result")


class Died(Exception):
    """The process has died; no code below it may catch this."""


class Mortality:
    """How often a process dies, and the writes in flight. Shared by all processes of one story."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.rate = 0.0
        self.deaths = 0
        self.late: list[Callable[[], None]] = []

    def call(self, work: Callable[[], Result], late: Callable[[], None] | None = None) -> Result:
        """One call, or a death beside it."""
        while self.late and self.dice.random() < 0.3:
            self.late.pop(self.dice.randrange(len(self.late)))()
        if self.dice.random() >= self.rate:
            return work()
        self.deaths += 1
        kind = self.dice.choice(["before", "behind", "late"])
        if kind == "behind":
            work()
        elif kind == "late" and late is not None:
            self.late.append(late)
        raise Died(kind)


class DyingConnection(HbaseConnection):
    """Borrows out lines on which the writer may die."""

    def __init__(self, address: str, name: str, mortality: Mortality) -> None:
        host, _, port = address.partition(":")
        super().__init__([(host, int(port))], name)
        self._mortality = mortality

    @contextmanager
    def session(self) -> Iterator[ThriftSession]:
        """As the real one."""
        with super().session() as session:
            yield _DyingSession(session, self._mortality)


class _DyingSession(ThriftSession):
    def __init__(self, session: ThriftSession, mortality: Mortality) -> None:
        self._session = session
        self._mortality = mortality

    def tables(self) -> Mapping[str, int]:
        return self._session.tables()

    def create_table(self, name: str, options: Mapping[str, Any]) -> None:
        self._session.create_table(name, options)

    def scan(self, table: str, start: bytes, stop: bytes, rows_per_call: int) -> Iterator[object]:
        return self._session.scan(table, start, stop, rows_per_call)

    def get(self, table: str, key: bytes) -> Cells:
        return self._mortality.call(lambda: self._session.get(table, key))

    def get_many(
        self, table: str, keys: Sequence[bytes], columns: Sequence[bytes] | None = None
    ) -> dict[bytes, Cells]:
        return self._mortality.call(lambda: self._session.get_many(table, keys, columns))

    def put_many(self, table: str, rows: Iterable[tuple[bytes, Cells]], timestamp_ms: int) -> None:
        """A death in the middle leaves some of the rows written."""
        made = list(rows)
        some = made[: self._mortality.dice.randrange(len(made) + 1)]

        def put(which: list[tuple[bytes, Cells]]) -> None:
            self._session.put_many(table, which, timestamp_ms)

        self._mortality.call(lambda: put(some), lambda: put(made))
        put(made)

    def compare_and_put(
        self, table: str, key: bytes, column: bytes, expected: bytes | None, new: bytes
    ) -> bool:
        def late() -> None:
            self._session.compare_and_put(table, key, column, expected, new)

        return self._mortality.call(
            lambda: self._session.compare_and_put(table, key, column, expected, new), late
        )
