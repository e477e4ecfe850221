"""Local times of the wire (`2017-08-24 17:25:34.123`, no zone) to epoch milliseconds UTC and back.

In: text and a zone. Out: numbers. Never: the clock.

A local time that a change of the clocks makes double or impossible is read with the offset in force
before the change (PEP 495, fold 0): devices rarely know better, and a record is worth more than the
doubt.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MS = timedelta(milliseconds=1)
# A day of minutes; records of one day hardly need more, and a liar's clock must not fill the
# memory.
_MAX_MINUTES = 1440
_MINUTE_CHARS = len("2017-08-24 17:25:")
_SECONDS = {f"{second:02d}": second * 1000 for second in range(60)}
_THOUSANDTHS = {f".{ms:03d}": ms for ms in range(1000)}


class BadTime(ValueError):
    """The text is not a local time of the contract."""


class LocalTime:
    """Reads and writes local times of one zone; remembers the minutes it has met (most records
    share them)."""

    def __init__(self, zone: str) -> None:
        self._zone = ZoneInfo(zone)
        self._minutes: dict[str, int] = {}

    def to_ms(self, text: str) -> int:
        """Epoch milliseconds of `YYYY-MM-DD HH:MM:SS[.fff]`; raises `BadTime`."""
        minute = self._minutes.get(text[:_MINUTE_CHARS])
        second = _SECONDS.get(text[_MINUTE_CHARS : _MINUTE_CHARS + 2])
        fraction = text[_MINUTE_CHARS + 2 :]
        if minute is not None and second is not None:
            if not fraction:
                return minute + second
            thousandths = _THOUSANDTHS.get(fraction)
            if thousandths is not None:
                return minute + second + thousandths
        return self._parse(text)

    def to_text(self, epoch_ms: int) -> str:
        """The contract's text of a moment, always with milliseconds."""
        local = (_EPOCH + timedelta(milliseconds=epoch_ms)).astimezone(self._zone)
        return local.strftime("%Y-%m-%d %H:%M:%S") + f".{local.microsecond // 1000:03d}"

    def _parse(self, text: str) -> int:
        """The first record of a minute, other widths of the fraction, and everything that is
        wrong."""
        head, prefix = text[: _MINUTE_CHARS + 2], text[:_MINUTE_CHARS]
        if len(head) != _MINUTE_CHARS + 2 or not head.isascii():
            raise BadTime(text[:40])
        second = _SECONDS.get(head[_MINUTE_CHARS:])
        if second is None:
            raise BadTime(text[:40])
        base = self._minute_ms(prefix)
        if len(self._minutes) >= _MAX_MINUTES:
            self._minutes.clear()
        self._minutes[prefix] = base
        return base + second + _fraction_ms(text[_MINUTE_CHARS + 2 :])

    def _minute_ms(self, prefix: str) -> int:
        """Epoch milliseconds of the minute that `2017-08-24 17:25:` begins."""
        if prefix[4] + prefix[7] + prefix[13] + prefix[16] != "--::" or prefix[10] not in " T":
            raise BadTime(prefix)
        digits = (prefix[:4], prefix[5:7], prefix[8:10], prefix[11:13], prefix[14:16])
        if not all(part.isdigit() for part in digits):
            raise BadTime(prefix)
        try:
            year, month, day, hour, minute = map(int, digits)
            local = datetime(year, month, day, hour, minute, tzinfo=self._zone)
        except ValueError as error:
            raise BadTime(f"{prefix}: {error}") from error
        if local.year < 1970:
            raise BadTime(f"{prefix}: before 1970 nothing was captured")
        return (local - _EPOCH) // _ONE_MS


def _fraction_ms(fraction: str) -> int:
    """Milliseconds of `` or `.1` … `.123456789`; finer digits are cut."""
    digits = fraction[1:]
    if not fraction:
        return 0
    if (
        fraction[0] != "."
        or not 1 <= len(digits) <= 9
        or not (digits.isascii() and digits.isdigit())
    ):
        raise BadTime(fraction[:40])
    return int(digits[:3].ljust(3, "0"))


@lru_cache(maxsize=16)
def local_time(zone: str) -> LocalTime:
    """The shared reader of one zone; made where it is used, so that it also exists on executors."""
    return LocalTime(zone)


def minute_of(time_ms: int) -> int:
    """The minute a time lies in, as the epoch milliseconds of its beginning."""
    return time_ms - time_ms % MINUTE_MS
