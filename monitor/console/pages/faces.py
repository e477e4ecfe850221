"""Stored faces that resemble the one of a record, or of a gallery's entry: newest records first,
with a button that stops it; what was found by now stands there, best first. Whose face and which
time stand in the address.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import date
from functools import partial
from itertools import count

import msgspec
from nicegui import ui

from bus.domain.command_error import CommandError
from bus.domain.face_search import BestFaces, FaceQuestion
from ingest.store.port import RecordRow
from monitor.api.face_search import (
    MOST_READ,
    FaceSubject,
    face_pieces,
    face_question,
    hit_rows,
    stored_record,
)
from monitor.api.views import clock, parse_time, record_row
from monitor.console.address import is_number
from monitor.console.address_bar import finish
from monitor.console.case_field import UNANSWERED, CaseField, asker
from monitor.console.days import span_of
from monitor.console.elements import figure, grid, panel
from monitor.console.layout import View
from monitor.console.notices import FaultNotice, question_fault_text
from monitor.console.pages.detail import DetailPanel
from monitor.console.rows import Row, column, place_field
from monitor.console.time_fields import day_buttons, moment_field
from monitor.questions.question import PersonQuestion, ReasonMissing

SHOWN_HITS = 200
SearchSoFar = tuple[PersonQuestion, FaceQuestion, BestFaces[RecordRow]]
"""How the question is kept, which piece is next, what the pieces said."""
_SUBJECT = ("like", "list", "entry")
_TYPED = ("from", "until", "threshold")


def build(view: View) -> None:
    """The page."""
    FacesPage(view)


class FacesPage:
    """One search at a time; a new one ends the one before. Invariant: `_running` is the number of
    the one that goes on, 0: none."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._runs = count(1)
        self._running = 0
        self._following: SearchSoFar | None = None
        t = view.t
        self._detail = DetailPanel(view)
        self._case = CaseField(view, self._search)
        with panel() as self._subject:
            with ui.element("div").classes("bar"):
                self._from = moment_field(t, t("search.from"))
                self._until = moment_field(t, t("search.until"))
                day_buttons(t, view.services.site.tz, self._choose_day)
                rule = {t("faces.wrong_number"): lambda text: is_number((text or "").strip())}
                self._threshold = ui.input(t("faces.threshold"), validation=rule)
                self._threshold.props("outlined dense hide-bottom-space").style("width: 110px")
                self._go = ui.button(t("search.go"), on_click=self._search_typed)
                self._go.props("unelevated dense padding='6px 18px'")
            ui.label(t("faces.no_photos")).classes("soft small")
        with panel(t("faces.similar"), "rest") as bar:
            with bar:
                self._state = ui.label().classes("soft").props("role=status")
                self._stop = ui.button(t("faces.stop"), color=None, on_click=self._stopped)
                self._more = ui.button(t("faces.go_on"), color=None, on_click=self._go_on)
                for button in (self._stop, self._more):
                    button.classes("header-button")
            self._fault = FaultNotice()
            self._grid = grid(
                t, _columns(view), label=t("faces.similar"), rowData=[],
                **{":getRowId": "p => p.data.record_id"},
            ).classes("pick")  # fmt: skip
        self._grid.on(
            "cellClicked", lambda e: self._detail.open(record=e.args["data"]["record_id"]),
            args=["data"],
        )  # fmt: skip
        view.address.watch((*_SUBJECT, *_TYPED), self._search)
        self._buttons()
        ui.timer(0.1, self._search, once=True)

    async def _choose_day(self, day: date) -> None:
        for field, moment in zip((self._from, self._until), span_of(day), strict=True):
            field.set_value(moment)
        await self._search_typed()

    async def _search_typed(self) -> None:
        fields = (self._from, self._until, self._threshold)
        if any(field.error for field in fields):
            return
        typed = {
            name: (field.value or "").strip() for name, field in zip(_TYPED, fields, strict=True)
        }
        if not await self._view.address.go(typed):
            await finish(self._search())

    async def _search(self) -> None:
        """What the address asks for, from the newest record on."""
        view, address = self._view, self._view.address
        self._running = mine = next(self._runs)
        self._following = None
        fields = (self._from, self._until, self._threshold)
        for name, field in zip(_TYPED, fields, strict=True):
            field.set_value(address[name])
        self._fault.show("")
        self._state.set_text("")
        self._rows([])
        if address.wrong or not any(address[name] for name in _SUBJECT):
            self._running = 0
            self._name(view.t("faces.choose"))
            self._buttons()
            return
        zone = view.services.site.tz
        subject = FaceSubject(
            record=address["like"], gallery=address["list"], entry=address["entry"],
            from_ms=parse_time(address["from"], zone), until_ms=parse_time(address["until"], zone),
            threshold=float(address["threshold"]) if address["threshold"] else None,
        )  # fmt: skip
        asked = subject.asked_by(asker(view))
        await self._answered(mine, partial(self._begun, subject, asked))

    async def _begun(self, subject: FaceSubject, asked: PersonQuestion) -> SearchSoFar:
        """Whose face it is is shown."""
        view, t = self._view, self._view.t
        self._name("")
        self._state.set_text(t("faces.begun"))
        question = await face_question(view.services, asked, subject)
        model = question.model
        said = t("faces.model", model=model.name, measure=t(f"measure.{model.measure}"),
                 threshold=f"{model.threshold:g}")  # fmt: skip
        if subject.record:
            row = await stored_record(view.services, asked, subject.record)
            self._name_record(row, said)
        else:
            self._name(t("faces.of_entry", list=subject.gallery, entry=subject.entry), said)
        return asked, question, BestFaces(model, SHOWN_HITS)

    async def _answered(
        self, mine: int, begin: Callable[[], Awaitable[SearchSoFar]] | None = None
    ) -> None:
        """The search to its end, its limit, or until it is stopped; why it has no answer is
        shown."""
        t = self._view.t
        self._buttons()
        try:
            if begin is not None:
                self._following = await begin()
            if mine == self._running and self._following is not None:
                await self._compare(mine, *self._following)
        except UNANSWERED as error:
            self._case.show_fault(error)
            if not isinstance(error, ReasonMissing):
                self._fault.show(question_fault_text(error, t), str(error))
            self._state.set_text("")
        except CommandError as error:
            self._fault.show(t(f"faces.fault_{error.code}"), str(error))
            self._state.set_text("")
        else:
            self._case.show_fault(None)
        if mine == self._running:
            self._running = 0
        self._buttons()

    async def _compare(
        self, mine: int, asked: PersonQuestion, question: FaceQuestion, best: BestFaces[RecordRow]
    ) -> None:
        before = best.read
        async with aclosing(face_pieces(self._view.services, asked, question)) as pieces:
            async for piece in pieces:
                if mine != self._running:
                    return
                best.add(piece)
                following = msgspec.structs.replace(question, cursor=piece.cursor)
                self._following = (asked, following, best) if piece.cursor else None
                self._show(best)
                if best.read - before >= MOST_READ:
                    break
        self._end(best)

    def _end(self, best: BestFaces[RecordRow]) -> None:
        """All was looked at, or what came since a moment."""
        text = "faces.done" if self._following is None else "faces.limit"
        since = clock(best.since_ms, self._view.services.site.tz)[:19]
        self._say(text, best, since=since)

    def _stopped(self) -> None:
        """What was found by now stays."""
        self._running = 0
        if self._following is not None:
            self._end(self._following[2])
        self._buttons()

    async def _go_on(self) -> None:
        self._running = mine = next(self._runs)
        await self._answered(mine)

    def _show(self, best: BestFaces[RecordRow]) -> None:
        self._say("faces.read", best)
        self._rows(hit_rows(self._view.services, best))

    def _say(self, key: str, best: BestFaces[RecordRow], **more: str) -> None:
        t = self._view.t
        numbers = {"read": best.read, "compared": best.compared, "hits": best.count}
        said = t(key, **{name: f"{number:,}" for name, number in numbers.items()}, **more)
        cut = best.count > len(best.hits)
        self._state.set_text(said + (t("faces.best", shown=len(best.hits)) if cut else ""))

    def _rows(self, rows: list[Row]) -> None:
        self._grid.run_grid_method("setGridOption", "rowData", rows)

    def _buttons(self) -> None:
        self._stop.set_visibility(bool(self._running))
        self._more.set_visibility(not self._running and self._following is not None)

    def _name(self, *texts: str) -> None:
        self._subject.clear()
        with self._subject:
            for text in texts:
                ui.label(text)

    def _name_record(self, row: RecordRow | None, model: str) -> None:
        view, t = self._view, self._view.t
        if row is None:  # forgotten in between
            return
        shown = record_row(row, view.services.register.read(), view.services.site.tz)
        place, when = shown[place_field(t)], shown["captured_at"][:19]
        said = t("faces.of_record", place=place, when=when)
        self._name(*([] if shown["picture"] else [said]), model)
        if shown["picture"]:
            with self._subject:
                figure(t, shown["picture"], said)


def _columns(view: View) -> list[Row]:
    t = view.t
    three = {":valueFormatter": "p => p.value.toFixed(3)"}
    return [
        column(t, "picture", "picture", renderer="picture", width=70),
        column(t, "face_score", "score", number=True, width=110, **three),
        column(t, "captured_at", "captured_at", width=190),
        column(t, "checkpoint", place_field(t), flex=3, minWidth=150),
        column(t, "camera", "camera_ip", flex=1, minWidth=110),
    ]
