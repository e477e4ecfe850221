"""Lists of plates and galleries of faces: those in force, and the lines of the one that is open;
whether it means a plate is asked as a camera's reading is. What is open and what is asked stand in
the address.
"""

from __future__ import annotations

from urllib.parse import quote

from nicegui import ui
from nicegui.events import GenericEventArguments

from bus.domain.list_in_force import ListInForce
from bus.runtime.wall_clock import now_ms
from monitor.accounts.roles import ConsoleOperation
from monitor.api.plate_lists import list_row
from monitor.api.pool import QueryUnavailable
from monitor.console.address import FIELDS, format_address
from monitor.console.elements import chip, facts, grid, load_rows, paged_grid, panel, source
from monitor.console.layout import View
from monitor.console.notices import FaultNotice
from monitor.console.pages.list_import import ListImportForm
from monitor.console.pages.list_proposals import WaitingLists
from monitor.console.rows import Row, column, severity_column
from monitor.i18n import Texts

REFRESH_SECONDS = 5.0
LISTS_HEIGHT = "260px"


def build(view: View) -> None:
    """The page."""
    ListsPage(view)


class ListsPage:
    """Invariant: what is shown of a list is as of the last answer."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        self._found: dict[str, ListInForce] = {}
        self._notice = FaultNotice()
        self._waiting = WaitingLists(view, self._load_soon)
        with panel(t("lists.in_force")):
            self._about = ui.label(t("lists.open")).classes("soft small")
            self._lists = grid(
                t, _list_columns(view), label=t("lists.in_force"), height=LISTS_HEIGHT,
                rowData=[], **{":getRowId": "p => p.data.list_id"},
            ).classes("pick")  # fmt: skip
        self._lists.on("cellClicked", self._clicked, args=["data"])
        if view.may(ConsoleOperation.WATCH_WRITE):
            ListImportForm(view, self._load_soon)
        self._open = ui.element("div").classes("rest")
        view.address.watch(("list", "plate"), self._show_lines)
        ui.timer(REFRESH_SECONDS, self._load)
        self._lines: ListLines | None = None

    def _load_soon(self) -> None:
        ui.timer(0.1, self._load, once=True)

    async def _load(self) -> None:
        view, t = self._view, self._view.t
        try:
            found, waiting = await view.services.lists.run(
                lambda reader: (reader.lists(now_ms()), reader.proposals(now_ms()))
            )
        except QueryUnavailable as error:
            self._notice.show(t("lists.unavailable"), str(error))
            return
        self._notice.show("")
        before, self._found = self._found, {one.record.list_id: one for one in found}
        self._waiting.show(waiting, self._found)
        if before != self._found:
            rows = [self._row(one) for one in found]
            self._lists.run_grid_method("setGridOption", "rowData", rows)
            self._about.set_text(t("lists.open") if found else t("lists.none"))
        if before != self._found or self._lines is None:
            self._show_lines()

    def _row(self, one: ListInForce) -> Row:
        t = self._view.t
        states = [t("lists.overdue")] * one.is_overdue + [t("lists.problem")] * bool(one.problem)
        return list_row(one, self._view.services.site.tz) | {
            "lines": f"{one.lines:,}",
            "tolerance": _tolerance(one, t),
            "marks": t("list.comma").join(states),
        }

    async def _clicked(self, event: GenericEventArguments) -> None:
        await self._view.address.go({"list": str(event.args["data"]["list_id"]), "plate": ""})

    def _show_lines(self) -> None:
        view, list_id = self._view, self._view.address["list"]
        one = self._found.get(list_id)
        if self._lines is not None and one is not None and self._lines.shows(one):
            self._lines.load()
            return
        self._open.clear()
        self._lines = None
        if not list_id:
            return
        with self._open:
            if one is None:
                ui.label(view.t("lists.gone", list=list_id)).classes("notice")
            else:
                self._lines = ListLines(view, one)


class ListLines:
    """What a list says of itself, and its lines: all, or those that mean a plate."""

    def __init__(self, view: View, one: ListInForce) -> None:
        self._view, self._one = view, one
        t, record = view.t, one.record
        with panel(record.name, "rest") as bar:
            with bar:
                find = "lists.find_entry" if record.is_gallery else "lists.find"
                self._plate = ui.input(t(find), value=view.address["plate"])
                self._plate.props(f'outlined dense clearable hint="{t(f"{find}_hint")}"')
                self._plate.props("debounce=300").style("width: 320px")
                if record.is_gallery:
                    ui.label(t("lists.click_entry")).classes("soft small")
                if one.is_overdue:
                    chip(t("lists.overdue"), "warning")
            self._facts()
            self._grid = paged_grid(
                t, _line_columns(view, is_gallery=record.is_gallery), label=t("lists.lines"),
                id_field="key",
                **{":datasource": source(self._route, self._parameters()),
                   ":getRowId": "p => `${p.data.line}|${p.data.plate}|${p.data.entry}`"},
            )  # fmt: skip
        self._plate.on_value_change(self._asked)
        if record.is_gallery:
            self._grid.on("cellClicked", self._find, args=["data"])

    def shows(self, one: ListInForce) -> bool:
        """Whether it is that list, in that version."""
        return one == self._one

    def load(self) -> None:
        """The lines that the address asks for."""
        if self._view.address["plate"] != (self._plate.value or "").strip():
            self._plate.set_value(self._view.address["plate"])
        load_rows(self._grid, self._route, self._parameters())

    @property
    def _route(self) -> str:
        return f"/api/lists/{quote(self._one.record.list_id, safe='')}/lines"

    def _parameters(self) -> dict[str, str]:
        return {"plate": self._view.address["plate"]}

    async def _asked(self) -> None:
        plate = (self._plate.value or "").strip()
        await self._view.address.go({"plate": plate}, typing="plate")

    def _find(self, event: GenericEventArguments) -> None:
        """The person of this entry, among stored faces."""
        which = {"list": self._one.record.list_id, "entry": str(event.args["data"]["entry"])}
        ui.navigate.to(format_address("/faces", FIELDS["faces"], which))

    def _facts(self) -> None:
        t, record = self._view.t, self._one.record
        row = list_row(self._one, self._view.services.site.tz)
        rule = f"list/{record.list_id}"
        days = record.renewal_days
        facts([
            (t("column.owner"), record.owner),
            (t("column.list_source"), record.source),
            (t("column.legal_ground"), record.legal_ground),
            (t("column.tolerance"), _tolerance(self._one, t)),
            (t("column.alarms"),
             t("lists.alarms_yes", rule=rule) if record.alarms else t("lists.alarms_no")),
            (t("column.renewal"), t("lists.every_days", days=days) if days else ""),
            (t("column.renewed_at"), row["renewed_at"]),
            (t("lists.problem"), self._one.problem),
        ])  # fmt: skip


def _list_columns(view: View) -> list[Row]:
    t = view.t
    return [
        severity_column(t),
        column(t, "list_id", "list_id", width=130, cellClass="strong"),
        column(t, "name", "name", flex=2, minWidth=120),
        column(t, "list_lines", "lines", number=True, width=100),
        column(t, "list_date", "date", width=110),
        column(t, "tolerance", "tolerance", width=170),
        column(t, "list_owner", "owner", flex=1, minWidth=90),
        column(t, "list_source", "source", flex=1, minWidth=90),
        column(t, "changed_at", "changed_at", width=160),
        column(t, "changed_by", "changed_by", width=100),
        column(t, "version", "version", width=130),
        column(t, "overdue", "marks", flex=1, minWidth=90, cellClass="bad"),
    ]  # fmt: skip


def _tolerance(one: ListInForce, t: Texts) -> str:
    """Of a gallery its model and threshold."""
    model = one.record.model
    if model is None:
        return t(f"tolerance.{one.record.tolerance}")
    return t("lists.model", model=model.name, threshold=f"{model.threshold:g}")


def _line_columns(view: View, *, is_gallery: bool) -> list[Row]:
    t = view.t
    key = "entry" if is_gallery else "plate"
    return [
        column(t, "list_line", "line", number=True, width=100),
        column(t, "face_entry" if is_gallery else key, key, width=150, cellClass="strong"),
        column(t, "note", "note", flex=3, minWidth=150),
        column(t, "line_date", "date", width=130),
    ]
