"""Taking an alarm or an incident in hand from a page: it escalates no more, and pages say who."""

from __future__ import annotations

import asyncio

from nicegui import ui

from bus.notify.acknowledgements import AcknowledgementsUnavailable
from bus.runtime.wall_clock import now_ms
from monitor.accounts.roles import ConsoleOperation
from monitor.console.layout import View
from monitor.console.notices import notify_fault


async def acknowledge(view: View, name: str) -> str:
    """In the name of who is logged in; who has it in hand now, empty where that failed."""
    t = view.t
    if not view.may(ConsoleOperation.WATCH_WRITE):
        ui.notify(t("watch.no_right"), type="negative")
        return ""
    try:
        who = await asyncio.to_thread(
            view.services.acknowledgements.add, name, view.principal.name, now_ms()
        )
    except AcknowledgementsUnavailable as error:
        notify_fault(t("acknowledge.failed"), error)
        return ""
    ui.notify(t("acknowledge.done", who=who), type="positive")
    return who


class AlarmInHand:
    """Who has an alarm in hand; a button for those who may while nobody has."""

    def __init__(self, view: View, alarm_id: str, who: str) -> None:
        self._view = view
        self._alarm_id = alarm_id
        self._label = ui.label().classes("soft")
        self._button = ui.button(view.t("acknowledge.do"), on_click=self._clicked)
        self._button.props("unelevated dense")
        self._show(who)

    async def _clicked(self) -> None:
        self._show(await acknowledge(self._view, self._alarm_id))

    def _show(self, who: str) -> None:
        view = self._view
        self._label.set_text(view.t("acknowledge.by", who=who) if who else "")
        self._button.set_visibility(not who and view.may(ConsoleOperation.WATCH_WRITE))
