"""Sound and desktop notice of new alarms: a choice of each browser, off until somebody turns it on.

Never: a sound for each of many alarms: what comes together is told once.
"""

from __future__ import annotations

import json

from nicegui import ui

from monitor.console.layout import View
from monitor.console.live_updates import Update

KINDS = ("sound", "notice")
ICONS = {"sound": "volume_up", "notice": "notifications"}


class AlarmNotices:
    """Two buttons; what they say follows the browser's own memory."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._buttons = {kind: self._button(kind) for kind in KINDS}
        view.feed.subscribe(self._on_update)
        ui.timer(0.2, self._show, once=True)

    def _button(self, kind: str) -> ui.button:
        async def turn() -> None:
            await self._turn(kind)

        made = ui.button(self._view.t(f"alarm.{kind}_on"), icon=ICONS[kind], color=None)
        made.on_click(turn)
        return made.classes("header-button").props("aria-pressed=false")

    async def _turn(self, kind: str) -> None:
        try:
            found = await ui.run_javascript(f"databusAlarms.turn({json.dumps(kind)})", timeout=30)
        except TimeoutError:  # nobody has answered the browser's question
            return
        if found == "denied":
            ui.notify(self._view.t("alarm.notice_denied"), type="warning")
        else:
            self._mark(kind, is_on=found == "on")

    async def _show(self) -> None:
        try:
            found = await ui.run_javascript("databusAlarms.state()", timeout=10)
        except TimeoutError:  # the page was left
            return
        for kind in KINDS:
            self._mark(kind, is_on=bool(found[kind]))

    def _mark(self, kind: str, *, is_on: bool) -> None:
        button = self._buttons[kind]
        button.set_text(self._view.t(f"alarm.{kind}_{'off' if is_on else 'on'}"))
        button.props(f"aria-pressed={str(is_on).lower()}")

    def _on_update(self, update: Update) -> None:
        rows = update.alarms(self._view.t.language)
        if rows:
            ui.run_javascript(f"databusAlarms.tell({rows})")
