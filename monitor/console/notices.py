"""What a page says of a fault: a sentence in the page's language, and apart from it what a library
or another process said of it, in its own words.

So that a Chinese sentence has no English in its middle, and what one has to hand on is not lost.
"""

from __future__ import annotations

from zoneinfo import ZoneInfo

import msgspec
from nicegui import ui

from bus.contracts.command_codes import STALE
from bus.domain.rule_check import RuleError
from monitor.api.pool import QueryUnavailable
from monitor.api.views import clock
from monitor.i18n import Texts
from monitor.live.command_sender import (
    CommandNotAcknowledged,
    CommandRefused,
    CommandUnanswered,
)
from monitor.questions.question import ReasonMissing

UTC = ZoneInfo("UTC")


class FaultNotice:
    """One place of a page; not there while there is nothing to say."""

    def __init__(self, classes: str = "notice", role: str = "status") -> None:
        with ui.element("div").classes(classes).props(f"role={role}") as self._box:
            self._sentence = ui.label()
            self._detail = ui.label().classes("fault-detail").props("lang=en")
        self.show("")

    def show(self, sentence: str, detail: str = "") -> None:
        """An empty sentence takes it away."""
        self._sentence.set_text(sentence)
        self._detail.set_text(detail)
        self._detail.set_visibility(bool(detail))
        self._box.set_visibility(bool(sentence))


def notify_fault(sentence: str, detail: object) -> None:
    """The same for what a person has just done."""
    ui.notify(sentence, caption=str(detail), type="negative")


def rule_fault_text(error: Exception, t: Texts, zone: ZoneInfo = UTC) -> str:
    """Why a rule is not put, in the language of the page; times are of `zone`."""
    if isinstance(error, CommandRefused) and error.code == STALE:
        when = clock(error.answer.changed_at_ms, zone)[:16]
        return t("watch.fault_stale", who=error.answer.changed_by, when=when)
    if isinstance(error, CommandRefused) and not error.field:
        return _reason(error.code, t)
    if isinstance(error, RuleError | CommandRefused):
        field = t.table.get(f"watch.{error.field}", t.word("attribute", error.field))
        return f"{field}: {_reason(error.code, t)}"
    if isinstance(error, CommandNotAcknowledged):
        return t("watch.fault_not_acknowledged")
    if isinstance(error, CommandUnanswered):
        return t("watch.fault_unanswered")
    is_form = isinstance(error, msgspec.ValidationError)
    return t("watch.fault_form" if is_form else "watch.fault_moment")


def list_fault_text(code: str, t: Texts) -> str:
    """Why a list is not as was asked, in the language of the page; a decider of a later version may
    have other reasons."""
    for key in (f"lists.fault_{code}", f"watch.fault_{code}"):
        if key in t.table:
            return t(key)
    return t("lists.fault")


def question_fault_text(error: Exception, t: Texts) -> str:
    """Why a question that names somebody is not answered, in the language of the page."""
    if isinstance(error, QueryUnavailable):
        return t("detail.unavailable")
    if isinstance(error, ReasonMissing):
        return t(f"case.fault_{error.code}")
    return t("case.fault_not_kept")


def _reason(code: str, t: Texts) -> str:
    """A decider of a later version may have others."""
    key = f"watch.fault_{code}"
    return t(key if key in t.table else "watch.fault_form")
