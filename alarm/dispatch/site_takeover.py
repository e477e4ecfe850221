"""What is made up for when a site becomes the primary, or its store was restored from a backup.

In: the site's role, the operations store. Out: notices of what was decided in shadow or since a
backup, the ends of incidents that only the former primary has raised (ADR 0064, ADR 0077).
Never: any of it before the last records of the former primary are stored.
"""

from __future__ import annotations

import logging
import math
import time

from alarm.dispatch.metrics import DispatcherMetrics
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.published_events import PublishedEvents
from alarm.dispatch.replicated_incidents import ReplicatedIncident, ended_by_takeover
from alarm.dispatch.shadow import SETTLED_S
from bus.client.kafka.producer import RecordHeaders
from bus.client.kafka.site_role import SiteRole
from bus.contracts.headers import SITE
from bus.contracts.mirror_origin import MIRROR_ORIGIN
from bus.notify.acknowledgements import KEEP_MS, Acknowledgements, AcknowledgementsUnavailable
from bus.runtime import wall_clock
from ingest.store.port import StoreUnavailable

log = logging.getLogger(__name__)


class SiteTakeover:
    """One thread. Invariant: nothing is due before `SETTLED_S` after the last record of the other
    site; infinity where nothing is left to do."""

    def __init__(
        self,
        site_name: str,
        give_up_ms: int,
        acknowledged: Acknowledgements,
        metrics: DispatcherMetrics,
    ) -> None:
        self._site_name = site_name
        self._give_up_ms = give_up_ms
        self._acknowledged = acknowledged
        self._metrics = metrics
        self._notify_at_s = 0.0
        self._ends_at_s = 0.0
        self._origins: dict[str, bytes] = {}
        """Where incidents that end here were raised, by their id."""

    def begin(self) -> None:
        """The recorder begins to read: what the other site still had to say may be unread."""
        self._notify_at_s = self._ends_at_s = time.monotonic() + SETTLED_S

    def on_changes(self, changes: BatchChanges) -> None:
        """The last ones of a former primary come after it has ceased to be one."""
        if changes.foreign_alarms:
            self._notify_at_s = time.monotonic() + SETTLED_S
        if changes.foreign_incidents:
            self._ends_at_s = time.monotonic() + SETTLED_S

    def notify_left_in_shadow(self, operations: OperationsStore, role: SiteRole) -> int:
        """How many alarms that were decided in shadow are notified now."""
        now_s = time.monotonic()
        if role.secondary_since_ms is not None:
            self._notify_at_s = now_s + SETTLED_S
        if now_s < self._notify_at_s:
            return 0
        now_ms = wall_clock.now_ms()
        count = operations.notify_left_in_shadow(now_ms - self._give_up_ms, now_ms)
        if count:
            log.warning("dispatcher: %d alarms are notified that may have been sent before", count)
            self._metrics.perhaps_sent_before.inc(count)
        else:
            self._notify_at_s = math.inf  # until this site has been secondary once more
        return count

    def notify_since_backup(self, operations: OperationsStore, role: SiteRole) -> int:
        """How many alarms and incidents of before a restore are notified now."""
        now_ms = wall_clock.now_ms()
        try:
            acknowledged = {one.id for one in self._acknowledged.since(now_ms - KEEP_MS)}
        except AcknowledgementsUnavailable as error:
            raise StoreUnavailable(str(error)) from error
        is_secondary = role.secondary_since_ms is not None
        count = operations.notify_since_backup(acknowledged, now_ms, is_secondary=is_secondary)
        log.warning(
            "dispatcher: a backup was restored; %d alarms and incidents since are notified that may"
            " have been sent before", count,
        )  # fmt: skip
        self._metrics.perhaps_sent_before.inc(count)
        return count

    def end_replicated(
        self, operations: OperationsStore, role: SiteRole, events: PublishedEvents
    ) -> None:
        """Incidents that only the other site has raised end here when this one is the primary. It
        has everything by then: what that site still had to say, and what this one has said before
        it was killed. The end has the header of the opening: it is not carried to the site that
        may still have the incident open, and it is notified to nobody."""
        self._note_ended(operations, events)
        if role.secondary_since_ms is not None:
            self._ends_at_s = time.monotonic() + SETTLED_S
        if role.primary_at_s < self._ends_at_s:
            return
        due = operations.replicated_open()
        if not due:
            self._ends_at_s = math.inf  # until one is carried, or this site is secondary
            return
        now_ms = wall_clock.now_ms()
        self._origins = {one.incident_id: origin for one, origin in due}
        headers: dict[str, RecordHeaders] = {
            incident_id: [(SITE, self._site_name), (MIRROR_ORIGIN, origin)]
            for incident_id, origin in self._origins.items()
        }
        ends = [(one.incident_id, ended_by_takeover(one, now_ms)) for one, _ in due]
        if sent := events.ends.send(ends, headers):
            log.warning("dispatcher: %d open incidents of the former primary end here", sent)

    def _note_ended(self, operations: OperationsStore, events: PublishedEvents) -> None:
        ended = [
            ReplicatedIncident(one, self._origins[one.incident_id])
            for one in events.ends.take_acknowledged()
        ]
        if ended:
            operations.apply(BatchChanges(foreign_incidents=ended, now_ms=wall_clock.now_ms()))
