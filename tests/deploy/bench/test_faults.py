"""Which alarms count before a fault and which during it."""

from __future__ import annotations

import pytest

from deploy.bench.ingest.faults import times_around
from deploy.errors import OperatorError

FAULT_MS = 100_000
EVERY_MS = 50


def raised(from_ms: int, until_ms: int, took_ms: int) -> list[tuple[int, int]]:
    return [(at, at + took_ms) for at in range(from_ms, until_ms, EVERY_MS)]


def test_alarms_are_split_by_when_their_records_were_captured() -> None:
    """Those of the warm-up count nowhere."""
    seen = raised(80_000, 90_000, 9_000) + raised(90_000, FAULT_MS, 200)
    found = times_around([*seen, *raised(FAULT_MS, 110_000, 300)], FAULT_MS, 10, 20)
    assert set(found.before) == {200}
    assert set(found.during) == {300}
    assert len(found.before) == len(found.during) == 200
    assert found.ratio == pytest.approx(1.5)


@pytest.mark.parametrize("until_ms", [FAULT_MS, FAULT_MS + 3_000])
def test_alarms_that_stop_are_no_good_time(until_ms: int) -> None:
    """A p99 of the few that came would look well."""
    seen = raised(90_000, FAULT_MS, 200) + raised(FAULT_MS, until_ms, 200)
    with pytest.raises(OperatorError, match="alarms came during the fault"):
        times_around(seen, FAULT_MS, 10, 20)


def test_every_second_alarm_missing_is_no_good_time() -> None:
    seen = raised(90_000, FAULT_MS, 200) + raised(FAULT_MS, 110_000, 200)[::2]
    with pytest.raises(OperatorError, match="alarms came during the fault"):
        times_around(seen, FAULT_MS, 10, 20)
