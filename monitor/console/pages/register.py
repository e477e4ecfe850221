"""Register: where districts, checkpoints and devices stand; a file that changes it is tried first,
and applied by somebody who may.
"""

from __future__ import annotations

from collections import Counter
from html import escape
from pathlib import PurePath
from typing import Any

from nicegui import ui
from nicegui.events import UploadEventArguments

from bus.domain.kinds import KINDS
from bus.domain.register_formats import FORMATS
from monitor.accounts.roles import ConsoleOperation
from monitor.api.register import MAX_FILE_BYTES, MAX_LISTED, change_rows, fault_row
from monitor.api.register_rows import KINDS_OF_PLACE
from monitor.console.elements import grid, load_rows, paged_grid, panel, source
from monitor.console.layout import View
from monitor.console.notices import notify_fault
from monitor.console.rows import Row, column, place_field
from monitor.live.register_writes import ImportOutcome, RegisterUnavailable

TRIED_HEIGHT = "220px"


def build(view: View) -> None:
    """The page."""
    table = PlaceTable(view)
    with table.above:
        if view.may(ConsoleOperation.REGISTER_WRITE):
            RegisterImportForm(view, table)
        else:
            ui.label(view.t("register.no_right")).classes("notice")


class PlaceTable:
    """All places, a page at a time, by kind and text; the filter stands in the address."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        self.above = ui.element("div")
        kinds = {"": t("register.all"), **{k: t(f"register.{k}") for k in KINDS_OF_PLACE}}
        with panel(t("register.places"), "rest") as bar:
            with bar:
                self._kind = ui.select(kinds, value=view.address["what"], label=t("column.kind"))
                self._text = ui.input(t("register.filter"), value=view.address["text"])
                self._text.props("clearable debounce=300")
            for field in (self._kind, self._text):
                field.props("outlined dense").style("width: 220px")
            self._grid = paged_grid(
                t, self._columns(), label=t("register.places"), id_field="key",
                **{":datasource": source("/api/places", self._parameters())},
            )  # fmt: skip
        self._kind.on_value_change(self._filter)
        self._text.on_value_change(self._filter)
        view.address.watch(("what", "text"), self._from_address)

    def show(self) -> None:
        """Load again: the register has changed."""
        load_rows(self._grid, "/api/places", self._parameters())

    async def _filter(self) -> None:
        asked = self._parameters()
        await self._view.address.go({"what": asked["kind"], "text": asked["text"]}, typing="text")

    def _from_address(self) -> None:
        self._kind.set_value(self._view.address["what"])
        if self._view.address["text"] != (self._text.value or "").strip():
            self._text.set_value(self._view.address["text"])
        self.show()

    def _parameters(self) -> dict[str, str]:
        return {"kind": self._kind.value or "", "text": (self._text.value or "").strip()}

    def _columns(self) -> list[Row]:
        t = self._view.t
        return [
            column(
                t,
                "place_kind",
                "place_kind",
                width=110,
                refData={k: t(f"register.{k}") for k in KINDS_OF_PLACE},
            ),
            column(t, "entry", "entry", flex=2, minWidth=150, cellClass="strong"),
            column(t, "name", place_field(t), flex=3, minWidth=150),
            column(t, "district", "district_id", width=110),
            column(t, "latitude", "latitude", number=True, width=110),
            column(t, "longitude", "longitude", number=True, width=110),
            column(t, "kind", "kind", width=90, refData={k: t(f"kind.{k}") for k in KINDS}),
            column(t, "recognizer", "recognizer_ip", width=150),
        ]


_INPUT = '<div style="display: none"><q-uploader-add-trigger /></div>'
"""Of the field for a file: what a browser opens when one is to be chosen."""


class RegisterImportForm:
    """A file, what it would change or what is wrong in it, and a button that applies it.

    Invariant: `_data` is the file that was tried without a fault, empty otherwise.
    """

    def __init__(self, view: View, table: PlaceTable) -> None:
        self._view = view
        self._table = table
        self._data, self._form = b"", ""
        t = view.t
        with panel(t("register.import")):
            ui.label(t("register.how")).classes("soft small")
            with ui.element("div").classes("bar"):
                self._upload = ui.upload(
                    auto_upload=True, max_files=None, max_file_size=MAX_FILE_BYTES,
                    on_upload=self._uploaded, on_rejected=self._rejected,
                )  # fmt: skip
                accepted = ",".join(f".{form}" for form in FORMATS)
                self._upload.props(f'flat bordered accept="{accepted}"').classes("choose-file")
                # The field's own button has no name, and the file input lies inside of it.
                here = f'<div class="q-uploader__title">{escape(t("register.file"))}</div>'
                self._upload.add_slot("header", here + _INPUT)
                choose = ui.button(t("register.choose"), color=None).classes("header-button")
                pick = f"() => getElement({self._upload.id}).$refs.qRef.pickFiles()"
                choose.on("click", js_handler=pick)
                self._replace = ui.checkbox(t("register.replace"), on_change=self._try)
            self._tried = ui.element("div").style("display: grid; gap: 8px")

    async def _uploaded(self, event: UploadEventArguments) -> None:
        self._form = PurePath(event.file.name).suffix.removeprefix(".").lower()
        self._data = await event.file.read()
        self._upload.reset()
        await self._try()

    def _rejected(self) -> None:
        ui.notify(self._view.t("register.rejected", mib=MAX_FILE_BYTES >> 20), type="warning")

    async def _try(self) -> None:
        """What the file would do, now and with the switch as it stands."""
        self._tried.clear()
        if not self._data:
            return
        if self._form not in FORMATS:
            self._data = b""
            ui.notify(self._view.t("register.rejected", mib=MAX_FILE_BYTES >> 20), type="warning")
            return
        outcome = await self._import_file(dry_run=True)
        if outcome is None:
            return
        with self._tried:
            if outcome.faults:
                self._data = b""
                self._show_faults(outcome)
            else:
                self._show_changes(outcome)

    async def _apply(self) -> None:
        view, t = self._view, self._view.t
        if not view.may(ConsoleOperation.REGISTER_WRITE):
            ui.notify(t("register.no_right"), type="negative")
            return
        outcome = await self._import_file(dry_run=False)
        if outcome is None:
            return
        if outcome.faults:  # somebody else has changed what the file builds on
            self._tried.clear()
            with self._tried:
                self._show_faults(outcome)
            return
        ui.notify(t("register.applied", count=len(outcome.changes)), type="positive")
        self._table.show()
        self._clear()  # last: the button that was pressed goes with it

    async def _import_file(self, *, dry_run: bool) -> ImportOutcome | None:
        try:
            return await self._view.services.register_writes.import_file(
                self._data, self._form, replace=bool(self._replace.value), dry_run=dry_run,
                author=self._view.principal.name,
            )  # fmt: skip
        except RegisterUnavailable as error:
            notify_fault(self._view.t("register.failed"), error)
            return None

    def _clear(self) -> None:
        self._data = b""
        self._tried.clear()

    def _show_changes(self, outcome: ImportOutcome) -> None:
        t = self._view.t
        made = change_rows(outcome)
        counts = Counter(one["change"] for one in made)
        with ui.element("div").classes("bar"):
            if not outcome.changes:
                ui.label(t("register.same")).classes("notice")
                return
            summary = t(
                "register.would", add=counts["add"], change=counts["change"],
                remove=counts["remove"],
            )  # fmt: skip
            ui.label(summary).classes("strong" if not counts["remove"] else "strong bad")
            ui.button(t("register.apply"), on_click=self._apply).props(
                "unelevated padding='6px 22px'"
            )
            ui.button(t("register.cancel"), color=None, on_click=self._clear).classes(
                "header-button"
            )
        rows: list[dict[str, Any]] = [
            {
                "change": t(f"register.{one['change']}"),
                "place_kind": t(f"register.{one['kind']}"),
                "entry": one["entry"],
            }
            for one in made[:MAX_LISTED]
        ]
        columns = [
            column(t, "change", "change", width=130, cellClass="strong"),
            column(t, "place_kind", "place_kind", width=130),
            column(t, "entry", "entry", flex=1),
        ]
        grid(t, columns, label=t("register.changes"), height=TRIED_HEIGHT, rowData=rows)

    def _show_faults(self, outcome: ImportOutcome) -> None:
        t = self._view.t
        ui.label(t("register.faults", count=len(outcome.faults))).classes("notice")
        rows = [
            {"line": one["line"] or "", "fault": one["text_zh" if t.language == "zh" else "text"]}
            for one in map(fault_row, outcome.faults[:MAX_LISTED])
        ]
        columns = [
            column(t, "line", "line", width=90, number=True),
            column(t, "fault", "fault", flex=1, tooltipField="fault"),
        ]
        grid(t, columns, label=t("register.fault_list"), height=TRIED_HEIGHT, rowData=rows)
