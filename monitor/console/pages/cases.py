"""Cases: whom each is about, by which rules they are looked for, what was raised and what was asked
under its number. Which case is open, and of how many days its alarms are shown, stands in the
address.
"""

from __future__ import annotations

import json

from nicegui import ui
from nicegui.events import GenericEventArguments

from bus.contracts.commands import WatchCommand
from bus.contracts.proposals import WatchProposal
from bus.domain.cases import CaseTarget
from bus.runtime.wall_clock import now_ms
from monitor.accounts.roles import ConsoleOperation
from monitor.api.cases import has_alarms, rule_states
from monitor.api.pool import QueryUnavailable
from monitor.api.views import MAX_TEXT, clock
from monitor.console.address import CASE_DAYS
from monitor.console.days import day_before, span_of
from monitor.console.elements import (
    chip,
    link,
    load_rows,
    paged_grid,
    panel,
    refresh_rows,
    source,
)
from monitor.console.layout import View
from monitor.console.live_updates import Update
from monitor.console.notices import FaultNotice
from monitor.console.pages.detail import DetailPanel
from monitor.console.rows import Row, column, place_field, rule_text, severity_column
from monitor.live.visible_cases import OpenCase

STALE_SECONDS = 1.0  # between two looks at rules and alarms: many may come at once
POLLS = 3  # the bus says an alarm before the store has it
_ON_ENTER = "e => e.event.key === 'Enter' && emitEvent({event}, e.data[{field}])"
LISTS_HEIGHT = "260px"
ALARMS_HEIGHT = "320px"


def _on_enter(event: str, field: str) -> str:
    """Enter on a cell does what a click does."""
    return _ON_ENTER.format(event=json.dumps(event), field=json.dumps(field))


def build(view: View) -> None:
    """The page."""
    detail = DetailPanel(view)
    CaseList(view)
    CasePanel(view, detail)


class CaseList:
    """By number, a page after the other; those whose number begins as it is typed."""

    def __init__(self, view: View) -> None:
        self._view, t = view, view.t
        self._is_stale = False
        with panel(t("cases.list")) as bar:
            with bar:
                self._begins = ui.input(t("cases.begins"), value=view.address["begins"])
                self._begins.props(f"outlined dense clearable debounce=300 maxlength={MAX_TEXT}")
                self._begins.style("width: 240px")
                ui.label(t("cases.how")).classes("soft small")
            self._grid = paged_grid(
                t,
                [
                    column(t, "case_number", "case", flex=2, minWidth=120, cellClass="strong"),
                    column(t, "case_targets", "targets", flex=4, minWidth=130, cellDataType=False)
                    | {":valueFormatter": "p => (p.value ?? []).join(' · ')"},
                    column(t, "case_rules", "rules", number=True, width=100),
                    column(t, "case_waiting", "waiting", number=True, width=120),
                ],
                label=t("cases.list"), id_field="case", height=LISTS_HEIGHT,
                **{":datasource": source("/api/cases", self._parameters()),
                   ":onCellKeyDown": _on_enter("case_chosen", "case")},
            )  # fmt: skip
        self._grid.on("cellClicked", self._choose, args=["data"])
        ui.on("case_chosen", lambda event: view.address.go({"case": str(event.args)}))
        self._begins.on_value_change(self._typed)
        view.address.watch(("begins",), self._follow)
        view.feed.subscribe(self._on_update)
        ui.timer(STALE_SECONDS, self._refresh_stale)

    def _parameters(self) -> dict[str, str]:
        return {"begins": self._view.address["begins"]}

    async def _choose(self, event: GenericEventArguments) -> None:
        await self._view.address.go({"case": str(event.args["data"]["case"])})

    async def _typed(self) -> None:
        text = (self._begins.value or "").strip()
        await self._view.address.go({"begins": text}, typing="begins")

    def _follow(self) -> None:
        begins = self._view.address["begins"]
        if begins != (self._begins.value or "").strip():
            self._begins.set_value(begins)
        load_rows(self._grid, "/api/cases", self._parameters())

    def _on_update(self, update: Update) -> None:
        self._is_stale |= update.delta.rules_changed

    def _refresh_stale(self) -> None:
        if self._is_stale:
            self._is_stale = False
            refresh_rows(self._grid)


class CasePanel:
    """The case that is open; nothing where none is."""

    def __init__(self, view: View, detail: DetailPanel) -> None:
        self._view, self._detail = view, detail
        self._place = ui.element("div").classes("cases")
        self._targets: TargetList | None = None
        self._alarms: CaseAlarms | None = None
        self._is_stale, self._polls_due = False, 0
        view.address.watch(("case",), self._open)
        view.address.watch(("days",), self._ask_days)
        ui.on("case_alarm", lambda event: detail.open(alarm=str(event.args)))
        view.feed.subscribe(self._on_update)
        ui.timer(STALE_SECONDS, self._refresh_stale)
        self._open()

    def _open(self) -> None:
        view, t, case = self._view, self._view.t, self._view.address["case"]
        self._place.clear()
        self._targets = self._alarms = None
        if not case:
            return
        with self._place:
            with panel(t("cases.case", case=case)):
                self._targets = TargetList(view, case)
            with panel(t("cases.alarms")) as bar:
                self._alarms = CaseAlarms(view, case, bar, self._detail)
            if view.may(ConsoleOperation.QUESTIONS_READ):
                with panel(t("cases.questions")) as bar:
                    _questions(view, case, bar)

    def _ask_days(self) -> None:
        if self._alarms is not None:
            self._alarms.ask_days()

    def _on_update(self, update: Update) -> None:
        self._is_stale |= update.delta.rules_changed
        if update.delta.alarms or update.delta.alarm_states:
            self._polls_due = POLLS

    async def _refresh_stale(self) -> None:
        if self._is_stale and self._targets is not None:
            self._is_stale = False
            await self._targets.show()
        if self._polls_due and self._alarms is not None:
            self._polls_due -= 1
            self._alarms.refresh()


class TargetList:
    """Each target with its rules; drawn again when one of them has changed."""

    def __init__(self, view: View, case: str) -> None:
        self._view, self._case = view, case
        self._drawn: OpenCase | None = None
        self._notice = FaultNotice()
        self._place = ui.element("div").classes("case-targets")
        ui.timer(0.01, self.show, once=True)

    async def show(self) -> None:
        """As they are now."""
        found = self._view.live.case(self._case, now_ms())
        if found == self._drawn:
            return
        self._drawn = found
        self._place.clear()
        with self._place:
            for target in found.targets:
                self._show_target(target)
        t = self._view.t
        if found.more_rules:
            self._notice.show(t("cases.more_rules", count=found.more_rules))
        elif not found.targets:
            self._notice.show(t("cases.over" if await self._has_alarms() else "cases.none"))
        else:
            self._notice.show("")

    async def _has_alarms(self) -> bool:
        try:
            return await has_alarms(self._view.services, self._view.live, self._case)
        except QueryUnavailable:
            return False  # the notice above the page says that alarms cannot be read

    def _show_target(self, target: CaseTarget) -> None:
        t = self._view.t
        with ui.element("section"):
            with ui.element("h3"):
                ui.label(target.name or t("cases.no_target"))
            with ui.element("ul"):
                for rule, state in rule_states(target, now_ms()):
                    self._show_rule(rule, state)
                known = {rule.rule_id for rule in target.rules}
                for one in target.waiting:
                    if one.rule_id not in known:
                        self._show_waiting(one)

    def _show_rule(self, rule: WatchCommand, state: str) -> None:
        view, t = self._view, self._view.t
        with self._line(rule, state, "warning" if state == "changing" else "good"):
            if rule.emergency_hours:
                chip(t("detail.emergency"), "critical")
            if rule.valid_until_ms:
                until = clock(rule.valid_until_ms, view.services.site.tz)[:16]
                ui.label(t("cases.until", time=until)).classes("soft")
            link(t("cases.rule"), "watch", rule=rule.rule_id)
            link(t("nav.alarms"), "alarms", rule=rule.rule_id)

    def _show_waiting(self, proposal: WatchProposal) -> None:
        with self._line(proposal.text, "waiting", "warning"):
            ui.link(self._view.t("nav.proposals"), "/proposals").classes("header-button")

    def _line(self, rule: WatchCommand, state: str, kind: str) -> ui.element:
        view, t = self._view, self._view.t
        with ui.element("li"):
            line = ui.element("div").classes("bar")
            with line:
                chip(t.word("severity", rule.severity), rule.severity)
                ui.label(rule.name or rule.rule_id).classes("strong")
                chip(t(f"cases.state_{state}"), kind)
                ui.label(t.word("kind", rule.kind)).classes("soft")
                ui.label(rule_text(rule, t, view.services.site.zone))
        return line


class CaseAlarms:
    """The alarms of its rules, those that have ended too, newest first, with their life."""

    def __init__(self, view: View, case: str, bar: ui.element, detail: DetailPanel) -> None:
        self._view, self._case, self._detail = view, case, detail
        t = view.t
        with bar:
            self._days = ui.select(
                {days: t("cases.days", days=days) for days in CASE_DAYS},
                value=view.address["days"], label=t("cases.since"),
            ).props("outlined dense").style("width: 150px")  # fmt: skip
            link(t("cases.all_alarms"), "alarms", case=case, districts="all")
        self._grid = paged_grid(
            t, _alarm_columns(view), label=t("cases.alarms"), id_field="alarm_id",
            height=ALARMS_HEIGHT,
            **{":datasource": source("/api/alarms", self._parameters()),
               ":onCellKeyDown": _on_enter("case_alarm", "alarm_id")},
        )  # fmt: skip
        self._grid.on("cellClicked", self._choose, args=["data"])
        self._days.on_value_change(self._chosen)

    def refresh(self) -> None:
        """Something has come."""
        refresh_rows(self._grid)

    def _parameters(self) -> dict[str, str]:
        """From the beginning of a day: what is asked stays the same while a page is open."""
        days = int(self._view.address["days"])
        first, _ = span_of(day_before(now_ms(), self._view.services.site.tz, days))
        return {"case": self._case, "from": first}

    async def _choose(self, event: GenericEventArguments) -> None:
        await self._detail.open(alarm=str(event.args["data"]["alarm_id"]))

    async def _chosen(self) -> None:
        await self._view.address.go({"days": str(self._days.value)})

    def ask_days(self) -> None:
        """Of as many days as the address says."""
        self._days.set_value(self._view.address["days"])
        load_rows(self._grid, "/api/alarms", self._parameters())


def _alarm_columns(view: View) -> list[Row]:
    t = view.t
    return [
        severity_column(t),
        column(t, "raised_at", "raised_at", width=176),
        column(t, "stage", "stage", renderer="stage", width=84, cellClass="strong"),
        column(t, "owner", "owner", width=96),
        column(t, "case_target", "case_target", flex=1, minWidth=100, cellClass="strong"),
        column(t, "rule", "rule_name", flex=2, minWidth=120),
        column(t, "plate", "plate", width=112),
        column(t, "checkpoint", place_field(t), flex=2, minWidth=130),
        column(t, "kind", "kind", renderer="kind", width=76),
    ]


def _questions(view: View, case: str, bar: ui.element) -> None:
    """For whom who may read them; the page of questions has the other filters."""
    t = view.t
    words = json.dumps(t.group("question"), ensure_ascii=False)
    with bar:
        link(t("cases.all_questions"), "questions", case=case)
    paged_grid(
        t,
        [
            column(t, "asked_at", "at", width=190),
            column(t, "account", "account", width=120, cellClass="strong"),
            column(t, "question", "kind", width=120,
                   **{":valueFormatter": f"p => ({words})[p.value] ?? p.value"}),
            column(t, "subject", "subject_text", flex=3, minWidth=160),
            column(t, "reason_said", "reason", flex=2, minWidth=120),
        ],
        label=t("cases.questions"), id_field="id", height=LISTS_HEIGHT,
        **{":datasource": source("/api/questions", {"case": case})},
    )  # fmt: skip
