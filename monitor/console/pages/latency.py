"""Latency: a day by minute, for vehicles and faces, of everything, one district or one device
(L-2).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from nicegui import ui

from ingest.store.port import RecordReader
from monitor.api.pool import Away
from monitor.api.series import latency_curves
from monitor.api.services import now_ms
from monitor.console.elements import line_chart, panel, redraw
from monitor.console.pages.live import short
from monitor.console.rows import place_field
from monitor.console.shell import View

KINDS = ("vehicle", "face")
REFRESH_SECONDS = 30.0
_CURVES = ("p50", "p95", "p99")

Answer = tuple[dict[str, list[list[int]]], dict[str, dict[str, int]]]


def build(view: View) -> None:
    """The page."""
    LatencyPage(view)


class LatencyPage:
    """Selection on top, one chart per class below; asked anew every half minute."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        today = datetime.now(view.services.site.tz).strftime("%Y-%m-%d")
        with panel() as bar, bar:
            self._day = ui.input(t("latency.day"), value=today).props("type=date outlined dense")
            scopes = {s: t(f"latency.{s}") for s in ("all", "district", "device")}
            self._scope = ui.select(scopes, value="all", label=t("latency.scope"))
            self._which = ui.select({}, label=t("latency.which"), with_input=True)
        self._scope.props("outlined dense").style("width: 130px")
        self._which.props("outlined dense").style("width: 280px").set_visibility(False)
        self._parts = {kind: _Chart(view, kind) for kind in KINDS}
        self._day.on_value_change(self.show)
        self._scope.on_value_change(self._choose_scope)
        self._which.on_value_change(self.show)
        ui.timer(REFRESH_SECONDS, self.show)

    async def _choose_scope(self) -> None:
        choices = self._choices()
        self._which.set_options(choices, value=next(iter(choices), None))
        self._which.set_visibility(self._scope.value != "all")
        await self.show()

    def _choices(self) -> dict[str, str]:
        register = self._view.services.register.read()
        english = place_field(self._view.t) == "checkpoint_en"
        if self._scope.value == "district":
            return {d.district_id: d.name_en if english else d.name for d in register.districts}
        if self._scope.value == "device":
            places = register.checkpoint_by_id
            return {
                d.camera_ip: f"{d.camera_ip} · {_name(places.get(d.checkpoint_id), english)}"
                for d in register.devices
            }
        return {}

    async def show(self) -> None:
        """Ask and draw."""
        try:
            curves, totals = await self._view.services.records.ask(self._question())
        except (Away, ValueError):
            return  # away: the notice on top says it, and the last charts stay
        for kind in KINDS:
            self._parts[kind].show(curves.get(kind, []), totals.get(kind))

    def _question(self) -> Callable[[RecordReader], Answer]:
        zone = self._view.services.site.tz
        day = datetime.strptime(self._day.value or "", "%Y-%m-%d").replace(tzinfo=zone)
        begin = round(day.timestamp() * 1000)
        end = round((day + timedelta(days=1)).timestamp() * 1000)
        scope = self._scope.value
        which = "" if scope == "all" else self._which.value or "-"  # "-": nothing is chosen yet

        def ask(reader: RecordReader) -> Answer:
            summaries = reader.latency(from_ms=begin, until_ms=end, scope=scope, scope_id=which)
            totals = self._view.services.latency_totals.ask(
                reader, from_ms=begin, until_ms=end, scope=scope, scope_id=which, now_ms=now_ms()
            )
            return latency_curves(summaries), totals

        return ask


class _Chart:
    """The three curves of one class."""

    def __init__(self, view: View, kind: str) -> None:
        t = view.t
        title = t("latency.chart", kind=t(f"kind.{kind}"))
        self._t = t
        with panel(title) as bar:
            with bar:
                self._total = ui.label("").classes("soft")
            self._empty = ui.label(t("latency.empty")).classes("soft")
            self._chart = line_chart(
                zone=view.services.site.zone,
                names={p: p.upper() for p in _CURVES},
                data={},
                label=title,
                unit=t("latency.seconds"),
                seconds=True,
                zoom=True,
                height="280px",
            )

    def show(self, curve: list[list[int]], total: dict[str, int] | None) -> None:
        """New data, or the sentence that there is none."""
        self._empty.set_visibility(not curve)
        self._chart.set_visibility(bool(curve))
        redraw(self._chart, {p: [[r[0], r[i]] for r in curve] for i, p in enumerate(_CURVES, 1)})
        text = (
            ""
            if total is None
            else self._t(
                "latency.total",
                count=f"{total['count']:,}",
                **{p: short(total[f"{p}_ms"]) for p in _CURVES},
            )
        )
        self._total.set_text(text)


def _name(checkpoint: object, english: bool) -> str:
    return str(getattr(checkpoint, "name_en" if english else "name", ""))
