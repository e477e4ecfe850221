"""The operations store, write side: what a batch brought, in one transaction with its positions.

There is one writer, which holds a lock file. Replays change nothing: an alarm is known by its rule
and record, an incident by its id and state.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from alarm.dispatch import passages, restored, rule_minutes, shadow
from alarm.dispatch.alarm_audience import units_text
from alarm.dispatch.alarm_state_table import (
    AlarmStateTable,
    StateChange,
    mark_all_unpublished,
    note_alarm,
    note_takes,
    put_states,
)
from alarm.dispatch.picture_queue import PictureQueue
from alarm.dispatch.replicated_incidents import (
    ReplicatedIncident,
    is_ended_elsewhere_only,
    keep_site,
    replicated_open,
)
from alarm.dispatch.retention import forget
from alarm.dispatch.schema import prepare
from alarm.dispatch.unnotified import NewlyNotified, add_unnotified, remove_unnotified
from bus.contracts.alarms import (
    NOT_PRIMARY,
    Acknowledged,
    Alarm,
    Incident,
    Notified,
    Suppressed,
)
from bus.contracts.commands import WatchCommand
from bus.domain.plates import plate_form
from bus.domain.retention import RetentionSettings
from bus.files.lock_file import hold_lock_file
from bus.files.sqlite_transaction import immediate_transaction
from bus.notify.notice_digest import RepeatedNotice, digest_of
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import DIGEST, NoticeTable
from ingest.store.port import Position, StoreUnavailable
from ingest.store.sqlite.errors import sqlite_errors

AT_ONCE = 500
"""Alarms in one transaction; more come in the next."""


class BatchChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one batch changes."""

    commands: Sequence[WatchCommand] = ()
    alarms: Sequence[Alarm] = ()
    suppressed: Sequence[Suppressed] = ()  # here or there: what alarms stand for
    incidents: Sequence[Incident] = ()
    positions: Sequence[Position] = ()
    shadow_since_ms: int | None = None  # what was raised since then another site notifies
    foreign_alarms: Sequence[Alarm] = ()  # raised there
    foreign_incidents: Sequence[ReplicatedIncident] = ()
    foreign_notified: Sequence[Notified] = ()  # by that site
    alarm_states: Sequence[StateChange] = ()  # in the order of their topic
    notified: Sequence[Notified] = ()  # by this site, as the topic says
    acknowledged: Sequence[Acknowledged] = ()  # here or there: it is on the topic
    notify_since_ms: int = 0  # what was raised or opened earlier is stored, and told nobody
    now_ms: int = 0


class OperationsStore:
    """The one writer, for any thread. Invariant: between calls no transaction is open.

    `restored_at_ms`: when the file was put back out of a backup, until `notify_since_backup`, or 0.
    """

    def __init__(self, path: Path, plan: NoticePlan = NoticePlan()) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = threading.Lock()
        self.notices = NoticeTable(self._transaction, plan)
        self._plan = plan
        self._newly_notified = NewlyNotified(plan.escalations)
        self._lock_file = _only_writer(path)
        with sqlite_errors(path):
            self._db = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=10
            )
            prepare(self._db)
            self.restored_at_ms = restored.restored_at_ms(self._db)
        self.pictures = PictureQueue(self._transaction)
        self.alarm_states = AlarmStateTable(self._transaction)

    def apply(self, changes: BatchChanges) -> list[Alarm]:
        """Write everything; the alarms that are new."""
        with self._transaction():
            return self._apply(changes)

    def forget(self, keep: RetentionSettings, now_ms: int) -> int:
        """Delete a slice of what is past its time; how many alarms and incidents."""
        with self._transaction() as db:
            return forget(db, keep, now_ms)

    def outbox(self, limit: int) -> list[tuple[int, Alarm]]:
        """Alarms of an earlier version that are not known to be on their topic, oldest first."""
        rows = self._rows(
            "SELECT id, body FROM alarms JOIN outbox USING (id) ORDER BY id LIMIT ?", limit
        )
        return [(row_id, msgspec.json.decode(body, type=Alarm)) for row_id, body in rows]

    def mark_produced(self, row_ids: Iterable[int]) -> None:
        """These are on their topic."""
        self._many("DELETE FROM outbox WHERE id = ?", [(row_id,) for row_id in row_ids])

    def forget_positions(self, application: str, topic: str) -> None:
        """They stand elsewhere now."""
        sql = "DELETE FROM positions WHERE application = ? AND topic = ?"
        self._many(sql, [(application, topic)])

    def close(self) -> None:
        """Close, and let another writer in."""
        with self._lock:
            self._db.close()
            self._lock_file.close()

    def _apply(self, changes: BatchChanges) -> list[Alarm]:
        for command in changes.commands:
            self._db.execute(
                "INSERT OR REPLACE INTO rules (rule_id, op, body) VALUES (?, ?, ?)",
                (command.rule_id, command.op, msgspec.json.encode(command)),
            )
        for incident in changes.incidents:
            self._put_incident(incident, changes, is_own=True)
            keep_site(self._db, incident, None)
        for incident, origin in changes.foreign_incidents:
            if not is_ended_elsewhere_only(self._db, incident):
                self._put_incident(incident, changes, is_own=False)
                keep_site(self._db, incident, origin)
        new = [alarm for alarm in changes.alarms if self._put_alarm(alarm)]
        for alarm in new:
            self._notify(alarm, changes)
        new += [alarm for alarm in changes.foreign_alarms if self._put_alarm(alarm)]
        passages.add(self._db, changes.suppressed, changes.now_ms)
        since_ms = changes.notify_since_ms
        shadow.keep(
            self._db, [one for one in changes.foreign_alarms if one.raised_at_ms >= since_ms]
        )
        notified = [one.alarm_id for one in changes.foreign_notified]
        shadow.mark_notified(self._db, notified, changes.now_ms)
        put_states(self._db, changes.alarm_states)
        note_takes(self._db, changes.acknowledged)
        self._mark_acknowledged_published(changes.acknowledged)
        if self.restored_at_ms:
            restored.note_notified(self._db, changes.notified)
        self._db.executemany(
            "INSERT OR REPLACE INTO positions (application, cluster_id, topic, topic_id, partition,"
            " end_offset) VALUES (?, ?, ?, ?, ?, ?)",
            [msgspec.structs.astuple(position)[:6] for position in changes.positions],
        )
        return new

    def notify_left_in_shadow(self, since_ms: int, now_ms: int) -> int:
        """This site has become the one that notifies: what it decided before and nobody is known to
        have sent, and its incidents that are open still. How many alarms; at most `AT_ONCE` at
        once."""
        with self._transaction() as db:
            found = shadow.left_in_shadow(db, since_ms, AT_ONCE)
            for alarm in found:
                self._add_notice(alarm, now_ms)
            for incident in shadow.open_in_shadow(db):
                self.notices.add_incident(db, incident, msgspec.json.encode(incident), now_ms)
            return len(found)

    def notify_since_backup(
        self, acknowledged: Collection[str], now_ms: int, *, is_secondary: bool
    ) -> int:
        """All that the topics have has been read, after a restore: what may have been notified
        before it, or was not, is notified, marked. How many alarms and incidents; a site that is
        not the primary notifies none and keeps them in shadow."""
        with self._transaction() as db:
            if is_secondary:
                shadow.keep(db, restored.leave_in_shadow(db))
                count = 0
            else:
                count = restored.notify_what_is_left(
                    db, self.notices, self._plan, acknowledged, now_ms
                )
        self.restored_at_ms = 0
        return count

    def replicated_open(self) -> list[ReplicatedIncident]:
        """Open incidents that only the other site has raised; at most `AT_ONCE` at once."""
        with self._lock, sqlite_errors(self._path):
            return replicated_open(self._db, AT_ONCE)

    def forget_site_state(self, raised_since_ms: int, acknowledged_since_ms: int) -> None:
        """Alarms raised before would be notified to nobody, and nobody asks any more who has
        acknowledged what before."""
        with self._transaction() as db:
            shadow.forget(db, raised_since_ms)
            db.execute("DELETE FROM said_acknowledged WHERE at_ms < ?", (acknowledged_since_ms,))

    def newly_notified(self, now_ms: int) -> list[Notified]:
        """Alarms of which nobody is still to be told at once, and `event.notified` does not say so
        yet; some of them."""
        with self._lock, sqlite_errors(self._path):
            return self._newly_notified.find(self._db, now_ms)

    def mark_event_published(self, published: Sequence[Notified]) -> None:
        """`event.notified` says it of these."""
        if published:
            with self._transaction() as db:
                remove_unnotified(db, published)

    def published_acknowledged(self) -> set[str]:
        """Ids of acknowledgements that stand on their topic."""
        return {name for (name,) in self._rows("SELECT id FROM said_acknowledged")}

    def mark_acknowledged_published(self, published: Sequence[Acknowledged]) -> None:
        """These stand there."""
        with self._transaction():
            self._mark_acknowledged_published(published)

    def _mark_acknowledged_published(self, published: Sequence[Acknowledged]) -> None:
        self._db.executemany(
            "INSERT OR IGNORE INTO said_acknowledged VALUES (?, ?)",
            [(one.id, one.at_ms) for one in published],
        )

    def _put_alarm(self, alarm: Alarm) -> bool:
        body = msgspec.json.encode(alarm)
        key = plate_form(alarm.plate_number)  # what is known of it, for the search
        inserted = self._db.execute(
            "INSERT OR IGNORE INTO alarms (alarm_id, rule_id, severity, plate_key, checkpoint_id,"
            " raised_at_ms, body, kind, district_id, visible_to, case_number, case_target)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (alarm.alarm_id, alarm.rule_id, alarm.severity, key, alarm.checkpoint_id,
             alarm.raised_at_ms, body, alarm.kind, alarm.district_id, units_text(alarm.visible_to),
             alarm.case, alarm.case_target),
        )  # fmt: skip
        if not inserted.rowcount:
            return False
        note_alarm(self._db, alarm.alarm_id, alarm.rule_id)
        self.pictures.add(self._db, inserted.lastrowid or 0, alarm)
        return True

    def _notify(self, alarm: Alarm, changes: BatchChanges) -> None:
        if alarm.raised_at_ms < self.restored_at_ms:
            restored.keep(self._db, [alarm.alarm_id])
            return
        if alarm.raised_at_ms < changes.notify_since_ms:
            return
        since_ms = changes.shadow_since_ms
        if since_ms is not None and alarm.raised_at_ms >= since_ms:
            shadow.keep(self._db, [alarm])
        elif not rule_minutes.is_beyond(self._db, alarm, self._plan.alarms_a_minute):
            self._add_notice(alarm, changes.now_ms)

    def notify_past_minutes(self, now_ms: int) -> int:
        """One notice for the alarms of a rule and minute beyond the first ones, once the minute is
        over. How many alarms."""
        with self._transaction() as db:
            minutes = list(rule_minutes.take_past(db, now_ms))
            for minute in minutes:
                self._add_digest(db, minute, now_ms)
        return sum(len(minute.alarms) for minute in minutes)

    def _add_digest(
        self, db: sqlite3.Connection, minute: rule_minutes.RuleMinute, now_ms: int
    ) -> None:
        """Each way gets one of those alarms that it is told of; a way of escalation as late as an
        alarm of that severity."""
        for name in self._plan.notifiers:
            alarms = [one for one in minute.alarms if self._plan.notifies(name, one)]
            if not alarms:
                continue
            notices = [RepeatedNotice(one.alarm_id, one) for one in alarms]
            digest = msgspec.structs.replace(
                digest_of(f"{DIGEST}{minute.rule_id}:{minute.minute}", notices),
                rule_id=minute.rule_id, rule_name=alarms[-1].rule_name, perhaps_sent_before=False,
                visible_to=alarms[-1].visible_to,
            )  # fmt: skip
            due = self._plan.first_attempts(digest.severity, now_ms, alarms[-1])
            ids = [one.alarm_id for one in alarms]
            self.notices.add_digest(db, name, digest, ids, max(due[name], now_ms))
        for one in minute.alarms:
            add_unnotified(db, one.alarm_id)

    def _add_notice(self, alarm: Alarm, now_ms: int) -> None:
        """Without the record: who gets one asks for it by the alarm's id."""
        notice = msgspec.json.encode(msgspec.structs.replace(alarm, record=""))
        self.notices.add(self._db, alarm.alarm_id, notice, alarm.severity, now_ms, alarm)
        add_unnotified(self._db, alarm.alarm_id)

    def _put_incident(self, incident: Incident, changes: BatchChanges, *, is_own: bool) -> None:
        """A closed incident stays closed when messages are repeated, unless a take-over ended it
        and this site raises it. One that its own process has notified is stored only."""
        body = msgspec.json.encode(incident)
        changed = self._db.execute(
            "INSERT INTO incidents (incident_id, state, body, closed_at_ms) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (incident_id) DO UPDATE SET state = excluded.state, body = excluded.body,"
            " closed_at_ms = excluded.closed_at_ms"
            " WHERE (state = 'open' AND excluded.state = 'closed') OR (? AND state = 'closed'"
            " AND excluded.state = 'open'"
            " AND json_extract(CAST(body AS TEXT), '$.detail.reason') = ?)",
            (incident.incident_id, incident.state, body, incident.closed_at_ms, is_own,
             NOT_PRIMARY),
        )  # fmt: skip
        changed_at_ms = incident.closed_at_ms or incident.opened_at_ms
        if not changed.rowcount or not is_own or incident.notified_by:
            return
        if changed_at_ms < self.restored_at_ms:
            restored.keep(self._db, [incident.incident_id])
        elif changes.shadow_since_ms is not None:
            shadow.keep_incident(self._db, incident)
        elif changed_at_ms >= changes.notify_since_ms:
            self.notices.add_incident(self._db, incident, body, changes.now_ms)

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, sqlite_errors(self._path):
            return self._db.execute(sql, values).fetchall()

    def _many(self, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self._transaction():
            self._db.executemany(sql, rows)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, sqlite_errors(self._path), immediate_transaction(self._db):
            yield self._db


def mark_restored(path: Path, at_ms: int) -> None:
    """The file at `path`, which nobody has open, is a copy out of a backup. Raises `StoreError`."""
    with sqlite_errors(path), closing(sqlite3.connect(path, isolation_level=None)) as db:
        prepare(db)
        with immediate_transaction(db):
            restored.mark_restored(db, at_ms)
            mark_all_unpublished(db)
        db.execute("PRAGMA journal_mode = DELETE")  # one file, as it is moved into its place


def _only_writer(path: Path) -> IO[str]:
    """Hold the lock file while the store is open; the kernel frees it when the process dies."""
    try:
        return hold_lock_file(path.with_name(path.name + ".lock"))
    except OSError as error:
        raise StoreUnavailable(f"{path} is being written by another process") from error
