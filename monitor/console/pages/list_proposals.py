"""Lists that wait for an approval: whose they are and why, what they change, what may be done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from nicegui import ui

from bus.contracts.list_proposals import ListProposal
from bus.domain.list_in_force import ListInForce
from monitor.accounts.roles import ConsoleOperation
from monitor.api.list_proposals import (
    LIST_PARTS,
    ListDecision,
    list_decision_command,
    list_proposal_row,
)
from monitor.api.proposals import Verdict
from monitor.console.elements import panel
from monitor.console.layout import View
from monitor.console.notices import list_fault_text, notify_fault
from monitor.console.rows import Row
from monitor.live.command_sender import (
    CommandNotAcknowledged,
    CommandRefused,
    CommandUnanswered,
)

_WORDS = {
    "name": "column.name", "owner": "column.list_owner", "source": "column.list_source",
    "legal_ground": "column.legal_ground", "date": "column.list_date",
    "severity": "column.severity", "tolerance": "column.tolerance", "alarms": "column.alarms",
    "renewal_days": "column.renewal",
}  # fmt: skip


class WaitingLists:
    """A card each, oldest first; nothing where nothing waits. What a person is writing stays while
    the same proposals wait."""

    def __init__(self, view: View, on_settled: Callable[[], None]) -> None:
        self._view, self._on_settled = view, on_settled
        self._drawn: list[tuple[str, int]] | None = None
        self._place = ui.element("div").classes("list-proposals")

    def show(
        self, waiting: Sequence[ListProposal], in_force: Mapping[str, ListInForce]
    ) -> None:
        """As they are now."""
        zone = self._view.services.site.tz
        rows = [list_proposal_row(one, in_force, zone) for one in waiting]
        shown = [(str(row["text_sha256"]), int(row["seen_version"])) for row in rows]
        if shown == self._drawn:
            return
        self._drawn = shown
        self._place.clear()
        if not rows:
            return
        with self._place, panel(self._view.t("lists.waiting")):
            for row in rows:
                ListProposalCard(self._view, row, self._on_settled)


class ListProposalCard:
    """One proposal beside the list in force."""

    def __init__(self, view: View, row: Row, on_settled: Callable[[], None]) -> None:
        self._view, self._row, self._on_settled = view, row, on_settled
        t = view.t
        with ui.element("section").classes("panel proposal"):
            with ui.element("h3"):
                what = "change" if row["op"] == "change" else "lines" if row["in_force"] else "new"
                ui.label(f"{row['list_id']} · {t(f'lists.proposed_{what}')}")
            by = t("proposals.by", who=row["proposed_by"], when=row["proposed_at"][:16])
            ui.label(f"{by} · {t('lists.ends', when=row['ends_at'][:10])}").classes("soft")
            if row["reason"] or row["case"]:
                ui.label(t("proposals.why", reason=row["reason"], case=row["case"]))
            if row["op"] == "change":
                self._lines("put")
                self._lines("removed")
            else:
                self._differences()
            with ui.element("div").classes("bar"):
                self._buttons()

    def _lines(self, way: str) -> None:
        t, row = self._view.t, self._row
        if row[f"{way}_count"]:
            more = "…" if row[f"{way}_count"] > len(row[way]) else ""
            text = t("list.comma").join(row[way]) + more
            ui.label(t(f"lists.change_{way}", count=row[f"{way}_count"], lines=text))

    def _differences(self) -> None:
        """What it says; of a list in force also what that says."""
        t, row, before = self._view.t, self._row, self._row["in_force"]
        with ui.element("table").classes("differences"):
            with ui.element("tr"):
                for word in ("part", *(["before"] if before else []), "after"):
                    with ui.element("th"):
                        ui.label(t(f"proposals.{word}"))
            after = t("lists.lines_removed", lines=f"{row['lines']:,}",
                      removed=f"{row['removed_lines']:,}")  # fmt: skip
            self._row_of(t("column.list_lines"), f"{before['lines']:,}" if before else "", after)
            for part in LIST_PARTS:
                was = self._text(part, before) if before else ""
                now = self._text(part, row["text"])
                if was or now:
                    self._row_of(t(_WORDS[part]), was, now)

    def _row_of(self, name: str, was: str, now: str) -> None:
        has_before = bool(self._row["in_force"])
        is_changed = has_before and was != now
        with ui.element("tr").classes("changed" if is_changed else ""):
            for text in (name, *([was or "–"] if has_before else []), now or "–"):
                with ui.element("td"):
                    ui.label(text)

    def _text(self, part: str, said: Row) -> str:
        t, value = self._view.t, said[part]
        if part == "alarms":
            return t("lists.yes" if value else "lists.no")
        if part in ("severity", "tolerance"):
            return t(f"{part}.{value}")
        if part == "renewal_days":
            return t("lists.every_days", days=value) if value else ""
        return str(value)

    def _buttons(self) -> None:
        view, t = self._view, self._view.t
        is_own = self._row["proposed_by"].casefold() == view.principal.name.casefold()
        if is_own:
            ui.label(t("proposals.own")).classes("soft")
            ui.button(t("proposals.withdraw"), color=None, on_click=partial(self._say, "withdraw"))
        elif view.may(ConsoleOperation.WATCH_APPROVE):
            self._reason = ui.input(t("proposals.reason")).props("outlined dense maxlength=500")
            approve = ui.button(t("proposals.approve"), on_click=partial(self._say, "approve"))
            approve.props("unelevated")
            reject = ui.button(
                t("proposals.reject"), color="negative", on_click=partial(self._say, "reject")
            )
            reject.props("unelevated")

    async def _say(self, op: Verdict) -> None:
        view, t, row = self._view, self._view.t, self._row
        needed = (
            ConsoleOperation.WATCH_WRITE if op == "withdraw" else ConsoleOperation.WATCH_APPROVE
        )
        if not view.may(needed):
            ui.notify(t("lists.no_right"), type="negative")
            return
        said = ListDecision(
            list_id=row["list_id"], text_sha256=row["text_sha256"],
            seen_version=row["seen_version"],
            reason="" if op == "withdraw" else (self._reason.value or "").strip(),
        )  # fmt: skip
        try:
            await view.services.commands.send(list_decision_command(op, said, view.principal))
        except (CommandRefused, CommandNotAcknowledged, CommandUnanswered) as error:
            code = error.code if isinstance(error, CommandRefused) else "not_decided"
            notify_fault(t("lists.failed", why=list_fault_text(code, t)), error)
            return
        ui.notify(t(_SAID[op], name=row["list_id"]), type="positive")
        self._on_settled()


_SAID: dict[Verdict, str] = {
    "approve": "proposals.approved", "reject": "proposals.rejected",
    "withdraw": "proposals.withdrawn",
}  # fmt: skip
