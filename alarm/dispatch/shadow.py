"""A site whose data are a mirror of another one decides as that one does, and notifies nobody.

`SiteRole` says whether it is so, by the topic of its data. What such a site has decided, or the
other one has raised, is kept until that one is known to have notified it: when the site becomes the
primary, what is left is notified, marked as perhaps sent before. Never: a notice of what another
site is known to have sent.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable

import msgspec

from bus.client.kafka.admin import Admin
from bus.contracts.alarms import Alarm
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.topics import DATA_VEHICLE
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings
from bus.wall_clock import now_ms

log = logging.getLogger(__name__)

SHADOW_ALARMS = """
CREATE TABLE shadow_alarms (
    alarm_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, told INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX shadow_alarms_at ON shadow_alarms (at_ms);
"""
"""`told`: the other site has notified it. It may say so before the alarm itself comes here."""
SHADOW_ALARMS_FROM_4 = f"""
ALTER TABLE shadow_alarms RENAME TO shadow_alarms_4;
{SHADOW_ALARMS}
INSERT INTO shadow_alarms SELECT alarm_id, raised_at_ms, 0 FROM shadow_alarms_4;
DROP TABLE shadow_alarms_4;
"""
EVERY_S = 1.0
TIMEOUT_S = 5.0
SETTLED_S = 5.0
"""So long after a site has become the primary, what the other one has raised may still come in."""


class SiteRole:
    """One thread. Unknown until the brokers have answered once; then what they said last."""

    def __init__(self, bus: BusSettings, client_id: str) -> None:
        self._bus = bus
        self._client_id = client_id
        self._secondary_since_ms: int | None = None
        self._known = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="site role", daemon=True)

    @property
    def secondary_since_ms(self) -> int | None:
        """Since when this site's data are another one's, by our clock; 0: since before we asked.
        None: they are its own. What was raised before is notified here."""
        return self._secondary_since_ms

    def start(self) -> SiteRole:
        """Begin to ask."""
        self._thread.start()
        return self

    def wait_until_known(self, timeout_s: float) -> bool:
        """Whether the brokers have answered in time."""
        return self._known.wait(timeout_s)

    def close(self) -> None:
        """Stop asking."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        admin = Admin(self._bus, client_id=self._client_id, timeout_s=TIMEOUT_S)
        try:
            while not self._stopping.is_set():
                try:
                    self._ask(admin)
                except BusError as error:
                    log.info("it is not known just now whether this site is a mirror: %s", error)
                self._stopping.wait(EVERY_S)
        finally:
            admin.close()

    def _ask(self, admin: Admin) -> None:
        try:
            is_secondary = bool(admin.topic_configs(DATA_VEHICLE).get(SOURCE_CLUSTER_KEY))
        except BusError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            is_secondary = False  # a bus without data mirrors none
        if not is_secondary and self._secondary_since_ms is not None:
            log.warning("dispatcher: this site is the primary and notifies")
            self._secondary_since_ms = None
        elif is_secondary and self._secondary_since_ms is None:
            log.warning("dispatcher: the data of this site are a mirror: it decides in shadow")
            self._secondary_since_ms = now_ms() if self._known.is_set() else 0
        self._known.set()


def keep(db: sqlite3.Connection, alarms: Iterable[Alarm]) -> None:
    """Decided here or raised there; notified by nobody yet as far as is known."""
    db.executemany(
        "INSERT OR IGNORE INTO shadow_alarms SELECT ?1, ?2, 0"
        " WHERE NOT EXISTS (SELECT 1 FROM notices WHERE subject = ?1)",
        [(alarm.alarm_id, alarm.raised_at_ms) for alarm in alarms],
    )


def mark_told(db: sqlite3.Connection, alarm_ids: Iterable[str], now_ms: int) -> None:
    """The other site has notified these."""
    db.executemany(
        "INSERT INTO shadow_alarms VALUES (?, ?, 1)"
        " ON CONFLICT (alarm_id) DO UPDATE SET at_ms = excluded.at_ms, told = 1",
        [(alarm_id, now_ms) for alarm_id in alarm_ids],
    )


def forget(db: sqlite3.Connection, since_ms: int) -> None:
    """What is older would be notified to nobody."""
    db.execute("DELETE FROM shadow_alarms WHERE at_ms < ?", (since_ms,))


def left_in_shadow(db: sqlite3.Connection, since_ms: int, limit: int) -> list[Alarm]:
    """Those that nobody is known to have notified, oldest first and marked; they are no longer
    kept. What was raised before `since_ms` is forgotten."""
    forget(db, since_ms)
    rows = db.execute(
        "SELECT alarm_id, body FROM shadow_alarms JOIN alarms USING (alarm_id)"
        " WHERE NOT told ORDER BY at_ms LIMIT ?",
        (limit,),
    ).fetchall()
    db.executemany("DELETE FROM shadow_alarms WHERE alarm_id = ?", [(name,) for name, _ in rows])
    alarms = [msgspec.json.decode(body, type=Alarm) for _, body in rows]
    return [msgspec.structs.replace(alarm, perhaps_sent_before=True) for alarm in alarms]
