"""The panel at the right edge: one record or one alarm with its pictures and the device's own
JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from nicegui import ui

from ingest.store.port import Page, Query
from monitor.api.pool import Away
from monitor.api.views import alarm_row, record_detail
from monitor.console.elements import chip, facts, figure
from monitor.console.i18n import Texts
from monitor.console.rows import Row, place_field
from monitor.console.shell import View

_RECORD_FACTS = (
    ("captured_at", "captured_at"),
    ("received_at", "received_at"),
    ("stored_at", "stored_at"),
    ("camera", "camera_ip"),
    ("recognizer", "recognizer_ip"),
    ("district", "district_id"),
)
_FEATURES = ("plate_color", "vehicle_color", "vehicle_type", "vehicle_brand", "vehicle_series")


class DetailPanel:
    """One per page; opening another thing replaces what it shows."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._dialog = ui.dialog().props("position=right full-height")
        with self._dialog:
            self._box = ui.element("div").classes("detail").props("role=dialog")

    async def record(self, record_id: str) -> None:
        """Show a stored record."""
        await self._open(lambda: self._fill_record(record_id))

    async def record_in_flight(self, record_id: str) -> None:
        """Show a live record; the store may need a moment until it has it."""
        await self.record(record_id)

    async def alarm(self, alarm_id: str) -> None:
        """Show an alarm."""
        await self._open(lambda: self._fill_alarm(alarm_id))

    def raw(self, title: str, row: Row, names: tuple[tuple[str, str], ...], body: str) -> None:
        """Show something that is already at hand, with its original text."""
        self._box.clear()
        with self._box:
            self._heading(title)
            facts((self._view.t(f"column.{name}"), row.get(field, "")) for name, field in names)
            _code(body)
        self._dialog.open()

    async def _open(self, fill: Callable[[], Any]) -> None:
        self._box.clear()
        self._dialog.open()
        try:
            with self._box:
                await fill()
        except Away as error:
            with self._box:
                ui.label(str(error)).classes("notice")

    def _heading(self, title: str) -> None:
        with ui.element("div").classes("bar"):
            with ui.element("h2"):
                ui.label(title)
            ui.element("div").classes("grow")
            close = ui.button(icon="close", color=None, on_click=self._dialog.close)
            close.props(f'flat round dense aria-label="{self._view.t("detail.close")}"')

    async def _fill_record(self, record_id: str) -> None:
        services, t = self._view.services, self._view.t
        rows, _ = await services.records.ask(
            lambda r: r.query(Query(record_id=record_id), Page(limit=1))
        )
        with self._box:
            self._heading(t("detail.record"))
            if not rows:
                live = next((x for x in services.hub.live.rows if x.record_id == record_id), None)
                ui.label(t("detail.gone") if live is None else t("live.no_records")).classes(
                    "notice"
                )
                return
            self._show_record(record_detail(rows[0], services.register.read(), services.site.tz))

    def _show_record(self, row: Row) -> None:
        t = self._view.t
        with ui.element("div").classes("bar"):
            ui.label(row["plate_number"] or t.word("kind", row["kind"])).style(
                "font-size: 22px; font-weight: 700"
            )
            ui.label(row[place_field(t)]).classes("soft")
        self._pictures(row["pictures"])
        facts(
            [
                (t("column.kind"), t.word("kind", row["kind"])),
                *((t(f"attribute.{f}"), row[f]) for f in _FEATURES),
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

    def _pictures(self, pictures: list[Row]) -> None:
        t = self._view.t
        for one in pictures:
            if one["picture"]:
                figure(one["picture"], one["key"].removesuffix("地址"))
            else:  # never fetched from here: this page asks no other host for anything
                ui.label(t("detail.foreign_picture", url=one["url"])).classes("soft small")
        if not pictures:
            ui.label(t("detail.no_picture")).classes("soft small")

    async def _fill_alarm(self, alarm_id: str) -> None:
        services, t = self._view.services, self._view.t
        alarm = next((a for a in services.hub.live.alarms if a.alarm_id == alarm_id), None)
        if alarm is None:
            alarm = await services.alarms.ask(lambda r: r.alarm(alarm_id))
        with self._box:
            self._heading(t("detail.alarm"))
            if alarm is None:
                ui.label(t("detail.gone")).classes("notice")
                return
            self._show_alarm(alarm_row(alarm, services.register.read(), services.site.tz))

    def _show_alarm(self, row: Row) -> None:
        t = self._view.t
        with ui.element("div").classes("bar"):
            chip(t.word("severity", row["severity"]), row["severity"])
            ui.label(row["rule_name"] or row["rule_id"]).style("font-size: 18px; font-weight: 700")
        self._pictures(
            [{"key": "", "url": row["picture_url"], "picture": row["picture"]}]
            if row["picture_url"]
            else []
        )
        facts(
            [
                (t("column.plate"), row["plate_number"]),
                (t("column.checkpoint"), row[place_field(t)]),
                (t("column.kind"), t.word("kind", row["kind"])),
                (t("column.captured_at"), row["captured_at"]),
                (t("column.raised_at"), row["raised_at"]),
                (t("column.reaction"), f"{row['reaction_ms']:,} ms"),
                (t("column.camera"), row["camera_ip"]),
                *((t.word("attribute", k), v) for k, v in row["attributes"].items()),
            ]
        )
        with ui.element("div").classes("bar"):
            ui.button(
                t("detail.record_of"), color=None, on_click=lambda: self.record(row["record_id"])
            ).classes("header-button")
            ui.button(
                t("detail.trajectory"),
                color=None,
                on_click=lambda: ui.navigate.to(_map_address(row["rule_id"])),
            ).classes("header-button")


def _map_address(rule_id: str) -> str:
    return f"/map?target={quote(rule_id, safe='')}"


def _code(text: str) -> None:
    with ui.element("pre").classes("raw mono").props("tabindex=0"):
        ui.label(text).style("white-space: pre-wrap")


def _latency(t: Texts, row: Row) -> str:
    """Milliseconds; of a device whose clock is at fault only how far it is off."""
    if row["clock_off_ms"]:
        return str(t("detail.clock_fault", hours=f"{row['clock_off_ms'] / 3_600_000:+,.1f}"))
    return f"{row['latency_ms']:,} ms"
