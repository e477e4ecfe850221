"""A file of plates or faces becomes a list: what it would change, which lines are refused, then the
import.

The file goes from the browser straight to the API, once to be tried and once to be imported: this
process holds none of it. In between what is in force may have changed: the import names the version
that the trial saw.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui

from bus.contracts.plate_lists import SEVERITIES, TOLERANCES
from bus.domain.list_check import removes_many
from monitor.accounts.roles import ConsoleOperation
from monitor.api.list_changes import MAX_FILE_BYTES
from monitor.console.elements import grid, panel
from monitor.console.layout import View
from monitor.console.notices import FaultNotice, list_fault_text
from monitor.console.rows import Row, column
from monitor.i18n import Texts

IMPORT_S = 600.0
FORMATS = ".csv,.txt,.xlsx,.xlsm,.xlsb,.xls,.ods"
TEXT_FIELDS = ("name", "owner", "source", "legal_ground", "date", "reason", "case")
ACCEPTED = (200, 201, 202)


class ListImportForm:
    """Invariant: `_tried` is what the file in the form would do, with what the form says of it;
    None: it is not known."""

    def __init__(self, view: View, on_done: Callable[[], None]) -> None:
        self._view, self._on_done = view, on_done
        self._tried: Row | None = None
        self._is_working = False
        t = view.t
        with panel(t("lists.import")):
            ui.label(t("lists.import_how")).classes("soft small")
            ui.label(t("lists.no_photos")).classes("soft small")
            with ui.element("div").classes("bar"):
                self._file = ui.element("input").classes("choose-file")
                self._file.props(f'type=file accept="{FORMATS}" aria-label="{t("lists.file")}"')
                self._id = self._input("list_id").props("maxlength=64")
                self._texts = {name: self._input(name) for name in TEXT_FIELDS}
                self._severity = self._choice("severity", SEVERITIES, t("column.severity"))
                self._tolerance = self._choice("tolerance", TOLERANCES, t("lists.form_tolerance"))
                yes_no = {"": t("lists.as_before"), "true": t("lists.yes"), "false": t("lists.no")}
                self._alarms = ui.select(yes_no, value="", label=t("column.alarms"))
                self._alarms.props("outlined dense").style("width: 130px")
                self._days = self._input("renewal_days").props("type=number min=0")
                self._model = self._model_choice()
                self._threshold = self._input("threshold").props("type=number step=any")
                self._try_button = ui.button(t("lists.try"), on_click=self._try)
                self._try_button.props("unelevated")
            self._busy = ui.label(t("lists.working")).classes("soft").props("role=status")
            self._busy.set_visibility(False)
            self._fault = FaultNotice()
            self._outcome = ui.element("div").style("display: grid; gap: 8px")
        self._file.on("change", self._forget)
        choices = (self._severity, self._tolerance, self._alarms, self._model)
        for field in (self._id, *self._texts.values(), self._days, self._threshold, *choices):
            field.on_value_change(self._forget)

    def _input(self, name: str) -> ui.input:
        made = ui.input(self._view.t(f"lists.form_{name}")).props("outlined dense maxlength=200")
        return made.style("width: 170px")

    def _choice(self, name: str, values: tuple[str, ...], label: str) -> ui.select:
        t = self._view.t
        texts = {"": t("lists.as_before")} | {one: t(f"{name}.{one}") for one in values}
        made = ui.select(texts, value="", label=label)
        return made.props("outlined dense").style("width: 180px")

    def _model_choice(self) -> ui.select:
        """Of the features in the file."""
        names = sorted(one.name for one in self._view.services.feature_models.values())
        options = {"": self._view.t("lists.model_recognised")} | {name: name for name in names}
        made = ui.select(options, value="", label=self._view.t("lists.form_model"))
        return made.props("outlined dense").style("width: 230px")

    def _forget(self) -> None:
        """Something was changed: what was tried is another import."""
        self._tried = None
        self._outcome.clear()

    def _address(self, **more: object) -> str:
        said = {name: (field.value or "").strip() for name, field in self._texts.items()}
        said |= {
            "severity": self._severity.value, "tolerance": self._tolerance.value,
            "alarms": self._alarms.value, "renewal_days": str(self._days.value or "").strip(),
            "model": self._model.value, "threshold": str(self._threshold.value or "").strip(),
        }  # fmt: skip
        query = {key: value for key, value in said.items() if value} | more
        list_id = quote((self._id.value or "").strip(), safe="")
        return f"/api/lists/{list_id}/import?{urlencode(query)}"

    async def _try(self) -> None:
        """What the file would change."""
        self._forget()
        if not (self._id.value or "").strip():
            self._fault.show(self._view.t("lists.no_id"))
            return
        found = await self._send(self._address(dry_run="true"))
        if found is not None:
            self._tried = found
            with self._outcome:
                self._show(found)

    async def _import(self, confirms_removal: bool) -> None:
        tried = self._tried
        if tried is None:
            return
        address = self._address(
            seen_version=tried["seen_version"], confirms_removal=str(confirms_removal).lower()
        )
        found = await self._send(address)
        if found is None:
            return
        t, answer = self._view.t, found["answer"]
        self._forget()
        text = "lists.sent" if answer["state"] == "proposed" else "lists.imported"
        ui.notify(t(text, list=found["list_id"], lines=f"{found['lines']:,}"), type="positive")
        self._on_done()

    async def _send(self, address: str) -> Row | None:
        """What the API says; None where it refuses, which is shown."""
        view, t = self._view, self._view.t
        if self._is_working:
            return None
        if not view.may(ConsoleOperation.WATCH_WRITE):
            ui.notify(t("lists.no_right"), type="negative")
            return None
        self._work(is_working=True)
        try:
            size = int(await ui.run_javascript(f"databusLists.size({self._file.id})", timeout=30))
            if not 0 < size <= MAX_FILE_BYTES:
                self._fault.show(t("lists.choose", mib=MAX_FILE_BYTES >> 20))
                return None
            code = f"databusLists.send({self._file.id}, {json.dumps(address)})"
            answer: Mapping[str, Any] = await ui.run_javascript(code, timeout=IMPORT_S)
        except TimeoutError:  # the page was left, or nobody has answered for long
            self._fault.show(t("lists.no_answer"))
            return None
        finally:
            self._work(is_working=False)
        body = dict(answer["body"])
        if answer["status"] in ACCEPTED:
            return body
        self._fault.show(
            t("lists.failed", why=list_fault_text(str(body.get("code", "")), t)),
            str(body.get("error", "")),
        )
        return None

    def _work(self, *, is_working: bool) -> None:
        self._is_working = is_working
        self._busy.set_visibility(is_working)
        self._try_button.set_enabled(not is_working)
        if is_working:
            self._fault.show("")

    def _show(self, found: Row) -> None:
        """The difference, what is refused, and the button that imports."""
        t, difference = self._view.t, found["difference"]
        changes = [
            t(f"lists.{way}", count=f"{difference[way]:,}") + _examples(difference, way, t)
            for way in ("added", "removed", "changed")
        ]  # fmt: skip
        said, model = t("list.comma").join(changes), found["model"]
        would = t("lists.would", lines=f"{found['lines']:,}", changes=said)
        ui.label(would).props("data-outcome")
        if model is not None:
            threshold = f"{model['threshold']:g}"
            ui.label(t("lists.faces_of", model=model["name"], threshold=threshold))
        before = found["lines"] - difference["added"] + difference["removed"]
        confirm = None
        if removes_many(difference["removed"], before):
            many = t("lists.many", removed=f"{difference['removed']:,}", before=f"{before:,}")
            confirm = ui.checkbox(many)
        with ui.element("div").classes("bar"):
            async def import_it() -> None:
                await self._import(confirm is not None and bool(confirm.value))

            button = ui.button(t("lists.import_now"), on_click=import_it).props("unelevated")
            if confirm is not None:
                button.bind_enabled_from(confirm, "value")
            if self._view.services.questions.policy.requires_approval:
                ui.label(t("lists.waits_note")).classes("soft small")
        if found["refused"]:
            self._refused(found)

    def _refused(self, found: Row) -> None:
        t = self._view.t
        reason = "reason_zh" if t.language == "zh" else "reason"
        with ui.element("div").classes("bar"):
            ui.label(t("lists.refused", count=f"{found['refused']:,}")).classes("notice")
            heads = [t("column.list_line"), t("lists.text"), t("lists.why")]
            name = f"{found['list_id']}.refused.csv"
            code = f"databusLists.save({json.dumps(name)}, {json.dumps(heads)}, '{reason}')"
            save = ui.button(t("lists.save"), color=None)
            save.on_click(lambda: ui.run_javascript(code)).classes("header-button")
        grid(
            t,
            [
                column(t, "list_line", "line", number=True, width=90),
                {"headerName": heads[1], "field": "text", "flex": 2, "minWidth": 150},
                {"headerName": heads[2], "field": reason, "flex": 3, "minWidth": 200},
            ],
            label=t("lists.refused_lines"), height="260px", rowData=found["refused_lines"],
        )  # fmt: skip


def _examples(difference: Row, way: str, t: Texts) -> str:
    plates = difference[f"{way}_plates"]
    more = "…" if len(plates) < difference[way] else ""
    return t("lists.examples", plates=t("list.comma").join(plates) + more) if plates else ""
