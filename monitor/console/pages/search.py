"""Search: stored records by kind, plate, checkpoint and time; the form is that of alarms, too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import cast
from urllib.parse import urlencode

from nicegui import ui

from bus.domain.fuzzy_plate import is_fuzzy
from bus.domain.tolerant_search import (
    SEARCH_TOLERANCES,
    NotOnePlate,
    SearchTolerance,
    tolerant_plate,
)
from ingest.store.port import Query
from monitor.accounts.roles import ConsoleOperation
from monitor.api.records import about_records
from monitor.api.registered import area_asked
from monitor.api.views import parse_time
from monitor.console.address import KINDS, MAX_TEXT
from monitor.console.address_bar import Show, finish
from monitor.console.area_field import AreaField
from monitor.console.case_field import UNANSWERED, CaseField, asker
from monitor.console.days import span_of
from monitor.console.elements import load_rows, paged_grid, panel, source
from monitor.console.layout import View
from monitor.console.pages.detail import DetailPanel
from monitor.console.plate_offer import PlateOffer, plates_of_records
from monitor.console.rows import Row, column, place_field, value_column
from monitor.console.time_fields import day_buttons, moment_field
from monitor.i18n import Texts

_FIELDS = ("plate", "checkpoint", "from", "until")


def build_records(view: View) -> None:
    """The page of records."""
    t = view.t
    detail = DetailPanel(view)
    case = CaseField(view, lambda: search())
    with panel(classes="rest") as bar:
        kinds = {k: t(f"kind.{k}") for k in KINDS}
        form = SearchForm(view, bar, "kind", kinds, is_of_records=True)
        offer = PlateOffer(view, partial(plates_of_records, view), form.choose_plate)
        made = paged_grid(
            t,
            _record_columns(view),
            label=t("nav.records"),
            id_field="record_id",
            **{":datasource": form.source("/api/records")},
        )
    made.on("cellClicked", lambda e: detail.open(record=e.args["data"]["record_id"]))
    with bar:
        count = ui.label("").classes("soft").props("role=status")
        export_buttons(view, form, "/api/records")

    async def show_count() -> None:
        asked = form.parameters()
        count.set_text("")
        found = None if form.wrong else await _count(view, asked, case)
        count.set_text("" if found is None else t("search.count", count=f"{found:,}"))
        is_exact = "tolerance" not in asked and not is_fuzzy(asked.get("plate", ""))
        await offer.show(asked.get("plate", "") if is_exact else "", found)

    async def search() -> None:
        form.load(made, "/api/records")
        await show_count()

    form.on_search(search)
    ui.timer(0.1, show_count, once=True)  # the grid asks for its rows itself


async def _count(view: View, p: dict[str, str], case: CaseField) -> int | None:
    """None where the store is away: the notice on top says it already."""
    zone = view.services.site.tz
    question = Query(
        kind=p.get("kind", ""), plate=p.get("plate", ""),
        tolerance=cast("SearchTolerance", p.get("tolerance", "")),
        checkpoint_id=p.get("checkpoint", ""),
        captured_from_ms=parse_time(p.get("from", ""), zone),
        captured_until_ms=parse_time(p.get("until", ""), zone),
        area=area_asked(p.get("area", ""), view.services),
    )  # fmt: skip
    try:
        asked = about_records(asker(view), "search", question)
        found = await view.services.questions.records(asked, lambda r: r.count(question))
    except UNANSWERED as error:
        case.show_fault(error)
        return None
    case.show_fault(None)
    return found


def export_buttons(view: View, form: SearchForm, address: str) -> None:
    """All that is found, as a file, for those who may take it out of the house."""
    if view.may(ConsoleOperation.EXPORT):
        for suffix in ("csv", "jsonl"):
            ui.button(
                view.t(f"search.{suffix}"),
                color=None,
                on_click=partial(form.export, f"{address}.{suffix}"),
            ).classes("header-button")


def _record_columns(view: View) -> list[Row]:
    t = view.t
    not_zero = {":valueFormatter": "p => p.value || ''"}
    mark = column(t, "tail_epoch", "tail_epoch", width=110, **not_zero)
    return [
        column(t, "picture", "picture", renderer="picture", width=70),
        column(t, "captured_at", "captured_at", width=190),
        column(t, "kind", "kind", renderer="kind", width=80),
        column(t, "plate", "plate", colId="plate_number", width=118, cellClass="strong"),
        column(t, "checkpoint", place_field(t), flex=3, minWidth=150),
        value_column(t, attribute="plate_color", width=90),
        value_column(t, attribute="vehicle_color", width=90),
        value_column(t, attribute="vehicle_type", width=100),
        value_column(t, attribute="vehicle_brand", width=110),
        column(t, "camera", "camera_ip", width=120),
        column(t, "latency", "latency_ms", renderer="duration", number=True, width=90),
        *([mark] if view.services.hub.live.diverged_ids.counts() else []),
    ]


class SearchForm:
    """The fields above a grid; Enter or the button asks. What is asked stands in the address."""

    def __init__(
        self,
        view: View,
        bar: ui.element,
        choice: str,
        choices: dict[str, str],
        more: tuple[str, ...] = (),
        as_asked: Callable[[dict[str, str]], dict[str, str]] = dict,
        *,
        is_of_records: bool = False,
    ) -> None:
        """`more`: what is asked besides, by names of the address; its fields are somebody else's.
        `as_asked` makes parameters of the API of what the address says. `is_of_records`: a plate
        may be asked for as it may have been read, and an area may be drawn."""
        self._more, self._as_asked = more, as_asked
        t, self._address = view.t, view.address
        self._t = t
        english = place_field(t) == "checkpoint_en"
        self._places = {"": t("search.any")} | {
            c.checkpoint_id: c.name_en if english else c.name
            for c in view.services.register.read().checkpoints
        }
        self._names = (choice, *_FIELDS, *(("tolerance", "area") if is_of_records else ()))
        self._search: Show = lambda: None
        with bar:
            kind = ui.select(choices, label=t(f"search.{choice}")).style("width: 110px")
            plate = ui.input(t("search.plate")).style("width: 170px")
            tolerance = [_tolerance_field(t)] if is_of_records else []
            self._place = ui.select(
                self._places, label=t("search.checkpoint"), with_input=True
            ).style("width: 190px")
            self._area = AreaField(view, self._choose_area) if is_of_records else None
            since = moment_field(t, t("search.from"))
            until = moment_field(t, t("search.until"))
            day_buttons(t, view.services.site.tz, self._choose_day)
            self.button = ui.button(t("search.go")).props("unelevated dense padding='6px 18px'")
            self._reset = ui.button(t("search.reset"), color=None).classes("header-button")
        fields: tuple[ui.input | ui.select, ...] = (
            kind, plate, self._place, since, until, *tolerance
        )  # fmt: skip
        self._fields = dict(zip(self._names, fields, strict=False))
        for field in fields:
            field.props("outlined dense")
        plate.props(f"maxlength={MAX_TEXT}")
        self._choice, self._choices = kind, choices
        self._notice = ui.label("").classes("notice").props("role=alert")
        self._show()

    @property
    def wrong(self) -> bool:
        """Whether something in the address cannot be read, or the plate cannot have the tolerance;
        then nothing is asked."""
        return bool(self._address.wrong) or not self._is_plate_for_tolerance()

    def source(self, address: str) -> str:
        """The code of the grid's source of rows."""
        return source("", {}) if self.wrong else source(address, self.parameters())

    def load(self, made: ui.aggrid, address: str) -> None:
        """Ask again."""
        load_rows(made, *(("", {}) if self.wrong else (address, self.parameters())))

    def export(self, address: str) -> None:
        """All that is found, as a file."""
        if not self.wrong:
            ui.navigate.to(f"{address}?{urlencode(self.parameters())}")

    def parameters(self) -> dict[str, str]:
        """As the API wants them; empty ones left out."""
        asked = {name: self._address[name] for name in (*self._names, *self._more)}
        return {name: value for name, value in self._as_asked(asked).items() if value}

    async def choose_plate(self, plate: str) -> None:
        """Search for this plate, with everything else as it is."""
        await self._address.go({"plate": plate})

    def on_search(self, search: Show) -> None:
        """Call `search` when the address asks something else, and when the person asks again."""
        self._search = search
        self.button.on_click(self._search_typed)
        for name in ("plate", "from", "until"):
            self._fields[name].on("keydown.enter", self._search_typed)
        self._reset.on_click(self._search_all)
        self._address.watch((*self._names, *self._more), self._follow)

    async def _search_typed(self) -> None:
        typed = {name: (field.value or "").strip() for name, field in self._fields.items()}
        if not await self._address.go(typed):
            await finish(self._search())

    async def _search_all(self) -> None:
        for field in self._fields.values():
            field.set_value("")
        empty = dict.fromkeys((*self._names, *self._more), "")
        if not await self._address.go(empty):
            await finish(self._search())

    async def _choose_day(self, day: date) -> None:
        """All of this day, with everything else as it is typed."""
        for name, moment in zip(("from", "until"), span_of(day), strict=True):
            self._fields[name].set_value(moment)
        await self._search_typed()

    async def _choose_area(self, area: str) -> None:
        """Records of this area, with everything else as it is typed."""
        typed = {name: (field.value or "").strip() for name, field in self._fields.items()}
        await self._address.go(typed | {"area": area})

    async def _follow(self) -> None:
        self._show()
        await finish(self._search())

    def _is_plate_for_tolerance(self) -> bool:
        if "tolerance" not in self._names:
            return True
        try:
            tolerant_plate(self._address["plate"], self._address["tolerance"])
        except NotOnePlate:
            return False
        return True

    def _show(self) -> None:
        """The address in the fields, what cannot be read there with an error beside it; a
        checkpoint that the register does not have by its id."""
        given, wrong, t = self._address.given, self._address.wrong, self._t
        place, choice = given("checkpoint"), given(self._names[0])
        self._place.set_options({place: place} | self._places)
        self._choice.set_options({choice: choice} | self._choices)
        for name, field in self._fields.items():
            field.set_value(given(name))
            field.error = t("address.wrong", field=name) if name in wrong else None
        if self._area is not None:
            self._area.show(given("area"))
        named = t("list.comma").join(t("address.wrong", field=name) for name in wrong)
        unread = f"{t('address.nothing_shown')} {named}"
        self._notice.set_text(unread if wrong else t("search.not_one_plate"))
        self._notice.set_visibility(self.wrong)


def _tolerance_field(t: Texts) -> ui.select:
    texts = {one: t(f"search.tolerance_{one or 'exact'}") for one in SEARCH_TOLERANCES}
    return ui.select(texts, label=t("search.tolerance")).style("width: 200px")
