"""What a rule would have hit among stored records, piece by piece: what the watch list says to
whoever asks. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import msgspec

DAY_MS = 86_400_000
MOST_WINDOW_MS = DAY_MS + 7_200_000
"""A piece lies within one day, which has 25 hours once a year: so that none takes long to find."""


class PreviewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Of records captured in [from_ms, until_ms) the next piece, newest first; `cursor` is that of
    the piece before, empty: from the newest on."""

    from_ms: int
    until_ms: int
    cursor: str = ""


class PreviewPiece(msgspec.Struct, frozen=True, kw_only=True):
    """`hits`: checkpoint → records that the rule meets; `read`: how many were looked at; an empty
    `cursor` ends the window. Counts alone: the records themselves are shown to nobody before a rule
    is in force."""

    hits: dict[str, int]
    read: int
    cursor: str = ""


class InvalidWindow(ValueError):
    """A window that ends before it begins, or is longer than a piece may be."""


class PreviewTotals:
    """What the pieces say by now: by day, newest first, and by checkpoint."""

    def __init__(self) -> None:
        self.read = 0
        self.days: Counter[date] = Counter()
        self.places: Counter[str] = Counter()

    def add(self, day: date, piece: PreviewPiece) -> None:
        """The next piece of a day, which is there from then on, whatever was hit."""
        self.read += piece.read
        self.days[day] += sum(piece.hits.values())
        self.places.update(piece.hits)


def days_back(now_ms: int, zone: ZoneInfo, count: int) -> Iterator[tuple[date, PreviewRequest]]:
    """The site's today and the days before it, each with the request of its first piece. By the
    site's clock: a day has 23 or 25 hours where that is put forward or back."""
    today = datetime.fromtimestamp(now_ms / 1000, zone).date()
    for back in range(count):
        day = today - timedelta(back)
        begin_ms, end_ms = (
            round(datetime.combine(one, time(), zone).timestamp() * 1000)
            for one in (day, day + timedelta(1))
        )
        yield day, PreviewRequest(from_ms=begin_ms, until_ms=end_ms)


def check_window(asked: PreviewRequest) -> None:
    """Raise `InvalidWindow`."""
    if not 0 <= asked.from_ms < asked.until_ms <= asked.from_ms + MOST_WINDOW_MS:
        hours = MOST_WINDOW_MS // 3_600_000
        raise InvalidWindow(f"a preview is asked for a day at a time: 1 ms to {hours} hours")
