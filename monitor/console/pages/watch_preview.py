"""What a rule would have hit in the last week, before it is put: day by day, newest first, with a
button that stops it. Counts and places only."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import date
from itertools import count

import msgspec
from nicegui import ui

from bus.contracts.commands import WatchCommand
from bus.domain.rule_preview import PreviewPiece, PreviewTotals, days_back
from bus.runtime.wall_clock import now_ms
from monitor.api.preview import preview
from monitor.console.case_field import UNANSWERED, asker
from monitor.console.layout import View
from monitor.console.notices import FaultNotice, question_fault_text

DAYS = 7
MOST_READ = 500_000
"""Records that one preview looks at, in some ten seconds: of a rule that no index serves the newest
ones; more would keep the store busy for a question of one person."""
MOST_PLACES = 5


class RulePreview:
    """One at a time per page; a new one ends the one before."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._area = ui.element("div").classes("preview")
        self._runs = count(1)
        self._running = 0

    async def show(self, rule: WatchCommand) -> None:
        """Raises `RuleError`; why the store does not answer is shown."""
        self._running = mine = next(self._runs)
        shown = _PreviewRows(self._view, self._area, self.stop)
        try:
            async with aclosing(self._pieces(rule)) as pieces:
                async for day, piece in pieces:
                    if mine != self._running:
                        return
                    shown.add(day, piece)
                    if shown.totals.read >= MOST_READ:
                        shown.end(day)
                        return
        except UNANSWERED as error:
            shown.end_here()
            shown.fault.show(question_fault_text(error, self._view.t), str(error))
        else:
            shown.end()

    async def _pieces(self, rule: WatchCommand) -> AsyncGenerator[tuple[date, PreviewPiece], None]:
        services = self._view.services
        for day, asked in days_back(now_ms(), services.site.tz, DAYS):
            piece = await preview(services, asker(self._view), rule, asked)
            yield day, piece
            while piece.cursor:
                following = msgspec.structs.replace(asked, cursor=piece.cursor)
                piece = await preview(services, asker(self._view), rule, following)
                yield day, piece

    def stop(self) -> None:
        """What was found by now stays."""
        self._running = 0

    def clear(self) -> None:
        """What is filled in is another rule now."""
        self.stop()
        self._area.clear()


class _PreviewRows:
    """What stands there of one preview."""

    def __init__(self, view: View, area: ui.element, on_stop: Callable[[], None]) -> None:
        self.totals = PreviewTotals()
        self._view = view
        self._rows: dict[date, tuple[ui.element, ui.label]] = {}
        area.clear()
        with area:
            with ui.element("div").classes("bar").props("role=status"):
                self._state = ui.label(view.t("watch.preview_begun"))
                self._stop = ui.button(view.t("watch.preview_stop"), color=None)
                self._stop.classes("header-button").on_click(lambda: self._stopped(on_stop))
            self.fault = FaultNotice()
            self._table = ui.element("div").classes("preview-days")
            self._where = ui.label().classes("soft")

    def add(self, day: date, piece: PreviewPiece) -> None:
        """A piece of a day."""
        self.totals.add(day, piece)
        if day not in self._rows:
            self._rows[day] = self._row(day)
        most = max(self.totals.days.values())
        for shown, (bar, label) in self._rows.items():
            bar.style(f"width: {100 * self.totals.days[shown] / most if most else 0:.1f}%")
            label.set_text(f"{self.totals.days[shown]:,}")
        self._state.set_text(self._view.t("watch.preview_read", **self._totals()))

    def end(self, last: date | None = None) -> None:
        """All was looked at, or what came since that day."""
        t = self._view.t
        text = t("watch.preview_done", **self._totals())
        if last is not None:
            text = t("watch.preview_limit", day=last, **self._totals())
        self._state.set_text(text)
        self._stop.delete()
        known = self._view.services.register.read().checkpoint_by_id
        self._where.set_text(", ".join(
            f"{known[place].name if place in known else place} ({hits:,})"
            for place, hits in self.totals.places.most_common(MOST_PLACES)
        ))  # fmt: skip

    def end_here(self) -> None:
        """Nothing more is asked; what was found by now stays."""
        self._stop.delete()

    def _stopped(self, on_stop: Callable[[], None]) -> None:
        on_stop()
        self.end(min(self._rows, default=None))

    def _row(self, day: date) -> tuple[ui.element, ui.label]:
        with self._table:
            ui.label(f"{day}").classes("mono")
            with ui.element("div").classes("preview-bar"):
                bar = ui.element("div")
            return bar, ui.label("0").classes("num")

    def _totals(self) -> dict[str, object]:
        return {
            "hits": f"{self.totals.days.total():,}",
            "places": f"{len(self.totals.places):,}",
            "read": f"{self.totals.read:,}",
        }
