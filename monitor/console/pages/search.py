"""Search: stored records by kind, plate, checkpoint and time; and alarms the same way."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from nicegui import ui

from ingest.store.port import Query
from monitor.accounts.roles import Operation
from monitor.api.pool import Away
from monitor.api.views import parse_time
from monitor.console.elements import ask, paged_grid, panel, source
from monitor.console.pages.detail import DetailPanel
from monitor.console.rows import Row, column, place_field, severity_column
from monitor.console.shell import View

KINDS = ("", "vehicle", "face", "person", "mover")
SEVERITIES = ("", "critical", "warning", "info")


def build_records(view: View) -> None:
    """The page of records."""
    t = view.t
    detail = DetailPanel(view)
    with panel(classes="fit") as bar:
        form = SearchForm(view, bar, "kind", {k: t(f"kind.{k}") for k in KINDS})
        made = paged_grid(
            t,
            _record_columns(view),
            label=t("nav.records"),
            id_field="record_id",
            **{":datasource": source("/api/records", {})},
        )
    made.on("cellClicked", lambda e: detail.record(e.args["data"]["record_id"]))
    with bar:
        count = ui.label("").classes("soft").props("role=status")
        if view.may(Operation.EXPORT):
            ui.button(
                t("search.csv"),
                color=None,
                on_click=lambda: ui.navigate.to("/api/records.csv?" + urlencode(form.parameters())),
            ).classes("header-button")

    async def search() -> None:
        ask(made, "/api/records", form.parameters())
        count.set_text("")
        count.set_text(await _count(view, form.parameters()))

    form.on_search(search)
    ui.timer(0.1, search, once=True)


async def _count(view: View, p: dict[str, str]) -> str:
    zone = view.services.site.tz
    question = Query(
        kind=p.get("kind", ""), plate=p.get("plate", ""), checkpoint_id=p.get("checkpoint", ""),
        captured_from_ms=parse_time(p.get("from", ""), zone),
        captured_until_ms=parse_time(p.get("until", ""), zone),
    )  # fmt: skip
    try:
        found = await view.services.records.ask(lambda r: r.count(question))
    except Away:
        return ""  # the notice on top says it already
    return view.t("search.count", count=f"{found:,}")


def _record_columns(view: View) -> list[Row]:
    t = view.t
    return [
        column(t, "picture", "picture", renderer="picture", width=70),
        column(t, "captured_at", "captured_at", width=190),
        column(t, "kind", "kind", renderer="kind", width=80),
        column(t, "plate", "plate_number", width=118, cellClass="strong"),
        column(t, "checkpoint", place_field(t), flex=3, minWidth=150),
        {"headerName": t("attribute.plate_color"), "field": "plate_color", "width": 90},
        {"headerName": t("attribute.vehicle_color"), "field": "vehicle_color", "width": 90},
        {"headerName": t("attribute.vehicle_type"), "field": "vehicle_type", "width": 100},
        {"headerName": t("attribute.vehicle_brand"), "field": "vehicle_brand", "width": 110},
        column(t, "camera", "camera_ip", width=120),
        column(t, "latency", "latency_ms", renderer="duration", number=True, width=90),
    ]


def build_alarms(view: View) -> None:
    """The page of alarms."""
    t = view.t
    detail = DetailPanel(view)
    columns = [
        severity_column(t),
        column(t, "picture", "picture", renderer="picture", width=70),
        column(t, "raised_at", "raised_at", width=190),
        column(t, "rule", "rule_name", flex=2, minWidth=130, cellClass="strong"),
        column(t, "plate", "plate_number", width=118),
        column(t, "checkpoint", place_field(t), flex=3, minWidth=150),
        column(t, "kind", "kind", renderer="kind", width=80),
        column(t, "captured_at", "captured_at", width=190),
        column(t, "reaction", "reaction_ms", renderer="duration", number=True, width=90),
    ]
    with panel(classes="fit") as bar:
        form = SearchForm(view, bar, "severity", {s: t(f"severity.{s}") for s in SEVERITIES})
        made = paged_grid(
            t,
            columns,
            label=t("nav.alarms"),
            id_field="alarm_id",
            **{":datasource": source("/api/alarms", {})},
        )
    made.on("cellClicked", lambda e: detail.alarm(e.args["data"]["alarm_id"]))
    form.on_search(lambda: ask(made, "/api/alarms", form.parameters()))


class SearchForm:
    """The fields above a grid; Enter or the button asks."""

    def __init__(self, view: View, bar: ui.element, choice: str, choices: dict[str, str]) -> None:
        t = view.t
        english = place_field(t) == "checkpoint_en"
        places = {"": t("search.any")} | {
            c.checkpoint_id: c.name_en if english else c.name
            for c in view.services.register.read().checkpoints
        }
        self._choice = choice
        with bar:
            self._kind = ui.select(choices, value="", label=t(f"search.{choice}"))
            self._kind.style("width: 110px")
            self._plate = ui.input(t("search.plate")).style("width: 170px")
            self._place = ui.select(places, value="", label=t("search.checkpoint"), with_input=True)
            self._place.style("width: 190px")
            self._from = ui.input(t("search.from")).style("width: 196px")
            self._until = ui.input(t("search.until")).style("width: 196px")
            self.button = ui.button(t("search.go")).props("unelevated dense padding='6px 18px'")
            self._reset = ui.button(t("search.reset"), color=None).classes("header-button")
        for field in (self._kind, self._plate, self._place, self._from, self._until):
            field.props("outlined dense")
        for field in (self._from, self._until):
            field.props("type=datetime-local stack-label")

    def parameters(self) -> dict[str, str]:
        """As the API wants them; empty ones left out."""
        given = {
            self._choice: self._kind.value,
            "plate": (self._plate.value or "").strip(),
            "checkpoint": self._place.value,
            "from": self._from.value,
            "until": self._until.value,
        }
        return {k: v for k, v in given.items() if v}

    def on_search(self, search: Callable[[], object]) -> None:
        """Hear the wish to search."""
        self.button.on_click(search)
        for field in (self._plate, self._from, self._until):
            field.on("keydown.enter", search)

        def reset() -> object:
            for field in (self._kind, self._plate, self._place, self._from, self._until):
                field.set_value("")
            return search()

        self._reset.on_click(reset)
