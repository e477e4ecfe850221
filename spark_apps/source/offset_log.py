"""What a micro-batch covers, from the offset log that Spark writes before it runs the batch.

The work of a record is done in executors, so that the driver learns the offsets of a batch from no
record. Spark's log (format "v1": a line with its version, one with metadata, one per source with
the exclusive end offsets as JSON) lies in the query's checkpoint, which is a folder of the driver's
machine and begins empty at every start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from bus.client.model import TopicAndPartition
from spark_apps.batches.message import OffsetRanges
from spark_apps.source.lost_records import LostRecords, truncated

VERSION = "v1"


class OffsetLogError(Exception):
    """Spark's offset log is not as this program knows it."""


class OffsetLog:
    """The ranges of a query's batches. Batch ids come in their order, without a gap.

    Invariant: `_ends` holds where the batch before the next one ended.
    """

    def __init__(
        self,
        checkpoint: Path,
        starts: Mapping[TopicAndPartition, int],
        lost: LostRecords,
        confirm: Callable[[Collection[str]], None],
    ) -> None:
        """`confirm` raises where topics are other ones by now, whose offsets say nothing here."""
        self._folder = checkpoint / "offsets"
        self._ends = dict(starts)
        self._lost = lost
        self._confirm = confirm

    def ranges(self, batch_id: int) -> OffsetRanges:
        """First offset and exclusive end of each partition that has something in the batch.

        A partition that was added to its topic after the start begins at 0; one whose end has
        fallen has lost records. Raises `OffsetLogError`, or what `confirm` raises.
        """
        path = self._folder / str(batch_id)
        try:
            ends = parse_offsets(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise OffsetLogError(f"{path}: {error}") from error
        found = {
            partition: (self._ends.get(partition, 0), end)
            for partition, end in ends.items()
            if end > self._ends.get(partition, 0)
        }
        fallen = truncated(self._ends, ends)
        if fallen:
            self._confirm({topic for topic, _ in fallen})
        self._lost.add(fallen)
        self._ends |= ends
        return found


def parse_offsets(text: str) -> dict[TopicAndPartition, int]:
    """The end offsets in a file of the log. Raises `ValueError`. Pure."""
    version, _, *sources = text.splitlines()
    if version != VERSION or len(sources) != 1:
        raise ValueError(
            f"version {version!r} with {len(sources)} sources; known is {VERSION} with one"
        )
    decoded = json.loads(sources[0])
    if not isinstance(decoded, dict):
        raise ValueError(f"{sources[0][:100]!r} are no offsets")
    return {
        (topic, int(number)): int(end)
        for topic, partitions in decoded.items()
        for number, end in partitions.items()
    }
