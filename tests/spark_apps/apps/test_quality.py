"""Counters are cumulative: of each only the largest number counts."""

from __future__ import annotations

import msgspec
import pytest

from bus.contracts.meters import Sent
from bus.contracts.topics import METER_SENT
from spark_apps.tasks.judge import counters_of


def sent(number: int, epoch: int = 1, minute_ms: int = 0) -> bytes:
    return msgspec.json.encode(
        Sent(
            producer="p",
            epoch=epoch,
            kind="vehicle",
            camera_ip="c",
            minute_ms=minute_ms,
            sent=number,
        )
    )


def test_of_one_counter_the_largest_number_is_kept() -> None:
    """In any order; epochs and minutes are counters of their own."""
    values = [sent(5), sent(9), sent(7), sent(2, epoch=2), sent(1, minute_ms=60_000)]
    found = {(s.epoch, s.minute_ms): s.sent for s in counters_of(values, METER_SENT)}
    assert found == {(1, 0): 9, (2, 0): 2, (1, 60_000): 1}


def test_what_is_no_counter_is_passed_over() -> None:
    """Any client may write to the topic."""
    assert counters_of([b"", None, b"{}", b"[", sent(1)], METER_SENT)[0].sent == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sent", 1 << 63), ("sent", -1), ("sent", 10**30), ("minute_ms", 1 << 63),
        ("minute_ms", -(1 << 63) - 1), ("epoch", 1 << 64), ("camera_ip", "1" * 40_000),
        ("producer", "p" * 40_000),
    ],
)  # fmt: skip
def test_a_counter_that_no_store_can_hold_is_passed_over(field: str, value: object) -> None:
    """Before, one such message ended the driver, and again after every restart: the batch that
    holds it came again and could never be stored."""
    impossible = msgspec.json.encode({**msgspec.json.decode(sent(1)), field: value})
    assert [s.sent for s in counters_of([impossible, sent(2)], METER_SENT)] == [2]
