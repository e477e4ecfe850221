"""Of the page quality: which peers edges refuse, and which devices they warn of what."""

from __future__ import annotations

from nicegui import ui

from monitor.api.sender_faults import SendersOfEdges, senders_of_edges
from monitor.api.views import clock
from monitor.console.elements import grid, panel
from monitor.console.layout import View
from monitor.console.notices import FaultNotice
from monitor.console.rows import column

REFRESH_SECONDS = 30.0
MAX_ROWS = 500


class SenderFaultsPanel:
    """Asked of the edges again every half minute."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        self._away = FaultNotice()
        columns = [
            column(t, "last_refused", "last", width=190),
            column(t, "reason", "reason", width=150, cellClass="strong"),
            column(t, "maker", "maker", width=160, sortable=True),
            column(t, "source", "peer", width=140, sortable=True),
            column(t, "requests", "requests", renderer="number", number=True, width=90)
            | {"sortable": True},
            column(t, "request", "request", flex=1, minWidth=200, cellClass="mono"),
            column(t, "edge", "edge", width=90),
        ]
        with panel(t("quality.refused")):
            ui.label(t("quality.refused_note")).classes("soft")
            self._refused = grid(
                t, columns, label=t("quality.refused"), height="240px", rowData=[]
            )
        warned = [
            column(t, "last_warned", "last", width=190),
            column(t, "camera", "camera_ip", width=140, sortable=True),
            column(t, "field", "field", renderer="key", width=160, sortable=True),
            column(t, "warned_records", "records", renderer="number", number=True, width=90)
            | {"sortable": True},
            column(t, "message", "message", flex=1, minWidth=260),
            column(t, "edge", "edge", width=90),
        ]
        with panel(t("quality.warned")):
            ui.label(t("quality.warned_note")).classes("soft")
            self._warned = grid(t, warned, label=t("quality.warned"), height="240px", rowData=[])
        ui.timer(REFRESH_SECONDS, self.show)

    async def show(self) -> None:
        """Ask and draw."""
        found = await senders_of_edges(self._view.services.console)
        self._note_unavailable(found)
        self._refused.run_grid_method("setGridOption", "rowData", self._refused_rows(found))
        self._warned.run_grid_method("setGridOption", "rowData", self._warned_rows(found))

    def _note_unavailable(self, found: SendersOfEdges) -> None:
        why = "; ".join(f"{edge}: {text}" for edge, text in found.away.items())
        self._away.show(self._view.t("quality.edges_away") if why else "", why)

    def _refused_rows(self, found: SendersOfEdges) -> list[dict[str, object]]:
        zone, reasons = self._view.services.site.tz, self._view.t.group("refusal")
        return [
            {
                "id": f"{edge}|{one.reason}|{one.maker}|{one.peer}",
                "edge": edge, "last": clock(one.last_ms, zone),
                "reason": reasons.get(one.reason, one.reason),
                "maker": one.maker, "peer": one.peer, "requests": one.requests,
                "request": one.request,
            }
            for edge, one in found.refused[:MAX_ROWS]
        ]  # fmt: skip

    def _warned_rows(self, found: SendersOfEdges) -> list[dict[str, object]]:
        zone, is_chinese = self._view.services.site.tz, self._view.t.language == "zh"
        return [
            {
                "id": f"{edge}|{one.camera_ip}|{one.field}",
                "edge": edge, "last": clock(one.last_ms, zone), "camera_ip": one.camera_ip,
                "field": one.field, "records": one.records,
                "message": one.message_zh if is_chinese else one.message,
            }
            for edge, one in found.warned[:MAX_ROWS]
        ]  # fmt: skip
