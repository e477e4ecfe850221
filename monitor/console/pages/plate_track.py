"""The way of the plate that the address names: its stops on the map and as a list beside it, from
the stored records, so that no rule has to know the plate.
"""

from __future__ import annotations

from datetime import date
from functools import partial

from nicegui import ui

from bus.contracts.commands import USUAL_KIND
from bus.domain.plates import plate_form
from ingest.store.port import PageRequest, Query
from monitor.api.records import about_records
from monitor.api.views import clock, parse_time, place
from monitor.console.case_field import UNANSWERED, CaseField, asker
from monitor.console.components.city_map import CityMap
from monitor.console.days import span_of
from monitor.console.elements import chip, link
from monitor.console.evidence_links import record_evidence_link
from monitor.console.layout import View
from monitor.console.plate_links import reading_chip, watch_link
from monitor.console.plate_stops import PlateStop, stops_of
from monitor.console.rows import place_field
from monitor.console.time_fields import day_buttons, moment_field

MAX_SIGHTINGS = 100  # of the newest, drawn and listed; a longer way is asked for by its time
REFRESH_SECONDS = 10.0
_FIELDS = ("plate", "from", "until")


class PlateTrack:
    """Shown while the address names a plate."""

    def __init__(self, view: View, city: CityMap) -> None:
        self._view, self._city = view, city
        self._drawn: list[PlateStop] | None = None
        self._asked = 0
        self._box = ui.element("section").classes("panel chosen")
        t = view.t
        with self._box:
            self._case = CaseField(view, self._refresh)
            with ui.element("div").classes("bar"):
                with ui.element("h2"):
                    self._title = ui.label()
                ui.element("div").classes("grow")
                close = ui.button(icon="close", color=None, on_click=self._close)
                close.props(f'flat round dense aria-label="{t("plate.close")}"')
            self._links = ui.element("div").classes("bar")
            with ui.element("div").classes("bar"):
                self._from = moment_field(t, t("search.from"))
                self._until = moment_field(t, t("search.until"))
                day_buttons(t, view.services.site.tz, self._choose_day)
                ui.button(t("search.go"), on_click=self._choose_span).props("unelevated dense")
            self._note = ui.label().classes("soft small").props("role=status")
            self._list = ui.element("ol").classes("targets stops")
        view.address.watch(_FIELDS, self._follow)
        ui.timer(REFRESH_SECONDS, self._refresh)
        ui.timer(0.1, self._follow, once=True)

    @property
    def _form(self) -> str:
        return plate_form(self._view.address["plate"])

    async def _close(self) -> None:
        await self._view.address.go(dict.fromkeys(_FIELDS, ""))

    async def _choose_day(self, day: date) -> None:
        begin, end = span_of(day)
        await self._view.address.go({"from": begin, "until": end})

    async def _choose_span(self) -> None:
        typed = {"from": self._from.value or "", "until": self._until.value or ""}
        await self._view.address.go({name: text.strip() for name, text in typed.items()})

    async def _follow(self) -> None:
        """The address has changed, or the page is new."""
        address, self._drawn = self._view.address, None
        plate = address["plate"]
        self._box.set_visibility(bool(plate))
        if not plate:
            return
        self._from.set_value(address["from"])
        self._until.set_value(address["until"])
        self._title.set_text(self._view.t("plate.trajectory_of", plate=self._form or plate))
        self._show_links()
        await self._refresh()

    def _show_links(self) -> None:
        view, form = self._view, self._form
        self._links.clear()
        self._list.clear()
        self._city.clear_track()
        self._note.set_text("" if form else view.t("plate.none"))
        with self._links:
            if form:
                reading_chip(form, view.t)
                link(view.t("nav.records"), "records", plate=form)
                watch_link(view, form, USUAL_KIND)
                span = {name: view.address[name] for name in ("from", "until")}
                record_evidence_link(view, plate=form, **span)

    async def _refresh(self) -> None:
        """Ask, and draw where something is new; the last way stays while the store is away."""
        form, address = self._form, self._view.address
        if not form:
            return
        self._asked += 1
        asked, zone = self._asked, self._view.services.site.tz
        question = Query(
            plate=form,
            captured_from_ms=parse_time(address["from"], zone),
            captured_until_ms=parse_time(address["until"], zone),
        )
        page = PageRequest(limit=MAX_SIGHTINGS)
        try:
            rows, more = await self._view.services.questions.records(
                about_records(asker(self._view), "trajectory", question),
                lambda r: r.query(question, page),
            )
        except UNANSWERED as error:
            self._case.show_fault(error)
            return
        self._case.show_fault(None)
        stops = stops_of(rows)
        if asked == self._asked and stops != self._drawn:  # else something else is asked meanwhile
            self._drawn = stops
            self._draw(stops, len(rows), bool(more))

    def _draw(self, stops: list[PlateStop], sightings: int, more: bool) -> None:
        t = self._view.t
        self._city.track(
            [
                {"id": s.checkpoint_id, "time": self._clock(s.first_ms)[11:19], "number": s.number}
                for s in stops
            ]
        )
        text_key = "plate.newest" if more else "plate.sightings" if stops else "plate.nowhere"
        self._note.set_text(t(text_key, count=sightings, stops=len(stops)))
        self._list.clear()
        with self._list:
            for stop in reversed(stops):
                self._stop(stop)

    def _stop(self, stop: PlateStop) -> None:
        """One line of the list; a click shows the place, the link the record."""
        view, t = self._view, self._view.t
        row = place(stop.checkpoint_id, view.services.register.read())
        with ui.element("li").classes("stop"):
            with ui.element("button").classes("target").props("type=button") as button:
                ui.label(f"{stop.number}.").classes("num")
                ui.label(self._times(stop)).classes("num")
                ui.label(row[place_field(t)]).classes("grow")
            button.on("click", partial(view.address.go, {"checkpoint": stop.checkpoint_id}))
            with ui.element("div").classes("bar"):
                link(t("detail.record_of"), "records", plate=self._form, record=stop.record_ids[-1])
                if len(stop.record_ids) > 1:
                    ui.label(t("plate.records", count=len(stop.record_ids))).classes("soft small")
                for form in stop.forms:
                    chip(t("plate.read_as", plate=form), "warning")
                if stop.is_by_arrival:
                    chip(t("plate.by_arrival"), "warning")

    def _times(self, stop: PlateStop) -> str:
        first, last = self._clock(stop.first_ms)[:19], self._clock(stop.last_ms)[:19]
        if first == last:
            return first
        return f"{first} – {last[11:] if last[:10] == first[:10] else last}"

    def _clock(self, time_ms: int) -> str:
        return clock(time_ms, self._view.services.site.tz)
