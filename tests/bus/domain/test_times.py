"""Local times of the wire."""

from __future__ import annotations

import random
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from bus.domain.times import BadTime, LocalTime, local_time

SHANGHAI = local_time("Asia/Shanghai")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2017-08-24 17:25:34", 1503566734000),
        ("2017-08-24 17:25:34.123", 1503566734123),
        ("2017-08-24T17:25:34.5", 1503566734500),
        ("2017-08-24 17:25:34.123456789", 1503566734123),
        ("1970-01-01 00:00:00", -8 * 3600 * 1000),
    ],
)
def test_contract_times_are_read_twice_alike(text: str, ms: int):
    """The first time slowly, the second from the remembered minute."""
    reader = LocalTime("Asia/Shanghai")
    assert [reader.to_ms(text), reader.to_ms(text)] == [ms, ms]


@pytest.mark.parametrize(
    "text",
    ["", "2017-08-24", "2017-08-24 17:25", "2017-08-24 17:25:60", "2017-08-24 17:25:3", "2017-13-01 00:00:00",
     "2017-02-29 00:00:00", "2017-08-24 24:00:00", "2017/08/24 17:25:34", "2017-08-24 17:25:34.", "2017-08-24 17:25:34Z",
     "2017-08-24 17:25:34+08:00", "2017-08-24 17:25:34.1234567890", "２０１７-08-24 17:25:34", "0001-01-01 00:00:00",
     "1969-12-31 23:59:59", "2017-08-24 17:25:34.12a", "2017-08-24 17:25:3４", "2017-08-24 17:25:34.１", " 017-08-24 17:25:34",
     "+017-08-24 17:25:34", "2017-08-24  7:25:34", "2017-08-24 17:25:-1"],
)  # fmt: skip
def test_anything_else_is_a_bad_time_also_within_a_remembered_minute(text: str):
    """No guess, no exception but the one."""
    reader = LocalTime("Asia/Shanghai")
    reader.to_ms("2017-08-24 17:25:34")
    with pytest.raises(BadTime):
        reader.to_ms(text)


def test_random_moments_go_there_and_back(dice: random.Random):
    """Text of a moment read back is the moment, in zones with and without summer time."""
    for zone in ("Asia/Shanghai", "Europe/Berlin", "America/St_Johns", "UTC"):
        reader = local_time(zone)
        for _ in range(300):
            # West of Greenwich the first hours of the epoch are still 1969, which is refused.
            ms = dice.randrange(86_400_000, 4_000_000_000_000)
            text = reader.to_text(ms)
            back = reader.to_ms(text)
            repeated = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
            offset_twice = repeated.utcoffset() != repeated.replace(fold=1).utcoffset()
            assert back == ms or offset_twice


def test_an_hour_that_comes_twice_is_read_as_the_first_and_a_skipped_one_moves_on():
    """PEP 495, fold 0."""
    berlin = local_time("Europe/Berlin")
    assert berlin.to_ms("2024-10-27 02:30:00") == 1729989000000
    assert berlin.to_ms("2024-03-31 02:30:00") == berlin.to_ms("2024-03-31 03:30:00")


def test_the_memory_of_minutes_is_bounded():
    """A clock that runs wild must not fill the process."""
    reader = LocalTime("UTC")
    for minute in range(5000):
        reader.to_ms(f"20{minute // 1440:02d}-01-01 {minute // 60 % 24:02d}:{minute % 60:02d}:00")
    assert len(reader._minutes) <= 1440
