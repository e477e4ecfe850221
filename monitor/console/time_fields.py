"""Fields for a day and for a moment, always written year first.

The value is ISO (`2026-11-22`, `2026-11-22 08:05`); the calendar has the language of the page. The
browser's own date field is not used: it orders day and month by the browser's language.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import date
from zoneinfo import ZoneInfo

from nicegui import ui

from bus.runtime.wall_clock import now_ms
from monitor.console.address import is_day, is_moment
from monitor.console.days import DAYS_BACK, day_before
from monitor.i18n import Texts

DAY_MASK, MOMENT_MASK = "YYYY-MM-DD", "YYYY-MM-DD HH:mm"


def day_field(t: Texts, label: str, value: str = "") -> ui.input:
    """A day."""
    rule = {t("date.wrong_day"): lambda text: is_day(text or "")}
    field = ui.input(label, value=value, validation=rule)
    field.props('outlined dense stack-label hide-bottom-space mask="####-##-##"')
    field.props(f'placeholder="{t("date.day")}"')
    _calendar(t, field, DAY_MASK)
    return field.style("width: 160px")


def moment_field(t: Texts, label: str, value: str = "") -> ui.input:
    """A moment of the site's clock, to the minute."""
    rule = {t("date.wrong_moment"): lambda text: is_moment(text or "")}
    field = ui.input(label, value=value, validation=rule)
    field.props("outlined dense stack-label hide-bottom-space")
    field.props(f'placeholder="{t("date.moment")}"')
    _calendar(t, field, MOMENT_MASK)
    return field.style("width: 196px")


def day_buttons(t: Texts, zone: ZoneInfo, choose: Callable[[date], Awaitable[object]]) -> None:
    """A button for today and one for yesterday, by the site's calendar at the moment of the
    click."""
    for name, days in DAYS_BACK.items():
        ui.button(
            t(f"date.{name}"),
            color=None,
            on_click=lambda days=days: choose(day_before(now_ms(), zone, days)),
        ).classes("header-button")


def _calendar(t: Texts, field: ui.input, mask: str) -> None:
    names = {"days": "days", "daysShort": "short_days", "months": "months",
             "monthsShort": "short_months"}  # fmt: skip
    locale = {key: t(f"date.{name}").split("_") for key, name in names.items()}
    words = json.dumps({**locale, "firstDayOfWeek": 1}, ensure_ascii=False)
    with field:
        with ui.menu().props("no-parent-event no-focus") as menu, ui.element("div").classes("bar"):
            calendar = ui.date(mask=mask).bind_value(field).props("minimal")
            calendar.props[":locale"] = words
            if mask == MOMENT_MASK:
                ui.time(mask=mask).bind_value(field).props("format24h")
        with field.add_slot("append"):
            button = ui.button(icon="event", color=None, on_click=menu.open)
            button.props(f'flat round dense aria-label="{t("date.calendar")}"')
