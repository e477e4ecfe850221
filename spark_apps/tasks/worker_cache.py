"""What a Python worker of Spark keeps between tasks: the one place where packages hold state there.

A worker serves many tasks, one at a time. Connections are made once per worker and not per task,
the register and the rules are read once per version; whatever failed is dropped, so that the next
task begins with a new one. Nothing grows: of each kind the ones that were used last are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from bus.settings import BusSettings
from ingest.store.open import hbase_connection
from spark_apps.publish.publisher import EventPublisher
from spark_apps.tasks.worker_heap import WorkerHeap

if TYPE_CHECKING:
    import pyarrow as pa

    from ingest.store.hbase.connection import HbaseConnection

Cached = TypeVar("Cached")
Work = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]

MAX_CACHED = 2
"""Versions of a value (a late task reads the one before the newest), stores and producers."""
TASK_TIMEOUT_MS = 8_000
"""A Thrift server that says nothing for so long is left: a task has 20 s, and a second server."""


class LastUsed(Generic[Cached]):
    """Invariant: at most `MAX_CACHED` entries, those that were asked for last."""

    def __init__(self, drop: Callable[[Cached], object] = lambda _: None) -> None:
        self._drop = drop
        self._entries: OrderedDict[Hashable, Cached] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Cached]) -> Cached:
        """What is kept under this key, else a new one."""
        if key not in self._entries:
            self._entries[key] = make()
        self._entries.move_to_end(key)
        found = self._entries[key]
        while len(self._entries) > MAX_CACHED:
            self._drop(self._entries.popitem(last=False)[1])
        return found

    def drop(self, key: Hashable) -> None:
        """Not this one any more."""
        if key in self._entries:
            self._drop(self._entries.pop(key))

    def __len__(self) -> int:
        return len(self._entries)


_publishers: LastUsed[EventPublisher] = LastUsed(EventPublisher.close)
_hbases: LastUsed[HbaseConnection] = LastUsed(lambda one: one.close())
_versions: dict[str, LastUsed[Any]] = {}
_heap = WorkerHeap()


def task_of(work: Work) -> Work:
    """What `mapInArrow` is given: the work, in a worker whose heap is settled."""
    return partial(_run, work)


def _run(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    _heap.settle()
    return work(batches)


@contextmanager
def publisher(bus: BusSettings, site: str) -> Iterator[EventPublisher]:
    """This worker's producer. What was sent inside is acknowledged when the block ends; raises
    `DeliveryFailed` or `BusError` if it is not."""
    key = (msgspec.json.encode(bus), site)
    found = _publishers.get(key, lambda: EventPublisher(bus, site))
    try:
        yield found
        found.flush()
    except BaseException:
        _publishers.drop(key)
        raise


def hbase(url: str) -> HbaseConnection:
    """This worker's lines to the Thrift servers of a store; they mend themselves."""
    return _hbases.get(url, lambda: hbase_connection(url, TASK_TIMEOUT_MS)[0])


def version_of(what: str, version: Hashable, read: Callable[[], Cached]) -> Cached:
    """A value that tasks share, read once per version. `what`: the rules, the register; there are
    no more than these."""
    cached: LastUsed[Cached] = _versions.setdefault(what, LastUsed())
    return cached.get(version, read)
