"""Quality: what was sent against what became valid, the devices behind the gap, the rejected
records.
"""

from __future__ import annotations

from nicegui import ui
from nicegui.events import GenericEventArguments

from bus.domain.times import MINUTE_MS
from bus.runtime.wall_clock import now_ms
from monitor.api.pool import QueryUnavailable
from monitor.api.quality_question import QualityQuestion
from monitor.api.series import CURVE_COLUMNS, with_gaps
from monitor.console.address import KINDS, SPANS
from monitor.console.elements import grid, line_chart, load_rows, paged_grid, panel, redraw, source
from monitor.console.layout import View
from monitor.console.pages.detail import DetailPanel
from monitor.console.pages.quality_senders import SenderFaultsPanel
from monitor.console.rows import column, place_field

REFRESH_SECONDS = 30.0
MAX_DEVICES = 500
CURVES = ("sent", "valid", "accepted", "arrived", "rejected", "stored", "duplicates", "missing")
NUMBERS = ("sent", "entered", "valid", "in_flight", "missing", "stored", "duplicates")


def build(view: View) -> None:
    """The page."""
    QualityPage(view)
    SenderFaultsPanel(view)
    _rejected(view)


class QualityPage:
    """The curves and the devices; reloaded every half minute."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        with panel(t("quality.chart")) as bar:
            with bar:
                self._span = ui.select(
                    {k: t(f"quality.{k}") for k in SPANS}, label=t("quality.span")
                ).style("width: 120px")
                self._kind = ui.select(
                    {k: t(f"kind.{k}") for k in KINDS}, label=t("column.kind")
                ).style("width: 120px")
                self._camera = ui.input(t("column.camera")).style("width: 150px")
                self._totals = ui.label("").classes("soft")
            self._empty = ui.label(t("quality.empty")).classes("soft")
            self._wrong = ui.label("").classes("bad")
            names = {k: t(f"quality.curve.{k}") for k in CURVES}
            self._chart = line_chart(
                zone=view.services.site.zone,
                data={},
                names=names,
                zoom=True,
                label=t("quality.chart"),
                height="230px",
            )
            shown = {name: key in ("sent", "valid") for key, name in names.items()}
            self._chart.options["legend"]["selected"] = shown  # a click on a name shows its curve
        self._grid = self._devices()
        for field in (self._span, self._kind, self._camera):
            field.props("outlined dense")
        self._show_choice()
        self._span.on_value_change(lambda e: view.address.go({"span": e.value}))
        self._kind.on_value_change(lambda e: view.address.go({"kind": e.value}))
        self._camera.on("change", self._choose_camera)
        self._grid.on("cellClicked", self._choose_device)
        view.address.watch(("span", "kind", "camera"), self._follow)
        ui.timer(REFRESH_SECONDS, self.show)

    async def _choose_camera(self) -> None:
        await self._view.address.go({"camera": (self._camera.value or "").strip()})

    async def _follow(self) -> None:
        self._show_choice()
        await self.show()

    def _show_choice(self) -> None:
        self._span.set_value(self._view.address["span"])
        self._kind.set_value(self._view.address["kind"])
        self._camera.set_value(self._view.address["camera"])

    async def _choose_device(self, event: GenericEventArguments) -> None:
        """The chart and the sums of the device that was clicked."""
        await self._view.address.go({"camera": event.args["data"]["camera_ip"]})

    async def show(self) -> None:
        """Ask and draw."""
        end = now_ms()
        address = self._view.address
        begin = end - SPANS[address["span"]] * MINUTE_MS
        question = QualityQuestion(begin, end, address["kind"], address["camera"], MAX_DEVICES)
        try:
            found = await self._view.services.records.run(lambda reader: question.ask(reader, end))
        except QueryUnavailable:
            return  # the notice on top says it, and the last picture stays
        self._draw(with_gaps(found.curve, found.slot_ms))
        totals = found.totals
        self._totals.set_text(
            self._view.t(
                "quality.total",
                **{name: f"{totals[name]:,}" for name in NUMBERS},
                rejected=f"{sum(totals['rejected'].values()):,}",
                partly=f"{totals['partly_read']:,}",
            )
        )
        self._note_disagreement(totals["disagree"])
        devices = found.rows(self._view.services.register.read())
        rows = [
            {
                "id": f"{d['kind']}|{d['camera_ip']}|{d['recognizer_ip']}",
                **d,
                "on_bus": d["arrived"],
                "disagree": sum(abs(by) for by in d["disagree"].values()),
            }
            for d in devices
        ]
        self._grid.run_grid_method("setGridOption", "rowData", rows)

    def _draw(self, curve: list[list[int | None]]) -> None:
        self._empty.set_visibility(not curve)
        self._chart.set_visibility(bool(curve))
        places = {name: CURVE_COLUMNS.index(name) for name in CURVES}
        redraw(self._chart, {n: [[r[0], r[at]] for r in curve] for n, at in places.items()})

    def _note_disagreement(self, by: dict[str, int]) -> None:
        """What each counts by itself does not add up: somebody counts wrongly."""
        self._wrong.set_visibility(any(by.values()))
        numbers = {name: f"{number:+,}" for name, number in by.items()}
        self._wrong.set_text(self._view.t("quality.disagree", **numbers))

    def _devices(self) -> ui.aggrid:
        t = self._view.t
        columns = [
            column(t, "kind", "kind", renderer="kind", width=80),
            column(t, "camera", "camera_ip", width=130, sortable=True),
            column(t, "recognizer", "recognizer_ip", width=130, sortable=True),
            column(t, "checkpoint", place_field(t), flex=2, minWidth=140, sortable=True),
            column(t, "sent", "sent", renderer="number", number=True, width=90, sortable=True),
            *(
                column(t, name, name, renderer="number", number=True, width=90, sortable=True)
                for name in ("accepted", "on_bus", "valid", "stored", "duplicates", "in_flight")
            ),
            column(t, "missing_records", "missing", renderer="number", width=90, sortable=True)
            | {":cellClass": "p => ['num', 'ag-right-aligned-cell', p.value > 0 ? 'bad' : 'ok']"},
            column(t, "disagree", "disagree", renderer="number", width=90, sortable=True)
            | {":cellClass": "p => ['num', 'ag-right-aligned-cell', p.value > 0 ? 'bad' : 'ok']"},
            column(t, "gap", "gap", renderer="number", width=90, sortable=True, sort="desc")
            | {":cellClass": "p => ['num', 'ag-right-aligned-cell', p.value > 0 ? 'bad' : 'ok']"},
            column(
                t,
                "valid_percent",
                "valid_percent",
                renderer="percent",
                number=True,
                width=90,
                sortable=True,
            ),
            column(
                t,
                "rejected",
                "rejected",
                renderer="reasons",
                flex=3,
                minWidth=180,
                cellDataType=False,
            ),
        ]
        with panel(t("quality.devices")):
            return grid(t, columns, label=t("quality.devices"), height="300px", rowData=[])


def _rejected(view: View) -> None:
    t = view.t
    detail = DetailPanel(view)
    columns = [
        column(t, "received_at", "received_at", width=190),
        column(t, "kind", "kind", renderer="kind", width=80),
        column(t, "reason", "reason", renderer="reason", width=150, cellClass="strong"),
        column(t, "field", "field", renderer="key", width=120),
        column(t, "camera", "camera_ip", width=130),
        column(t, "checkpoint", place_field(t), flex=1, minWidth=120),
        column(t, "source", "source", width=130),
        column(t, "body", "body", flex=3, minWidth=200, cellClass="mono"),
    ]

    def asked() -> str:
        return view.address["reason"]

    with panel(t("quality.rejected")) as bar:
        reasons = t.group("reason")
        with bar:
            choices = {"": reasons.pop(""), **reasons}
            reason = ui.select(
                {asked(): asked()} | choices, value=asked(), label=t("column.reason")
            ).style("width: 170px")
            reason.props("outlined dense")
        made = paged_grid(
            t,
            columns,
            label=t("quality.rejected"),
            height="300px",
            id_field="record_id",
            **{":datasource": source("/api/rejected", {"reason": asked()})},
        )

    def follow() -> None:
        reason.set_options({asked(): asked()} | choices, value=asked())
        load_rows(made, "/api/rejected", {"reason": asked()})

    reason.on_value_change(lambda e: view.address.go({"reason": e.value or ""}))
    view.address.watch(("reason",), follow)
    made.on("cellClicked", lambda e: detail.open(rejected=e.args["data"]["record_id"]))
