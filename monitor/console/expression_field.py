"""The field of a rule's form in which a tree is written as a text: its error under it, and what was
understood."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui

from bus.contracts.commands import USUAL_KIND, MatchedKind, WatchCommand
from bus.contracts.expressions import Disjunction, Expression
from bus.domain.expressions.marked import marked
from bus.domain.expressions.parse import parse
from bus.domain.expressions.tree import ExpressionError
from bus.domain.matchable import MATCHABLE
from bus.domain.rule_check import RuleError, parsed_where
from bus.domain.rule_demand import demand_of
from monitor.console.layout import View
from monitor.console.notices import FaultNotice
from monitor.console.tree_words import tree_lines, with_device_values

MAX_LINES = 200  # of what was understood; a person reads no more


class ExpressionField:
    """Reads what is typed and says at once what it means."""

    def __init__(self, view: View, on_change: Callable[[], None]) -> None:
        self._view, t = view, view.t
        self._on_change = on_change
        self._kind: MatchedKind = USUAL_KIND
        self._field = (
            ui.textarea(t("watch.where"), placeholder=t("watch.where_hint"))
            .props("outlined dense autogrow debounce=300 spellcheck=false")
            .style("width: 100%; font-family: monospace")
        )
        self._fault = FaultNotice()
        self._about = ui.element("div").props("role=status").style("width: 100%")
        self._field.on_value_change(self._refresh)

    def set_kind(self, kind: MatchedKind) -> None:
        """Of data; its attributes may be named."""
        self._kind = kind
        self._refresh()

    @property
    def text(self) -> str:
        """As it is typed, in one line."""
        return " ".join((self._field.value or "").split())

    def add(self, condition: str) -> None:
        """Beside what is typed: both have to hold."""
        before = (self._field.value or "").strip()
        if not before:
            self._field.set_value(condition)
            return
        try:
            is_choice = isinstance(parse(before, self._kind), Disjunction)
        except ExpressionError:
            is_choice = False
        before = f"({before})" if is_choice else before
        self._field.set_value(f"{before} and {condition}")

    def set_text(self, text: str) -> None:
        """In the place of what is typed."""
        self._field.set_value(text)

    def clear(self) -> None:
        """As at the beginning."""
        self._field.set_value("")

    def tree(self) -> Expression | None:
        """What is typed; None where that is nothing. Raises `RuleError`."""
        zone = self._view.services.site.zone
        tree = parsed_where(self._kind, self._field.value or "", zone)
        return with_device_values(tree) if tree is not None else None

    def tree_or_none(self) -> Expression | None:
        """What is typed, as far as it can be read."""
        try:
            return self.tree()
        except RuleError:
            return None

    def _refresh(self) -> None:
        t = self._view.t
        self._about.clear()
        self._fault.show("")
        self._on_change()
        try:
            tree = self.tree()
        except RuleError as error:
            fault = t(f"watch.fault_{error.code}")
            self._fault.show(t("watch.at", column=error.column, fault=fault), str(error))
            self._show_place(error.column)
            return
        if tree is not None:
            with self._about:
                self._show_tree(tree)

    def _show_place(self, column: int) -> None:
        t, names = self._view.t, ", ".join(MATCHABLE[self._kind])
        with self._about:
            place = ui.label(marked(self._field.value or "", column)).props("aria-hidden=true")
            place.style("white-space: pre; font-family: monospace")
            ui.label(t("watch.where_help", names=names)).classes("soft")

    def _show_tree(self, tree: Expression) -> None:
        t = self._view.t
        ui.label(t("watch.understood")).classes("soft")
        with ui.element("ul").style("margin: 0; padding: 0; list-style: none"):
            for depth, words in tree_lines(tree, t)[:MAX_LINES]:
                with ui.element("li").style(f"padding-left: {depth * 20}px"):
                    ui.label(words)
        alone = WatchCommand(rule_id="", op="put", version=0, kind=self._kind, where=tree)
        if demand_of(alone).unindexed:
            ui.label(t("watch.unindexed")).classes("notice")
