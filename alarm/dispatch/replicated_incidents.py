"""Open incidents that the other site has raised, and their end when this site takes over.

In: openings and ends as the recorder reads them, with the header `mirror-origin` of those that were
carried here. Out: those to end at the primary, whose own site is not heard any more, and what their
end says. Never: one that this site has raised, too.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

import msgspec

from bus.contracts.alarms import NOT_PRIMARY, Incident

OPEN_INCIDENTS = """
CREATE TABLE open_incidents (
    incident_id TEXT PRIMARY KEY,
    origin BLOB NOT NULL  -- the header of the opening; empty: this site has raised it, or too
) WITHOUT ROWID;
"""
OPEN_INCIDENTS_FROM_5 = f"""
{OPEN_INCIDENTS}
DELETE FROM positions WHERE topic = 'event.incident';
"""
"""The topic is read once more: it says where those that are open were raised. One that is not on it
any more is not ended."""


class ReplicatedIncident(NamedTuple):
    """An open incident of the other site; the header `mirror-origin` of its opening."""

    incident: Incident
    origin: bytes


def keep_site(db: sqlite3.Connection, incident: Incident, origin: bytes | None) -> None:
    """An opening or an end that is stored already. `origin` is None for this site's own."""
    if incident.state == "closed":
        db.execute("DELETE FROM open_incidents WHERE incident_id = ?", (incident.incident_id,))
        return
    db.execute(
        "INSERT INTO open_incidents SELECT ?1, ?2 WHERE EXISTS"
        " (SELECT 1 FROM incidents WHERE incident_id = ?1 AND state = 'open')"
        " ON CONFLICT (incident_id) DO UPDATE SET origin = x'' WHERE excluded.origin = x''",
        (incident.incident_id, origin or b""),
    )


def is_ended_elsewhere_only(db: sqlite3.Connection, incident: Incident) -> bool:
    """Whether it is the end of the former primary's, while this site has raised the same one: both
    judge the same records, and it goes on here."""
    if incident.detail.get("reason") != NOT_PRIMARY:
        return False
    sql = "SELECT 1 FROM open_incidents WHERE incident_id = ? AND origin = x''"
    return db.execute(sql, (incident.incident_id,)).fetchone() is not None


def replicated_open(db: sqlite3.Connection, limit: int) -> list[ReplicatedIncident]:
    """Those that only the other site has raised, oldest first."""
    rows = db.execute(
        "SELECT body, origin FROM open_incidents JOIN incidents USING (incident_id)"
        " WHERE origin <> x'' AND state = 'open' ORDER BY id LIMIT ?",
        (limit,),
    ).fetchall()
    return [ReplicatedIncident(msgspec.json.decode(body, type=Incident), at) for body, at in rows]


def ended_by_takeover(incident: Incident, now_ms: int) -> Incident:
    """Its end at the site that has become the primary."""
    return msgspec.structs.replace(
        incident, state="closed", closed_at_ms=max(now_ms, incident.opened_at_ms),
        detail=incident.detail | {"reason": NOT_PRIMARY},
    )  # fmt: skip
