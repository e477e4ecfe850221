"""Lists that wait for an approval: whose they are and why, what they change, what may be done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nicegui import ui

from bus.contracts.list_proposals import ListProposal
from bus.domain.list_in_force import ListInForce
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
from monitor.console.pages.watch import NOT_IN_FORCE
from monitor.console.proposal_parts import VerdictForm, difference_heads, difference_row
from monitor.console.rows import Row
from monitor.live.command_sender import CommandRefused

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
                VerdictForm(
                    view, author=row["proposed_by"], name=row["list_id"],
                    no_right=t("lists.no_right"), settle=self._settle,
                )  # fmt: skip

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
            difference_heads(t, has_before=bool(before))
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
        said = [one or "–" for one in ((was, now) if has_before else (now,))]
        difference_row(name, *said, is_changed=has_before and was != now)

    def _text(self, part: str, said: Row) -> str:
        t, value = self._view.t, said[part]
        if part == "alarms":
            return t("lists.yes" if value else "lists.no")
        if part in ("severity", "tolerance"):
            return t(f"{part}.{value}")
        if part == "renewal_days":
            return t("lists.every_days", days=value) if value else ""
        return str(value)

    async def _settle(self, op: Verdict, reason: str) -> bool:
        view, t, row = self._view, self._view.t, self._row
        said = ListDecision(
            list_id=row["list_id"], text_sha256=row["text_sha256"],
            seen_version=row["seen_version"], reason=reason,
        )  # fmt: skip
        try:
            await view.services.commands.send(list_decision_command(op, said, view.principal))
        except NOT_IN_FORCE as error:
            code = error.code if isinstance(error, CommandRefused) else "not_decided"
            notify_fault(t("lists.failed", why=list_fault_text(code, t)), error)
            return False
        self._on_settled()
        return True
