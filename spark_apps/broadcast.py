"""Values that tasks need in their newest version: the register, the rules in force.

A function of a streaming plan is pickled once and keeps what it saw then for ever. So a value is
broadcast inside `foreachBatch`, and the batch's own plan refers to it; it is sent again only when
it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

Value = TypeVar("Value")


class VersionedBroadcast(Generic[Value]):
    """The newest version of one value in the executors, and the one before it, which a late task
    may still read."""

    def __init__(self, read: Callable[[], Value], version: Callable[[], Hashable]) -> None:
        self._read = read
        self._version = version
        self._sent_version: Hashable = None
        self._sent: Broadcast[Value] | None = None
        self._previous: Broadcast[Value] | None = None

    def current(self, session: SparkSession) -> Broadcast[Value]:
        """The value as it is now."""
        version = self._version()
        if self._sent is None or version != self._sent_version:
            if self._previous is not None:
                self._previous.unpersist()
            self._previous = self._sent
            self._sent = session.sparkContext.broadcast(self._read())
            self._sent_version = version
        return self._sent
