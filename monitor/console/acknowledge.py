"""Taking an incident in hand from a page: it escalates no more, and pages say who. Alarms have more
of a life: `alarm_life`."""

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
