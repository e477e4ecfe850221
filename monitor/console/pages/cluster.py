"""The cluster: brokers, the active controller, partitions that are not well, what happened."""

from __future__ import annotations

import json

from nicegui import ui

from monitor.api.views import clock
from monitor.cluster.events import ClusterEvent
from monitor.console.cluster_rows import MAX_UNWELL, broker_row, event_row, partition_row, tiles
from monitor.console.elements import grid, line_chart, panel, redraw, update_rows
from monitor.console.layout import View
from monitor.console.notices import FaultNotice
from monitor.console.rows import Row, column, severity_column

TILES = ("alive", "controller", "under_replicated", "offline", "not_preferred", "moving")
EVENT_ROWS = 200
CURVES = ("offline", "under_replicated")
CHART_SECONDS = 5.0
MOST_BROKER_ROWS = 8


def build(view: View) -> None:
    """The page."""
    ClusterPage(view)


class ClusterPage:
    """Shows the last look and listens for the next."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._watcher = view.services.poller
        self._title = ui.label("").classes("soft")
        self._away = FaultNotice(role="alert")
        self._values: dict[str, ui.label] = {}
        self._boxes: dict[str, ui.element] = {}
        with ui.element("div").classes("tiles"):
            for key in TILES:
                self._tile(key)
        t = view.t
        with panel(t("cluster.brokers")):
            self._frame = ui.element("div").classes("brokers")
            with self._frame:
                self._brokers = grid(
                    t, _broker_columns(view), label=t("cluster.brokers"), rowData=[]
                )
        with ui.element("div").classes("two rest"):
            self._left()
            with panel(t("cluster.events")):
                self._events = grid(
                    t, _event_columns(view), label=t("cluster.events"), rowData=self._event_rows()
                ).props("aria-live=polite")
        view.feed.polls.subscribe(self._on_poll)
        self._show()
        ui.timer(CHART_SECONDS, self._show_slow)

    def _left(self) -> None:
        view, t = self._view, self._view.t
        with ui.element("div").style("display:flex;flex-direction:column;gap:12px"):
            with panel(t("cluster.history")):
                self._chart = line_chart(
                    zone=view.services.site.zone,
                    names={key: t(f"tile.{key}") for key in CURVES},
                    data=self._curves(),
                    label=t("cluster.history"),
                    height="150px",
                    fine=True,
                    steps=True,
                ).classes("beside-title")
            with panel(t("cluster.unwell"), "rest"):
                self._well = ui.label(t("cluster.all_well")).classes("soft")
                self._partitions = grid(
                    t, _partition_columns(view), label=t("cluster.unwell"), rowData=[]
                )

    def _tile(self, key: str) -> None:
        with ui.element("dl").classes("tile").style("margin: 0") as box:
            with ui.element("dt"):
                ui.label(self._view.t(f"tile.{key}"))
            with ui.element("dd"):
                self._values[key] = ui.label("—")
        self._boxes[key] = box

    def _curves(self) -> dict[str, list[list[int]]]:
        curves = self._watcher.history.curves()
        return {key: curves[key] for key in CURVES}

    def _event_rows(self) -> list[Row]:
        newest = list(self._watcher.history.events)[-EVENT_ROWS:]
        return [self._event_row(one) for one in reversed(newest)]

    def _event_row(self, event: ClusterEvent) -> Row:
        return event_row(event, self._view.services.site.tz, self._view.t)

    def _on_poll(self, new: list[ClusterEvent]) -> None:
        self._show()
        if new:
            rows = json.dumps([self._event_row(one) for one in reversed(new)], ensure_ascii=False)
            ui.run_javascript(f"databus.prepend({self._events.id}, {rows}, {EVENT_ROWS})")

    def _show_slow(self) -> None:
        """What changes slowly, and what has to be said while nothing comes."""
        redraw(self._chart, self._curves())
        self._show_unavailable()

    def _show_unavailable(self) -> None:
        why = self._watcher.unavailable
        self._away.show(self._view.t("cluster.away") if why else "", why)

    def _show(self) -> None:
        self._show_unavailable()
        t, now = self._view.t, self._watcher.history.last
        if now is None:
            self._title.set_text(t("cluster.waiting"))
            return
        seen = clock(now.taken_at_ms, self._view.services.site.tz)[11:19]
        mode = t(f"cluster.{now.mode}")
        self._title.set_text(t("cluster.title", cluster=now.cluster_id, mode=mode, time=seen))
        for key, (text, state) in tiles(now, t).items():
            self._values[key].set_text(text)
            self._boxes[key].classes(remove="good warning critical", add=state)
        rates = self._watcher.traffic.rates
        update_rows(self._brokers, [broker_row(b, rates.get(b.broker_id), t) for b in now.brokers])
        self._frame.style(f"--rows: {max(1, min(len(now.brokers), MOST_BROKER_ROWS))}")
        unwell = now.unwell[:MAX_UNWELL]
        update_rows(self._partitions, [partition_row(one, t) for one in unwell])
        self._well.set_visibility(not unwell)
        self._partitions.set_visibility(bool(unwell))


def _state_column(view: View, key: str) -> Row:
    """A stripe and a word, never colour alone."""
    return column(view.t, key, "state", renderer="told", width=96) | {
        ":cellClass": "databus.severityClass"
    }


def _broker_columns(view: View) -> list[Row]:
    t = view.t
    columns = [
        column(t, "broker", "id", width=64, cellClass="strong", sort="asc"),
        _state_column(view, "broker_state"),
        column(t, "address", "address", flex=2, minWidth=140),
        column(t, "rack", "rack", flex=1, minWidth=64),
        column(t, "roles", "roles", flex=2, minWidth=150),
        column(t, "leads", "leads", renderer="number", number=True, width=80),
        column(t, "preferred", "preferred", renderer="number", number=True, width=92),
        column(t, "held", "replicas", renderer="number", number=True, width=78),
        column(t, "out_of_sync", "out_of_sync", renderer="number", number=True, width=92),
        column(t, "metadata_lag", "metadata_lag", renderer="number", number=True, width=126),
    ]
    if view.services.console.brokers:
        columns += [
            column(t, "bytes_in", "bytes_in", renderer="bytes", number=True, width=96),
            column(t, "bytes_out", "bytes_out", renderer="bytes", number=True, width=96),
        ]
    return columns


def _partition_columns(view: View) -> list[Row]:
    t = view.t
    return [
        _state_column(view, "broker_state") | {"width": 110, "sort": "asc", "sortIndex": 0},
        column(t, "partition", "partition", flex=2, minWidth=130, cellClass="strong",
               sort="asc", sortIndex=1),
        column(t, "leader", "leader", number=True, width=80),
        column(t, "replica_list", "replicas", flex=1, minWidth=72),
        column(t, "isr", "isr", flex=1, minWidth=72),
        column(t, "missing", "missing", flex=1, minWidth=66),
        column(t, "elr", "elr", flex=1, minWidth=66),
    ]  # fmt: skip


def _event_columns(view: View) -> list[Row]:
    t = view.t
    return [
        column(t, "at", "time", width=88),
        severity_column(t, width=96),
        column(t, "event", "text", flex=1, minWidth=200, tooltipField="text", wrapText=True,
               autoHeight=True),
    ]  # fmt: skip
