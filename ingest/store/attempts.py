"""A store whose batches may be written in parts, by tasks elsewhere.

In: positions, and an attempt. Out: whether there is anything to do. Never: Spark, HBase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    def add_up(self, attempt: Attempt, sums: Mapping[bytes, Mapping[str, int]]) -> None:
        """Add what the parts have added to the sums of all devices, each sum once for an attempt;
        may be called again with the same.

        Raises `StoreUnavailable`, `StoreError`.
        """

    def commit(
        self, attempt: Attempt, positions: Sequence[Position],
        clocks: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Everything written under it counts from now on, with the positions and the clocks
        (`StoreBatch.clocks`). May be called again with the same.

        Raises `StoreUnavailable`, `StoreError`.
        """
