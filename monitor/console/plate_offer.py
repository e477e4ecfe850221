"""When a search for a plate finds nothing: whole plates that contain what was typed.

The search is bounded; the line says how far back it looked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from nicegui import ui

from bus.domain.plates import folded, plate_key
from ingest.store.port import PlatesFound
from monitor.api.records import OFFERED_PLATES
from monitor.api.views import clock
from monitor.console.case_field import UNANSWERED, asker
from monitor.console.layout import View
from monitor.questions.question import question_about

FindPlates = Callable[[str], Awaitable[PlatesFound]]


def is_whole_plate(text: str) -> bool:
    """Whether it is asked for as one plate: no pattern, and no word for a missing plate."""
    return "*" not in text.replace("＊", "*") and bool(plate_key(text))


async def plates_of_records(view: View, part: str) -> PlatesFound:
    """From the store of records."""
    return await view.services.questions.records(
        question_about(asker(view), "plates", {"plate": part}),
        lambda r: r.plates_containing(part, limit=OFFERED_PLATES),
    )


async def plates_of_alarms(view: View, part: str) -> PlatesFound:
    """From the newest alarms, which this process holds."""
    key, alarms = folded(part), view.live.alarms
    found = dict.fromkeys(
        plate_key(a.plate_number) for a in reversed(alarms) if key in plate_key(a.plate_number)
    )
    since_ms = alarms[0].captured_at_ms if alarms else None
    return PlatesFound(plates=list(found)[:OFFERED_PLATES], since_ms=since_ms)


class PlateOffer:
    """The line below the search; a plate in it is searched by a click."""

    def __init__(
        self, view: View, find: FindPlates, choose: Callable[[str], Awaitable[None]]
    ) -> None:
        self._view = view
        self._find = find
        self._choose = choose
        self._asked = 0
        self._line = ui.element("div").classes("bar offer").props("role=status")
        self._line.set_visibility(False)

    async def show(self, plate: str, found: int | None) -> None:
        """Offer plates if nothing was found for a whole one; None: it is not known."""
        self._asked += 1
        asked = self._asked
        self._line.set_visibility(False)
        if found != 0 or not is_whole_plate(plate):
            return
        try:
            plates = await self._find(plate)
        except UNANSWERED:
            return  # a notice of the page says it
        if asked == self._asked:  # else another search has been begun meanwhile
            self._fill(plate, plates)

    def _fill(self, plate: str, found: PlatesFound) -> None:
        t, zone = self._view.t, self._view.services.site.tz
        self._line.clear()
        with self._line:
            text_key = "search.containing" if found.plates else "search.none_contains"
            ui.label(t(text_key, plate=plate))
            for one in found.plates:
                ui.button(one, color=None, on_click=partial(self._choose, one)).classes(
                    "header-button"
                )
            if found.since_ms is not None:
                since = clock(found.since_ms, zone)[:16]
                ui.label(t("search.looked_since", time=since)).classes("soft small")
        self._line.set_visibility(True)
