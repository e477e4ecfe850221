"""Of what each way of telling people is told. Pure.

In: an alarm, a digest of one rule's alarms, an incident. Out: whether a recipient is told of it.
Never: an alarm that only some units see to a way that is not theirs; the log is a file of the
server, and has all.
"""

from __future__ import annotations

from typing import NamedTuple

from bus.contracts.alarms import Alarm, Incident
from bus.notify.notice_digest import SEVERITIES


class NoticeRoute(NamedTuple):
    """Of which alarms a recipient is told; an empty part restricts nothing. `units`: of these he is
    told also what nobody else sees. `incidents`: he is told of incidents, too, of his districts and
    as severe; an incident has no units and is of no kind of record."""

    units: frozenset[str] = frozenset()
    districts: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    least_severity: str = "info"
    incidents: bool = False

    def takes(self, alarm: Alarm) -> bool:
        """Whether he is told. One whose place is not known is told to all districts."""
        return (
            (not alarm.visible_to or not self.units.isdisjoint(alarm.visible_to))
            and (not self.districts or not alarm.district_id or alarm.district_id in self.districts)
            and (not self.kinds or alarm.kind in self.kinds)
            and _rank(alarm.severity) >= _rank(self.least_severity)
        )

    def takes_incident(self, incident: Incident) -> bool:
        """Whether he is told; also of one that has no place, as of a whole part of the product."""
        district_id = incident.district_id
        return (
            self.incidents
            and (not self.districts or not district_id or district_id in self.districts)
            and _rank(incident.severity) >= _rank(self.least_severity)
        )


def _rank(severity: str) -> int:
    """One of a later version is as high as the highest."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES) - 1
