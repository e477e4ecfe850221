"""The platform itself: what the console depends on, every process of the product, incidents with
their ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from nicegui import ui
from nicegui.events import GenericEventArguments

from bus.contracts.alarms import Incident
from ingest.store.port import PageRequest
from monitor.accounts.roles import ConsoleOperation
from monitor.api.incidents import acknowledged, incident_page
from monitor.api.platform import health, unavailable_parts
from monitor.api.views import incident_row
from monitor.console.acknowledge import acknowledge
from monitor.console.elements import chip, grid, panel, update_rows
from monitor.console.layout import View
from monitor.console.rows import Row, column, incident_text, place_field, process_row

REFRESH_SECONDS = 5.0
MAX_INCIDENTS = 200
ACKNOWLEDGED_BY = "acknowledged_by"


def build(view: View) -> None:
    """The page."""
    SystemPage(view)


class SystemPage:
    """Queried every few seconds while the page is open."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        with ui.element("div").classes("two"):
            with panel(t("system.stores")):
                self._stores = ui.element("dl").classes("facts")
            with panel(t("system.answers")):
                self._answers = ui.element("dl").classes("facts")
                self._no_answers = ui.label(t("system.no_processes")).classes("soft")
                self._no_answers.set_visibility(False)
        with panel(t("system.processes")) as bar:
            with bar:
                self._unsupervised = ui.label(t("system.unsupervised")).classes("soft")
            self._processes = grid(
                t, _process_columns(view), label=t("system.processes"), height="290px", rowData=[]
            )
        with panel(t("system.incidents"), "rest"):
            self._incidents = grid(t, _columns(view), label=t("system.incidents"), rowData=[])
        self._incidents.on("cellClicked", self._clicked, args=["colId", "data"])
        ui.timer(REFRESH_SECONDS, self.show)

    async def show(self) -> None:
        """Ask and draw."""
        t = self._view.t
        await self._show_processes()
        pulses = await health(self._view.services)
        page = await incident_page(self._view.services, PageRequest(limit=MAX_INCIDENTS))
        who = await acknowledged(self._view.services)
        rows = [_row(one, self._view, who) for one in page.incidents[:MAX_INCIDENTS]]
        update_rows(self._incidents, rows)
        stores = [
            (t(f"shell.{part}"), why)
            for part, why in unavailable_parts(self._view.services).items()
        ]
        _facts(self._stores, stores, t("system.well"))
        answers = [(str(p["name"]), str(p["fault"])) for p in pulses]
        _facts(self._answers, answers, t("system.well"))
        self._answers.set_visibility(bool(answers))
        self._no_answers.set_visibility(not answers)

    async def _show_processes(self) -> None:
        services = self._view.services
        found = await asyncio.to_thread(services.read_processes)
        self._unsupervised.set_visibility(not found)
        self._processes.set_visibility(bool(found))
        rows = [process_row(one, services.site.tz, self._view.t) for one in found]
        update_rows(self._processes, rows)

    async def _clicked(self, event: GenericEventArguments) -> None:
        row = event.args["data"]
        if event.args.get("colId") == ACKNOWLEDGED_BY and row["state"] == "open":
            await acknowledge(self._view, row["id"])
            await self.show()


def _offer(incident: Incident, view: View) -> str:
    """What can be clicked, by those who may, while it lasts and nobody has it in hand."""
    may = incident.state == "open" and view.may(ConsoleOperation.WATCH_WRITE)
    return view.t("acknowledge.do") if may else ""


def _facts(box: ui.element, pairs: list[tuple[str, str]], well: str) -> None:
    box.clear()
    with box:
        for name, fault in pairs:
            with ui.element("dt"):
                ui.label(name)
            with ui.element("dd"):
                chip(fault or well, "critical" if fault else "good")


def _process_columns(view: View) -> list[Row]:
    t = view.t
    return [
        column(t, "process", "process", flex=2, minWidth=200, cellClass="strong"),
        column(t, "state", "state", width=120)
        | {":cellClass": "p => p.data.is_well ? 'ok' : 'bad'"},
        column(t, "pid", "pid", number=True, width=110),
        column(t, "restarts", "restarts", number=True, width=110),
        column(t, "since", "since", width=180),
    ]


def _columns(view: View) -> list[Row]:
    t = view.t
    return [
        column(t, "severity", "severity", renderer="severity", width=84)
        | {":cellClass": "databus.severityClass"},
        column(t, "incident", "kind", renderer="incident", width=110, cellClass="strong"),
        column(t, "state", "state", renderer="state", width=80),
        column(t, "opened_at", "opened_at", width=150),
        column(t, "closed_at", "closed_at", width=150),
        column(t, "checkpoint", "place", flex=2, minWidth=120),
        column(t, "camera", "camera_ip", width=130),
        column(t, "recognizer", "recognizer_ip", width=130),
        column(t, "detail", "detail", flex=4, minWidth=200, tooltipField="detail"),
        column(t, ACKNOWLEDGED_BY, ACKNOWLEDGED_BY, width=120, cellClass="strong"),
    ]


def _row(incident: Incident, view: View, who: Mapping[str, str]) -> Row:
    row = incident_row(incident, view.services.register.read(), view.services.site.tz)
    return {
        "id": incident.incident_id,
        "severity": incident.severity,
        "kind": incident.kind,
        "state": incident.state,
        "opened_at": row["opened_at"][:19],
        "closed_at": row["closed_at"][:19],
        "place": row[place_field(view.t)],
        "camera_ip": incident.camera_ip,
        "recognizer_ip": incident.recognizer_ip,
        "detail": incident_text(incident.detail, view.t),
        ACKNOWLEDGED_BY: who.get(incident.incident_id) or _offer(incident, view),
    }
