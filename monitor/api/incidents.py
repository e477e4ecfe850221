"""Incidents from all who know them: the operations store, the topic, the watch's own file.

The store has what the dispatcher has stored; the topic what was published since this console
started; the file of the watch what neither has while the bus is away. Each id once, with its end if
anybody knows it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bus.contracts.alarms import Incident
from bus.notify.acknowledgements import AcknowledgementsUnavailable
from ingest.store.port import PageRequest
from monitor.api.pool import QueryUnavailable
from monitor.api.services import ConsoleServices
from monitor.api.views import newest_incidents

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """A page, the cursor of the next one, why the store could not be asked."""

    incidents: Sequence[Incident]
    cursor: str
    away: str = ""


async def incident_page(
    services: ConsoleServices, page: PageRequest, *, open_only: bool = False
) -> IncidentPage:
    """The first page has what the store does not know yet; further ones are the store's alone.
    Raises `QueryUnavailable` for a further page."""
    away, following = "", ""
    stored: Sequence[Incident] = ()
    try:
        stored, following = await services.alarms.run(
            lambda r: r.incidents(page=page, open_only=open_only)
        )
    except QueryUnavailable as error:
        if page.cursor:
            raise
        away = str(error)
    if page.cursor:
        return IncidentPage(stored, following)
    others = [*services.hub.live.incidents, *await _of_the_watch(services)]
    merged = newest_incidents(stored, _not_on_later_pages(others, stored, following))
    return IncidentPage(
        [one for one in merged if one.state == "open" or not open_only], following, away
    )


def _not_on_later_pages(
    others: Iterable[Incident], stored: Sequence[Incident], following: str
) -> list[Incident]:
    """Without those that the store has, but further back."""
    if not following:
        return list(others)
    names = {one.incident_id for one in stored}
    newest_ms = max((one.opened_at_ms for one in stored), default=0)
    return [one for one in others if one.incident_id in names or one.opened_at_ms > newest_ms]


async def _of_the_watch(services: ConsoleServices) -> Sequence[Incident]:
    try:
        return await asyncio.to_thread(services.read_incidents)
    except Exception as error:  # of a reader: it is asked again at the next look
        log.info("the incidents of the watch cannot be read: %s", error)
        return ()


async def acknowledged(services: ConsoleServices) -> dict[str, str]:
    """Who has taken in hand what, by the id of an alarm or an incident; empty while the file cannot
    be read."""
    try:
        return await asyncio.to_thread(services.acknowledgements.all_names)
    except AcknowledgementsUnavailable as error:
        log.info("%s", error)
        return {}
