"""Latency: a day by minute, for vehicles and faces, of everything, one district or one device
(L-2).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

from nicegui import ui

from bus.domain.kinds import KINDS
from bus.domain.times import MINUTE_MS
from bus.runtime.wall_clock import now_ms
from ingest.store.port import RecordReader
from monitor.api.clock_estimates import Estimates, clock_estimates, clock_table
from monitor.api.latency_totals import LatencyOfSpan, latency_scope
from monitor.api.pool import QueryUnavailable
from monitor.api.series import Curve, with_gaps
from monitor.console.address import SCOPES, is_day
from monitor.console.days import day_before
from monitor.console.elements import grid, line_chart, panel, redraw
from monitor.console.layout import View
from monitor.console.pages.live import short
from monitor.console.rows import clock_row, column, place_field
from monitor.console.time_fields import day_buttons, day_field

LIVE_KINDS = tuple(kind.name for kind in KINDS.values() if kind.is_live)
REFRESH_SECONDS = 30.0
MAX_CLOCKS = 500  # rows of the table of devices whose clock is off
_CURVES = ("p50", "p95", "p99")


def build(view: View) -> None:
    """The page."""
    LatencyPage(view)


class LatencyPage:
    """Selection on top, one chart per class, the devices whose clock is off; asked every half
    minute."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        with panel() as bar, bar:
            self._day = day_field(t, t("latency.day"))
            day_buttons(t, view.services.site.tz, self._go_to)
            scopes = {s: t(f"latency.{s}") for s in SCOPES}
            self._scope = ui.select(scopes, label=t("latency.scope"))
            self._which = ui.select({}, label=t("latency.which"), with_input=True)
        self._scope.props("outlined dense").style("width: 130px")
        self._which.props("outlined dense").style("width: 280px")
        self._show_choice()
        self._parts = {kind: _Chart(view, kind) for kind in LIVE_KINDS}
        self._clocks = _Clocks(view)
        self._day.on_value_change(self._choose_day)
        self._scope.on_value_change(self._choose_scope)
        self._which.on_value_change(lambda e: view.address.go({"which": e.value or ""}))
        view.address.watch(("day", "scope", "which"), self._follow)
        ui.timer(REFRESH_SECONDS, self.show)

    async def _choose_day(self) -> None:
        """Today is what the page shows without a word in its address."""
        day = self._day.value or ""
        if not day or not is_day(day):
            return  # it is being typed
        await self._go_to(date.fromisoformat(day))

    async def _go_to(self, day: date) -> None:
        chosen = str(day)
        await self._view.address.go({"day": "" if chosen == self._today() else chosen})

    async def _choose_scope(self) -> None:
        scope = self._scope.value
        if scope != self._view.address["scope"]:
            first = next(iter(self._choices(scope)), "")
            await self._view.address.go({"scope": scope, "which": first})

    async def _follow(self) -> None:
        self._show_choice()
        await self.show()

    def _show_choice(self) -> None:
        """The address in the fields; a device that the register does not have by its address."""
        address = self._view.address
        scope, which = address["scope"], address["which"]
        self._day.set_value(address["day"] or self._today())
        self._scope.set_value(scope)
        self._which.set_options({which: which} | self._choices(scope), value=which)
        self._which.set_visibility(scope != "all")

    def _today(self) -> str:
        return str(day_before(now_ms(), self._view.services.site.tz, 0))

    def _choices(self, scope: str) -> dict[str, str]:
        register = self._view.services.register.read()
        english = place_field(self._view.t) == "checkpoint_en"
        if scope == "district":
            return {d.district_id: d.name_en if english else d.name for d in register.districts}
        if scope == "device":
            places = register.checkpoint_by_id
            return {
                d.camera_ip: f"{d.camera_ip} · {_name(places.get(d.checkpoint_id), english)}"
                for d in register.devices
            }
        return {}

    async def show(self) -> None:
        """Ask and draw."""
        try:
            found, estimates = await self._view.services.records.run(self._question())
        except QueryUnavailable:
            return  # the notice on top says it, and the last charts stay
        for kind in LIVE_KINDS:
            self._parts[kind].show(found.curves.get(kind, []), found.totals.get(kind))
        self._clocks.show(found, estimates)

    def _question(self) -> Callable[[RecordReader], tuple[LatencyOfSpan, Estimates]]:
        zone = self._view.services.site.tz
        address = self._view.address
        day = datetime.fromisoformat(address["day"] or self._today()).replace(tzinfo=zone)
        begin = round(day.timestamp() * 1000)
        end = round((day + timedelta(days=1)).timestamp() * 1000)
        scope = address["scope"]
        which = "" if scope == "all" else address["which"] or "-"  # "-": nothing is chosen yet
        register = self._view.services.register.read()
        whose = latency_scope(scope, which, register)

        def ask(reader: RecordReader) -> tuple[LatencyOfSpan, Estimates]:
            span = {"from_ms": begin, "until_ms": end, "now_ms": now_ms()}
            found = self._view.services.latency_totals.query(reader, whose=whose, **span)
            return found, clock_estimates(reader, found, whose, register, **span)

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
                durations=True,
                zoom=True,
                height="280px",
            )

    def show(self, curve: Curve, total: dict[str, int] | None) -> None:
        """New data, or the sentence that there is none."""
        self._empty.set_visibility(not curve)
        self._chart.set_visibility(bool(curve))
        drawn = with_gaps(_on_log_axis(curve), MINUTE_MS)
        redraw(self._chart, {p: [[r[0], r[i]] for r in drawn] for i, p in enumerate(_CURVES, 1)})
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


class _Clocks:
    """The devices that no curve shows, because their clock is off, and by how much."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        with panel(t("latency.clocks")) as bar:
            with bar:
                self._none = ui.label(t("latency.no_clocks")).classes("soft")
                self._why = ui.label(t("latency.clocks_why")).classes("soft small")
            self._grid = grid(t, _clock_columns(view), label=t("latency.clocks"), height="220px",
                              rowData=[])  # fmt: skip

    def show(self, found: LatencyOfSpan, estimates: Estimates) -> None:
        """New rows, or the sentence that every clock is right."""
        register = self._view.services.register.read()
        rows = clock_table(found, estimates, register)[:MAX_CLOCKS]
        for part in (self._why, self._grid):
            part.set_visibility(bool(rows))
        self._none.set_visibility(not rows)
        t, zone = self._view.t, self._view.services.site.tz
        shown = [clock_row(row, estimates.get(row["camera_ip"]), t, zone) for row in rows]
        self._grid.run_grid_method("setGridOption", "rowData", shown)


def _clock_columns(view: View) -> list[dict[str, object]]:
    t = view.t
    return [
        column(t, "camera", "camera_ip", width=140),
        column(t, "checkpoint", place_field(t), flex=2, minWidth=140),
        column(t, "kind", "kind", renderer="kind", width=90),
        column(t, "clock_off", "clock_off", width=160, cellClass="bad"),
        column(t, "clock_drift", "clock_drift", width=130),
        column(t, "clock_jumps", "clock_jumps", flex=2, minWidth=200),
        column(t, "records", "count", renderer="number", number=True, width=110),
    ]


def _on_log_axis(curve: Curve) -> Curve:
    """A logarithmic axis has no zero: less than a millisecond is drawn as one."""
    return [[r[0], *(max(1, ms) for ms in r[1:4]), *r[4:]] for r in curve]


def _name(checkpoint: object, english: bool) -> str:
    return str(getattr(checkpoint, "name_en" if english else "name", ""))
