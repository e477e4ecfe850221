"""Live: the numbers on top, one chart, records and alarms as they come."""

from __future__ import annotations

import json

from nicegui import ui
from nicegui.events import GenericEventArguments

from bus.domain.kinds import KINDS
from monitor.api.kpis import Kpis
from monitor.api.services import midnight_ms
from monitor.console.address import FIELDS, format_address
from monitor.console.elements import grid, line_chart, panel
from monitor.console.layout import View
from monitor.console.live_updates import Update
from monitor.console.pages.detail import DetailPanel
from monitor.console.rows import column, severity_column
from monitor.live.live_state import MAX_ALARMS, RATE_SECONDS, RatePoint

TILES = ("rate", "stored", "alarms", "incidents", "latency", "valid")
VALID_GOOD, VALID_BAD = 99.0, 95.0  # percent; between them the tile warns
LATENCY_GOOD_MS, LATENCY_BAD_MS = 1_500, 10_000
ALARM_ROWS = 100
RATE_AVERAGE = 5  # seconds; a micro-batch of a sender must not make the number jump


def build(view: View) -> None:
    """The page."""
    tiles = Tiles(view)
    _chart(view)
    detail = DetailPanel(view)
    with ui.element("div").classes("two rest"):
        _records(view, detail)
        _alarms(view, detail)
    tiles.follow()


class Tiles:
    """The numbers on top."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._values: dict[str, ui.label] = {}
        self._boxes: dict[str, ui.element] = {}
        with ui.element("div").classes("tiles"):
            for key in TILES:
                self._tile(key)

    def follow(self) -> None:
        """Show what is known and listen for what comes."""
        feed = self._view.feed
        self._show_live()
        self._show_kpis(self._view.services.kpis.value)
        feed.subscribe(lambda update: self._show_live() if update.delta.rates else None)
        feed.kpis.subscribe(self._show_kpis)
        ui.timer(0.1, self._view.services.kpis.poll, once=True)

    def _tile(self, key: str) -> None:
        with ui.element("dl").classes("tile").style("margin: 0") as box:
            with ui.element("dt"):
                ui.label(self._view.t(f"kpi.{key}"))
            with ui.element("dd"):
                self._values[key] = ui.label("—")
        self._boxes[key] = box

    def _set(self, key: str, text: str, state: str = "") -> None:
        self._values[key].set_text(text)
        self._boxes[key].classes(remove="good warning critical", add=state)

    def _show_live(self) -> None:
        live = self._view.services.hub.live
        recent = list(live.rates)[-RATE_AVERAGE:]
        mean = sum(point.total for point in recent) / len(recent) if recent else None
        self._set("rate", "—" if mean is None else f"{mean:,.0f}" if mean >= 10 else f"{mean:.1f}")
        midnight = midnight_ms(self._view.services.site)
        today = self._view.live.alarms_since(midnight)
        self._set("alarms", f"{today:,}+" if today >= MAX_ALARMS else str(today))
        open_ones = len(live.open_incidents())
        self._set("incidents", str(open_ones), "warning" if open_ones else "good")

    def _show_kpis(self, kpis: Kpis) -> None:
        self._set("stored", "—" if kpis.stored_today is None else f"{kpis.stored_today:,}")
        p50, p99 = kpis.latency_p50_ms, kpis.latency_p99_ms
        if p50 is None or p99 is None:
            self._set("latency", "—")
        else:
            self._set("latency", pair(p50, p99), latency_state(p99))
        share = kpis.valid_percent
        if share is None:
            self._set("valid", "—")
        else:
            self._set("valid", f"{share:.1f} %", valid_state(share))


def short(ms: int) -> str:
    """A duration for a tile."""
    if abs(ms) < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if abs(ms) < 600_000 else f"{ms / 60_000:,.0f} min"


def pair(p50_ms: int, p99_ms: int) -> str:
    """Two durations in the width of a tile."""
    if max(abs(p50_ms), abs(p99_ms)) < 1000:
        return f"{p50_ms} / {p99_ms} ms"
    if max(abs(p50_ms), abs(p99_ms)) < 600_000:
        return f"{p50_ms / 1000:.1f} / {p99_ms / 1000:.1f} s"
    return f"{short(p50_ms)} / {short(p99_ms)}"


def latency_state(p99_ms: int) -> str:
    """Which colour a tile has."""
    if p99_ms <= LATENCY_GOOD_MS:
        return "good"
    return "warning" if p99_ms <= LATENCY_BAD_MS else "critical"


def valid_state(percent: float) -> str:
    """Which colour a tile has."""
    if percent >= VALID_GOOD:
        return "good"
    return "warning" if percent >= VALID_BAD else "critical"


def _chart(view: View) -> None:
    t = view.t
    with panel(t("live.chart")):
        names = {kind: t(f"kind.{kind}") for kind in reversed(KINDS)}
        points = list(view.services.hub.live.rates)
        data = {kind: [_at(p, kind) for p in points] for kind in names}
        chart = line_chart(
            zone=view.services.site.zone,
            names=names,
            data=data,
            stacked=True,
            label=t("live.chart"),
            height="160px",
            fine=True,
        ).classes("beside-title")

    def push(update: Update) -> None:
        for point in update.delta.rates:
            values = json.dumps([_at(point, kind) for kind in names])
            ui.run_javascript(f"databus.point({chart.id}, {values}, {RATE_SECONDS})")

    view.feed.subscribe(push)


def _at(point: RatePoint, kind: str) -> list[float]:
    return [point.second_ms, round(point.rates[kind], 1)]


def _records(view: View, detail: DetailPanel) -> None:
    t, most = view.t, view.services.console.live_rows
    columns = [
        column(t, "picture", "picture", renderer="picture", width=70),
        column(t, "captured_at", "time", width=112),
        column(t, "kind", "kind", renderer="kind", width=78),
        column(t, "plate", "plate", width=112, cellClass="strong"),
        column(t, "checkpoint", "place", flex=3, minWidth=110),
        column(t, "features", "features", flex=4, minWidth=110),
    ]
    with panel(t("live.records")) as bar:
        rows = view.feed.records_now(t.language)
        made = grid(t, columns, label=t("live.records"), rowData=rows)
        made.classes("pick")
    paused = _pause_button(view, bar)
    made.on("cellClicked", lambda e: detail.open(record=e.args["data"]["id"]))

    def push(update: Update) -> None:
        if not paused["paused"]:
            _prepend(made, update.records[t.language], most)

    view.feed.subscribe(push)


def _alarms(view: View, detail: DetailPanel) -> None:
    t = view.t
    columns = [
        severity_column(t, width=82),
        column(
            t, "time", "time", width=78, **{":valueFormatter": "p => (p.value || '').slice(0, 8)"}
        ),
        column(t, "rule", "rule", flex=3, minWidth=84, tooltipField="rule"),
        column(t, "plate", "plate", width=94, cellClass="strong"),
        column(t, "checkpoint", "place", flex=3, minWidth=84, tooltipField="place"),
        column(t, "reaction", "reaction_ms", renderer="duration", number=True, width=74),
    ]
    with panel(t("live.alarms")) as bar:
        rows = view.feed.alarms_now(t.language, ALARM_ROWS)
        made = grid(t, columns, label=t("live.alarms"), rowData=rows)
        made.classes("pick").props("aria-live=polite")
    if view.principal.districts:
        _districts_button(view, bar, made)

    async def clicked(event: GenericEventArguments) -> None:
        row = event.args["data"]
        if asked := row.get("asked"):
            asked = asked | {"districts": view.address["districts"]}
            ui.navigate.to(format_address("/alarms", FIELDS["alarms"], asked))
        else:
            await detail.open(alarm=row["id"])

    def push(update: Update) -> None:
        _prepend(made, update.alarms(t.language), ALARM_ROWS)
        _prepend(made, update.digests(t.language), ALARM_ROWS)

    made.on("cellClicked", clicked)
    view.feed.subscribe(push)


def _districts_button(view: View, bar: ui.element, made: ui.aggrid) -> None:
    """One's own districts, or all of them."""
    with bar:
        ui.element("div").classes("grow")
        button = ui.button(color=None).classes("header-button").props("data-filter=districts")
        button.props(f'title="{view.t("alarm.scope_note")}"')

    def show() -> None:
        is_mine = view.only_concerning
        button.set_text(view.t("alarm.scope_all" if is_mine else "alarm.scope_mine"))
        rows = json.dumps(view.feed.alarms_now(view.t.language, ALARM_ROWS), ensure_ascii=False)
        ui.run_javascript(f"getElement({made.id})?.api?.setGridOption('rowData', {rows})")

    async def toggle() -> None:
        await view.address.go({"districts": "all" if view.only_concerning else ""})

    button.on_click(toggle)
    view.address.watch(("districts",), show)
    show()


def _prepend(made: ui.aggrid, rows: str, most: int) -> None:
    """`rows` is JSON."""
    if rows:
        ui.run_javascript(f"databus.prepend({made.id}, {rows}, {most})")


def _pause_button(view: View, bar: ui.element) -> dict[str, bool]:
    t, state = view.t, {"paused": False}
    with bar:
        ui.label(t("live.newest", rows=view.services.console.live_rows)).classes("soft small")
        ui.element("div").classes("grow")
        button = ui.button(t("live.pause"), color=None).classes("header-button")

    def toggle() -> None:
        state["paused"] = not state["paused"]
        button.set_text(t("live.resume") if state["paused"] else t("live.pause"))
        button.props(f"aria-pressed={str(state['paused']).lower()}")

    button.on_click(toggle)
    return state
