"""The operations store: once only, in one transaction, readable page by page."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.reader import OperationsReader
from bus.contracts.alarms import Alarm, Incident, Suppressed
from bus.contracts.commands import DecidedRule
from bus.domain.visibility import EVERYTHING, Viewer, concerns, may_see
from bus.notify.notice_table import after_attempt
from ingest.store.port import InvalidCursor, PageRequest, Position, StoreError, StoreUnavailable


def alarm(number: int, **changes: object) -> Alarm:
    fields: dict[str, object] = {
        "alarm_id": f"r:{number}", "rule_id": "r", "rule_name": "n", "severity": "warning",
        "record_id": str(number), "kind": "vehicle", "checkpoint_id": "c", "captured_at_ms": number,
        "received_at_ms": number, "raised_at_ms": number, "plate_number": f"浙A{number:05d}",
    }  # fmt: skip
    return msgspec.convert(fields | changes, Alarm)


def incident(state: str, incident_id: str = "i", at_ms: int = 1) -> Incident:
    return msgspec.convert(
        {"incident_id": incident_id, "kind": "latency", "state": state, "opened_at_ms": at_ms},
        Incident,
    )


def position(end_offset: int) -> Position:
    return Position(application="dispatcher", cluster_id="c", topic="event.candidate",
                    topic_id="t", partition=0, end_offset=end_offset)  # fmt: skip


def test_an_alarm_is_stored_and_told_once_however_often_it_comes(
    operations: OperationsStore,
) -> None:
    """The topic repeats an alarm whose acknowledgement was lost."""
    first = operations.apply(BatchChanges(alarms=[alarm(1), alarm(1), alarm(2)]))
    again = operations.apply(BatchChanges(alarms=[alarm(2, raised_at_ms=99), alarm(1)]))
    assert ([a.alarm_id for a in first], again) == (["r:1", "r:2"], [])
    assert [n.subject for n in operations.notices.due("log", 0, 10)] == ["r:1", "r:2"]


def test_what_is_old_when_it_is_read_is_stored_and_told_nobody(operations: OperationsStore) -> None:
    """A store that was lost is filled from a month of alarms: their notices would help nobody."""
    old, new = incident("open", "old"), incident("open", "new", at_ms=100)
    operations.apply(
        BatchChanges(alarms=[alarm(99), alarm(100)], incidents=[old, new], notify_since_ms=100)
    )
    assert [n.subject for n in operations.notices.due("log", 0, 10)] == ["new:open", "r:100"]


def test_alarms_and_positions_are_one_transaction(operations: OperationsStore, path: Path) -> None:
    """What fails leaves neither."""
    bad = msgspec.structs.replace(position(9), topic=None)
    with pytest.raises(StoreError):
        operations.apply(BatchChanges(alarms=[alarm(1)], positions=[bad]))
    operations.apply(BatchChanges(alarms=[alarm(2)], positions=[position(7)]))
    reader = OperationsReader(path)
    found, _ = reader.alarms(viewer=EVERYTHING, page=PageRequest())
    assert [a.alarm_id for a in found] == ["r:2"]
    assert reader.positions("dispatcher") == [position(7)]


def test_an_incident_is_told_once_when_it_opens_and_once_when_it_closes(
    operations: OperationsStore,
) -> None:
    """Repeated messages send nothing, and a late opening does not reopen the incident."""
    for state in ("open", "open", "closed", "closed", "open"):
        operations.apply(BatchChanges(incidents=[incident(state)]))
    assert [n.subject for n in operations.notices.due("log", 0, 10)] == ["i:open", "i:closed"]


def test_what_its_own_process_has_notified_is_stored_and_not_notified_again(
    operations: OperationsStore, path: Path
) -> None:
    """The watch notifies by itself, because it must with the bus away."""
    notified = msgspec.structs.replace(incident("open"), notified_by="watch")
    operations.apply(BatchChanges(incidents=[notified]))
    assert operations.notices.due("log", 1 << 60, 10) == []
    reader = OperationsReader(path)
    assert [i.incident_id for i in reader.incidents(page=PageRequest())[0]] == ["i"]
    reader.close()


def test_open_incidents_can_be_asked_for(operations: OperationsStore, path: Path) -> None:
    """The console shows what is wrong now."""
    operations.apply(
        BatchChanges(incidents=[incident("open", "a"), incident("open", "b"), incident("closed", "a")])
    )
    reader = OperationsReader(path)
    assert [i.incident_id for i in reader.incidents(page=PageRequest(), open_only=True)[0]] == ["b"]
    assert [i.incident_id for i in reader.incidents(page=PageRequest())[0]] == ["b", "a"]


def test_pages_follow_each_other_without_gap_or_repetition(
    operations: OperationsStore, path: Path, dice: random.Random
) -> None:
    """By key: alarms that come between two pages shift nothing."""
    operations.apply(BatchChanges(alarms=[alarm(n) for n in range(100)]))
    reader, cursor, seen = OperationsReader(path), "", []
    while True:
        found, cursor = reader.alarms(viewer=EVERYTHING, page=PageRequest(limit=dice.randrange(1, 20), cursor=cursor))
        seen += [a.captured_at_ms for a in found]
        operations.apply(BatchChanges(alarms=[alarm(1000 + len(seen))]))
        if not cursor:
            break
    assert seen == list(range(99, -1, -1))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({"plate": "浙 a00003"}, [3]),
        ({"plate": "浙A0000*"}, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        ({"plate": "*00011"}, [11]),
        ({"severity": "critical"}, [15]),
        ({"rule_id": "other"}, [16]),
        ({"checkpoint_id": "far"}, [17]),
        ({"raised_from_ms": 18, "raised_until_ms": 19}, [18]),
        ({"plate": "浙A00003", "severity": "critical"}, []),
    ],
)
def test_questions_restrict_alarms(
    operations: OperationsStore, path: Path, question: dict[str, object], expected: list[int]
) -> None:
    """By plate, severity, rule, checkpoint and time."""
    special = {15: {"severity": "critical"}, 16: {"rule_id": "other"}, 17: {"checkpoint_id": "far"}}
    operations.apply(BatchChanges(alarms=[alarm(n, **special.get(n, {})) for n in range(20)]))
    found, _ = OperationsReader(path).alarms(viewer=EVERYTHING, page=PageRequest(), **question)  # type: ignore[arg-type]
    assert [a.captured_at_ms for a in found] == expected


def test_rules_in_force_are_kept_for_the_console(operations: OperationsStore, path: Path) -> None:
    """The newest command per rule; removed ones are not shown."""
    put = DecidedRule(rule_id="a", op="put", version=1)
    gone = DecidedRule(rule_id="b", op="remove", version=2)
    operations.apply(BatchChanges(commands=[put, msgspec.structs.replace(put, rule_id="b"), gone]))
    assert [rule.rule_id for rule in OperationsReader(path).rules()] == ["a"]


def test_a_second_writer_is_refused(operations: OperationsStore, path: Path) -> None:
    """One file, one writer."""
    with pytest.raises(StoreUnavailable):
        OperationsStore(path)


def test_a_reader_says_when_there_is_no_store_yet(tmp_path: Path) -> None:
    """The console starts before the dispatcher."""
    with pytest.raises(StoreUnavailable):
        OperationsReader(tmp_path / "none.db")


@pytest.mark.parametrize("cursor", ["x", "1.2", "1;", "١"])
def test_a_strange_cursor_is_a_typed_error(operations: OperationsStore, path: Path, cursor: str) -> None:
    """Cursors are input from clients."""
    with pytest.raises(InvalidCursor):
        OperationsReader(path).alarms(viewer=EVERYTHING, page=PageRequest(cursor=cursor))


def test_a_write_that_fails_leaves_no_transaction_open(operations: OperationsStore) -> None:
    """Otherwise no process could write to the file until a restart."""
    operations.apply(BatchChanges(alarms=[alarm(1)]))
    notice = operations.notices.due("log", 0, 10)[0]
    unfit = 1 << 64  # a number too large for SQLite
    with pytest.raises(OverflowError):
        operations.notices.record(after_attempt(notice, unfit))
    with pytest.raises(OverflowError):
        operations.mark_produced([unfit])
    with pytest.raises(OverflowError):
        operations.apply(BatchChanges(alarms=[alarm(2, raised_at_ms=unfit)]))
    assert [a.alarm_id for a in operations.apply(BatchChanges(alarms=[alarm(3)]))] == ["r:3"]
    assert [n.subject for n in operations.notices.due("log", 0, 10)] == ["r:1", "r:3"]


def test_alarms_are_found_by_what_was_read_of_a_plate_those_of_earlier_versions_too(
    operations: OperationsStore, path: Path
) -> None:
    """Unseen characters, unread ones and a doubtful hyphen; a stored key is brought into today's
    form."""
    written = ["浙A1\u200b0003", "浙B1*345", "浙A-12345", "AB-102-CD", "浙A10004", "无车牌"]
    operations.apply(BatchChanges(alarms=[alarm(n, plate_number=one) for n, one in enumerate(written)]))
    with operations._db as db:
        db.execute("UPDATE alarms SET plate_key = '浙A1\u200b0004' WHERE alarm_id = 'r:4'")
    reader = OperationsReader(path)
    for asked, found in (("浙A10003", [0]), ("浙B12345", [1]), ("浙A12345", [2]), ("浙AD12345", [2]), ("AB102CD", [3]),
                         ("浙A10004", [4]), ("浙A1000?", [4, 0]), ("浙B*", [1]), ("无车牌", []), ("浙A99999", [])):  # fmt: skip
        rows, _ = reader.alarms(viewer=EVERYTHING, page=PageRequest(), plate=asked)
        assert [int(one.record_id) for one in rows] == found, asked
    reader.close()


VIEWERS = [Viewer(), Viewer("a"), Viewer("b", frozenset({"d1"})), Viewer("a", frozenset({"d1"})), EVERYTHING]
AUDIENCES = [(units, district, kind) for units in ([], ["a"], ["a", "b"]) for district in ("", "d1", "d2")
             for kind in ("vehicle", "face")]  # fmt: skip


@pytest.mark.parametrize("viewer", VIEWERS)
@pytest.mark.parametrize("only_concerning", [False, True])
@pytest.mark.parametrize(("kind", "district"), [("", ""), ("face", ""), ("", "d2"), ("vehicle", "d1")])
def test_the_store_answers_as_the_one_function_says_who_sees_what(
    operations: OperationsStore, path: Path, viewer: Viewer, only_concerning: bool, kind: str, district: str
) -> None:
    """In SQL, so that pages are whole; an alarm by its id is asked for in the same way."""
    stored = [
        alarm(n, visible_to=units, district_id=place, kind=of)
        for n, (units, place, of) in enumerate(AUDIENCES, start=1)
    ]
    operations.apply(BatchChanges(alarms=stored))
    wanted = [
        one.alarm_id for one in reversed(stored)
        if may_see(viewer, one.visible_to) and kind in ("", one.kind) and district in ("", one.district_id)
        and (not only_concerning or concerns(viewer, one.district_id, one.visible_to))
    ]  # fmt: skip
    with closing(OperationsReader(path)) as reader:
        found: list[str] = []
        page = PageRequest(limit=2)
        while True:
            rows, cursor = reader.alarms(
                viewer=viewer, page=page, kind=kind, district_id=district, only_concerning=only_concerning
            )
            found += [one.alarm_id for one in rows]
            assert len(rows) == 2 or not cursor
            if not cursor:
                break
            page = PageRequest(limit=2, cursor=cursor)
        by_id = {one.alarm_id for one in stored if reader.alarm(one.alarm_id, viewer=viewer)}
    assert found == wanted
    assert by_id == {one.alarm_id for one in stored if may_see(viewer, one.visible_to)}


def test_a_file_of_the_version_before_is_read_and_gets_the_columns(
    operations: OperationsStore, path: Path
) -> None:
    """Its alarms are everybody's, of no district and no case, and have their kind."""
    operations.apply(BatchChanges(alarms=[alarm(1), alarm(2, kind="face")]))
    operations.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP INDEX alarms_by_case")
        for column in ("kind", "district_id", "visible_to", "case_number", "case_target"):
            db.execute(f"ALTER TABLE alarms DROP COLUMN {column}")
        db.execute("PRAGMA user_version = 8")

    def ids(**asked: str) -> list[str]:
        with closing(OperationsReader(path)) as reader:
            rows, _ = reader.alarms(viewer=Viewer("b", frozenset({"d9"})), page=PageRequest(), **asked)  # type: ignore[arg-type]
        return [one.alarm_id for one in rows]

    before = ids(), ids(kind="face"), ids(case="K-1")
    OperationsStore(path).close()
    assert before == (ids(), ids(kind="face"), ids(case="K-1")) == (["r:2", "r:1"], ["r:2"], [])


def test_alarms_are_found_by_their_case_and_target_and_who_does_not_see_them_finds_none(
    operations: OperationsStore, path: Path
) -> None:
    """Of a record that two rules of a target have met none is counted as a further passage."""
    operations.apply(BatchChanges(alarms=[
        alarm(1, case="K-1", case_target="driver"), alarm(2, case="K-1"), alarm(3, case="K-10"),
        alarm(4, case="K-1", case_target="driver", visible_to=["a"]), alarm(5),
    ], suppressed=[
        Suppressed(alarm_id="r:1", record_id="1", rule_id="other", captured_at_ms=1),
        Suppressed(alarm_id="r:1", record_id="11", rule_id="r", captured_at_ms=1),
        Suppressed(alarm_id="r:1", record_id="11", rule_id="other", captured_at_ms=1),
        Suppressed(alarm_id="r:1", record_id="r:1", rule_id="other", captured_at_ms=1),
    ]))  # fmt: skip
    with closing(OperationsReader(path)) as reader:
        for unit, case, target, wanted in (
            ("b", "K-1", "", ["r:2", "r:1"]), ("b", "K-1", "driver", ["r:1"]), ("a", "K-1", "driver", ["r:4", "r:1"]),
            ("b", "K-10", "", ["r:3"]), ("b", "K-9", "", []),
        ):  # fmt: skip
            found, _ = reader.alarms(page=PageRequest(), viewer=Viewer(unit), case=case, case_target=target)
            assert [one.alarm_id for one in found] == wanted
        one = reader.alarm("r:1", viewer=Viewer("b"))
        assert one is not None
        assert one.further_passages == 2
