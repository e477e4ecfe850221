"""Messages become rows, rejections and counts; every message is counted exactly once."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from bus.contracts.register import Register
from bus.domain.identity import bus_id
from ingest.store.open import open_store
from ingest.store.port import PageRequest, Query, RecordRow, StoreBatch
from spark_apps.apps.ingest import latency_cells, store_batch
from spark_apps.batches.committed_batch import of_store_batch
from spark_apps.batches.message import StreamMessage, envelope_of
from spark_apps.tasks.judge import judge, judge_batches, judge_messages, judged_batch
from tests.ingest.store.made import position
from tests.spark_apps.test_judge import batch as arrow_batch

ZONE = "Asia/Shanghai"
VEHICLE = {"卡口编号": "c1", "车牌号码": "浙AWL999", "车辆颜色": "白色", "抓拍时间": "2017-08-24 17:25:34",
           "抓拍设备地址": "10.0.0.1", "后端图片识别服务器地址": "10.0.1.1"}  # fmt: skip
CAPTURED_MS = 1_503_566_734_000


def vehicle(offset: int = 0, **headers: str) -> StreamMessage:
    body = json.dumps(VEHICLE, ensure_ascii=False).encode()
    return StreamMessage("data.vehicle", 0, offset, 1000, body, **headers)


def stored(messages: list[StreamMessage]) -> StoreBatch:
    return store_batch(judge(message, Register(), ZONE) for message in messages)


def test_a_valid_record_is_a_row_and_counts_as_arrived_and_valid() -> None:
    """By device, server and capture minute."""
    batch = stored([vehicle(record_id="id-1")])
    (row,), (cell,) = batch.rows, batch.quality
    assert (row.record_id, row.plate_key, row.captured_at_ms) == ("id-1", "浙AWL999", CAPTURED_MS)
    assert (cell.kind, cell.camera_ip, cell.recognizer_ip) == ("vehicle", "10.0.0.1", "10.0.1.1")
    assert cell.minute_ms == CAPTURED_MS - CAPTURED_MS % 60_000
    assert (cell.arrived, cell.valid, cell.sent) == (1, 1, 0)


def test_a_record_without_an_id_is_known_by_its_place_and_bytes() -> None:
    """Other people's producers set no header."""
    (row,) = stored([vehicle(7)]).rows
    assert row.record_id == bus_id("data.vehicle", 0, 7, vehicle(7).value or b"")


def test_a_devices_own_number_is_an_identity_on_the_bus_too() -> None:
    """A device that sends again what it numbered makes a duplicate; one that begins to count again
    does not."""

    def identity(offset: int, time: str = "2017-08-24 17:25:34", **headers: str) -> str:
        body = json.dumps(VEHICLE | {"记录编号": "1", "抓拍时间": time}, ensure_ascii=False).encode()
        message = StreamMessage("data.vehicle", 0, offset, 1000, body, **headers)
        (row,) = stored([message]).rows
        return row.record_id

    assert identity(7) == identity(8)
    assert identity(7) != identity(8, "2017-08-25 17:25:34")
    assert identity(7, record_id="mine") == "mine"


def test_a_broken_record_on_a_data_topic_is_rejected_with_its_bytes() -> None:
    """It is kept and counted, never stored with the good ones (I-6)."""
    batch = stored([StreamMessage("data.face", 1, 2, 5, b"\xff{")])
    assert (batch.rows, len(batch.rejected), batch.rejected[0].body) == ([], 1, b"\xff{")
    assert batch.quality[0].rejected == {batch.rejected[0].reason: 1}


def test_a_quarantined_record_keeps_the_reason_the_edge_gave() -> None:
    """Kind, reason and field come from its headers."""
    message = StreamMessage("quarantine.records", 0, 1, 5, b"{}", record_id="q", kind="face",
                      reason="no-time", field="抓拍时间")  # fmt: skip
    (row,) = stored([message]).rejected
    assert (row.record_id, row.kind, row.reason, row.field) == ("q", "face", "no-time", "抓拍时间")


def test_a_stranger_in_quarantine_makes_no_kinds_and_reasons_of_its_own() -> None:
    """What broke: headers are free text, and each new word was another total, for ever."""
    message = StreamMessage("quarantine.records", 0, 1, 5, b"{}", record_id="q", kind="a cat",
                      reason="it is Monday")  # fmt: skip
    (row,) = stored([message]).rejected
    assert (row.kind, row.reason) == ("", "bad-value")


@pytest.mark.parametrize("way", ["driver", "executors"])
def test_of_equal_identities_the_smallest_place_is_the_row(
    way: str, tmp_path: Path, dice: random.Random
) -> None:
    """Whatever order the partitions of a batch came in, into a file as into HBase. What broke: the
    file kept the row that happened to be read first."""
    bodies = [json.dumps(VEHICLE | {"车身颜色": str(number)}).encode() for number in range(12)]
    messages = [
        StreamMessage("data.vehicle", number // 4, number % 4, 1000, body, record_id="one")
        for number, body in enumerate(bodies)
    ]
    dice.shuffle(messages)
    if way == "driver":
        judged = judge_messages(messages, Register(), ZONE)
    else:
        table = arrow_batch([place_and_value(message) for message in messages])
        judged = judged_batch(pa.Table.from_batches(judge_batches([table], Register(), ZONE)))
    batch = store_batch(judged.records)
    store = open_store(f"sqlite://{tmp_path}/records.db", "write")
    applied = store.apply(batch, [position(1)])
    [row], _ = store.query(Query(), PageRequest())
    assert row.body == bodies[0]
    assert (applied.stored, applied.duplicates) == (1, len(bodies) - 1)
    assert sorted(of_store_batch(batch, applied, []).totals) == [
        ("duplicates", "vehicle", "", len(bodies) - 1), ("stored", "vehicle", "", 1)
    ]  # fmt: skip
    store.close()


def place_and_value(message: StreamMessage) -> dict[str, object]:
    headers = [{"key": "record-id", "value": (message.record_id or "").encode()}]
    return {"topic": message.topic, "partition": message.partition, "offset": message.offset,
            "timestamp_ms": message.timestamp_ms, "value": message.value, "headers": headers}  # fmt: skip


def test_totals_of_a_batch_are_by_kind_and_reason(tmp_path: Path) -> None:
    """As the counters of `/metrics` show them; what comes again is told apart."""
    store = open_store(f"sqlite://{tmp_path}/records.db", "write")
    found = []
    for first in (0, 5):
        bad = StreamMessage("data.face", 0, 1, 5, b"\xff{", record_id="bad")
        batch = stored([*(vehicle(n, record_id=f"id-{n}") for n in range(first, first + 10)), bad])
        applied = store.apply(batch, [position(2 * first + 10, 2 * first)])
        found.append(sorted(of_store_batch(batch, applied, []).totals))
    store.close()
    assert found == [
        [("rejected", "face", "not-utf8", 1), ("stored", "vehicle", "", 10)],
        [("duplicates", "vehicle", "", 5), ("rejected duplicates", "face", "", 1),
         ("stored", "vehicle", "", 5)],
    ]  # fmt: skip


def test_the_edges_arrival_time_wins_over_the_brokers_timestamp() -> None:
    """A header that is no number is passed over."""
    assert envelope_of(vehicle(received_at="123")).received_at_ms == 123
    assert envelope_of(vehicle(received_at="-5x")).received_at_ms == 1000
    assert envelope_of(vehicle()).received_at_ms == 1000


def test_latency_is_counted_per_device_and_store_minute_without_replays() -> None:
    """What is sent again from files says nothing about today's latency (L-1)."""
    rows = stored([vehicle(1), vehicle(2), vehicle(3, replay="1")]).rows
    late = [_stored_at(row, CAPTURED_MS + 40) for row in rows]
    (cell,) = latency_cells(late)
    assert cell.buckets == {40: 2}


def test_arrived_is_valid_and_rejected_together(dice: random.Random) -> None:
    """Property: each message is one row or one rejection and one count."""
    messages = []
    for offset in range(400):
        body = bytearray(vehicle().value or b"")
        for _ in range(dice.randrange(3)):
            body[dice.randrange(len(body))] = dice.randrange(256)
        topic = dice.choice(["data.vehicle", "data.face", "data.video", "quarantine.records"])
        messages.append(
            StreamMessage(topic, 0, offset, 1000, bytes(body) if dice.random() < 0.98 else None)
        )
    batch = stored(messages)
    assert len(batch.rows) + len(batch.rejected) == len(messages)
    assert sum(cell.arrived for cell in batch.quality) == len(messages)
    assert sum(cell.valid for cell in batch.quality) == len(batch.rows)
    rejected = sum(sum(cell.rejected.values()) for cell in batch.quality)
    assert rejected == len(batch.rejected)


def _stored_at(row: RecordRow, stored_at_ms: int) -> RecordRow:
    return replace(row, stored_at_ms=stored_at_ms)
