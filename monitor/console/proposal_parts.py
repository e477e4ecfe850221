"""What cards of proposals have in common: rows of differences, and what may be done with one.

In: a proposal's author, and how its verdict is sent. Out: buttons for who looks. Never: a verdict
of somebody whose right was taken away while the page was open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from nicegui import ui

from monitor.accounts.roles import ConsoleOperation
from monitor.api.proposals import VERDICT_NEEDS, Verdict
from monitor.console.layout import View
from monitor.i18n import Texts

_SAID: dict[Verdict, str] = {
    "approve": "proposals.approved", "reject": "proposals.rejected",
    "withdraw": "proposals.withdrawn",
}  # fmt: skip


class VerdictForm:
    """An author withdraws; who has the role approves or rejects, with a reason."""

    def __init__(
        self, view: View, *, author: str, name: str, no_right: str,
        settle: Callable[[Verdict, str], Awaitable[bool]],
    ) -> None:  # fmt: skip
        """`name`: of what is proposed; `no_right`: what somebody is told who may not; `settle`
        sends a verdict with its reason, and says whether it is in force."""
        self._view, self._name, self._no_right, self._settle = view, name, no_right, settle
        self._reason: ui.input | None = None
        t = view.t
        if author.casefold() == view.principal.name.casefold():
            ui.label(t("proposals.own")).classes("soft")
            ui.button(t("proposals.withdraw"), color=None, on_click=partial(self._say, "withdraw"))
        elif view.may(ConsoleOperation.WATCH_APPROVE):
            self._reason = ui.input(t("proposals.reason")).props("outlined dense maxlength=500")
            ui.button(t("proposals.approve"), on_click=partial(self._say, "approve")).props(
                "unelevated"
            )
            ui.button(
                t("proposals.reject"), color="negative", on_click=partial(self._say, "reject")
            ).props("unelevated")

    async def _say(self, op: Verdict) -> None:
        if not self._view.may(VERDICT_NEEDS[op]):
            ui.notify(self._no_right, type="negative")
            return
        reason = "" if self._reason is None else (self._reason.value or "").strip()
        if await self._settle(op, reason):
            ui.notify(self._view.t(_SAID[op], name=self._name), type="positive")


def difference_heads(t: Texts, *, has_before: bool) -> None:
    """The first row of a table of differences."""
    with ui.element("tr"):
        for word in ("part", *(["before"] if has_before else []), "after"):
            with ui.element("th"):
                ui.label(t(f"proposals.{word}"))


def difference_row(*cells: str, is_changed: bool) -> None:
    """The name of a part, what it said before where something is in force, what it is to say."""
    with ui.element("tr").classes("changed" if is_changed else ""):
        for text in cells:
            with ui.element("td"):
                ui.label(text)
