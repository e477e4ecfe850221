"""How many further passages an alarm stands for, as the operations store and its topics have it."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.reader import OperationsReader
from alarm.dispatch.schema import VERSION, version_of
from bus.contracts.alarms import Suppressed
from bus.contracts.topics import DAY_MS, EVENT_CANDIDATE, EVENT_SUPPRESSED
from bus.domain.retention import RetentionSettings
from bus.domain.visibility import EVERYTHING
from ingest.store.port import PageRequest
from tests.alarm.dispatch.dispatch_world import DispatchWorld, candidate, until
from tests.alarm.dispatch.test_operations import alarm

NOW_MS = 1_800_000_000_000


def passage(record: int, alarm_number: int = 1) -> Suppressed:
    return Suppressed(alarm_id=f"r:{alarm_number}", record_id=str(record), rule_id="r",
                      captured_at_ms=record)  # fmt: skip


def further(path: Path) -> dict[str, int]:
    with closing(OperationsReader(path)) as reader:
        alarms, _ = reader.alarms(viewer=EVERYTHING, page=PageRequest(limit=1000))
        one = {a.alarm_id: found.further_passages for a in alarms if (found := reader.alarm(a.alarm_id, viewer=EVERYTHING))}
        assert one == {a.alarm_id: a.further_passages for a in alarms}
        return one


def test_each_record_counts_once_however_often_it_is_said_and_before_its_alarm_comes(
    tmp_path: Path,
) -> None:
    """A replay may say it again; of two alarms the first that was named has it."""
    path = tmp_path / "operations.db"
    with closing(OperationsStore(path)) as operations:
        operations.apply(BatchChanges(suppressed=[passage(5), passage(6), passage(5)]))
        operations.apply(BatchChanges(alarms=[alarm(1), alarm(2)]))
        operations.apply(BatchChanges(suppressed=[passage(6), passage(5, 2), passage(7, 2)]))
        assert further(path) == {"r:1": 2, "r:2": 1}
        with closing(OperationsReader(path)) as reader:
            assert reader.suppressed() == [passage(5), passage(6), passage(7, 2)]
            assert reader.suppressed(behind=("r", "6")) == [passage(7, 2)]


def test_passages_are_forgotten_with_their_alarm_and_those_without_one_by_age(
    tmp_path: Path,
) -> None:
    """Nothing stays that nobody could ask for."""
    path = tmp_path / "operations.db"
    keep = RetentionSettings(alarms_days=30, incidents_days=30)
    with closing(OperationsStore(path)) as operations:
        old = alarm(1, raised_at_ms=NOW_MS - 31 * DAY_MS)
        operations.apply(BatchChanges(alarms=[old], suppressed=[passage(5)], now_ms=NOW_MS))
        lost = [passage(6, 99)]
        operations.apply(BatchChanges(suppressed=lost, now_ms=NOW_MS - 31 * DAY_MS))
        operations.apply(BatchChanges(suppressed=[passage(7, 98)], now_ms=NOW_MS))
        operations.forget(keep, NOW_MS)
        with closing(OperationsReader(path)) as reader:
            assert reader.suppressed() == [passage(7, 98)]


def test_a_store_of_version_7_is_brought_up_and_keeps_its_alarms(tmp_path: Path) -> None:
    """What it has keeps its ids; passages come from the topic."""
    path = tmp_path / "operations.db"
    with closing(OperationsStore(path)) as operations:
        operations.apply(BatchChanges(alarms=[alarm(1)]))
    with closing(sqlite3.connect(path)) as db:
        db.executescript("DROP TABLE suppressed; DROP TABLE rule_minutes; DROP TABLE digested_alarms;"
            "ALTER TABLE alarms DROP COLUMN kind; ALTER TABLE alarms DROP COLUMN district_id;"
            "DROP INDEX alarms_by_case; ALTER TABLE alarms DROP COLUMN case_number;"
            "ALTER TABLE alarms DROP COLUMN case_target;"
            "ALTER TABLE alarms DROP COLUMN visible_to; PRAGMA user_version = 7")
    with closing(OperationsReader(path)) as reader:
        assert reader.suppressed() == []
    with closing(OperationsStore(path)) as operations:
        operations.apply(BatchChanges(suppressed=[passage(5)]))
    assert further(path) == {"r:1": 1}
    with closing(sqlite3.connect(path)) as db:
        assert version_of(db) == VERSION


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_dispatcher_that_is_killed_over_one_passage_raises_one_alarm(
    world: DispatchWorld,
) -> None:
    """What was suppressed is said at least once and counted once, whoever said it."""
    world.put_rule(quiet_s=10)
    first = world.spawn("first")
    await until(lambda: first.says("dispatcher: ready"), True)
    numbers = range(1, 2001)
    world.candidates(numbers[:1000])
    await until(lambda: len(said(world)) > 0, True)
    first.signal(signal.SIGKILL)
    first.end()
    later = msgspec.structs.replace(candidate(5000), captured_at_ms=20_000)
    world.send(EVENT_CANDIDATE, "r", [later])
    world.candidates(numbers[1000:])
    second = world.spawn("second")
    try:
        await until(lambda: sorted(set(said(world))), sorted(map(str, numbers[1:])))
        assert world.on_topic() == ["r:1", "r:5000"]
        await until(lambda: further(world.path), {"r:1": 1999, "r:5000": 0})
    finally:
        assert second.end() == 0


def said(world: DispatchWorld) -> list[str]:
    """Record ids on `event.suppressed`, as often as they stand there."""
    records = world.records_of(EVENT_SUPPRESSED)
    return [msgspec.json.decode(one.value or b"", type=Suppressed).record_id for one in records]
