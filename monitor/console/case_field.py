"""The line that says what a person works on: reason and case, asked once and kept in the session.

Shown where questions name somebody, when the site asks for a reason. Who has said it sees the case
and may choose another one.
"""

from __future__ import annotations

from nicegui import ui

from bus.domain.policy import MAX_CASE_CHARACTERS, MAX_REASON_CHARACTERS
from monitor.api.asking import asker_of, choose_case
from monitor.api.pool import QueryUnavailable
from monitor.console.address_bar import Show, finish
from monitor.console.layout import View
from monitor.console.notices import FaultNotice, question_fault_text
from monitor.questions.question import Asker, ReasonMissing
from monitor.questions.question_log import QuestionsUnavailable
from monitor.questions.session_cases import SessionCase

UNANSWERED = (QueryUnavailable, ReasonMissing, QuestionsUnavailable)
"""Why a question that names somebody has no answer."""


def asker(view: View) -> Asker:
    """Who looks at the page, and what he works on now."""
    return asker_of(view.services, view.principal)


class CaseField:
    """One line of a page; nothing where the site asks for no reason."""

    def __init__(self, view: View, on_chosen: Show) -> None:
        self._view = view
        self._on_chosen = on_chosen
        self._line = ui.element("div").classes("bar").props("role=group")
        self._fault = FaultNotice()
        self._line.set_visibility(view.services.questions.policy.requires_reason)
        self._show()

    def show_fault(self, error: Exception | None) -> None:
        """Why the last question has no answer; None: it has one. The notice on top says it of a
        store that is away."""
        if error is None or isinstance(error, QueryUnavailable):
            self._fault.show("")
        else:
            self._fault.show(question_fault_text(error, self._view.t), str(error))

    def _show(self) -> None:
        t, said = self._view.t, asker(self._view)
        self._line.clear()
        with self._line:
            if said.reason and said.case:
                ui.label(t("case.present", case=said.case, reason=said.reason)).classes("soft")
                ui.button(t("case.change"), color=None, on_click=self._ask).classes("header-button")
            else:
                self._fill_in(said)

    def _fill_in(self, said: Asker) -> None:
        t = self._view.t
        ui.label(t("case.needed")).classes("notice")
        self._case = ui.input(t("case.number"), value=said.case).style("width: 170px")
        self._reason = ui.input(t("case.reason"), value=said.reason).style("width: 300px")
        for field, most in (
            (self._case, MAX_CASE_CHARACTERS), (self._reason, MAX_REASON_CHARACTERS),
        ):  # fmt: skip
            field.props(f"outlined dense maxlength={most}")
            field.on("keydown.enter", self._choose)
        ui.button(t("case.choose"), on_click=self._choose).props("unelevated dense")

    def _ask(self) -> None:
        self._line.clear()
        with self._line:
            self._fill_in(asker(self._view))

    async def _choose(self) -> None:
        chosen = SessionCase(self._reason.value or "", self._case.value or "")
        try:
            choose_case(self._view.services, self._view.principal, chosen)
        except ReasonMissing as error:
            self.show_fault(error)
            return
        self.show_fault(None)
        self._show()
        await finish(self._on_chosen())
