"""What a forced switch says of what is missing, and the lines that keep a former primary's own."""

from __future__ import annotations

import base64
import random

import msgspec
import pytest

from bus.client.model import TopicPartition
from bus.contracts.diverged_ranges import (
    MAX_ID_CHARACTERS,
    MAX_IDS_BYTES,
    decode_diverged_range,
    encode_diverged_range,
)
from bus.contracts.register import Register
from bus.errors import BusError
from bus.protocol.generated.describe_producers import ProducerState
from bus.records.batch import assign, check_crc, header_at
from bus.records.build import build_batch
from bus.records.control import end_txn_marker
from bus.records.read import read_records
from bus.records.record import Record
from dr_mirror.report.plan.switch_report import PartitionStatement
from dr_mirror.switch.plan.diverged_records import (
    DivergedRecord,
    common_end,
    diverged_lines,
    diverged_parts,
    end_of_batches,
    has_rows,
)
from dr_mirror.switch.plan.forced import (
    abort_marker,
    forced_partitions,
    heard_partitions,
    open_transactions,
)
from ingest.senders.replay.lines import parse_line
from spark_apps.batches.message import StreamMessage
from spark_apps.tasks.judge import judge
from tests.dr_mirror.switch.plan.test_switch import status

ONE = TopicPartition("data.vehicle", 3)


def test_known_missing_never_exceeds_what_was_heard_nor_counts_what_was_not(
    dice: random.Random,
) -> None:
    """With what cannot be known yet it is never less than the truth."""
    for _ in range(300):
        end = dice.randrange(50)
        heard_end = dice.choice([-1, dice.randrange(60)])
        truth = max(end, heard_end) + dice.randrange(5)
        heard = [PartitionStatement(topic=ONE.topic, partition=3, heard_end=heard_end, heard_ms=9)]
        [said] = forced_partitions({ONE: end}, heard if heard_end >= 0 else [], [])
        assert said.known_missing == max(heard_end - end, 0) <= max(truth - end, 0)
        assert (said.end, said.heard_ms) == (end, 9 if heard_end >= 0 else -1)


def test_only_what_was_heard_of_the_lost_site_counts() -> None:
    """Not what a mirror that copied the other way says, nor a partition that never answered."""
    assert heard_partitions(None, "A") == []
    assert heard_partitions(status(), "B") == []
    assert heard_partitions(status(), "A") == []  # its leader never answered
    heard = msgspec.structs.replace(status().partitions[0], source_heard_ms=77)
    [said] = heard_partitions(status(partitions=(heard,)), "A")
    assert (said.heard_end, said.heard_ms) == (5, 77)


def test_an_open_transaction_is_ended_by_a_sound_marker_of_its_producer() -> None:
    """Producers without one are left alone."""
    producers = [ProducerState(producer_id=7, producer_epoch=2, current_txn_start_offset=40),
                 ProducerState(producer_id=8, current_txn_start_offset=-1)]  # fmt: skip
    [found] = open_transactions(ONE, producers)
    batch = abort_marker(found, 50, 1000)
    check_crc(batch)
    header = header_at(batch)
    assert (header.base_offset, header.end_offset, header.is_control) == (50, 51, True)
    assert (header.producer_id, header.producer_epoch, header.is_transactional) == (7, 2, True)
    [said] = forced_partitions({ONE: 50}, [], [found])
    assert said.detail == "aborted: producer 7 from offset 40"


def drawn_record(dice: random.Random) -> Record:
    def some() -> bytes | None:
        return dice.choice([None, b"", dice.randbytes(dice.randrange(40))])

    named = [(dice.choice(["kind", "record-id", "x"]), some()) for _ in range(dice.randrange(4))]
    return Record(some(), some(), named, dice.randrange(1 << 40))


def test_every_byte_of_a_record_is_in_its_line(dice: random.Random) -> None:
    """Key, value, headers, time, offset; markers have no line."""
    for _ in range(60):
        records = [drawn_record(dice) for _ in range(dice.randrange(1, 6))]
        batch = build_batch(records)
        assign(batch, 0, 100, 0)
        marker = end_txn_marker(
            commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1
        )
        assign(marker, 0, 100 + len(records), 0)
        data = bytes(batch + marker)
        assert end_of_batches(data, 100) == 101 + len(records)
        lines = list(diverged_lines(data, ONE, 100))
        read = [msgspec.json.decode(line, type=DivergedRecord) for line in lines]
        assert [one.offset for one in read] == list(range(100, 100 + len(records)))
        for one, record in zip(read, read_records(data), strict=True):
            assert plain(one.key) == record.key
            assert plain(one.raw) == record.value
            assert [(name, plain(value)) for name, value in one.headers] == list(record.headers)
            assert one.timestamp_ms == record.timestamp_ms


def test_a_replay_sends_the_same_bytes_under_the_same_identity() -> None:
    """Whether the record says its kind or its topic does."""
    for named in ([("record-id", b"own-1")], [("record-id", b"own-1"), ("kind", b"vehicle")]):
        batch = build_batch([Record(b"k", b'{"not": json', named)])
        [line] = diverged_lines(batch, ONE, 0)
        sent = parse_line(line.strip(), "", "file", 1)
        assert (sent.kind, sent.record_id, sent.body) == ("vehicle", "own-1", b'{"not": json')


def device_value(dice: random.Random) -> bytes | None:
    """As devices may write it: with and without a number of its own, of odd types, broken."""
    number: object = dice.choice(["17", " 18 ", "", 19, None, ["x"], True])
    message = {"记录编号": number, "抓拍设备地址": dice.choice(["10.1.1.1", 7]),
               "抓拍时间": dice.choice(["2026-11-23 08:00:00", ""]), "车牌号码": dice.choice(["浙A1", 4])}  # fmt: skip
    whole = msgspec.json.encode(message)
    return dice.choice([whole, whole, whole[:-3], b"[]", b"\xff" + whole, None])


def test_the_ids_of_a_tail_are_those_under_which_ingest_stores_its_records(
    dice: random.Random,
) -> None:
    """By the header, else the device's own number, else the place; the same from the file's lines."""
    for topic in ("data.vehicle", "data.face", "data.video", "quarantine.records", "data.other"):
        place = TopicPartition(topic, dice.randrange(4))
        records = [
            drawn_record(dice)._replace(value=device_value(dice)) for _ in range(dice.randrange(1, 60))
        ]
        batch = build_batch(records)
        assign(batch, 0, 500, 0)
        found = [id for part in diverged_parts(diverged_lines(batch, place, 500), 3) for id in part.ids]
        stored = []
        for offset, record in enumerate(records, 500):
            said = dict(record.headers).get("record-id")
            message = StreamMessage(
                *place, offset, 1, record.value and bytes(record.value),
                record_id=None if said is None else bytes(said).decode("utf-8", "replace"),
            )  # fmt: skip
            stored.append(judge(message, Register(), "Asia/Shanghai").row.record_id)
        assert found == stored


def test_a_tail_is_told_in_bounded_parts_that_lack_no_record_and_have_a_key_each() -> None:
    """Many ids, long ones, and one that is longer than any of ours, which is left out."""
    sizes = [8] * 2500 + [1000] * 900 + [MAX_ID_CHARACTERS + 1] + [9]
    wanted = [f"{number:06d}".ljust(size, "号") for number, size in enumerate(sizes)]
    batch = build_batch([Record(None, b"x", [("record-id", each.encode())]) for each in wanted])
    assign(batch, 0, 7, 0)
    parts = list(diverged_parts(diverged_lines(batch, ONE, 7), 4))
    assert [each for part in parts for each in part.ids] == [
        each for each in wanted if len(each) <= MAX_ID_CHARACTERS
    ]
    assert all(part == decode_diverged_range(encode_diverged_range(part)) for part in parts)
    assert max(len(encode_diverged_range(part)) for part in parts) < MAX_IDS_BYTES + 1000
    assert len({part.key for part in parts}) == len(parts) > 6
    assert (parts[0].offset, parts[-1].end_offset) == (7, 7 + len(wanted))
    assert [part.end_offset for part in parts[:-1]] == [part.offset for part in parts[1:]]
    assert list(diverged_parts([], 4)) == []


def test_counters_have_no_rows_of_their_own() -> None:
    """A store adds them up."""
    assert not has_rows("meter.sent")
    assert has_rows("data.vehicle")
    assert has_rows("data.of_somebody")
    assert has_rows("quarantine.records")


def plain(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def test_a_batch_that_is_cut_as_a_whole_is_kept_as_a_whole_and_damage_has_its_own_error(
    dice: random.Random,
) -> None:
    """The offset of the cut may lie inside it."""
    batch = build_batch([Record(None, b"x") for _ in range(5)])
    assign(batch, 0, 10, 0)
    for offset in range(8, 15):
        assert len(list(diverged_lines(batch, ONE, offset))) == 5
    assert list(diverged_lines(batch, ONE, 15)) == []
    for _ in range(300):
        damaged = bytearray(batch)
        damaged[dice.randrange(12, len(batch))] = dice.randrange(256)
        try:
            list(diverged_lines(damaged, ONE, 10))
        except BusError:
            continue


@pytest.mark.parametrize(
    ("former", "new", "opened", "differs", "common"),
    [
        (100, 90, 90, -1, 90),  # the former one took ten more
        (100, 150, 90, 90, 90),  # both went on
        (80, 150, 80, -1, 80),  # nothing of its own
        (100, 150, None, 70, 70),  # no report: by the batches alone
        (100, 150, 90, 60, 60),  # an older difference wins: what differs is never kept
    ],
)
def test_the_logs_part_at_the_first_end_or_difference(
    former: int, new: int, opened: int | None, differs: int, common: int
) -> None:
    """Whatever is known, the earliest holds."""
    assert common_end(former, new, opened, differs) == common
