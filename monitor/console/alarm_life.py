"""The life of one alarm on its page: stage, owner, since when, what was done, and the buttons that
its stage allows."""

from __future__ import annotations

import asyncio
from zoneinfo import ZoneInfo

from nicegui import ui

from bus.contracts.alarm_states import AlarmOp, AlarmRequest, AlarmState, AlarmStep
from bus.contracts.command_codes import ALREADY_TAKEN, STALE
from bus.domain.alarm_life import allowed_ops
from bus.domain.command_error import CommandError
from bus.notify.acknowledgements import AcknowledgementsUnavailable
from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.roles import ConsoleOperation
from monitor.api.alarm_life import AlarmConflict, ask
from monitor.api.pool import QueryUnavailable
from monitor.api.views import clock
from monitor.console.alarm_dialogs import ask_for
from monitor.console.elements import chip
from monitor.console.layout import View
from monitor.console.notices import notify_fault
from monitor.i18n import Texts
from monitor.live.command_sender import (
    CommandNotAcknowledged,
    CommandRefused,
    CommandUnanswered,
)

COLOURS = {"open": "critical", "taken": "warning", "assigned": "warning", "confirmed": "critical"}
FAULTS = (
    CommandError, AlarmConflict, QueryUnavailable, AcknowledgementsUnavailable, CommandRefused,
    CommandNotAcknowledged, CommandUnanswered,
)  # fmt: skip
OPS_BY_KEY: dict[str, AlarmOp] = {"take": "take", "confirm": "confirm", "false": "false"}
"""What a key may ask for."""
SAYS_BY_WHOM = frozenset({ALREADY_TAKEN, STALE})
"""Refusals whose words name who was first."""
JUDGING = frozenset({"confirm", "false", "close", "reopen"})
"""What is said of what the person sees: refused where somebody has changed it since."""


class AlarmLifecycle:
    """One alarm. Made within the element that is to hold it."""

    def __init__(self, view: View, state: AlarmState) -> None:
        self._view = view
        self._state = state
        self._asked_of: tuple[int, int] | None = None
        """The version that a request under way is about."""
        self._box = ui.element("div").classes("alarm-life")
        self._dialogs = ui.element("div")
        self._show()

    @property
    def alarm_id(self) -> str:
        """Whose life it is."""
        return self._state.alarm_id

    async def act(self, op: AlarmOp) -> None:
        """As the button does; nothing where the stage does not allow it, or one is under way. What
        was decided comes by the bus before its answer does: then the next may be asked for."""
        asked_of = self._state.version
        if self._asked_of == asked_of or op not in self._allowed():
            return
        self._asked_of = asked_of
        try:
            await self._act(op)
        finally:
            if self._asked_of == asked_of:
                self._asked_of = None

    def _allowed(self) -> tuple[AlarmOp, ...]:
        view, state = self._view, self._state
        if not view.may(ConsoleOperation.WATCH_WRITE):
            return ()
        return allowed_ops(state.stage, state.owner, view.principal.name)

    async def _act(self, op: AlarmOp) -> None:
        view, t, state = self._view, self._view.t, self._state
        with self._dialogs:  # which no later state clears
            said = await ask_for(t, op, await _account_names(view) if op == "assign" else [])
        if said is None:
            return
        fields: dict[str, object] = {**said}
        if op in JUDGING and state.n:
            fields["seen_version"] = state.n
        request = AlarmRequest(
            alarm_id=state.alarm_id, op=op, account=view.principal.name, **fields  # type: ignore[arg-type]
        )
        name = t(f"alarm_op.{op}")
        try:
            done = await ask(view.services, view.principal.viewer, request)
        except FAULTS as error:
            zone = view.services.site.tz
            why_not = t("alarm.failed", op=name, why=alarm_fault_text(error, t, zone))
            notify_fault(why_not, error)
            return
        text = t("alarm.taken_here" if done.outcome == "taken_here" else "alarm.done", op=name)
        ui.notify(text, type="positive")
        self.show(done.state)

    def show(self, state: AlarmState) -> None:
        """A later state of the same alarm; the store may be behind what came by the bus."""
        is_later = state.version >= self._state.version and state != self._state
        if state.alarm_id == self._state.alarm_id and is_later:
            self._state = state
            self._show()

    def _show(self) -> None:
        t, state, zone = self._view.t, self._state, self._view.services.site.tz
        self._box.clear()
        with self._box:
            with ui.element("div").classes("bar"):
                chip(t(f"stage.{state.stage}"), COLOURS.get(state.stage, "good"))
                ui.label(owner_text(state, t, zone)).classes("soft").props("role=status")
            with ui.element("div").classes("bar alarm-ops"):
                for op in self._allowed():
                    self._button(op)
            with ui.element("h2"):
                ui.label(t("alarm.life"))
            if not state.history:
                ui.label(t("alarm.no_history")).classes("soft small")
            with ui.element("ol").classes("alarm-history"):
                for step in state.history:
                    with ui.element("li"):
                        ui.label(step_text(step, t, zone))

    def _button(self, op: AlarmOp) -> None:
        async def clicked() -> None:
            await self.act(op)

        made = ui.button(self._view.t(f"alarm_op.{op}"), color=None, on_click=clicked)
        made.classes("header-button").props(f"data-op={op}")


async def _account_names(view: View) -> list[str]:
    try:
        accounts = await asyncio.to_thread(view.services.account_store.accounts)
    except AccountsUnavailable:
        return []
    return [one.name for one in accounts]


def owner_text(state: AlarmState, t: Texts, zone: ZoneInfo) -> str:
    """Who has it, since when."""
    if not state.owner:
        return t("alarm.nobody")
    if not state.in_hand_since_ms:
        return t("alarm.owner_since_unknown", who=state.owner)
    return t("alarm.owner", who=state.owner, since=clock(state.in_hand_since_ms, zone)[:19])


def step_text(step: AlarmStep, t: Texts, zone: ZoneInfo) -> str:
    """One thing that was done, in one line."""
    parts = [
        clock(step.at_ms, zone)[:19] if step.at_ms else "", step.by, t(f"alarm_op.{step.op}"),
        step.to, t.word("false_why", step.why) if step.why else "",
        t.word("alarm_result", step.result) if step.result else "", step.text, step.case,
        t("alarm.asked_at", time=clock(step.asked_at_ms, zone)[:19]) if _is_late(step) else "",
    ]  # fmt: skip
    return " · ".join(part for part in parts if part)


def _is_late(step: AlarmStep) -> bool:
    return step.op == "take" and step.asked_at_ms > 0 and step.at_ms - step.asked_at_ms > 5_000


def alarm_fault_text(error: Exception, t: Texts, zone: ZoneInfo) -> str:
    """Why a request about an alarm did not come through, in the language of the page."""
    if isinstance(error, AlarmConflict):
        return _by_whom(ALREADY_TAKEN, error.state.owner, error.state.in_hand_since_ms, t, zone)
    if isinstance(error, CommandRefused):
        answer = error.answer
        return _by_whom(answer.code, answer.changed_by, answer.changed_at_ms, t, zone)
    if isinstance(error, CommandError):
        return _reason(error.code, t)
    if isinstance(error, CommandUnanswered):
        return t("alarm.fault_unanswered")
    if isinstance(error, CommandNotAcknowledged):
        return t("alarm.fault_not_acknowledged")
    return t("alarm.fault_moment")


def _by_whom(code: str, who: str, at_ms: int, t: Texts, zone: ZoneInfo) -> str:
    if code in SAYS_BY_WHOM and who:
        return t(f"alarm.fault_{code}", who=who, when=clock(at_ms, zone)[:19] if at_ms else "–")
    return _reason(code, t)


def _reason(code: str, t: Texts) -> str:
    """A decider of a later version may have others."""
    key = f"alarm.fault_{code}"
    is_known = key in t.table and code not in SAYS_BY_WHOM
    return t(key if is_known else "alarm.fault_other")
