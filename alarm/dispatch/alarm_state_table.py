"""How far each alarm is in its life: a table of the operations store. SQLite.

In: states as `state.alarm` says them, within the transaction that stores the reader's position; who
has taken an alarm where no decider was. Out: what is still to be said on the bus. Never: an older
state over a newer one, a connection of its own.

What nobody has touched for `STATE_DAYS` leaves the topic, which every decider reads whole, and
stays here as it is: its life is over.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import msgspec

from bus.contracts.alarm_states import AlarmState, AlarmStep
from bus.contracts.alarms import Acknowledged
from bus.domain.alarm_life import STATE_MS

ALARM_STATES = """
CREATE TABLE IF NOT EXISTS alarm_states (
    alarm_id TEXT PRIMARY KEY,
    rule_id TEXT NOT NULL,
    stage TEXT NOT NULL,
    owner TEXT NOT NULL,
    verdict TEXT NOT NULL,
    epoch INTEGER NOT NULL,  -- -1: taken here, and not decided yet
    n INTEGER NOT NULL,
    changed_at_ms INTEGER NOT NULL,
    published INTEGER NOT NULL,  -- 0: the bus has to be told; 1: it knows; 2: its life is over
    has_alarm INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS alarm_states_by_stage ON alarm_states (stage);
CREATE INDEX IF NOT EXISTS alarm_states_by_owner ON alarm_states (owner);
CREATE INDEX IF NOT EXISTS alarm_states_by_verdict
    ON alarm_states (rule_id, verdict) WHERE verdict != '';
CREATE INDEX IF NOT EXISTS alarm_states_by_change ON alarm_states (changed_at_ms);
CREATE INDEX IF NOT EXISTS alarm_states_by_publication ON alarm_states (published, changed_at_ms);
CREATE INDEX IF NOT EXISTS alarm_states_alone ON alarm_states (changed_at_ms) WHERE has_alarm = 0;
CREATE TABLE IF NOT EXISTS deleted_alarm_states (alarm_id TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_LOCAL = -1
_UNPUBLISHED, _PUBLISHED, _OVER = 0, 1, 2

_PUT = """
INSERT INTO alarm_states VALUES (
    ?1, coalesce((SELECT rule_id FROM alarms WHERE alarms.alarm_id = ?1), ?2),
    ?3, ?4, ?5, ?6, ?7, ?8, ?9,
    EXISTS (SELECT 1 FROM alarms WHERE alarms.alarm_id = ?1), ?10)
ON CONFLICT (alarm_id) DO UPDATE SET stage = excluded.stage, owner = excluded.owner,
    verdict = excluded.verdict, epoch = excluded.epoch, n = excluded.n,
    changed_at_ms = excluded.changed_at_ms, published = excluded.published, body = excluded.body
    WHERE (excluded.epoch, excluded.n) >= (alarm_states.epoch, alarm_states.n)
"""
_OLDER_CAME_LATER = """
UPDATE alarm_states SET published = 0
    WHERE alarm_id = ? AND (epoch, n) > (?, ?) AND epoch >= 0 AND published = 1
"""


class StateChange(NamedTuple):
    """What `state.alarm` says of an alarm; None: a tombstone."""

    alarm_id: str
    state: AlarmState | None


def put_states(db: sqlite3.Connection, changes: Iterable[StateChange]) -> None:
    """In the order of their topic, within a transaction. Where an older state comes after a newer
    one, a cleaner would keep the older: the newer is said again."""
    for alarm_id, state in changes:
        if state is None:
            db.execute(
                "DELETE FROM alarm_states WHERE alarm_id = ? AND epoch >= 0 AND published != ?",
                (alarm_id, _OVER),
            )
            continue
        db.execute(_OLDER_CAME_LATER, (alarm_id, state.epoch, state.n))
        db.execute(_PUT, _row(state, _PUBLISHED))


def note_takes(db: sqlite3.Connection, taken: Iterable[Acknowledged]) -> None:
    """Somebody has these in hand, as the file of acknowledgements says, within a transaction. What
    is decided already stays; an incident has no row among the alarms and is not asked for."""
    for one in taken:
        step = AlarmStep(op="take", by=one.by_whom, at_ms=one.at_ms, stage="taken")
        state = AlarmState(
            alarm_id=one.id, stage="taken", epoch=_LOCAL, n=0, owner=one.by_whom,
            since_ms=one.at_ms, history=[step],
        )  # fmt: skip
        db.execute(
            "INSERT OR IGNORE INTO alarm_states SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1, ?10"
            " WHERE EXISTS (SELECT 1 FROM alarms WHERE alarms.alarm_id = ?1)",
            _row(state, _UNPUBLISHED),
        )


def note_alarm(db: sqlite3.Connection, alarm_id: str, rule_id: str) -> None:
    """The alarm is stored, perhaps after its state."""
    db.execute(
        "UPDATE alarm_states SET has_alarm = 1, rule_id = ? WHERE alarm_id = ? AND has_alarm = 0",
        (rule_id, alarm_id),
    )


def mark_all_unpublished(db: sqlite3.Connection) -> None:
    """The topic is another one than the one that said them, or the file is a copy of a backup."""
    db.execute("UPDATE alarm_states SET published = 0 WHERE published = 1")


def delete_states(db: sqlite3.Connection, alarm_ids: Sequence[str]) -> None:
    """These alarms are deleted; the topic is to get their tombstones."""
    rows = [(one,) for one in alarm_ids]
    db.executemany(
        "INSERT OR IGNORE INTO deleted_alarm_states SELECT alarm_id FROM alarm_states"
        f" WHERE alarm_id = ? AND epoch >= 0 AND published != {_OVER}",
        rows,
    )
    db.executemany("DELETE FROM alarm_states WHERE alarm_id = ?", rows)


def end_states(db: sqlite3.Connection, alone_before_ms: int, now_ms: int, limit: int) -> None:
    """What belongs to no alarm since then is deleted; what nobody has touched for `STATE_DAYS`
    leaves the topic. A slice of each."""
    alone = db.execute(
        "SELECT alarm_id FROM alarm_states WHERE has_alarm = 0 AND changed_at_ms < ? LIMIT ?",
        (alone_before_ms, limit),
    ).fetchall()
    delete_states(db, [name for (name,) in alone])
    over = db.execute(
        "SELECT alarm_id FROM alarm_states WHERE changed_at_ms < ? AND published = ? LIMIT ?",
        (now_ms - STATE_MS, _PUBLISHED, limit),
    ).fetchall()
    db.executemany("INSERT OR IGNORE INTO deleted_alarm_states VALUES (?)", over)
    db.executemany(f"UPDATE alarm_states SET published = {_OVER} WHERE alarm_id = ?", over)


class AlarmStateTable:
    """What the bus still has to be told. For any thread, as far as `transaction` is. Raises what
    that raises."""

    def __init__(
        self, transaction: Callable[[], AbstractContextManager[sqlite3.Connection]]
    ) -> None:
        self._transaction = transaction

    def note_takes(self, taken: Sequence[Acknowledged]) -> None:
        """See the function."""
        if taken:
            with self._transaction() as db:
                note_takes(db, taken)

    def unpublished_takes(self, limit: int) -> list[AlarmState]:
        """Taken here and not said yet, the oldest first."""
        return self._unpublished("epoch < 0", limit)

    def unpublished_states(self, limit: int) -> list[AlarmState]:
        """Decided, and not on the topic any more, or not as its last record of the alarm."""
        return self._unpublished("epoch >= 0", limit)

    def mark_published(self, states: Sequence[AlarmState]) -> None:
        """These are on the bus; what has changed since then is said by itself."""
        if states:
            with self._transaction() as db:
                db.executemany(
                    "UPDATE alarm_states SET published = 1"
                    " WHERE alarm_id = ? AND epoch = ? AND n = ? AND published = 0",
                    [(one.alarm_id, one.epoch, one.n) for one in states],
                )

    def mark_all_unpublished(self) -> None:
        """See the function."""
        with self._transaction() as db:
            mark_all_unpublished(db)

    def deleted(self, limit: int) -> list[str]:
        """Ids of which the topic lacks the tombstone."""
        with self._transaction() as db:
            rows = db.execute("SELECT alarm_id FROM deleted_alarm_states LIMIT ?", (limit,))
            return [name for (name,) in rows]

    def mark_deleted(self, alarm_ids: Iterable[str]) -> None:
        """Their tombstones are there."""
        rows = [(one,) for one in alarm_ids]
        if rows:
            with self._transaction() as db:
                db.executemany("DELETE FROM deleted_alarm_states WHERE alarm_id = ?", rows)

    def _unpublished(self, which: str, limit: int) -> list[AlarmState]:
        with self._transaction() as db:
            rows = db.execute(
                f"SELECT body FROM alarm_states WHERE published = 0 AND {which}"
                " ORDER BY changed_at_ms LIMIT ?",
                (limit,),
            ).fetchall()
        return [msgspec.json.decode(body, type=AlarmState) for (body,) in rows]


def _row(state: AlarmState, published: int) -> tuple[object, ...]:
    return (
        state.alarm_id, state.alarm_id.partition(":")[0], state.stage, state.owner, state.verdict,
        state.epoch, state.n, state.changed_at_ms, published, msgspec.json.encode(state),
    )  # fmt: skip
