"""The way to a package of evidence: a file that the browser saves."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from nicegui import ui

from monitor.accounts.roles import ConsoleOperation
from monitor.console.layout import View


def alarm_evidence_link(view: View, alarm_id: str) -> None:
    """Of an alarm."""
    _link(view, f"alarms/{quote(alarm_id, safe='')}", {})


def record_evidence_link(view: View, **question: str) -> None:
    """Of one record, or of a plate in a time: as the API asks."""
    _link(view, "records", {name: text for name, text in question.items() if text})


def _link(view: View, path: str, question: dict[str, str]) -> None:
    """For those who may take records out of the house."""
    if view.may(ConsoleOperation.EXPORT):
        words = urlencode(question | {"language": view.t.language})
        target = f"/api/evidence/{path}?{words}"
        ui.link(view.t("evidence.link"), target).classes("header-button").props("download")
