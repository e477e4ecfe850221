"""A store whose batches may be written in parts, by tasks elsewhere.

In: positions, and an attempt. Out: whether there is anything to do. Never: Spark, HBase.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar, runtime_checkable

from ingest.store.port import Position

Attempt = TypeVar("Attempt")


@runtime_checkable
class StagedStore(Protocol, Generic[Attempt]):
    """Begin; write everything under the attempt (`ingest.store.hbase.attempt`); commit."""

    def begin(self, positions: Sequence[Position]) -> Attempt | None:
        """The attempt under which a batch is written; the same one if these very positions were
        begun before and not committed. None: they were all reached before.

        Raises `StoreUnavailable`, `PositionsOverlap`, `StoreError`.
        """

    def commit(self, attempt: Attempt, positions: Sequence[Position]) -> None:
        """Everything written under it counts from now on, with the positions. May be called again.

        Raises `StoreUnavailable`, `StoreError`.
        """
