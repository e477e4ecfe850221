"""What waits for an approval: whose it is and why, what it changes, what may be done with it."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from bus.contracts.commands import WatchCommand
from bus.domain.rule_check import RuleError
from bus.runtime.wall_clock import now_ms
from monitor.accounts.roles import ConsoleOperation
from monitor.api.pool import QueryUnavailable
from monitor.api.proposals import MAX_ROWS, ProposalDecision, Verdict, proposal_row, verdict_command
from monitor.console.case_field import CaseField
from monitor.console.elements import panel
from monitor.console.layout import View
from monitor.console.live_updates import Update
from monitor.console.notices import FaultNotice, notify_fault, rule_fault_text
from monitor.console.pages.list_proposals import WaitingLists
from monitor.console.pages.watch import NOT_IN_FORCE
from monitor.console.pages.watch_preview import RulePreview
from monitor.console.proposal_parts import VerdictForm, difference_heads, difference_row
from monitor.console.rows import Row, match_text

STALE_SECONDS = 0.5  # between two looks: many may come at once
LISTS_SECONDS = 5.0
_PARTS = (
    "name", "kind", "severity", "match", "where_text", "valid_from", "valid_until", "note",
    "visible_to", "target",
)  # fmt: skip
_WORDS = {
    "name": "watch.name", "kind": "watch.kind", "severity": "watch.severity",
    "match": "column.match", "where_text": "watch.where", "valid_from": "proposals.from",
    "valid_until": "watch.until", "note": "watch.note", "visible_to": "watch.visible_to",
    "target": "watch.target",
}  # fmt: skip


def build(view: View) -> None:
    """The page."""
    if not view.services.questions.policy.requires_approval:
        ui.label(view.t("proposals.no_policy")).classes("notice")
    if _may_preview(view):
        CaseField(view, lambda: None)
    ProposalList(view)
    ListProposals(view)


def _may_preview(view: View) -> bool:
    """Whether this person may see what a rule would have hit."""
    return view.may(ConsoleOperation.WATCH_WRITE) or view.may(ConsoleOperation.WATCH_APPROVE)


class ProposalList:
    """Oldest first, a card each; drawn again when something was proposed or settled."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._is_stale = False
        self._drawn: list[tuple[str, int]] | None = None
        with panel(view.t("proposals.waiting"), "rest"):
            self._cards = ui.element("div").classes("proposals")
        view.feed.subscribe(self._on_update)
        ui.timer(STALE_SECONDS, self._refresh_stale)
        self._refresh()

    def _on_update(self, update: Update) -> None:
        self._is_stale |= update.delta.rules_changed

    def _refresh_stale(self) -> None:
        if self._is_stale:
            self._is_stale = False
            self._refresh()

    def _refresh(self) -> None:
        """What a person is writing stays while the same proposals wait."""
        t, waiting = self._view.t, self._view.live.waiting()
        view, shown_first = self._view, waiting[:MAX_ROWS]
        rows = [proposal_row(view.services, view.live, one) for one in shown_first]
        shown = [(str(row["text_sha256"]), int(row["seen_version"])) for row in rows]
        if shown == self._drawn:
            return
        self._drawn = shown
        self._cards.clear()
        with self._cards:
            if not rows:
                ui.label(t("proposals.none")).classes("soft")
            for row, proposal in zip(rows, waiting, strict=False):
                ProposalCard(self._view, row, proposal.text)
            if len(waiting) > len(rows):
                ui.label(t("proposals.more", count=len(waiting) - len(rows))).classes("soft")


class ListProposals:
    """Lists that wait, as the page of lists shows them: the number in the navigation counts them,
    too."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._notice = FaultNotice()
        self._waiting = WaitingLists(view, self._load_soon)
        ui.timer(LISTS_SECONDS, self._load)

    def _load_soon(self) -> None:
        ui.timer(0.1, self._load, once=True)

    async def _load(self) -> None:
        """What is in force is asked for only where something waits."""
        run = self._view.services.lists.run
        try:
            waiting = await run(lambda reader: reader.proposals(now_ms()))
            found = await run(lambda reader: reader.lists(now_ms())) if waiting else ()
        except QueryUnavailable as error:
            self._notice.show(self._view.t("lists.unavailable"), str(error))
            return
        self._notice.show("")
        self._waiting.show(waiting, {one.record.list_id: one for one in found})


class ProposalCard:
    """One proposal beside the text in force."""

    def __init__(self, view: View, row: Row, text: WatchCommand) -> None:
        self._view, self._row = view, row
        t = view.t
        with ui.element("section").classes("panel proposal"):
            with ui.element("h3"):
                what = t("proposals.change" if row["in_force"] else "proposals.new")
                ui.label(f"{row['name']} · {what}")
            by = t("proposals.by", who=row["proposed_by"], when=row["proposed_at"][:16])
            ui.label(by).classes("soft")
            if row["reason"] or row["case"]:
                ui.label(t("proposals.why", reason=row["reason"], case=row["case"]))
            self._differences()
            self._preview = RulePreview(view)
            with ui.element("div").classes("bar"):
                self._buttons(text)

    def _differences(self) -> None:
        """What the text says; of a change also what it said before."""
        t, row, before = self._view.t, self._row, self._row["in_force"]
        with ui.element("table").classes("differences"):
            difference_heads(t, has_before=bool(before))
            for part in _PARTS:
                if not (row[part] or (before and before[part])):
                    continue
                said = [self._text(part, one) for one in (before, row) if one]
                difference_row(t(_WORDS[part]), *said, is_changed=part in row["changes"])

    def _text(self, part: str, row: Row) -> str:
        t = self._view.t
        if part == "match":
            return match_text(row["match"], t)
        if part == "visible_to":
            return ", ".join(row[part]) or "–"
        if part in ("kind", "severity"):
            return t.word(part, row[part])
        return str(row[part] or "–")

    def _buttons(self, text: WatchCommand) -> None:
        view, t, row = self._view, self._view.t, self._row
        if _may_preview(view):
            ui.button(
                t("watch.preview"), color=None, icon="history",
                on_click=partial(self._preview.show, text),
            ).classes("header-button")  # fmt: skip
        VerdictForm(
            view, author=row["proposed_by"], name=row["name"], no_right=t("watch.no_right"),
            settle=self._settle,
        )  # fmt: skip

    async def _settle(self, op: Verdict, reason: str) -> bool:
        view, t, row = self._view, self._view.t, self._row
        verdict = ProposalDecision(
            rule_id=row["rule_id"], text_sha256=row["text_sha256"],
            seen_version=row["seen_version"], reason=reason,
        )  # fmt: skip
        try:
            await view.services.send_rule(verdict_command(op, verdict, view.principal))
        except (RuleError, *NOT_IN_FORCE) as error:
            zone = view.services.site.tz
            notify_fault(t("watch.failed", why=rule_fault_text(error, t, zone)), error)
            return False
        return True
