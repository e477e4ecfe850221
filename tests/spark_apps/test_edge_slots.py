"""The edge says of each message where ingest will count it: the two must agree on every message."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bus.contracts import headers
from bus.contracts.register import Register
from ingest.edge.admission import PostedRecord, RequestInfo, admit
from ingest.spool.frame import decode, encode, payloads
from spark_apps.apps.ingest import store_batch
from spark_apps.batches.message import StreamMessage
from spark_apps.tasks.judge import judge

ZONE = "Asia/Shanghai"
NOW_MS = 1_503_566_800_000
KEYS = ("卡口编号", "抓拍时间", "抓拍设备地址", "识别服务器地址", "车牌号码", "记录编号", "备注")
VALUES = st.one_of(
    st.sampled_from(["", "c1", "10.0.0.1", "2017-08-24 17:25:34", "2031-01-01 00:00:00", "浙A1"]),
    st.text(max_size=8),
    st.integers(-5, 5),
    st.none(),
)
MESSAGES = st.one_of(
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=len(KEYS)).map(
        lambda found: json.dumps(found, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ),
    st.binary(max_size=40),
)
TOLD = {
    "record_id": headers.RECORD_ID,
    "received_at": headers.RECEIVED_AT,
    "kind": headers.KIND,
    "reason": headers.REASON,
    "field": headers.FIELD,
}


@given(MESSAGES, st.sampled_from(["vehicle", "face", "video"]), st.sampled_from([60, 100_000]))
def test_the_slot_of_a_message_at_the_edge_is_its_cell_in_ingest(
    value: bytes, kind: str, max_record_bytes: int
) -> None:
    """Valid or not, cut or whole, after a walk through the spool."""
    request = RequestInfo(
        sender="s", source="10.9.9.9", received_at_ms=NOW_MS, day="20170824", site="west",
        zone=ZONE, idempotency_key="", replayed=False, max_record_bytes=max_record_bytes,
    )  # fmt: skip
    admitted = admit(PostedRecord(kind, value), 0, request, bytes(10), lambda name: f"http://p/{name}")
    [(payload, _)] = payloads(encode(admitted.entry))
    entry = decode(payload)
    found = dict(entry.headers)
    told = {name: found[key].decode() for name, key in TOLD.items() if key in found}
    message = StreamMessage(entry.topic, 0, 0, entry.timestamp_ms, entry.value, **told)
    [cell] = store_batch([judge(message, Register(), ZONE)]).quality
    assert entry.slot == (cell.kind, cell.camera_ip, cell.recognizer_ip, cell.minute_ms)


def test_what_is_kept_of_a_refused_request_is_in_no_count() -> None:
    """It is stored with its reason, under no kind; no record has arrived with it."""
    message = StreamMessage(
        "quarantine.records", 0, 0, NOW_MS, b"--boundary", reason="refused",
        field="foreign-form", record_id="x", source="10.1.2.3",
    )  # fmt: skip
    judged = judge(message, Register(), ZONE)
    batch = store_batch([judged])
    assert (judged.kind, list(batch.quality)) == ("", [])
    assert [(row.reason, row.field, row.source) for row in batch.rejected] == [
        ("refused", "foreign-form", "10.1.2.3")
    ]
