"""How far each alarm is in its life, as the operations store has it and the bus is to hear it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from alarm.dispatch.alarm_state_events import acknowledgement_of, take_request
from alarm.dispatch.alarm_state_table import StateChange
from alarm.dispatch.operations import BatchChanges, OperationsStore, mark_restored
from alarm.dispatch.reader import OperationsReader
from alarm.dispatch.schema import VERSION, version_of
from bus.contracts.alarm_states import AlarmState, AlarmStep, RuleVerdicts
from bus.contracts.alarms import Acknowledged
from bus.domain.alarm_life import STATE_MS
from bus.domain.retention import RetentionSettings
from bus.domain.visibility import EVERYTHING
from ingest.store.port import PageRequest, Position, StoreError
from tests.alarm.dispatch.test_operations import alarm, incident

NOW_MS = 1_795_000_000_000
DAY_MS = 86_400_000


def state(number: int, n: int = NOW_MS, **changes: object) -> AlarmState:
    fields: dict[str, object] = {
        "alarm_id": f"r:{number}", "stage": "taken", "epoch": 0, "n": n, "owner": "li",
        "since_ms": n, "history": [{"op": "take", "by": "li", "at_ms": n, "stage": "taken"}],
    }  # fmt: skip
    return msgspec.convert(fields | changes, AlarmState)


def put(operations: OperationsStore, *states: AlarmState) -> None:
    operations.apply(BatchChanges(alarm_states=[StateChange(one.alarm_id, one) for one in states]))


def read(path: Path, *numbers: int) -> dict[str, AlarmState]:
    with closing(OperationsReader(path)) as reader:
        return reader.alarm_states([f"r:{number}" for number in numbers])


def found(path: Path, **question: object) -> list[str]:
    with closing(OperationsReader(path)) as reader:
        rows, _ = reader.alarms(viewer=EVERYTHING, page=PageRequest(), **question)  # type: ignore[arg-type]
        return [one.alarm_id for one in rows]


def test_the_larger_version_counts_in_any_order_and_the_bus_hears_it_again(
    operations: OperationsStore, path: Path
) -> None:
    """A cleaner would keep the older one, which came later: the newer is to be its last record."""
    newer, older = state(1, NOW_MS, epoch=2), state(1, NOW_MS + 9, epoch=1, owner="wang")
    put(operations, newer, older)
    assert read(path, 1) == {"r:1": newer}
    assert operations.alarm_states.unpublished_states(9) == [newer]
    operations.alarm_states.mark_published([newer])
    put(operations, newer)
    assert operations.alarm_states.unpublished_states(9) == []


def test_a_state_and_the_position_behind_it_are_one_transaction(
    operations: OperationsStore, path: Path
) -> None:
    bad = Position(application="recorder", cluster_id="c", topic=None, topic_id="t", partition=0,  # type: ignore[arg-type]
                   end_offset=9)  # fmt: skip
    with pytest.raises(StoreError):
        operations.apply(
            BatchChanges(alarm_states=[StateChange("r:1", state(1))], positions=[bad])
        )
    assert read(path, 1) == {}


def test_what_was_taken_without_a_decider_reads_as_taken_and_is_said_until_it_was(
    operations: OperationsStore, path: Path
) -> None:
    """Over a restart; also what an earlier version has acknowledged. An incident is nobody's
    alarm."""
    operations.apply(BatchChanges(alarms=[alarm(1), alarm(2)], incidents=[incident("open", "a:1")]))
    taken = [Acknowledged(id=name, by_whom="li", at_ms=NOW_MS) for name in ("r:1", "r:2", "a:1")]
    operations.alarm_states.note_takes(taken)
    put(operations, state(2, NOW_MS + 5, owner="wang"))
    operations.close()
    again = OperationsStore(path)
    again.alarm_states.note_takes(taken)
    [unsaid] = again.alarm_states.unpublished_takes(9)
    assert (unsaid.alarm_id, unsaid.owner, unsaid.stage) == ("r:1", "li", "taken")
    assert read(path, 1, 2)["r:2"].owner == "wang"
    request = take_request(unsaid)
    assert (request.account, request.at_ms, request.op) == ("li", NOW_MS, "take")
    assert request.command_id == take_request(unsaid).command_id
    again.alarm_states.mark_published([unsaid])
    assert again.alarm_states.unpublished_takes(9) == []
    put(again, state(1, NOW_MS + 7))
    assert read(path, 1)["r:1"].n == NOW_MS + 7
    again.close()


def test_alarms_are_found_by_state_owner_and_since_when(
    operations: OperationsStore, path: Path
) -> None:
    operations.apply(BatchChanges(alarms=[alarm(n) for n in range(1, 6)]))
    put(
        operations, state(2), state(3, stage="false", verdict="false", owner="wang"),
        state(4, stage="closed", verdict="confirmed"), state(5, stage="open", owner=""),
    )  # fmt: skip
    assert found(path, stage="open") == ["r:5", "r:1"]
    assert found(path, stage="unfinished") == ["r:5", "r:3", "r:2", "r:1"]
    assert found(path, stage="closed") == ["r:4"]
    assert found(path, owner="li") == ["r:4", "r:2"]
    assert found(path, owner="li", stage="taken") == ["r:2"]
    assert found(path, changed_from_ms=NOW_MS) == ["r:5", "r:4", "r:3", "r:2"]
    assert found(path, changed_from_ms=NOW_MS + 1) == []
    with closing(OperationsReader(path)) as reader:
        assert reader.verdicts() == [RuleVerdicts("r", 2, 1)]


def test_the_rule_is_that_of_the_alarm_whichever_comes_first(
    operations: OperationsStore, path: Path
) -> None:
    """Its id may have a colon; the topics are read side by side."""
    for number, first in ((1, "alarm"), (2, "state")):
        raised = alarm(number, alarm_id=f"list:7:{number}", rule_id="list:7")
        judged = state(number, alarm_id=f"list:7:{number}", stage="false", verdict="false")
        steps = [lambda one=raised: operations.apply(BatchChanges(alarms=[one])), lambda one=judged: put(operations, one)]
        for step in steps if first == "alarm" else reversed(steps):
            step()
    with closing(OperationsReader(path)) as reader:
        assert reader.verdicts() == [RuleVerdicts("list:7", 2, 2)]


def test_a_tombstone_takes_the_state_and_what_the_bus_does_not_know_stays(
    operations: OperationsStore, path: Path
) -> None:
    operations.apply(BatchChanges(alarms=[alarm(1), alarm(2)]))
    put(operations, state(1))
    operations.alarm_states.note_takes([Acknowledged(id="r:2", by_whom="li", at_ms=NOW_MS)])
    operations.apply(
        BatchChanges(alarm_states=[StateChange("r:1", None), StateChange("r:2", None)])
    )
    assert set(read(path, 1, 2)) == {"r:2"}


def test_a_deleted_alarm_takes_its_state_with_it_and_the_topic_gets_a_tombstone(
    operations: OperationsStore, path: Path
) -> None:
    """A state that belongs to no alarm goes when its alarm would have gone."""
    keep = RetentionSettings(alarms_days=30)
    old, new = NOW_MS - 31 * DAY_MS, NOW_MS - DAY_MS
    operations.apply(BatchChanges(alarms=[alarm(1, raised_at_ms=old), alarm(2, raised_at_ms=new)]))
    put(operations, state(1, old + 5), state(2, new + 5), state(3, old + 5), state(4, new + 5))
    operations.forget(keep, NOW_MS)
    assert sorted(operations.alarm_states.deleted(9)) == ["r:1", "r:3"]
    assert set(read(path, 1, 2, 3, 4)) == {"r:2", "r:4"}
    operations.alarm_states.mark_deleted(["r:1", "r:3"])
    assert operations.alarm_states.deleted(9) == []


def test_what_nobody_has_touched_for_long_leaves_the_topic_and_stays_in_the_store(
    operations: OperationsStore, path: Path
) -> None:
    """Its own tombstone does not take it; a restored topic does not get it back."""
    operations.apply(BatchChanges(alarms=[alarm(1), alarm(2)]))
    put(operations, state(1, NOW_MS - STATE_MS - 1), state(2, NOW_MS - STATE_MS + 1))
    operations.forget(RetentionSettings(), NOW_MS)
    assert operations.alarm_states.deleted(9) == ["r:1"]
    operations.apply(BatchChanges(alarm_states=[StateChange("r:1", None)]))
    operations.alarm_states.mark_all_unpublished()
    assert [one.alarm_id for one in operations.alarm_states.unpublished_states(9)] == ["r:2"]
    assert set(read(path, 1, 2)) == {"r:1", "r:2"}


def test_a_restored_file_says_its_states_where_the_topic_lacks_them(
    operations: OperationsStore, path: Path
) -> None:
    put(operations, state(1), state(2))
    operations.close()
    mark_restored(path, NOW_MS)
    again = OperationsStore(path)
    put(again, state(1))  # the topic has it still
    assert [one.alarm_id for one in again.alarm_states.unpublished_states(9)] == ["r:2"]
    again.close()


def test_a_file_of_the_version_before_gets_the_table_and_is_read_before_it_has_one(
    path: Path
) -> None:
    operations = OperationsStore(path)
    operations.apply(BatchChanges(alarms=[alarm(1)]))
    operations.close()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "DROP TABLE alarm_states; DROP TABLE deleted_alarm_states; DROP TABLE suppressed;"
            "DROP TABLE rule_minutes; DROP TABLE digested_alarms;"
            "ALTER TABLE alarms DROP COLUMN kind; ALTER TABLE alarms DROP COLUMN district_id;"
            "DROP INDEX alarms_by_case; ALTER TABLE alarms DROP COLUMN case_number;"
            "ALTER TABLE alarms DROP COLUMN case_target;"
            "ALTER TABLE alarms DROP COLUMN visible_to; PRAGMA user_version = 7;"
        )
    assert (found(path), found(path, stage="open"), found(path, stage="taken")) == (["r:1"], ["r:1"], [])
    assert read(path, 1) == {}
    with closing(OperationsReader(path)) as reader:
        OperationsStore(path).close()
        assert reader.alarm_states(["r:1"]) == {}
    with closing(sqlite3.connect(path)) as db:
        assert version_of(db) == VERSION


def test_whoever_has_it_in_hand_has_acknowledged_it() -> None:
    given = state(1, history=[
        AlarmStep(op="take", by="li", at_ms=5, stage="taken"),
        AlarmStep(op="assign", by="li", at_ms=7, stage="assigned", to="wang"),
        AlarmStep(op="comment", by="wu", at_ms=9, stage="assigned"),
    ], owner="wang")  # fmt: skip
    assert acknowledgement_of(given) == Acknowledged(id="r:1", by_whom="wang", at_ms=7)
    assert acknowledgement_of(state(1, owner="")) is None
    assert acknowledgement_of(None) is None
