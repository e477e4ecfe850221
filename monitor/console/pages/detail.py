"""The panel at the right edge: one record or one alarm with its pictures and the device's own
JSON.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from bus.contracts.alarm_states import AlarmState
from bus.contracts.alarms import Alarm
from bus.domain.alarm_life import no_state
from bus.domain.face_search import face_attributes
from bus.domain.plates import plate_form
from bus.domain.rule_values import FEATURE
from ingest.store.port import PageRequest, Query
from monitor.api.alarm_life import state_of
from monitor.api.pool import QueryUnavailable
from monitor.api.views import alarm_detail, record_detail, rejected_row
from monitor.console.alarm_life import AlarmLifecycle
from monitor.console.elements import chip, facts, figure, link
from monitor.console.evidence_links import alarm_evidence_link, record_evidence_link
from monitor.console.layout import View
from monitor.console.live_updates import Update
from monitor.console.notices import FaultNotice
from monitor.console.plate_links import plate_links, reading_chip
from monitor.console.rows import (
    Row,
    body_facts,
    case_facts,
    clock_text,
    face_facts,
    further_facts,
    key_text,
    listed_facts,
    misread_facts,
    picture_caption,
    place_field,
    visible_facts,
    written_plate,
)
from monitor.i18n import Texts

_RECORD_FACTS = (
    ("captured_at", "captured_at"),
    ("received_at", "received_at"),
    ("stored_at", "stored_at"),
    ("camera", "camera_ip"),
    ("recognizer", "recognizer_ip"),
    ("district", "district_id"),
)
_REJECTED_FACTS = (
    ("reason", "reason"),
    ("field", "field"),
    ("kind", "kind"),
    ("camera", "camera_ip"),
    ("recognizer", "recognizer_ip"),
    ("source", "source"),
    ("received_at", "received_at"),
)
_FEATURES = ("plate_color", "vehicle_color", "vehicle_type", "vehicle_brand", "vehicle_series")


class DetailPanel:
    """One per page; opening another thing replaces what it shows. What is open stands in the
    address, so a reload or Back shows it or closes it.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._dialog = ui.dialog().props("position=right full-height")
        with self._dialog:
            self._box = ui.element("div").classes("detail")
        self.life: AlarmLifecycle | None = None
        """Of the alarm that is open."""
        self._fill: dict[str, Callable[[str], Awaitable[None]]] = {
            "record": self._fill_record,  # before its alarm: it is opened from there
            "alarm": self._fill_alarm,
            "rejected": self._fill_rejected,
        }
        view.address.watch(tuple(self._fill), self._show)
        view.feed.subscribe(self._on_update)
        self._dialog.on_value_change(self._closed)
        if any(view.address[name] for name in self._fill):
            ui.timer(0.1, self._show, once=True)

    def _on_update(self, update: Update) -> None:
        """Somebody, here or at another desk, has acted on the alarm that is open."""
        life = self.life
        if life is not None:
            for state in update.delta.alarm_states:
                life.show(state)

    async def open(self, **which: str) -> None:
        """Show what has this id: `record`, `alarm` or `rejected`."""
        await self._view.address.go(which)

    async def _closed(self, event: ValueChangeEventArguments[bool]) -> None:
        if not event.value:
            await self._view.address.go(dict.fromkeys(self._fill, ""))

    async def _show(self) -> None:
        for name, fill in self._fill.items() if not self._view.address.wrong else ():
            if given := self._view.address[name]:
                await self._open(partial(fill, given))
                return
        self.life = None
        self._dialog.close()

    async def _open(self, fill: Callable[[], Awaitable[None]]) -> None:
        self._box.clear()
        self.life = None
        self._dialog.open()
        try:
            with self._box:
                await fill()
        except QueryUnavailable as error:
            with self._box:
                FaultNotice().show(self._view.t("detail.unavailable"), str(error))

    def _heading(self, title: str) -> None:
        self._dialog.props["aria-label"] = title
        self._dialog.update()
        with ui.element("div").classes("bar"):
            with ui.element("h2"):
                ui.label(title)
            ui.element("div").classes("grow")
            close = ui.button(icon="close", color=None, on_click=self._dialog.close)
            close.props(f'flat round dense aria-label="{self._view.t("detail.close")}"')

    async def _fill_record(self, record_id: str) -> None:
        services, t = self._view.services, self._view.t
        rows, _ = await services.records.run(
            lambda r: r.query(Query(record_id=record_id), PageRequest(limit=1))
        )
        with self._box:
            self._heading(t("detail.record"))
            if not rows:
                live = next((x for x in services.hub.live.rows if x.record_id == record_id), None)
                ui.label(t("detail.gone") if live is None else t("live.no_records")).classes(
                    "notice"
                )
                return
            register, zone = services.register.read(), services.site.tz
            diverged_epoch = services.diverged_epoch(record_id)
            row = record_detail(rows[0], register, zone, diverged_epoch)
            self._show_record(row, has_face=FEATURE in face_attributes(rows[0].body))

    def _show_record(self, row: Row, *, has_face: bool) -> None:
        t = self._view.t
        with ui.element("div").classes("bar"):
            ui.label(row["plate"] or t.word("kind", row["kind"])).style(
                "font-size: 22px; font-weight: 700"
            )
            ui.label(row[place_field(t)]).classes("soft")
        self._mark(row)
        reading_chip(plate_form(row["plate_number"]), t)
        with ui.element("div").classes("bar"):
            plate_links(self._view, row["plate_number"], row["kind"])
            if has_face:
                link(t("faces.find"), "faces", like=row["record_id"])
            record_evidence_link(self._view, record=row["record_id"])
        self._pictures(row["pictures"])
        facts(
            [
                *written_plate(row, t),
                (t("column.kind"), t.word("kind", row["kind"])),
                *((t(f"attribute.{f}"), t.value(f, row[f])) for f in _FEATURES),
                *body_facts(row["kind"], row["body"], t),
                *((t(f"column.{name}"), row[field]) for name, field in _RECORD_FACTS),
                (t("column.latency"), _latency(t, row)),
            ]
        )
        with ui.element("h2"):
            ui.label(t("detail.raw"))
        _code(
            json.dumps(row["body"], ensure_ascii=False, indent=1)
            if not isinstance(row["body"], str)
            else row["body"]
        )

    def _mark(self, row: Row) -> None:
        """Of what only this site had before a forced switch."""
        if row["tail_epoch"]:
            text = self._view.t("detail.own_tail", epoch=row["tail_epoch"])
            chip(text, "warning").style("white-space: normal")

    def _pictures(self, pictures: list[Row]) -> None:
        t = self._view.t
        for one in pictures:
            if one["picture"]:
                figure(t, one["picture"], picture_caption(one["key"], t))
            else:  # never fetched from here: this page asks no other host for anything
                ui.label(t("detail.foreign_picture", url=one["url"])).classes("soft small")
        if not pictures:
            ui.label(t("detail.no_picture")).classes("soft small")

    async def _fill_alarm(self, alarm_id: str) -> None:
        services, t = self._view.services, self._view.t
        alarm = await self._alarm(alarm_id)
        with self._box:
            self._heading(t("detail.alarm"))
            if alarm is None:
                ui.label(t("detail.gone")).classes("notice")
                return
            state = await self._state(alarm_id)
            self._show_alarm(alarm_detail(alarm, services.register.read(), services.site.tz), state)

    async def _alarm(self, alarm_id: str) -> Alarm | None:
        """As stored, for only there it has the copies of its pictures; else as it came live."""
        services = self._view.services
        live, viewer = self._view.live.alarm(alarm_id), self._view.principal.viewer
        try:
            stored = await services.alarms.run(lambda r: r.alarm(alarm_id, viewer=viewer))
        except QueryUnavailable:
            if live is None:
                raise
            return live
        return live if stored is None else stored

    async def _state(self, alarm_id: str) -> AlarmState:
        """As stored; of one that has just come, and while the store is away, that nobody has."""
        try:
            return await state_of(self._view.services, alarm_id)
        except QueryUnavailable:
            return no_state(alarm_id)

    def _show_alarm(self, row: Row, state: AlarmState) -> None:
        t = self._view.t
        with ui.element("div").classes("bar"):
            chip(t.word("severity", row["severity"]), row["severity"])
            ui.label(row["rule_name"] or row["rule_id"]).style("font-size: 18px; font-weight: 700")
        self.life = AlarmLifecycle(self._view, state)
        if row["is_emergency"]:
            chip(t("detail.emergency"), "critical")
        if row["plate_is_doubtful"]:
            chip(t("detail.doubtful_plate"), "warning").style("white-space: normal")
        self._pictures(row["pictures"])
        facts(
            [
                (t("column.plate"), row["plate"]),
                *written_plate(row, t),
                (t("column.checkpoint"), row[place_field(t)]),
                (t("column.kind"), t.word("kind", row["kind"])),
                (t("column.captured_at"), row["captured_at"]),
                (t("column.raised_at"), row["raised_at"]),
                (t("column.reaction"), f"{row['reaction_ms']:,} ms"),
                (t("column.camera"), row["camera_ip"]),
                *((t.word("attribute", k), t.value(k, v)) for k, v in row["attributes"].items()),
                *([(t("detail.branch"), row["branch"])] if row["branch"] else []),
                *misread_facts(row["misread"], t),
                *listed_facts(row["listed"], t),
                *face_facts(row["resembled"], t),
                *further_facts(row, t),
                *case_facts(row, t),
                *visible_facts(row, t),
            ]
        )
        with ui.element("div").classes("bar"):
            ui.button(
                t("detail.record_of"),
                color=None,
                on_click=lambda: self.open(record=row["record_id"]),
            ).classes("header-button")
            link(t("detail.trajectory"), "map", target=row["rule_id"])
            if row["latitude"] is not None:
                link(t("detail.on_map"), "map", checkpoint=row["checkpoint_id"])
            plate_links(self._view, row["plate_number"], row["kind"])
            alarm_evidence_link(self._view, row["alarm_id"])
        if row["body"] is not None:
            with ui.element("h2"):
                ui.label(t("detail.raw"))
            _code(json.dumps(row["body"], ensure_ascii=False, indent=1))

    async def _fill_rejected(self, record_id: str) -> None:
        services, t = self._view.services, self._view.t
        found = await services.records.run(lambda r: r.rejected_record(record_id))
        with self._box:
            self._heading(t("quality.rejected"))
            if found is None:
                ui.label(t("detail.gone")).classes("notice")
                return
            register, zone = services.register.read(), services.site.tz
            row = rejected_row(found, register, zone, services.diverged_epoch(record_id))
            self._mark(row)
            words = {group: t.word(group, row[group]) for group in ("reason", "kind")}
            words["field"] = key_text(row["field"], t)
            facts(
                (t(f"column.{name}"), (row | words)[field])
                for name, field in (*_REJECTED_FACTS, ("checkpoint", place_field(t)))
            )
            _code(row["body"])


def _code(text: str) -> None:
    with ui.element("pre").classes("raw mono").props("tabindex=0"):
        ui.label(text).style("white-space: pre-wrap")


def _latency(t: Texts, row: Row) -> str:
    """Milliseconds; of a device whose clock is off also by how much, and only that where nothing
    better was known than the arrival."""
    off_ms = row["clock_off_ms"]
    if row["latency_ms"] is None:
        return str(t("detail.clock_fault", hours=f"{off_ms / 3_600_000:+,.1f}"))
    latency = f"{row['latency_ms']:,} ms"
    if not off_ms:
        return latency
    return str(t("detail.clock_corrected", latency=latency, clock=clock_text(off_ms, t)))
