"""The read side of the operations store: alarms, incidents, rules in force.

Gives contract structs, newest first, page by page (by key, not by counting rows). One reader per
thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from alarm.dispatch import passages
from alarm.dispatch.alarm_audience import audience_conditions, case_conditions
from alarm.dispatch.alarm_state_queries import state_conditions, states_of, verdicts
from alarm.dispatch.schema import (
    has_audiences,
    has_cases,
    has_passages_and_states,
    version_of,
)
from bus.contracts.alarm_states import AlarmState, RuleVerdicts
from bus.contracts.alarms import Alarm, Incident, Suppressed
from bus.contracts.commands import WatchCommand
from bus.domain.plates import plate_form
from bus.domain.visibility import EVERYTHING, Viewer, may_see
from ingest.store.port import PageRequest, Position, StoreUnavailable, cursor_numbers
from ingest.store.sqlite.errors import sqlite_errors
from ingest.store.sqlite.plate_facets import Condition, fits_form

MAX_PAGE = 1000

_Body = TypeVar("_Body", Alarm, Incident)


class OperationsReader:
    """One read-only connection. Raises `StoreUnavailable` while there is no store yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with sqlite_errors(path):
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                timeout=10,
            )
            self._db.create_function("plate_form", 1, plate_form, deterministic=True)
            if version_of(self._db) == 0:
                self._db.close()
                raise StoreUnavailable(f"{path}: its writer is just creating it")

    def alarms(
        self,
        *,
        page: PageRequest,
        viewer: Viewer,
        severity: str = "",
        rule_id: str = "",
        plate: str = "",
        checkpoint_id: str = "",
        raised_from_ms: int = 0,
        raised_until_ms: int = 0,
        stage: str = "",
        owner: str = "",
        changed_from_ms: int = 0,
        kind: str = "",
        district_id: str = "",
        only_concerning: bool = False,
        case: str = "",
        case_target: str = "",
    ) -> tuple[list[Alarm], str]:
        """Alarms that `viewer` sees, and the cursor of the next page; in `plate`, `*` stands for
        any characters and `?` for one. `changed_from_ms`: somebody has acted on it since then, or
        it was raised. `only_concerning`: those that are shown to him first."""
        where: list[tuple[str, object]] = [
            ("severity = ?", severity),
            ("rule_id = ?", rule_id),
            ("checkpoint_id = ?", checkpoint_id),
            ("raised_at_ms >= ?", raised_from_ms),
            ("raised_at_ms < ?", raised_until_ms),
        ]
        conditions = [(sql, [value]) for sql, value in where if value]
        if plate:  # the keys of earlier versions are in another form
            conditions.append(fits_form("plate_form(plate_key)", plate))
        if stage or owner or changed_from_ms:
            conditions += state_conditions(
                stage, owner, changed_from_ms, has_table=has_passages_and_states(self._db)
            )
        conditions += audience_conditions(
            viewer, kind, district_id, only_concerning=only_concerning,
            has_columns=has_audiences(self._db),
        )  # fmt: skip
        conditions += case_conditions(case, case_target, has_columns=has_cases(self._db))
        found, cursor = self._page(Alarm, "alarms", page, conditions)
        return self._with_passages(found), cursor

    def every_alarm(self) -> Iterator[Alarm]:
        """All that are stored, newest first, a page at a time: for what runs on the server."""
        page = PageRequest(limit=MAX_PAGE)
        while True:
            alarms, cursor = self.alarms(page=page, viewer=EVERYTHING)
            yield from alarms
            if not cursor:
                return
            page = PageRequest(limit=MAX_PAGE, cursor=cursor)

    def alarm(self, alarm_id: str, *, viewer: Viewer) -> Alarm | None:
        """One alarm; None also of one that `viewer` does not see."""
        found = self._rows("SELECT body FROM alarms WHERE alarm_id = ?", alarm_id)
        stored = [msgspec.json.decode(body, type=Alarm) for (body,) in found]
        alarms = [one for one in stored if may_see(viewer, one.visible_to)]
        return next(iter(self._with_passages(alarms)), None)

    def suppressed(
        self, behind: tuple[str, str] = ("", ""), limit: int = MAX_PAGE
    ) -> list[Suppressed]:
        """All further passages by rule and record, those behind such a pair."""
        with sqlite_errors(self._path):
            if not has_passages_and_states(self._db):
                return []
            return passages.page_of(self._db, behind, limit)

    def alarm_states(self, alarm_ids: Sequence[str]) -> dict[str, AlarmState]:
        """Of those that somebody has acted on; of `MAX_PAGE` at once."""
        with sqlite_errors(self._path):
            if not has_passages_and_states(self._db):
                return {}
            return states_of(self._db, alarm_ids[:MAX_PAGE])

    def verdicts(self) -> list[RuleVerdicts]:
        """Of each rule whose alarms somebody has judged: how many there are, and how many were
        false."""
        with sqlite_errors(self._path):
            return verdicts(self._db) if has_passages_and_states(self._db) else []

    def incidents(
        self, *, page: PageRequest, open_only: bool = False
    ) -> tuple[list[Incident], str]:
        """Incidents and the cursor of the next page."""
        where: list[Condition] = [("state = ?", ["open"])] if open_only else []
        return self._page(Incident, "incidents", page, where)

    def rules(self) -> list[WatchCommand]:
        """The rules in force as the dispatcher knows them, by id."""
        found = self._rows("SELECT body FROM rules WHERE op = 'put' ORDER BY rule_id")
        return [msgspec.json.decode(body, type=WatchCommand) for (body,) in found]

    def positions(self, application: str) -> list[Position]:
        """How far an application of this store has come."""
        found = self._rows(
            "SELECT cluster_id, topic, topic_id, partition, end_offset FROM positions"
            " WHERE application = ? ORDER BY topic, partition",
            application,
        )
        names = ("cluster_id", "topic", "topic_id", "partition", "end_offset")
        return [
            Position(application=application, **dict(zip(names, r, strict=True))) for r in found
        ]

    def close(self) -> None:
        """Release the store."""
        self._db.close()

    def _with_passages(self, alarms: list[Alarm]) -> list[Alarm]:
        """With how many records each stands for; a file of an earlier version does not say."""
        with sqlite_errors(self._path):
            if not has_passages_and_states(self._db):
                return alarms
            counts = passages.counts_of(self._db, [alarm.alarm_id for alarm in alarms])
        return [
            msgspec.structs.replace(alarm, further_passages=counts.get(alarm.alarm_id, 0))
            for alarm in alarms
        ]

    def _page(
        self, kind: type[_Body], table: str, page: PageRequest, where: Sequence[Condition]
    ) -> tuple[list[_Body], str]:
        limit = max(1, min(page.limit, MAX_PAGE))
        conditions = [sql for sql, _ in where] + (["id < ?"] if page.cursor else [])
        values = [value for _, some in where for value in some]
        values += cursor_numbers(page.cursor, 1) if page.cursor else ()
        clause = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        sql = f"SELECT id, body FROM {table}{clause} ORDER BY id DESC LIMIT {limit + 1}"
        found = self._rows(sql, *values)
        bodies = [msgspec.json.decode(body, type=kind) for _, body in found[:limit]]
        return bodies, str(found[limit - 1][0]) if len(found) > limit else ""

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with sqlite_errors(self._path):
            return self._db.execute(sql, values).fetchall()
