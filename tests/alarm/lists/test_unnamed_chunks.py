"""Lines that no list names are taken away, and no others."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from alarm.decisions.list_machine import MAX_CHUNK_AGE_MS
from alarm.dispatch.table_maintenance import TableMaintenance
from alarm.lists.lists_topic import read_lists
from alarm.lists.unnamed_chunks import CARRIED_UNNAMED_MS, UNNAMED_MS, UnnamedChunks
from bus.client.kafka.admin import Admin
from bus.client.kafka.send_all import send_all
from bus.client.model import ConsumedRecord, KeyedValue
from bus.contracts.plate_lists import ListLine, ListRecord, NamedChunk, base_key, change_key
from bus.contracts.topics import STATE_LISTS, TOPICS
from bus.domain.list_chunks import base_chunks
from bus.domain.retention import RetentionSettings
from bus.runtime import wall_clock
from bus.settings import BusSettings, SiteSettings
from deploy.servers.databus import start_broker

NOW_MS = 1_800_000_000_000


def at(key: str, value: bytes | None, age_ms: int = 2 * UNNAMED_MS) -> ConsumedRecord:
    return ConsumedRecord(STATE_LISTS, 0, 0, NOW_MS - age_ms, key.encode(), value, ())


def named(list_id: str, base: str, version: int, **fields: object) -> ConsumedRecord:
    usual = {"op": "put", "chunks": (NamedChunk(0, 1, "a" * 64),)}
    record = msgspec.convert(
        {"list_id": list_id, "base": base, "version": version, **usual, **fields}, ListRecord
    )
    return at(list_id, msgspec.json.encode(record), 0)


def due(*records: ConsumedRecord, is_primary: bool = True) -> list[str]:
    state = UnnamedChunks()
    for one in records:
        state.apply(one)
    return [key.decode() for key in state.due(NOW_MS, is_primary=is_primary)]


def test_a_base_that_was_replaced_goes_with_its_changes() -> None:
    change = NamedChunk(5, 1, "b" * 64)
    first = [at("l/a/0", b"x"), named("l", "a", 4), at("l/a/+5", b"x"), named("l", "a", 5, changes=(change,))]
    assert due(*first) == []
    assert due(*first, at("l/b/0", b"x"), named("l", "b", 6)) == ["l/a/0", "l/a/+5"]
    assert due(*first, at("l/a/0", None), named("l", "b", 6)) == ["l/a/+5"]
    assert due(*first, named("l", "", 6, op="remove", chunks=())) == ["l/a/0", "l/a/+5"]


def test_what_is_being_imported_stays() -> None:
    """The decider names only what is younger than what goes, by more than a pass lasts."""
    assert due(at("l/a/0", b"x", UNNAMED_MS - 1)) == []
    assert due(at("l/a/0", b"x", UNNAMED_MS + 1)) == ["l/a/0"]
    assert MAX_CHUNK_AGE_MS * 2 <= UNNAMED_MS
    carried = at("l/a/0", b"x", CARRIED_UNNAMED_MS - 1)
    assert due(carried, is_primary=False) == []


def test_an_older_record_that_comes_late_gives_nothing_back() -> None:
    assert due(at("l/a/0", b"x"), at("l/b/0", b"x"), named("l", "b", 6), named("l", "a", 4)) == ["l/a/0"]


def test_lines_of_a_list_that_this_version_cannot_read_stay() -> None:
    strange = at("l", b'{"list_id":"l","op":"frozen","version":9}')
    assert due(at("l/a/0", b"x"), named("l", "b", 6), strange, at("m/a/0", b"x")) == ["m/a/0"]


@pytest.mark.slow
def test_the_recorder_takes_away_what_no_list_names(tmp_path: Path) -> None:
    """The topic's own times count, which are the broker's: a sender's clock may be anything."""
    running = start_broker(tmp_path / "broker")
    bus = BusSettings(bootstrap_servers=running.bootstrap)
    admin = Admin(bus, client_id="test")
    admin.ensure_topics([TOPICS[STATE_LISTS]])
    admin.close()
    chunks = list(base_chunks([ListLine(1, "浙A12345")]))
    record = ListRecord(list_id="l", op="put", version=5, base="b", chunks=(chunks[0].named,))
    send_all(
        bus, "test", STATE_LISTS,
        [KeyedValue(base_key("l", base, 0).encode(), chunks[0].value) for base in ("a", "b")]
        + [KeyedValue(change_key("l", "a", 3).encode(), chunks[0].value),
           KeyedValue(b"l", msgspec.json.encode(record))],
        headers=[], timeout_s=10, what="records",
    )  # fmt: skip
    maintenance = TableMaintenance(SiteSettings(), bus, RetentionSettings())
    now_ms = wall_clock.now_ms()
    assert maintenance.remove_chunks(now_ms, is_primary=True) == 0
    assert maintenance.remove_chunks(now_ms + UNNAMED_MS + 60_000, is_primary=True) == 2
    assert maintenance.remove_chunks(now_ms + UNNAMED_MS + 60_000, is_primary=True) == 0
    stored = read_lists(bus, "test", wanted=None)
    assert [line.plate for line in stored.lines(stored.in_force["l"])] == ["浙A12345"]
    running.stop()
