"""Days of a preview, and the sums of its pieces."""

from __future__ import annotations

from datetime import date
from zoneinfo import ZoneInfo

import pytest

from bus.domain.rule_preview import PreviewPiece, PreviewTotals, check_window, days_back

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("zone", "now_ms", "hours"),
    [
        ("Asia/Shanghai", 1_795_000_000_000, [24, 24, 24]),
        ("Europe/Berlin", 1_774_872_000_000, [24, 23, 24]),  # 2026-03-30 12:00 UTC
        ("Europe/Berlin", 1_793_016_000_000, [24, 25, 24]),  # 2026-10-26 12:00 UTC
    ],
)
def test_days_are_the_sites_and_lie_one_behind_the_other(
    zone: str, now_ms: int, hours: list[int]
) -> None:
    """Newest first, without a gap; each may be asked for at once."""
    found = list(days_back(now_ms, ZoneInfo(zone), 3))
    assert [(one.until_ms - one.from_ms) // HOUR_MS for _, one in found] == hours
    assert found[0][1].from_ms <= now_ms < found[0][1].until_ms
    assert [one.until_ms for _, one in found[1:]] == [one.from_ms for _, one in found[:-1]]
    for _, asked in found:
        check_window(asked)


def test_pieces_add_up_by_day_and_place() -> None:
    totals, first, second = PreviewTotals(), date(2026, 11, 29), date(2026, 11, 28)
    totals.add(first, PreviewPiece(hits={"k-1": 2}, read=10, cursor="0:x"))
    totals.add(first, PreviewPiece(hits={"k-1": 1, "k-2": 1}, read=5))
    totals.add(second, PreviewPiece(hits={}, read=0))
    assert (totals.read, totals.places) == (15, {"k-1": 3, "k-2": 1})
    assert list(totals.days.items()) == [(first, 4), (second, 0)]
