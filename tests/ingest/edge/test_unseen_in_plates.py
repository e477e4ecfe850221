"""From the edge to the alarm and the search: what is no letter or digit of a plate hides no car."""

from __future__ import annotations

import json
import random
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alarm.rules import compile_rules, verdict
from bus.contracts.alarms import Alarm, Candidate
from bus.contracts.commands import WatchCommand
from bus.domain.rule_values import attributes_of
from ingest.edge.admission import PostedRecord, RequestInfo, admit
from ingest.normalise import Envelope, normalise
from ingest.normalise.diagnostics import explain
from ingest.store.open import open_store
from ingest.store.port import PageRequest, Query, RecordRow, StoreBatch
from tests.bus.domain.test_plates import OTHERS

AT_MS = 1_795_876_287_000
REQUEST = RequestInfo(
    sender="s", source="192.0.2.1", received_at_ms=AT_MS, day="20261128", site="west",
    zone="Asia/Shanghai", idempotency_key="", replayed=False, max_record_bytes=1 << 20,
)  # fmt: skip
PLATES = ["浙A10002\0\0\0", "浙A1\u200b0003", "\ufeff浙A10004", "浙\u115fA10005", "浙A1000\ufe0f6", "浙A\u030110007", "粤Z10008澳\x7f",
          "AB\u00ad-102-CD", "浙A-10009", "浙AD10\x1f010"]  # fmt: skip
CLEAN = ["浙A10002", "浙A10003", "浙A10004", "浙A10005", "浙A10006", "浙A10007", "粤Z10008澳", "AB102CD", "浙A10009", "浙AD10010"]


def message(plate: str) -> bytes:
    return json.dumps({
        "卡口编号": "330100#1", "抓拍设备地址": "192.0.2.21", "抓拍时间": "2026-11-28 19:31:26.937", "车牌颜色": "蓝色", "车牌号码": plate,
    }).encode()  # fmt: skip


def alarms(rule: str, row: RecordRow) -> list[Alarm]:
    """As watch list and dispatcher find them."""
    command = WatchCommand(rule_id="r", op="put", version=1, name="n", match={"plate_number": [rule]})
    rules = compile_rules([command])
    found = rules.match("vehicle", attributes_of("vehicle", json.loads(row.body)), [row.captured_at_ms])
    candidates = [
        Candidate(rule_id=one.rule_id, rule_version=1, record_id=row.record_id, kind="vehicle", received_at_ms=AT_MS,
                  captured_at_ms=row.captured_at_ms, record=row.body.decode())
        for one in found
    ]  # fmt: skip
    return [alarm for one in candidates if (alarm := verdict(rules, one, AT_MS))]


@pytest.mark.parametrize(("written", "clean"), list(zip(PLATES, CLEAN, strict=True)))
def test_a_car_is_found_whatever_stands_unseen_in_its_plate(written: str, clean: str, tmp_path: Path, dice: random.Random):
    """Key, warning, alarm and search; the record keeps what was written."""
    one = admit(PostedRecord("vehicle", message(written)), 0, REQUEST, dice.randbytes(10), str)
    is_doubtful = written == "浙A-10009"
    assert one.entry.key == (None if is_doubtful else clean.encode())
    unseen = [sign for sign in written if sign not in clean + "-"]
    named = [fault for fault in one.warnings if fault.field == "车牌号码"]
    assert len(named) == bool(unseen)
    for fault in named:
        assert all(f"U+{ord(sign):04X}" in fault.message and f"U+{ord(sign):04X}" in fault.message_zh for sign in unseen)
    assert {f.message for f in named} <= {f.message for f in explain(one.entry.value, "vehicle", "Asia/Shanghai")}
    row = normalise(one.entry.value, "vehicle", Envelope(received_at_ms=AT_MS, record_id="id-1"), None, "Asia/Shanghai")
    assert isinstance(row, RecordRow)
    assert row.plate_number == written
    for rule in (clean, written):
        assert [alarm.plate_is_doubtful for alarm in alarms(rule, row)] == [is_doubtful], rule
    assert alarms("浙A99999", row) == []
    store = open_store(f"sqlite://{tmp_path}/records.db", "write")
    store.apply(StoreBatch(rows=[row]), [])
    for asked in (clean, written, clean[:2] + "*", clean[:-1] + "?"):
        found, _ = store.query(Query(plate=asked), PageRequest())
        assert [each.plate_number for each in found] == [written], asked
        assert store.count(Query(plate=asked)) == 1
    store.close()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(OTHERS.filter(lambda one: not "\ud800" <= one <= "\udfff"), st.integers(0, 7)), min_size=20, max_size=20))
def test_one_search_finds_a_plate_with_any_odd_character_at_any_place(drawn: list[tuple[str, int]]) -> None:
    """All of Unicode, through the edge into the store; each record has the key of its partition and
    meets the rule."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, closing(open_store(f"sqlite://{folder}/r.db", "write")) as store:
        for number, (odd, at) in enumerate(drawn):
            written = "浙A12345"[:at] + odd + "浙A12345"[at:]
            one = admit(PostedRecord("vehicle", message(written)), number, REQUEST, number.to_bytes(10, "big"), str)
            assert one.entry.key == "浙A12345".encode(), ascii(odd)
            envelope = Envelope(received_at_ms=AT_MS, record_id=one.record_id)
            row = normalise(one.entry.value, "vehicle", envelope, None, "Asia/Shanghai")
            assert isinstance(row, RecordRow)
            assert len(alarms("浙A12345", row)) == 1
            rows.append(row)
        store.apply(StoreBatch(rows=rows), [])
        assert store.count(Query(plate="浙A12345")) == len(rows)
        assert store.count(Query(plate="浙A12346")) == 0
