"""Values that tasks need in their newest version: the register, the rules in force.

A function of a streaming plan is pickled once and keeps what it saw then for ever. So a value is
broadcast inside `foreachBatch`, and the batch's own plan refers to it; it is sent again only when
it has changed. A worker keeps the two newest versions (`worker_cache`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from spark_apps.tasks import worker_cache

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

Value = TypeVar("Value")


class UnreadableVersion(Exception):
    """A worker cannot read what the driver has sent."""


class VersionedValue(NamedTuple, Generic[Value]):
    """One version of a value, as a task is handed it."""

    what: str
    version: Hashable
    sent: Broadcast[Value]

    @property
    def value(self) -> Value:
        """The value, in a task or in the driver. Raises `UnreadableVersion`."""
        return worker_cache.version_of(self.what, self.version, self._read)

    def _read(self) -> Value:
        try:
            found: Value = self.sent.value
        except Exception as error:
            raise UnreadableVersion(
                f"a worker cannot read the {self.what} of version {self.version}"
                f" ({type(error).__name__}: {error}): its packages are others than the driver's;"
                " make them again (./databus package), name the zip by --py-files, and start the"
                " driver anew; nothing of the batch is lost"
            ) from error
        return found


class VersionedBroadcast(Generic[Value]):
    """The newest version of one value in the executors, and the one before it, which a late task
    may still read."""

    def __init__(
        self, what: str, read: Callable[[], Value], version: Callable[[], Hashable]
    ) -> None:
        """`what`: its name in a worker."""
        self._what = what
        self._read = read
        self._version = version
        self._sent: VersionedValue[Value] | None = None
        self._previous: VersionedValue[Value] | None = None

    def current(self, session: SparkSession) -> VersionedValue[Value]:
        """The value as it is now."""
        version = self._version()
        if self._sent is None or version != self._sent.version:
            if self._previous is not None:
                self._previous.sent.unpersist()
            self._previous = self._sent
            sent = session.sparkContext.broadcast(self._read())
            self._sent = VersionedValue(self._what, version, sent)
        return self._sent
