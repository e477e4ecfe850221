"""The watch list: rules in force, add one, remove one; what was decided is what is shown."""

from __future__ import annotations

import json

import msgspec
from nicegui import ui
from nicegui.events import GenericEventArguments

from bus.contracts.commands import USUAL_KIND, USUAL_QUIET_S, WatchCommand
from bus.domain.expressions.rule_tree import tree_of
from bus.domain.expressions.to_text import to_text
from bus.domain.kinds import KINDS, WIRE_KEYS
from bus.domain.matchable import MATCHABLE
from bus.domain.plates import plate_form
from bus.domain.rule_check import MAX_QUIET_S, MAX_TARGET_CHARACTERS, RuleError
from bus.domain.rule_values import PLATE
from monitor.accounts.roles import ConsoleOperation
from monitor.api.operations import NewRule, put_command, remove_command
from monitor.api.views import clock, parse_time
from monitor.console.case_field import CaseField, asker
from monitor.console.elements import (
    named_dialog,
    paged_grid,
    panel,
    refresh_rows,
    source,
)
from monitor.console.expression_field import ExpressionField
from monitor.console.layout import View
from monitor.console.live_updates import Update
from monitor.console.notices import notify_fault, rule_fault_text
from monitor.console.pages.watch_preview import RulePreview
from monitor.console.place_selection import PlaceSelection
from monitor.console.plate_links import reading_chip, rule_fault
from monitor.console.rows import DEED, Row, column, rule_text, severity_column, values_of
from monitor.console.rule_examples import RuleExamples
from monitor.console.time_fields import moment_field
from monitor.i18n.values import device_values
from monitor.live.command_sender import (
    CommandNotAcknowledged,
    CommandRefused,
    CommandUnanswered,
)

REFRESH_SECONDS = 5.0  # rules end by time without a message
NOT_IN_FORCE = (CommandNotAcknowledged, CommandUnanswered, CommandRefused)
STALE_SECONDS = 0.5  # between two looks for rules and alarms: 100,000 may come at once


def build(view: View) -> None:
    """The page."""
    if view.may(ConsoleOperation.WATCH_WRITE):
        CaseField(view, lambda: None)
        RuleForm(view)
    else:
        ui.label(view.t("watch.no_right")).classes("notice")
    RuleList(view)


class RuleForm:
    """Name, kind, severity, plates, features, validity; one button."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        with panel(t("watch.add")):
            self._about = ui.element("div").classes("bar").props("role=status")
            with ui.element("div").classes("bar"):
                self._name = ui.input(t("watch.name")).style("width: 200px")
                self._kind = ui.select(
                    {k: t(f"kind.{k}") for k in WIRE_KEYS},
                    value=USUAL_KIND,
                    label=t("watch.kind"),
                ).style("width: 100px")
                self._severity = ui.select(
                    {s: t(f"severity.{s}") for s in ("critical", "warning", "info")},
                    value="warning", label=t("watch.severity"),
                ).style("width: 110px")  # fmt: skip
                self._plates = ui.input(t("watch.plate")).style("width: 300px")
                self._until = moment_field(t, t("watch.until")).style("width: 250px")
                self._quiet = ui.number(
                    t("watch.quiet_s"), value=USUAL_QUIET_S, min=0, max=MAX_QUIET_S, precision=0
                ).style("width: 150px")
                self._note = ui.input(t("watch.note")).style("width: 200px")
                self._target = ui.input(t("watch.target")).style("width: 200px")
                self._target.props(f"maxlength={MAX_TARGET_CHARACTERS}")
                self._visible_to = ui.input(t("watch.visible_to")).style("width: 220px")
                self._emergency = ui.number(
                    t("watch.emergency_hours"), min=1, precision=0,
                    max=view.services.questions.policy.emergency_hours,
                ).style("width: 150px")  # fmt: skip
            self._where = ExpressionField(view, self._show_accepted)
            self._accepted = RuleExamples(t)
            self._plates.on_value_change(self._show_accepted)
            selection = PlaceSelection(view, self._where.add)
            self._features = ui.element("div").style("display: grid; gap: 6px")
            with ui.element("div").classes("bar"):
                self._add_buttons(selection)
            self._preview = RulePreview(view)
        for field in (
            self._name,
            self._kind,
            self._severity,
            self._plates,
            self._until,
            self._quiet,
            self._note,
            self._target,
            self._visible_to,
            self._emergency,
        ):
            field.props("outlined dense")
        self._rows: list[tuple[ui.select, ui.input, ui.element]] = []
        self._narrowed: WatchCommand | None = None
        self._kind.on_value_change(self._change_kind)
        view.address.watch(("plate", "kind", "rule"), self._fill)
        self._fill()

    def _add_buttons(self, selection: PlaceSelection) -> None:
        t = self._view.t
        ui.button(
            t("watch.more"), color=None, icon="add", on_click=self._add_feature
        ).classes("header-button")  # fmt: skip
        ui.button(
            t("places.open"), color=None, icon="place",
            on_click=lambda: selection.show(self._where.tree_or_none(), self._kind.value),
        ).classes("header-button")  # fmt: skip
        ui.button(
            t("watch.preview"), color=None, icon="history", on_click=self._show_preview
        ).classes("header-button")
        ui.button(t("watch.put"), on_click=self._put).props("unelevated padding='6px 22px'")

    def _fill(self) -> None:
        """With the plate that the address names: whoever comes from a record only has to press the
        button. What is wrong with it is said before, by the check that judges the rule."""
        view, t, written = self._view, self._view.t, self._view.address["plate"]
        self._about.clear()
        self._narrowed = view.live.rule(view.address["rule"])
        if self._narrowed is not None:
            self._fill_with(self._narrowed)
            return
        if not written:
            return
        self._kind.set_value(view.address["kind"] or USUAL_KIND)
        self._plates.set_value(written)
        fault = rule_fault(written, self._kind.value)
        with self._about:
            if fault is not None:
                ui.label(t("watch.failed", why=rule_fault_text(fault, t))).classes("notice")
            else:
                ui.label(t("watch.filled", plate=written)).classes("soft")
                reading_chip(plate_form(written), t)

    def _fill_with(self, rule: WatchCommand) -> None:
        """A rule in force, all its conditions as one text: what is put replaces it."""
        zone, tree = self._view.services.site.tz, tree_of(rule)
        self._kind.set_value(rule.kind)
        self._severity.set_value(rule.severity)
        self._name.set_value(rule.name)
        self._note.set_value(rule.note)
        self._target.set_value(rule.target)
        self._visible_to.set_value(", ".join(rule.visible_to))
        until = clock(rule.valid_until_ms, zone)[:16] if rule.valid_until_ms else ""
        self._until.set_value(until)
        self._plates.set_value("")
        for row in list(self._rows):
            self._drop_feature(row)
        self._where.set_text(to_text(tree, zone.key) if tree is not None else "")
        with self._about:
            ui.label(self._view.t("alarm.narrow_fill", name=rule.name)).classes("soft")

    def _add_feature(self) -> None:
        t = self._view.t
        choices = {
            a: t.word("attribute", a) for a in MATCHABLE[self._kind.value] if a != "plate_number"
        }
        with self._features, ui.element("div").classes("bar") as line:
            feature = ui.select(choices, value=next(iter(choices)), label=t("watch.feature"))
            values = ui.input(t("watch.values"))
            drop = ui.button(icon="close", color=None).props(
                f'flat round dense aria-label="{t("watch.remove")}"'
            )
        feature.props("outlined dense").style("width: 180px")
        values.props("outlined dense").style("width: 360px")
        row = (feature, values, line)
        self._rows.append(row)
        drop.on_click(lambda: self._drop_feature(row))

    def _drop_feature(self, row: tuple[ui.select, ui.input, ui.element]) -> None:
        self._rows.remove(row)
        row[2].delete()

    def _change_kind(self) -> None:
        self._where.set_kind(self._kind.value)
        for row in list(self._rows):
            self._drop_feature(row)
        has_plate = KINDS[self._kind.value].has_plate
        self._plates.set_visibility(has_plate)
        if not has_plate:
            self._plates.set_value("")
            self._add_feature()

    def _show_accepted(self) -> None:
        """Of what is typed, as far as it can be read."""
        typed = WatchCommand(
            rule_id="", op="put", version=0, kind=self._kind.value, match=self._typed_plates(),
            where=self._where.tree_or_none(),
        )  # fmt: skip
        self._accepted.show(tree_of(typed))

    def _typed_plates(self) -> dict[str, list[str]]:
        plates = values_of(self._plates.value or "", by_space=True)
        return {PLATE: plates} if plates else {}

    def _match(self) -> dict[str, list[str]]:
        match = self._typed_plates()
        for feature, values, _ in self._rows:
            found = values_of(values.value or "", by_space=False)
            if found:
                meant = [value for word in found for value in device_values(word)]
                match[feature.value] = [*match.get(feature.value, []), *meant]
        return match

    async def _put(self) -> None:
        view, t = self._view, self._view.t
        if not view.may(ConsoleOperation.WATCH_WRITE):
            ui.notify(t("watch.no_right"), type="negative")
            return
        try:
            command = self._command()
            sent = await view.services.send_rule(command)
        except (RuleError, ValueError, msgspec.ValidationError, *NOT_IN_FORCE) as error:
            zone = view.services.site.tz
            notify_fault(t("watch.failed", why=rule_fault_text(error, t, zone)), error)
            return
        said = "watch.proposed_sent" if sent.waits else "watch.sent"
        ui.notify(t(said, name=command.name), type="positive")
        self._clear()
        await view.address.go({"plate": "", "kind": "", "rule": ""})

    def _command(self) -> WatchCommand:
        """What is filled in. Raises `ValueError`, `ValidationError`."""
        view, match = self._view, self._match()
        plates, said = " ".join(match.get("plate_number", [])), asker(view)
        rule = NewRule(
            name=(self._name.value or "").strip() or (plates or self._where.text)[:100],
            match=match,
            where=self._where.tree() or "",
            kind=self._kind.value,
            note=self._note.value or "",
            target=(self._target.value or "").strip(),
            visible_to=values_of(self._visible_to.value or "", by_space=False),
            severity=self._severity.value,
            valid_until_ms=parse_time(self._until.value or "", view.services.site.tz),
            quiet_s=USUAL_QUIET_S if self._quiet.value is None else int(self._quiet.value),
            emergency_hours=int(self._emergency.value or 0),
            reason=said.reason,
            case=said.case,
        )
        narrowed = self._narrowed
        if narrowed is not None:
            seen = narrowed.version
            rule = msgspec.structs.replace(rule, rule_id=narrowed.rule_id, seen_version=seen)
        return put_command(view.services, rule, view.principal)

    async def _show_preview(self) -> None:
        t = self._view.t
        try:
            command = self._command()
            named = msgspec.structs.replace(command, name=command.name or t("watch.preview"))
            await self._preview.show(named)
        except (RuleError, ValueError, msgspec.ValidationError) as error:
            zone = self._view.services.site.tz
            notify_fault(t("watch.failed", why=rule_fault_text(error, t, zone)), error)

    def _clear(self) -> None:
        self._preview.clear()
        for field in (
            self._name, self._plates, self._until, self._note, self._target, self._visible_to,
        ):  # fmt: skip
            field.set_value("")
        self._quiet.set_value(USUAL_QUIET_S)
        self._emergency.set_value(None)
        self._where.clear()
        for row in list(self._rows):
            self._drop_feature(row)


class RuleList:
    """The rules in force as the topic tells them, not as this page hopes; the browser asks for
    them page by page.
    """

    def __init__(self, view: View) -> None:
        self._view, self._is_stale = view, False
        t = view.t
        with panel(t("watch.rules"), "rest"):
            self._grid = paged_grid(
                t, _columns(view), label=t("watch.rules"), id_field="rule_id",
                **{":datasource": source("/api/watch", {})},
            )  # fmt: skip
        self._grid.on("cellClicked", self._clicked, args=["colId", "data"])
        view.feed.subscribe(self._on_update)
        ui.timer(STALE_SECONDS, self._refresh_stale)
        ui.timer(REFRESH_SECONDS, lambda: refresh_rows(self._grid))

    def _on_update(self, update: Update) -> None:
        self._is_stale |= bool(update.delta.rules_changed or update.delta.alarms)

    def _refresh_stale(self) -> None:
        if self._is_stale:
            self._is_stale = False
            refresh_rows(self._grid)

    async def _clicked(self, event: GenericEventArguments) -> None:
        if event.args.get("colId") == "narrow" and event.args["data"]["often_false"]:
            await self._view.address.go({"rule": str(event.args["data"]["rule_id"])})
        if event.args.get("colId") == "remove":
            await self._ask(str(event.args["data"]["rule_id"]))

    async def _ask(self, rule_id: str) -> None:
        view, t = self._view, self._view.t
        rule = view.live.rule(rule_id)
        if rule is None:
            return
        question = t("watch.remove_ask", name=rule.name)
        with named_dialog(question) as dialog, ui.card().classes("dialog-card"):
            with ui.element("h2"):
                ui.label(question)
            ui.label(rule_text(rule, t, view.services.site.zone)).classes("soft")
            with ui.element("div").classes("bar"):
                ui.button(
                    t("watch.cancel"), color=None, on_click=lambda: dialog.submit(False)
                ).classes("header-button")
                ui.button(
                    t("watch.remove"), color="negative", on_click=lambda: dialog.submit(True)
                ).props("unelevated")
        sure = await dialog
        dialog.delete()
        if not sure or not view.may(ConsoleOperation.WATCH_WRITE):
            return
        command = remove_command(
            view.services, rule_id, view.principal, rule.version, asker(view).reason
        )
        if command is not None:
            await self._remove(command)

    async def _remove(self, command: WatchCommand) -> None:
        t = self._view.t
        try:
            await self._view.services.send_rule(command)
        except NOT_IN_FORCE as error:
            zone = self._view.services.site.tz
            notify_fault(t("watch.failed", why=rule_fault_text(error, t, zone)), error)
            return
        ui.notify(t("watch.removed", name=command.name), type="positive")


def _columns(view: View) -> list[Row]:
    t = view.t
    everybody = t("watch.visible_to_all")
    columns = [
        severity_column(t),
        column(t, "name", "name", flex=2, minWidth=120, cellClass="strong"),
        column(t, "kind", "kind", renderer="kind", width=76),
        column(t, "match", "match", renderer="match", flex=4, minWidth=200, cellDataType=False)
        | {":tooltipValueGetter": "databus.match"},
        {
            "headerName": t("watch.hits"),
            "field": "hits",
            "width": 76,
            "cellClass": ["num", "ag-right-aligned-cell"],
        },
        column(t, "emergency", "emergency_hours", width=92, cellClass="bad",
               **{":valueFormatter": f"p => p.value ? {json.dumps(t('watch.emergency'))} : ''"}),
        column(t, "false_share", "false_alarms", renderer="falseShare", width=84),
        column(t, "validity", "valid_until", renderer="validity", width=210),
        column(t, "author", "author", width=100),
        column(t, "visible_to", "visible_to", width=110, cellDataType=False)
        | {":valueFormatter": f"p => (p.value ?? []).join(', ') || {json.dumps(everybody)}"},
        column(t, "case_number", "case", width=110),
        column(t, "case_target", "target", width=110),
        column(t, "note", "note", flex=2, minWidth=100),
    ]
    if view.may(ConsoleOperation.WATCH_WRITE):
        remove, narrow = json.dumps(t("watch.remove")), json.dumps(t("alarm.narrow"))
        columns.append({
            "headerName": t("alarm.narrow"), "colId": "narrow", "width": 96, "cellClass": "strong",
            "context": DEED,
            ":valueGetter": f"params => params.data?.often_false ? {narrow} : ''",
        })  # fmt: skip
        columns.append(
            {
                "headerName": t("watch.remove"),
                "colId": "remove",
                "width": 96,
                "context": DEED,
                ":valueGetter": f"params => params.data ? {remove} : ''",
                "cellClass": "bad",
            }
        )
    return columns
