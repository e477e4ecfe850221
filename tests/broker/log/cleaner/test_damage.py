"""Damaged segments, batches that do not unpack, full disks, large keys: a pass ends with a report,
or does what can be done."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.disk.port import DiskFull
from broker.log.cleaner.model import CleanedGroup, CleaningPass, PassResult
from broker.log.cleaner.passes import run_pass
from bus.records.batch import HEADER, HEADER_BYTES, BatchHeader, header_at, seal
from bus.records.build import build_batch
from bus.records.compression import Compression
from bus.records.record import Record
from bus.records.varint import zigzag
from tests.broker.log.cleaner.table_log import DIRECTORY, LIMITS, TableLog

SEGMENT = f"{DIRECTORY}/{0:020d}.log"

SEEDS = st.integers(0, 2**32 - 1)
"""Not st.randoms: what is drawn here is more than hypothesis keeps of one."""


def table_of(*batches: bytes | bytearray) -> TableLog:
    table = TableLog()
    for batch in batches:
        table.put(bytearray(batch))
    table.settle()
    return table


def keyed(*keys: bytes | None, value: bytes | None = b"v") -> bytearray:
    return build_batch([Record(key, value, timestamp_ms=5) for key in keys])


def reports_of(
    table: TableLog, cleaning: CleaningPass
) -> tuple[list[CleanedGroup], PassResult]:
    *groups, result = run_pass(table.disk, cleaning, lambda count: None)
    assert isinstance(result, PassResult)
    return [one for one in groups if isinstance(one, CleanedGroup)], result


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_bytes_of_any_kind_in_a_segment_end_the_pass_with_a_report_or_change_nothing(
    seed: int,
) -> None:
    dice = random.Random(seed)
    codecs = [dice.choice(list(Compression)) for _ in range(6)]
    table = table_of(*(
        build_batch([Record(b"%d" % dice.randrange(4), dice.randbytes(9), timestamp_ms=7)] * 4,
                    compression=codec)
        for codec in codecs
    ))  # fmt: skip
    cleaning = replace(table.plan(), groups=(table.summaries()[:1],))
    sound, _ = reports_of(table, cleaning)
    data = table.sim.files[SEGMENT].data
    before = bytes(data)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(data))
        data[at : at + dice.choice([0, 1, 8])] = dice.randbytes(dice.choice([0, 1, 8]))
    damaged = bytes(data)
    groups, result = reports_of(table, cleaning)
    assert table.sim.files[SEGMENT].data == damaged
    if result.uncleanable:
        assert SEGMENT in result.uncleanable
        assert not groups
        assert result.next_dirty_offset == cleaning.first_dirty_offset
    else:
        # Epochs lie outside of the checksum, and what is cut at the end has no batch's beginning.
        assert groups == sound or len(damaged) > len(before)


def test_a_wrong_checksum_makes_the_partition_uncleanable() -> None:
    table = table_of(keyed(b"a"), keyed(b"a"), keyed(b"b"))
    data = table.sim.files[SEGMENT].data
    data[len(data) // 2] ^= 1
    groups, result = reports_of(table, table.plan())
    assert groups == []
    assert "the CRC does not match" in result.uncleanable
    assert SEGMENT in result.uncleanable


def test_offsets_that_come_again_make_the_partition_uncleanable() -> None:
    """They lie outside of the checksum."""
    table = table_of(keyed(b"a"), keyed(b"a"))
    first_bytes = header_at(bytes(table.sim.files[SEGMENT].data)).size_bytes
    table.sim.files[SEGMENT].data[first_bytes : first_bytes + 8] = bytes(8)
    _, result = reports_of(table, table.plan())
    assert "offset 0 cannot follow 0" in result.uncleanable


def test_a_number_of_records_below_zero_makes_the_partition_uncleanable() -> None:
    """No reader of the log takes such a batch."""
    table = table_of(keyed(b"a"), keyed(b"a"))
    data = table.sim.files[SEGMENT].data
    data[HEADER_BYTES - 4 : HEADER_BYTES] = b"\xff" * 4
    seal(data, 0, header_at(bytes(data)).size_bytes)
    _, result = reports_of(table, table.plan())
    assert SEGMENT in result.uncleanable


def test_groups_before_the_damage_stay_valid() -> None:
    table = TableLog(replace(TableLog().settings, segment_bytes=1))
    for key in (b"a", b"b", b"a"):
        table.put(keyed(key))
        table.settle()
    cleaning = replace(table.plan(), first_dirty_offset=2)
    table.sim.files[f"{DIRECTORY}/{1:020d}.log"].data[-1] ^= 1
    groups, result = reports_of(table, cleaning)
    assert [group.bases for group in groups] == [(0,)]
    assert groups[0].is_changed
    assert result.uncleanable


def unreadable() -> list[bytearray]:
    """Sealed batches of two records, whose insides are wrong each in its own way."""
    sound = build_batch([Record(b"a", b"inside", timestamp_ms=5), Record(b"b", b"inside")])
    header = header_at(sound)
    body = bytes(sound[HEADER_BYTES:])
    twice = zigzag(8) + b"\x00" + zigzag(0) + zigzag(0) + zigzag(1) + b"a" + zigzag(1) + b"v\x00"
    return [
        sealed(header._replace(attributes=7), body),
        sealed(header._replace(attributes=int(Compression.ZSTD)), body),
        sealed(header, body[:-1]),
        sealed(header, body + b"\x00"),
        sealed(header._replace(records_count=3), body),
        sealed(header._replace(last_offset_delta=0), body),
        sealed(header, twice + twice),
    ]


def sealed(header: BatchHeader, body: bytes) -> bytearray:
    batch = bytearray(HEADER_BYTES) + body
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - 12))
    seal(batch, 0, len(batch))
    return batch


@pytest.mark.parametrize("number", range(len(unreadable())))
def test_a_batch_that_does_not_unpack_stays_as_it_is_and_stops_nothing(number: int) -> None:
    """Nor does it supersede anything: what its keys are is not known."""
    wrong = unreadable()[number]
    table = table_of(keyed(b"a", b"c"), wrong, keyed(b"c"))
    groups, result = table.clean()
    assert [group.copied_whole for group in groups] == [1]
    assert not result.uncleanable
    first, second, third = table.stored()
    assert [record.key for record in first.records or ()] == [b"a"]
    assert second.data[HEADER_BYTES:] == wrong[HEADER_BYTES:]
    assert [record.key for record in third.records or ()] == [b"c"]
    table.reopen()
    assert len(table.stored()) == 3


def test_keys_of_no_byte_and_of_a_megabyte_are_keys_and_none_is_no_key() -> None:
    large, other = b"k" * (1 << 20), b"k" * (1 << 20) + b"x"
    table = table_of(keyed(large, b"", None), keyed(other, large), keyed(b""))
    table.clean(replace(LIMITS, dedupe_buffer_bytes=1 << 20, io_buffer_bytes=1 << 19))
    left = [record.key for batch in table.stored() for record in batch.records or ()]
    assert left == [other, large, b""]


def test_a_full_disk_ends_the_pass_and_leaves_the_log() -> None:
    table = table_of(keyed(*[b"%d" % n for n in range(100)]), keyed(b"1"))
    before = table.stored()
    table.sim.fill_up(100)
    with pytest.raises(DiskFull):
        list(run_pass(table.disk, table.plan(), lambda count: None))
    assert table.stored() == before
    table.reopen()
    assert table.stored() == before
    assert not [name for name in table.disk.listdir(DIRECTORY) if "cleaned" in name]


def test_a_pass_that_is_cancelled_at_any_pause_leaves_the_log() -> None:
    class Cancelled(Exception):
        pass

    table = TableLog(replace(TableLog().settings, segment_bytes=1))
    for _ in range(3):
        table.put(keyed(b"a", b"b"))
        table.settle()
    before, pauses = table.stored(), 0
    for most in range(50):
        left = most

        def pause(count: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Cancelled

        try:
            list(run_pass(table.disk, table.plan(), pause))
            break
        except Cancelled:
            pauses += 1
        assert table.stored() == before
    assert pauses > 8


def test_a_group_that_loses_nothing_says_so() -> None:
    table = table_of(keyed(b"a"), keyed(b"b"))
    groups, _ = table.clean()
    assert [group.is_changed for group in groups] == [False]
    assert groups[0].bytes_kept == groups[0].bytes_read
    assert groups[0].records_kept == groups[0].records_read == 2
