"""Numbers that are missing among records that devices have numbered."""

from __future__ import annotations

import json
import random

import pytest

from dr_mirror.report.plan.sequence_gaps import (
    MAX_GAP,
    NumberedRecord,
    missing_ranges,
    numbered_record,
    sequence_gaps,
)


def at(second: int) -> str:
    return f"2026-11-27 23:{second // 60:02d}:{second % 60:02d}"


def record(number: int, kind: str = "vehicle", second: int | None = None) -> NumberedRecord:
    return NumberedRecord("10.0.0.1", kind, at(number if second is None else second), number)


def body(**keys: object) -> bytes:
    return json.dumps({"抓拍设备地址": "10.0.0.1", "抓拍时间": at(1), **keys}).encode()


@pytest.mark.parametrize(("number", "wanted"), [(7, 7), ("0042", 42), ("9" * 18, int("9" * 18))])
def test_a_number_is_read_as_vendors_write_it(number: int | str, wanted: int):
    """As a number or as a text."""
    found = numbered_record(body(设备流水号=number), "face")
    assert found == NumberedRecord("10.0.0.1", "face", at(1), wanted)


@pytest.mark.parametrize(
    "raw",
    [
        body(), body(设备流水号="A17"), body(设备流水号=-1), body(设备流水号=[]), b"", b"{", b"[1]",
        body(设备流水号="٣"), body(设备流水号="9" * 19), "识别".encode("gbk"), None,
    ],
)  # fmt: skip
def test_what_has_no_number_is_left_out(raw: bytes | None):
    """It says nothing of a gap."""
    assert numbered_record(raw, "vehicle") is None


def test_any_bytes_are_a_record_without_a_number(dice: random.Random):
    """The bus holds what devices send."""
    whole = body(设备流水号=7)
    for _ in range(500):
        place = dice.randrange(len(whole))
        raw = whole[:place] + dice.randbytes(dice.randrange(4)) + whole[place + dice.randrange(3) :]
        found = numbered_record(raw, "vehicle")
        assert found is None or found.number >= 0


def test_what_lies_between_two_numbers_is_missing_and_nothing_outside():
    """Of before and after nobody knows."""
    [found] = sequence_gaps([record(number) for number in (5, 6, 9, 10, 12)])
    assert (found.present, found.missing, found.ranges) == (5, 3, ((7, 8), (11, 11)))


def test_records_come_in_any_order_and_twice(dice: random.Random):
    """Of several partitions, and sent again by an edge."""
    numbers = list(range(100, 200))
    lost = set(dice.sample(numbers[1:-1], 20))
    there = [record(number) for number in numbers if number not in lost]
    dice.shuffle(there)
    [found] = sequence_gaps(there + there[:10])
    assert found.missing == 20


def test_a_restarted_device_counts_anew_and_a_leap_is_another_numbering():
    """Neither is a gap."""
    before, after = [("a", 500), ("b", 501)], [("c", 1), ("d", 3)]
    assert missing_ranges(before + after) == [(2, 2)]
    assert missing_ranges([("a", 1), ("b", 2 + MAX_GAP)]) == []
    assert missing_ranges([("a", 1), ("b", 1 + MAX_GAP)]) == [(2, MAX_GAP)]


def test_a_device_that_numbers_all_kinds_together_lacks_only_what_neither_has():
    """Each kind by itself would seem to lack half."""
    mixed = [record(number, "vehicle" if number % 2 else "face") for number in range(50)]
    assert sequence_gaps(mixed) == []
    del mixed[20]
    [found] = sequence_gaps(mixed)
    assert (found.kind, found.missing, found.ranges) == ("", 1, ((20, 20),))


def test_a_device_that_numbers_each_kind_by_itself_lacks_what_each_lacks():
    """Both begin at 0; one face is lost."""
    apart = [record(number, kind) for kind in ("vehicle", "face") for number in range(50)]
    apart.remove(record(20, "face"))
    [found] = sequence_gaps(apart)
    assert (found.kind, found.missing, found.ranges) == ("face", 1, ((20, 20),))
