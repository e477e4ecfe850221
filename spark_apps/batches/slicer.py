"""What a sink serves of a batch: all at once, or slice by slice where it is too large.

A slice is read by itself, from the bus, and has its own attempt and positions: a driver that ends
between two of them goes on behind the last one. A batch that fits is taken as Spark gives it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from spark_apps.batches.message import OffsetRanges
from spark_apps.batches.record_sizes import RecordSizes
from spark_apps.batches.slices import slices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


class Slicer:
    """Of one query."""

    def __init__(
        self, sizes: RecordSizes, max_bytes: int, read: Callable[[OffsetRanges, int], DataFrame]
    ) -> None:
        """`read` is told how large a record may be."""
        self._sizes = sizes
        self._max_bytes = max_bytes
        self._read = read

    def parts(
        self, batch: DataFrame, offsets: OffsetRanges
    ) -> Iterator[tuple[DataFrame, OffsetRanges]]:
        """Records with their offsets, in order; nothing for a batch of none."""
        if not offsets:
            return
        sizes = self._sizes.of(offsets)
        slices = slices_of(offsets, sizes, self._max_bytes)
        if len(slices) == 1:
            yield batch, offsets
            return
        log.info("streams: a batch is read in %d slices for its size", len(slices))
        for one in slices:
            yield self._read(one, max(sizes.values())), one

    def close(self) -> None:
        """No batch comes any more."""
        self._sizes.close()
