"""What Spark tells of a query after each batch, as far as we show it. Pure.

In: the JSON of `StreamingQueryProgress` (Spark 4.1). Out: `BatchProgress`. Never: Spark.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

Offsets = dict[str, dict[str, int]]
"""By topic and partition, as Spark's Kafka source writes them."""


class _Source(msgspec.Struct, rename="camel"):
    start_offset: Offsets | None = None
    end_offset: Offsets | None = None
    latest_offset: Offsets | None = None


class BatchProgress(msgspec.Struct, rename="camel"):
    """One batch of one query; durations in ms by the names of Spark."""

    name: str
    batch_id: int
    num_input_rows: int = 0
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    duration_ms: dict[str, int] = {}
    sources: list[_Source] = []

    @property
    def records(self) -> int:
        """Spark does not count those of a batch that is read slice by slice; its offsets do. They
        fall where a topic was made anew."""
        return self.num_input_rows or sum(
            max(0, end - (source.start_offset or {}).get(topic, {}).get(number, end))
            for source in self.sources
            for topic, ends in (source.end_offset or {}).items()
            for number, end in ends.items()
        )

    @property
    def backlog(self) -> Mapping[str, int]:
        """Records behind the ends of the log, by topic, as they were when the batch was planned."""
        found: dict[str, int] = {}
        for source in self.sources:
            ends = source.end_offset or {}
            for topic, latest in (source.latest_offset or {}).items():
                read = ends.get(topic, {})
                behind = sum(max(0, end - read.get(part, end)) for part, end in latest.items())
                found[topic] = found.get(topic, 0) + behind
        return found


_decoder = msgspec.json.Decoder(BatchProgress)


def read_progress(text: str) -> BatchProgress:
    """Raises `msgspec.DecodeError` for what is none."""
    return _decoder.decode(text.encode("utf-8", "replace"))
