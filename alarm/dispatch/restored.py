"""A store that came out of a backup: what began since may have been notified before the restore.

The file says so itself, from the restore until the topics have been read to their end. Meanwhile
what began before the restore is kept here, and `event.notified` says whom it reached. What is left
is notified once, marked, and as one digest for a notifier that would get too many. Never: a notice
of what `event.notified` names for that notifier; one that is left out of every count.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator

import msgspec

from alarm.dispatch.unnotified import add_unnotified
from bus.contracts.alarms import Alarm, Incident, Notified
from bus.notify.notice_digest import MOST_SINGLE, RepeatedNotice, digest_of
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import CLOSED, DIGEST, OPEN, NoticeTable

RESTORED = """
CREATE TABLE IF NOT EXISTS restored (at_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS perhaps_notified (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notified_before (
    alarm_id TEXT PRIMARY KEY, notifiers TEXT NOT NULL
) WITHOUT ROWID;
"""
"""`restored` has a row until all was read. `perhaps_notified`: alarms and incidents; `notifiers` is
a JSON list."""


def mark_restored(db: sqlite3.Connection, at_ms: int) -> None:
    """The file is a copy that was made earlier, within a transaction: what waits in it for a
    notifier may have been sent since."""
    db.execute("DELETE FROM restored")
    db.execute("INSERT INTO restored VALUES (?)", (at_ms,))
    waiting = db.execute("SELECT DISTINCT subject FROM notices WHERE outcome = ''").fetchall()
    ids = [subject.removesuffix(OPEN).removesuffix(CLOSED) for (subject,) in waiting]
    keep(db, ids)
    db.execute("DELETE FROM notices WHERE outcome = ''")
    db.executemany("DELETE FROM unnotified_alarms WHERE alarm_id = ?", [(one,) for one in ids])


def restored_at_ms(db: sqlite3.Connection) -> int:
    """When the file was put back, while its topics are not read to their end; else 0."""
    row = db.execute("SELECT max(at_ms) FROM restored").fetchone()
    return int(row[0] or 0)


def keep(db: sqlite3.Connection, ids: Iterable[str]) -> None:
    """Alarms and incidents that began before the restore, within a transaction."""
    db.executemany("INSERT OR IGNORE INTO perhaps_notified VALUES (?)", [(one,) for one in ids])


def note_notified(db: sqlite3.Connection, notified: Iterable[Notified]) -> None:
    """What `event.notified` says, within a transaction."""
    db.executemany(
        "INSERT OR REPLACE INTO notified_before VALUES (?, ?)",
        [(one.alarm_id, msgspec.json.encode(sorted(one.outcomes)).decode()) for one in notified],
    )


def notify_what_is_left(
    db: sqlite3.Connection,
    notices: NoticeTable,
    plan: NoticePlan,
    acknowledged: Collection[str],
    now_ms: int,
) -> int:
    """All topics have been read: what each notifier is still to send, within a transaction. Ends
    what the restore has begun. How many alarms and incidents; `acknowledged`: ids that escalate no
    more."""
    left = dict(_perhaps_notified(db))
    before = dict(_notified_before(db))
    repeated_ids: set[str] = set()
    for name in plan.notifiers:
        known = notices.subjects_known(db, name)
        repeated = [
            one
            for id, one in left.items()
            if one.subject not in known and plan.notifies(name, one.event)
            and not _was_notified(id, one, name, plan, before, acknowledged)
        ]
        _add(db, notices, name, repeated, now_ms)
        repeated_ids |= {one.subject for one in repeated}
    for id, one in left.items():
        if isinstance(one.event, Alarm) and id not in before:
            add_unnotified(db, id)
    _end(db)
    return len(repeated_ids)


def leave_in_shadow(db: sqlite3.Connection) -> list[Alarm]:
    """This site is not the one that notifies: the alarms that are left, within a transaction."""
    before = dict(_notified_before(db))
    left = [one.event for id, one in _perhaps_notified(db) if id not in before]
    _end(db)
    return [one for one in left if isinstance(one, Alarm)]


def _was_notified(
    id: str,
    one: RepeatedNotice,
    notifier: str,
    plan: NoticePlan,
    before: dict[str, frozenset[str]],
    acknowledged: Collection[str],
) -> bool:
    if notifier in plan.escalations:
        is_end = isinstance(one.event, Incident) and one.event.state == "closed"
        is_taken = id in acknowledged or one.subject in acknowledged
        return is_end or is_taken or notifier in before.get(id, ())
    return id in before


def _add(
    db: sqlite3.Connection,
    notices: NoticeTable,
    notifier: str,
    repeated: list[RepeatedNotice],
    now_ms: int,
) -> None:
    if len(repeated) > MOST_SINGLE:
        digest = digest_of(f"{DIGEST}{now_ms}", repeated)
        notices.add_digest(db, notifier, digest, [one.subject for one in repeated], now_ms)
        return
    for one in repeated:
        notices.add_repeated(db, notifier, one, now_ms)


def _perhaps_notified(db: sqlite3.Connection) -> Iterator[tuple[str, RepeatedNotice]]:
    """By id; what has been forgotten meanwhile is left out."""
    for id, body in db.execute(
        "SELECT alarm_id, body FROM perhaps_notified JOIN alarms ON perhaps_notified.id = alarm_id"
        " ORDER BY alarms.id"
    ):
        yield id, RepeatedNotice(id, msgspec.json.decode(body, type=Alarm))
    for id, body in db.execute(
        "SELECT incident_id, body FROM perhaps_notified"
        " JOIN incidents ON perhaps_notified.id = incident_id ORDER BY incidents.id"
    ):
        incident = msgspec.json.decode(body, type=Incident)
        yield id, RepeatedNotice(id + (OPEN if incident.state == "open" else CLOSED), incident)


def _notified_before(db: sqlite3.Connection) -> Iterator[tuple[str, frozenset[str]]]:
    for alarm_id, names in db.execute("SELECT alarm_id, notifiers FROM notified_before"):
        yield alarm_id, frozenset(msgspec.json.decode(names, type=list[str]))


def _end(db: sqlite3.Connection) -> None:
    for table in ("restored", "perhaps_notified", "notified_before"):
        db.execute(f"DELETE FROM {table}")
