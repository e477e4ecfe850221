"""What people and commands have made: every kind is carried or has a reason, the newest wins."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from alarm.dispatch.operations import OperationsStore
from bus.client.model import ConsumedRecord
from bus.contracts.alarm_states import AlarmState
from bus.contracts.mirror_origin import MIRROR_ORIGIN, MirrorOrigin, parse_origin
from bus.contracts.topics import STATE_ALARM, TOPICS, Flow
from bus.contracts.version_floor import FLOOR_KEY
from bus.notify.acknowledgements import Acknowledgements
from bus.settings import SiteSettings
from dr_mirror.state.plan.site_state import NOT_REPLICATED, STATE, Merge, NewestOfKeys
from monitor.accounts.database import AccountDatabase
from monitor.questions.question import Asker, question_about
from monitor.questions.question_log import QuestionLog

RULES = next(kind for kind in STATE if kind.name == "rules")
LISTS = next(kind for kind in STATE if kind.name == "lists of plates")
REGISTER = next(kind for kind in STATE if kind.name == "register")


def tables(path: Path) -> set[str]:
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name for (name,) in rows if not name.startswith("sqlite_")}


def test_every_topic_and_table_of_state_is_carried_or_says_why_not(tmp_path: Path) -> None:
    """A new one has to be decided about, here."""
    site = SiteSettings(data_dir=str(tmp_path))
    operations = tmp_path / "operations.db"
    OperationsStore(operations).close()
    accounts = AccountDatabase(tmp_path)
    with accounts.transaction() as db:
        db.execute("SELECT 1")
    acknowledged = Acknowledgements(site)
    acknowledged.add("a", "me", 1)
    questions = QuestionLog(tmp_path, 400)
    asker = Asker(account="me")
    questions.add(question_about(asker, "search", {"plate": "A"}), 1)
    flows = (Flow.CONTROL, Flow.STATE, Flow.EVENT)
    there = {name for name, topic in TOPICS.items() if topic.flow in flows}
    there |= tables(operations) | tables(accounts.path)
    there |= tables(tmp_path / "notices" / "acknowledged.db") | tables(questions.path)
    carried = {kind.topic for kind in STATE}
    assert carried.isdisjoint(NOT_REPLICATED)
    assert there == carried | set(NOT_REPLICATED)
    assert all(NOT_REPLICATED.values())


def test_every_state_is_a_topic_of_one_partition_that_keeps_the_newest_or_the_order() -> None:
    for kind in STATE:
        topic = TOPICS[kind.topic]
        assert topic.partitions == 1
        assert topic.compacted == (kind.merge is Merge.NEWEST)


def record(
    topic: str, key: str | None, value: object, *, offset: int, at_ms: int = 1,
    origin: MirrorOrigin | None = None,
) -> ConsumedRecord:  # fmt: skip
    headers = [(MIRROR_ORIGIN, origin.value)] if origin else []
    return ConsumedRecord(
        topic, 0, offset, at_ms, None if key is None else key.encode(),
        None if value is None else msgspec.json.encode(value), headers,
    )  # fmt: skip


def carry(kind, primary: Sequence[ConsumedRecord], target: list[ConsumedRecord]) -> NewestOfKeys:
    """One mirror's life: read what is there, carry what is due."""
    state = NewestOfKeys(kind)
    for one in target:
        state.on_target(one)
    for one in primary:
        if state.is_due(one, "A"):
            origin = MirrorOrigin("A", one.offset)
            carried = one._replace(offset=len(target), headers=[(MIRROR_ORIGIN, origin.value)])
            target.append(carried)
            state.on_target(carried)
    return state


def newest(kind, records: Sequence[ConsumedRecord]) -> dict[bytes | None, int | None]:
    found: dict[bytes | None, int | None] = {}
    for one in records:
        version = kind.version(one)
        if version is not None and one.key is not None:
            found[one.key] = max(found.get(one.key) or -1, version)
    return found


def test_the_other_site_gets_the_newest_of_each_key_and_keeps_what_it_has_newer(
    dice: random.Random,
) -> None:
    """Random edits at both, over restarts of the mirror; nothing is carried twice."""
    for _ in range(200):
        primary, target = list[ConsumedRecord](), list[ConsumedRecord]()
        for _ in range(4):
            for _ in range(dice.randrange(6)):
                primary.append(record(
                    RULES.topic, dice.choice("abc"), {"version": dice.randrange(30)},
                    offset=len(primary),
                ))  # fmt: skip
            if dice.random() < 0.4:
                own = {"version": dice.randrange(30)}
                target.append(record(RULES.topic, dice.choice("abc"), own, offset=len(target)))
            carry(RULES, primary, target)
            before = len(target)
            state = carry(RULES, primary, target)
            assert len(target) == before, "a restart carries nothing again"
            ours, theirs = newest(RULES, target), newest(RULES, primary)
            assert all((ours[key] or 0) >= (theirs[key] or 0) for key in theirs)
            own_newer = {
                key for key, version in theirs.items()
                if (ours[key] or 0) > (version or 0)
            }  # fmt: skip
            assert state.newer_there <= own_newer


def test_two_edits_in_one_millisecond_end_with_the_later_one() -> None:
    edits = [record(REGISTER.topic, "device/1", {"n": n}, offset=n, at_ms=5) for n in range(3)]
    target: list[ConsumedRecord] = []
    carry(REGISTER, edits[:2], target)
    carry(REGISTER, edits, target)
    assert target[-1].value == edits[-1].value


def test_lines_of_a_list_are_carried_before_the_record_that_names_them_and_only_once() -> None:
    """Also where the floor is above the time at which they were written: a list may be old. What the
    other site has removed it is not given again, but by a mirror that begins anew."""
    chunk = record(LISTS.topic, "l/base/0", ["lines"], offset=1)
    primary = [
        record(LISTS.topic, FLOOR_KEY, {"version": 50}, offset=0), chunk,
        record(LISTS.topic, "l", {"version": 60}, offset=2),
        record(LISTS.topic, "l/base/1", None, offset=3),
    ]  # fmt: skip
    target: list[ConsumedRecord] = []
    state = carry(LISTS, primary, target)
    assert [one.key for one in target] == [FLOOR_KEY.encode(), b"l/base/0", b"l"]
    assert not state.is_due(chunk, "A")
    assert state.not_named() == []
    carry(LISTS, primary, target)
    assert len(target) == 3
    target.append(record(LISTS.topic, "l/base/0", None, offset=3))
    carry(LISTS, primary, target)
    assert [one.key for one in target[4:]] == [b"l/base/0"]


def test_what_came_from_another_site_is_not_carried_on() -> None:
    foreign = record(
        RULES.topic, "a", {"version": 9}, offset=0, origin=MirrorOrigin("B", 4)
    )  # fmt: skip
    target: list[ConsumedRecord] = []
    carry(RULES, [foreign], target)
    assert target == []


def test_what_is_no_version_is_left_where_it_is() -> None:
    """Anybody may write to a topic."""
    strange = [
        record(RULES.topic, "a", ["no object"], offset=0),
        record(RULES.topic, "a", {"version": "x"}, offset=1),
        record(RULES.topic, "a", None, offset=2),
        record(RULES.topic, None, {"version": 1}, offset=3),
        record(RULES.topic, "a", 1, offset=4)._replace(value=b"\xff{"),
    ]
    target: list[ConsumedRecord] = []
    carry(RULES, strange, target)
    assert target == []


def test_any_bytes_are_an_origin_or_none(dice: random.Random) -> None:
    for _ in range(500):
        one = MirrorOrigin("".join(dice.choices("abcXYZ09_-", k=dice.randrange(1, 23))),
                           dice.randrange(10**17))  # fmt: skip
        assert parse_origin(one.value) == one
        data = bytearray(one.value)
        data[dice.randrange(len(data))] = dice.randrange(256)
        found = parse_origin(bytes(data))
        assert found is None or found.value == bytes(data)
    assert parse_origin(None) is None
    assert parse_origin(b"a:01") is None


ALARM_STATES = next(kind for kind in STATE if kind.topic == STATE_ALARM)


def decided(alarm_id: str, epoch: int, n: int, offset: int, owner: str = "li") -> ConsumedRecord:
    state = AlarmState(alarm_id=alarm_id, stage="taken", epoch=epoch, n=n, owner=owner)
    return record(STATE_ALARM, alarm_id, state, offset=offset)


def test_of_an_alarm_that_both_sites_have_decided_on_the_larger_epoch_and_number_comes_to_both() -> None:
    """A went on deciding until it knew of a forced switch, by a clock that was ahead; B began with the
    next epoch. What B has is carried to A, and A's stays with it alone."""
    at_a = [decided("r:1", 1, 900, 0), decided("r:2", 1, 950, 1), decided("r:3", 1, 5, 2)]
    at_b = [decided("r:1", 1, 900, 0), decided("r:1", 2, 100, 1, "wang"), decided("r:3", 1, 7, 2)]
    state = carry(ALARM_STATES, at_b, at_a)
    assert [one.value for one in at_a[3:]] == [at_b[1].value, at_b[2].value]
    assert state.newer_there == set()
    before = len(at_a)
    carry(ALARM_STATES, at_b, at_a)
    assert len(at_a) == before
    back = [decided("r:1", 1, 990, 0)]  # A's own, from before the switch
    kept = carry(ALARM_STATES, back, [decided("r:1", 2, 100, 0)])
    assert kept.newer_there == {b"r:1"}


def test_a_tombstone_of_an_alarm_is_not_carried_and_what_is_no_state_stays() -> None:
    strange = [
        record(STATE_ALARM, "r:1", None, offset=0),
        record(STATE_ALARM, "r:1", {"epoch": -1, "n": 5}, offset=1),
        record(STATE_ALARM, "r:1", {"epoch": 1 << 40, "n": 5}, offset=2),
        record(STATE_ALARM, "r:1", {"n": 5}, offset=3),
    ]
    target: list[ConsumedRecord] = []
    carry(ALARM_STATES, strange, target)
    assert target == []
