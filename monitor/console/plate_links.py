"""From a plate that was seen to where it went and to a rule for it, whether a rule knows it or
not."""

from __future__ import annotations

from typing import get_args

from nicegui import ui

from bus.contracts.commands import MatchedKind, WatchCommand
from bus.domain.kinds import KIND_AS_STORED
from bus.domain.matchable import MATCHABLE
from bus.domain.plates import is_doubtful, is_whole, plate_form
from bus.domain.rule_check import RuleError, check_rule
from bus.domain.rule_values import PLATE
from bus.runtime.wall_clock import now_ms
from monitor.accounts.roles import ConsoleOperation
from monitor.console.elements import chip, link
from monitor.console.layout import View
from monitor.console.notices import rule_fault_text
from monitor.i18n import Texts


def rule_fault(plate: str, kind: MatchedKind) -> RuleError | None:
    """Why no rule can ask for this plate; the same answer as when it is put."""
    command = WatchCommand(
        rule_id="", op="put", version=0, name=plate, match={PLATE: [plate]}, kind=kind
    )
    try:
        check_rule(command, now_ms())
    except RuleError as error:
        return error
    return None


def reading_text(form: str, t: Texts) -> str:
    """What is not certain of a plate; empty for one that was read whole."""
    if is_doubtful(form):
        return t("detail.doubtful_plate")
    return "" if is_whole(form) else t("plate.partly_read")


def reading_chip(form: str, t: Texts) -> None:
    """The same as a mark."""
    if text := reading_text(form, t):
        chip(text, "warning").style("white-space: normal")


def plate_links(view: View, written: str, stored_kind: str) -> None:
    """The plate's way, and the form of a rule for it, filled in, for who may put one. None of a
    text that names no plate."""
    form = plate_form(written)
    if not form:
        return
    link(view.t("plate.trajectory"), "map", plate=form)
    kind = KIND_AS_STORED.get(stored_kind, stored_kind)
    for matched in get_args(MatchedKind):
        if matched == kind and PLATE in MATCHABLE[kind]:
            watch_link(view, form, matched)


def watch_link(view: View, form: str, kind: MatchedKind) -> None:
    """Or why no rule can ask for this plate."""
    if not view.may(ConsoleOperation.WATCH_WRITE):
        return
    fault = rule_fault(form, kind)
    if fault is None:
        link(view.t("plate.watch"), "watch", plate=form, kind=kind)
        return
    ui.label(view.t("plate.not_watched", why=rule_fault_text(fault, view.t))).classes("soft small")
