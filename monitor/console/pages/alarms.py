"""Alarms: searched like records, by their life, grouped by target; worked on from the keyboard."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial

from nicegui import ui
from nicegui.events import GenericEventArguments

from bus.runtime.wall_clock import now_ms
from ingest.store.port import PageRequest
from monitor.accounts.roles import ConsoleOperation
from monitor.api.alarms import AlarmQuestion, about_alarms, alarm_page, alarm_rows
from monitor.api.views import parse_time
from monitor.console.address import KINDS, SEVERITIES, STAGES
from monitor.console.alarm_groups import by_target
from monitor.console.alarm_life import OPS_BY_KEY
from monitor.console.alarm_notices import AlarmNotices
from monitor.console.case_field import UNANSWERED, CaseField, asker
from monitor.console.elements import grid, paged_grid, panel, refresh_rows, update_rows
from monitor.console.layout import View
from monitor.console.live_updates import Update
from monitor.console.notices import FaultNotice, question_fault_text
from monitor.console.pages.detail import DetailPanel
from monitor.console.pages.search import SearchForm, export_buttons
from monitor.console.plate_offer import PlateOffer, is_whole_plate, plates_of_alarms
from monitor.console.rows import Row, column, district_names, place_field, severity_column

STALE_SECONDS = 0.5  # between two looks for what has come
POLLS = 3  # the bus says it before the store has it
DIGEST_SECONDS = 5.0  # between two looks while so many come that screens get digests
MOST_GROUPED = 500  # alarms that are grouped
MORE = (
    "stage", "owner", "rule", "changed", "kind", "district", "districts", "case", "target",
)  # fmt: skip


def build(view: View) -> None:
    """The page."""
    t = view.t
    detail = DetailPanel(view)
    case = CaseField(view, lambda: search())
    with panel(classes="rest") as bar:
        form = SearchForm(view, bar, "severity", {s: t(f"severity.{s}") for s in SEVERITIES}, MORE,
                          partial(_as_asked, view))  # fmt: skip
        LifecycleFilters(view)
        offer = PlateOffer(view, partial(plates_of_alarms, view), form.choose_plate)
        lists = AlarmLists(view, form, detail)
    with bar:
        export_buttons(view, form, "/api/alarms")

    async def offer_plates() -> None:
        asked = form.parameters()
        found = None if form.wrong else await _count_alarms(view, asked, case)
        await offer.show(asked.get("plate", ""), found)

    async def search() -> None:
        await lists.load()
        await offer_plates()

    form.on_search(search)
    ui.timer(0.1, offer_plates, once=True)  # the grid asks for its rows itself


class LifecycleFilters:
    """What of their life is asked for: stage, whose, since when; the address is their only state.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        stages = {one: t(f"stage.{one}") if one else t("search.any") for one in STAGES}
        with ui.element("div").classes("bar"):
            self._stage = ui.select(stages, label=t("alarm.stage")).style("width: 120px")
            self._owner = ui.input(t("alarm.owner_filter")).style("width: 150px")
            self._rule = ui.input(t("alarm.rule_filter")).style("width: 150px")
            self._kind = ui.select(
                {one: t(f"kind.{one}") if one else t("search.any") for one in KINDS},
                label=t("alarm.kind_filter"),
            ).style("width: 110px")
            self._case = ui.input(t("alarm.case_filter")).style("width: 130px")
            self._target = ui.input(t("alarm.case_target")).style("width: 150px")
            self._places = district_names(view.services.register.read(), t)
            self._district = ui.select({}, label=t("alarm.district_filter")).style("width: 140px")
            for name in ("mine", "shift", "away", "all_time"):
                self._button(name)
            self._districts = ui.button(color=None, on_click=self._toggle_districts)
            self._districts.classes("header-button").props("data-filter=districts")
            self._group = ui.button(color=None, on_click=self._toggle).classes("header-button")
            AlarmNotices(view)
        self._notice = ui.label().classes("soft").props("role=status")
        typed = (self._owner, self._rule, self._case, self._target)
        for field in (self._stage, self._kind, self._district, *typed):
            field.props("outlined dense")
        for field in typed:
            field.on("keydown.enter", self._go)
        self._show()
        for choice in (self._stage, self._kind, self._district):
            choice.on_value_change(self._go)
        view.address.watch((*MORE, "group"), self._show)

    def _button(self, name: str) -> None:
        async def clicked() -> None:
            await self._choose(name)

        made = ui.button(self._view.t(f"alarm.{name}"), color=None, on_click=clicked)
        made.classes("header-button").props(f"data-filter={name}")

    def _show(self) -> None:
        address, t = self._view.address, self._view.t
        self._stage.set_value(address["stage"])
        self._owner.set_value(address["owner"])
        self._rule.set_value(address["rule"])
        self._case.set_value(address["case"])
        self._target.set_value(address["target"])
        self._kind.set_value(address["kind"])
        named = address["district"]
        self._district.set_options({"": t("search.any"), named: named or t("search.any")}
                                   | self._places, value=named)  # fmt: skip
        self._show_districts()
        is_grouped = address["group"] == "target"
        self._group.set_text(t("alarm.single" if is_grouped else "alarm.grouped"))
        changed = address["changed"]
        self._notice.set_text(t("alarm.changed", time=changed) if changed else "")
        self._notice.set_visibility(bool(changed))

    def _show_districts(self) -> None:
        """Of an account that is for all districts there is nothing to switch."""
        view, is_mine = self._view, self._view.only_concerning
        self._districts.set_visibility(bool(view.principal.districts))
        self._districts.set_text(view.t("alarm.scope_all" if is_mine else "alarm.scope_mine"))
        self._districts.props(f'title="{view.t("alarm.scope_note")}"')

    async def _toggle_districts(self) -> None:
        await self._view.address.go({"districts": "all" if self._view.only_concerning else ""})

    async def _go(self) -> None:
        typed = {
            "stage": self._stage, "owner": self._owner, "rule": self._rule, "kind": self._kind,
            "district": self._district, "case": self._case, "target": self._target,
        }  # fmt: skip
        wanted = {name: str(field.value or "").strip() for name, field in typed.items()}
        await self._view.address.go(wanted)

    async def _toggle(self) -> None:
        is_grouped = self._view.address["group"] == "target"
        await self._view.address.go({"group": "" if is_grouped else "target"})

    async def _choose(self, name: str) -> None:
        view = self._view
        if name == "mine":
            await view.address.go({"owner": view.principal.name, "stage": "unfinished"})
        elif name == "shift":
            began_ms = view.services.sessions.began_ms(view.principal.session)
            await self._since(began_ms or now_ms())
        elif name == "away":
            try:
                away_ms = int(await ui.run_javascript("databusAlarms.awaySince()", timeout=10))
            except TimeoutError:  # the page was left
                return
            if away_ms:
                await self._since(away_ms)
            else:
                ui.notify(view.t("alarm.never_away"))
        else:
            await view.address.go({"changed": ""})

    async def _since(self, at_ms: int) -> None:
        """To the minute, as the address writes moments."""
        zone = self._view.services.site.tz
        moment = datetime.fromtimestamp(at_ms / 1000, zone).strftime("%Y-%m-%d %H:%M")
        await self._view.address.go({"changed": moment})


class AlarmLists:
    """The alarms one by one, or their targets; one of them is there."""

    def __init__(self, view: View, form: SearchForm, detail: DetailPanel) -> None:
        self._view, self._form, self._detail = view, form, detail
        self._polls_due = 0
        self._has_digests, self._polled_s = False, 0.0
        t = view.t
        self._fault = FaultNotice()
        self._single = paged_grid(
            t, _columns(view), label=t("nav.alarms"), id_field="alarm_id",
            **{":datasource": form.source("/api/alarms")},
        )  # fmt: skip
        self._groups = grid(t, _group_columns(view), label=t("alarm.grouped"), rowData=[])
        self._groups.classes("pick")
        self._single.on("cellClicked", lambda e: detail.open(alarm=e.args["data"]["alarm_id"]))
        self._groups.on("cellClicked", self._choose)
        hint = ui.label(t("alarm.keys")).classes("soft small")
        hint.set_visibility(view.may(ConsoleOperation.WATCH_WRITE))
        ui.on("alarm_step", self._step)
        ui.on("alarm_act", self._act)
        ui.timer(0.1, self._begin, once=True)
        view.feed.subscribe(self._on_update)
        ui.timer(STALE_SECONDS, self._refresh_stale)
        view.address.watch(("group",), self.load)
        self._show()

    async def load(self) -> None:
        """Ask again."""
        self._show()
        if self._is_grouped:
            await self._load_groups()
        else:
            self._form.load(self._single, "/api/alarms")

    @property
    def _is_grouped(self) -> bool:
        return self._view.address["group"] == "target"

    def _show(self) -> None:
        self._single.set_visibility(not self._is_grouped)
        self._groups.set_visibility(self._is_grouped)

    async def _begin(self) -> None:
        ui.run_javascript(f"databusAlarms.listen({self._single.id})")
        if self._is_grouped:
            await self._load_groups()

    async def _load_groups(self) -> None:
        view = self._view
        rows: list[Row] = []
        try:
            if not self._form.wrong:
                question = _question(view, self._form.parameters())
                asked = about_alarms(asker(view), "alarms", question)
                page = PageRequest(limit=MOST_GROUPED)
                alarms, _ = await alarm_page(
                    view.services, view.principal.viewer, asked, question, page
                )
                rows = await alarm_rows(view.services, alarms)
        except UNANSWERED as error:
            self._fault.show(question_fault_text(error, view.t), str(error))
            return
        is_cut = len(rows) == MOST_GROUPED
        self._fault.show(view.t("alarm.of_newest", count=MOST_GROUPED) if is_cut else "")
        update_rows(self._groups, by_target(rows, place_field(view.t)))

    async def _choose(self, event: GenericEventArguments) -> None:
        chosen: Row = event.args["data"]["chosen"]
        await self._view.address.go({**chosen, "group": ""})

    async def _step(self, event: GenericEventArguments) -> None:
        await self._detail.open(alarm=str(event.args))

    async def _act(self, event: GenericEventArguments) -> None:
        """A key; of the alarm that the browser shows, and none that came between."""
        life, op = self._detail.life, OPS_BY_KEY.get(str(event.args["op"]))
        if life is not None and op is not None and life.alarm_id == event.args["alarm"]:
            await life.act(op)

    def _on_update(self, update: Update) -> None:
        if update.delta.alarms or update.delta.alarm_states:
            self._polls_due = POLLS
        self._has_digests = self._has_digests or bool(update.delta.digests)

    async def _refresh_stale(self) -> None:
        now_s = time.monotonic()
        if self._has_digests and now_s - self._polled_s >= DIGEST_SECONDS:
            self._has_digests, self._polled_s = False, now_s
            self._polls_due = max(self._polls_due, 1)
        if not self._polls_due:
            return
        self._polls_due -= 1
        if self._is_grouped:
            await self._load_groups()
        else:
            refresh_rows(self._single)


def _as_asked(view: View, asked: dict[str, str]) -> dict[str, str]:
    """The address says where all districts are meant, the API where only one's own are."""
    return asked | {"districts": "mine" if view.only_concerning else ""}


def _question(view: View, p: dict[str, str]) -> AlarmQuestion:
    zone = view.services.site.tz
    return AlarmQuestion(
        severity=p.get("severity", ""), rule_id=p.get("rule", ""), plate=p.get("plate", ""),
        checkpoint_id=p.get("checkpoint", ""), raised_from_ms=parse_time(p.get("from", ""), zone),
        raised_until_ms=parse_time(p.get("until", ""), zone), stage=p.get("stage", ""),
        owner=p.get("owner", ""), changed_from_ms=parse_time(p.get("changed", ""), zone),
        kind=p.get("kind", ""), district_id=p.get("district", ""),
        only_concerning=p.get("districts") == "mine", case=p.get("case", ""),
        case_target=p.get("target", ""),
    )  # fmt: skip


def _columns(view: View) -> list[Row]:
    t = view.t
    return [
        severity_column(t),
        column(t, "picture", "picture", renderer="picture", width=70),
        column(t, "raised_at", "raised_at", width=176),
        column(t, "stage", "stage", renderer="stage", width=84, cellClass="strong"),
        column(t, "owner", "owner", width=96),
        column(t, "rule", "rule_name", flex=2, minWidth=120, cellClass="strong"),
        column(t, "plate", "plate", colId="plate_number", width=112),
        column(t, "checkpoint", place_field(t), flex=3, minWidth=130),
        column(t, "kind", "kind", renderer="kind", width=76),
        column(t, "captured_at", "captured_at", width=176),
        column(t, "reaction", "reaction_ms", renderer="duration", number=True, width=86),
    ]


def _group_columns(view: View) -> list[Row]:
    t = view.t
    counts = {"cellClass": ["num", "ag-right-aligned-cell"], "width": 90}
    return [
        severity_column(t),
        {"headerName": t("alarm.target"), "field": "rule", "flex": 3, "minWidth": 150},
        column(t, "plate", "plate", width=112, cellClass="strong"),
        {"headerName": t("alarm.count"), "field": "count", **counts},
        {"headerName": t("alarm.open_count"), "field": "open_count", **counts},
        {"headerName": t("alarm.newest"), "field": "newest", "width": 190},
        column(t, "checkpoint", "place", flex=3, minWidth=150),
    ]


async def _count_alarms(view: View, p: dict[str, str], case: CaseField) -> int | None:
    """0 or 1: whether there is any alarm of this plate; None where it is not known."""
    plate = p.get("plate", "")
    if not is_whole_plate(plate):
        return None
    try:
        found, _ = await view.services.questions.alarms(
            about_alarms(asker(view), "alarms", AlarmQuestion(plate=plate)),
            lambda r: r.alarms(
                page=PageRequest(limit=1), viewer=view.principal.viewer, plate=plate
            ),
        )
    except UNANSWERED as error:
        case.show_fault(error)
        return None
    case.show_fault(None)
    return len(found)
