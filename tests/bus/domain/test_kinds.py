"""The table of kinds is the only reading of what kinds of data there are."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict

import pytest

from bus.contracts import keys
from bus.domain.kinds import KINDS, WIRE_KEYS, guess_kind
from deploy.paths import PROJECT_ROOT

# A row more, made before anything else is imported: what a contributor's row would be.
ANOTHER_KIND = """
from msgspec.structs import replace
from dataclasses import replace as replaced
import json
from bus.contracts import keys, topics
from bus.domain import kinds

table = {**keys.PLACE_AND_TIME, "箱号": "container_number", "箱体图片地址": "container_picture_url"}
kind = kinds.DataKind("container", "data.container", table, ("container",))
topics.TOPICS["data.container"] = replaced(topics.TOPICS["data.video"], name="data.container")
kinds.KINDS[kind.name] = kind
kinds.KIND_OF_TOPIC[kind.topic] = kind.name
kinds.TOPIC_OF_KIND[kind.name] = kind.topic
kinds.KEYS_OF_KIND[kind.name] = kinds.KEYS_AS_STORED["container"] = table

from ingest.edge.admission import PostedRecord, RequestInfo, admit
from ingest.normalise import Envelope, normalise
from ingest.normalise.diagnostics import explain
from ingest.store.port import Position, PageRequest, Query, StoreBatch
from ingest.store.sqlite.writer import SqliteStore
from monitor.console.elements import COLOURS
from monitor.console.pages.latency import LIVE_KINDS
from monitor.console.rows import body_facts
from monitor.live.live_state import LiveState
from pathlib import Path
import sys

record = {"卡口编号": "c1", "抓拍时间": "2026-08-24 17:25:34.123", "抓拍设备地址": "10.0.0.1",
          "箱号": "MSKU1234565", "箱体图片地址": "http://p/1.jpg"}
body = json.dumps(record, ensure_ascii=False).encode()
zone = "Asia/Shanghai"
request = RequestInfo(sender="s", source="peer", received_at_ms=1_787_563_535_000,
                      day="20260824", site="main", zone=zone, idempotency_key="", replayed=False,
                      max_record_bytes=1 << 19)
admitted = admit(PostedRecord("container", body), 0, request, b"0123456789", lambda name: name)
assert (admitted.reason, admitted.entry.topic, admitted.entry.key) == ("", "data.container", b"10.0.0.1")
assert [fault.message for fault in explain(body, "container", zone)] == []
assert "箱号" in [f.message for f in explain(body.replace("箱号".encode(), "箱号 ".encode()), "container", zone)][0]

row = normalise(body, "container", Envelope(received_at_ms=1, record_id="id-1"), None, zone)
assert (row.kind, row.picture_url, row.plate_key) == ("container", "http://p/1.jpg", "")
bad = normalise(b'{"n": 1}', "container", Envelope(received_at_ms=1, record_id="id-2"), None, zone)
assert bad.reason == "no-checkpoint"
store = SqliteStore(Path(sys.argv[1]) / "records.db")
store.apply(StoreBatch(rows=[row]), [])
[[stored], _] = store.query(Query(kind="container"), PageRequest())
assert stored.record_id == "id-1"

live = LiveState(rows=5)
live.delta(1_000)
live.on_counts({"data.container": 7})
[point] = live.delta(2_000).rates
assert point.rates["container"] == 7.0
assert "container" in COLOURS and "container" in LIVE_KINDS
print("whole")
"""


def test_a_row_more_is_received_judged_stored_counted_and_shown(tmp_path: object) -> None:
    """Nothing but the table, the contract and words is touched for a kind whose records are valid when
    place and time are readable."""
    done = subprocess.run(
        [sys.executable, "-c", ANOTHER_KIND, str(tmp_path)], cwd=PROJECT_ROOT, timeout=60,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "whole\n", done.stderr


def test_an_attribute_has_one_key_in_all_kinds() -> None:
    """Messages of all kinds are read by one table of names."""
    found = defaultdict(set)
    for kind in KINDS.values():
        for key, attribute in kind.keys.items():
            found[attribute].add(key)
    assert {a: k for a, k in found.items() if len(k) > 1} == {}


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ({"车牌号码", "卡口编号"}, "vehicle"),
        ({"人脸特征", "场景图片地址"}, "face"),
        ({"人脸图片"}, "face"),
        ({"目标类别", "抓拍时间"}, "video"),
        ({"目标图片"}, "video"),
        ({"卡口编号", "抓拍时间"}, "vehicle"),
        (set(), "vehicle"),
    ],
)
def test_a_message_is_of_the_kind_whose_own_keys_it_has(names: set[str], kind: str) -> None:
    """Inline pictures count as the address that they become."""
    assert guess_kind(names) == kind


def test_rules_may_name_what_has_a_wire_key() -> None:
    """Every attribute of a kind that is matched, and of no other."""
    assert set(WIRE_KEYS) == {kind.name for kind in KINDS.values() if kind.has_rules}
    assert WIRE_KEYS["vehicle"]["plate_number"] == next(iter(keys.RECOGNITION))
