"""Latency cells of one batch to summaries and incidents. Pure.

In: messages of `meter.latency`, what is kept in `LatencyBook` and `LatencyWatch`. Out: `Outcome`.
Never: I/O, a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from bus.contracts.alarms import Incident
from bus.contracts.meters import LatencyCell
from ingest.store.port import LatencySummary
from monitor.latency.model import MINUTE_MS, LatencyBook, LatencyWatch, minute_of

_DECODER = msgspec.json.Decoder(LatencyCell)
JUDGED_MINUTES = 10  # older minutes were judged, or nobody was there to judge them


class Outcome(NamedTuple):
    """What one batch changes."""

    summaries: list[LatencySummary]
    incidents: list[Incident]


def cells_of(values: Iterable[bytes | None]) -> list[LatencyCell]:
    """The cells of readable messages; others are not ours."""
    cells = []
    for value in values:
        try:
            cells.append(_DECODER.decode(value or b""))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return cells


def digest(
    book: LatencyBook, watch: LatencyWatch, cells: Iterable[LatencyCell], now_ms: int
) -> Outcome:
    """Take cells; summarise the minutes they touch; judge the minutes that are over."""
    touched = book.take(cells)
    book.forget()
    return Outcome(book.summaries(touched), _judge(book, watch, now_ms))


def _judge(book: LatencyBook, watch: LatencyWatch, now_ms: int) -> list[Incident]:
    """Once a minute, over the minutes that have ended since."""
    whole_ms = minute_of(now_ms)
    if watch.judged_until_ms >= whole_ms:
        return []
    from_ms = max(watch.judged_until_ms, whole_ms - JUDGED_MINUTES * MINUTE_MS)
    ended = {minute for minute in book.minutes if from_ms <= minute < whole_ms}
    return watch.judge(book.summaries(ended), now_ms)
