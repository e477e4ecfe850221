"""The bus: topics, groups with their lag, the backlog of our applications, brokers (N-9, N-11)."""

from __future__ import annotations

from nicegui import ui
from nicegui.events import GenericEventArguments

from monitor.accounts.roles import ConsoleOperation
from monitor.api.platform import backlogs, cleaners
from monitor.cluster.bus_overview import BusOverview, BusUnavailable, GroupOverview, TopicOverview
from monitor.cluster.cleaner_status import (
    BrokerCleaner,
    CleanedPartition,
    why_uncleanable,
    worst_first,
)
from monitor.console.elements import grid, panel, update_rows
from monitor.console.layout import View
from monitor.console.mirror_rows import duration
from monitor.console.notices import FaultNotice
from monitor.console.pages.topic_orders import NewTopicForm, TopicCard, may_change
from monitor.console.rows import Row, column

REFRESH_SECONDS = 5.0
DAY_MS = 86_400_000
MAX_CLEANED_SHOWN = 100
"""The worst ones; the command `cleaner status` shows all."""


def build(view: View) -> None:
    """The page."""
    BusPage(view)


class BusPage:
    """Queries the broker every few seconds while the page is open."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        with ui.element("div").classes("bar"):
            self._title = ui.label("").classes("soft")
            self._faults = FaultNotice()
        if view.may(ConsoleOperation.BUS_WRITE):
            NewTopicForm(view, self._show_again)
        with panel(t("bus.topics")) as bar:
            with bar:
                ui.element("div").classes("grow")
                self._internal = ui.checkbox(t("bus.internal")).props("dense")
            self._topics = grid(
                t, _topic_columns(view), label=t("bus.topics"), height="380px", rowData=[]
            )
        if view.may(ConsoleOperation.BUS_WRITE):
            self._topics.classes("pick").on("cellClicked", self._clicked, args=["data"])
        with ui.element("div").classes("two"):
            with panel(t("bus.backlog")):
                self._backlog = grid(
                    t, _backlog_columns(view), label=t("bus.backlog"), height="230px", rowData=[]
                )
            with panel(t("bus.brokers")):
                self._brokers = grid(
                    t, _broker_columns(view), label=t("bus.brokers"), height="230px", rowData=[]
                )
        with panel(t("bus.groups")):
            self._groups = grid(
                t, _group_columns(view), label=t("bus.groups"), height="230px", rowData=[]
            )
        with panel(t("bus.cleaner")) as bar:
            with bar:
                ui.element("div").classes("grow")
                self._cleaner_state = ui.label("").classes("soft small")
            self._cleaned = grid(
                t, _cleaned_columns(view), label=t("bus.cleaner"), height="230px", rowData=[]
            )
        self._internal.set_value(view.address["internal"] == "1")
        self._internal.on_value_change(
            lambda e: view.address.go({"internal": "1" if e.value else ""})
        )
        view.address.watch(("internal",), self._follow)
        ui.timer(REFRESH_SECONDS, self.show)

    async def _follow(self) -> None:
        self._internal.set_value(self._view.address["internal"] == "1")
        await self.show()

    async def _show_again(self) -> None:
        """What was changed a moment ago is in the next look at the brokers."""
        self._view.services.cluster.forget()
        await self.show()

    async def _clicked(self, event: GenericEventArguments) -> None:
        name = str(event.args["data"]["id"])
        try:
            snapshot = await self._view.services.cluster.overview()
        except BusUnavailable:
            return
        found = [one for one in snapshot.topics if one.name == name]
        if found and may_change(self._view):
            TopicCard(self._view, found[0], self._show_again)

    async def show(self) -> None:
        """Ask and draw."""
        try:
            snapshot = await self._view.services.cluster.overview()
        except BusUnavailable:
            return  # the notice on top says it, and the last picture stays
        rows = await backlogs(self._view.services, snapshot)
        self._show_cleaners(await cleaners(self._view.services))
        self._show_faults(snapshot)
        topics = [t for t in snapshot.topics if self._view.address["internal"] or not t.internal]
        update_rows(self._topics, [_topic_row(one, self._view) for one in topics])
        update_rows(self._groups, [_group_row(one) for one in snapshot.groups])
        update_rows(
            self._backlog,
            [
                {
                    "id": f"{r.application}|{r.topic}",
                    "application": r.application,
                    "topic": r.topic,
                    "position": r.position,
                    "end": r.end,
                    "backlog": r.backlog,
                    "lost": r.lost,
                }
                for r in rows
            ],
        )
        update_rows(
            self._brokers,
            [
                {
                    "id": b.broker_id,
                    "address": f"{b.host}:{b.port}",
                    "role": self._view.t("bus.controller") if b.controller else "",
                }
                for b in snapshot.brokers
            ],
        )

    def _show_cleaners(self, found: list[BrokerCleaner]) -> None:
        t = self._view.t
        silent = ", ".join(str(one.broker) for one in found if not one.answers)
        dying = ", ".join(str(one.broker) for one in found if one.dies)
        said = [t("bus.cleaner_silent", brokers=silent)] if silent else []
        said += [t("bus.cleaner_dies", brokers=dying)] if dying else []
        self._cleaner_state.set_text("; ".join(said))
        rows = worst_first(found)[:MAX_CLEANED_SHOWN]
        update_rows(self._cleaned, [_cleaned_row(one, self._view) for one in rows])

    def _show_faults(self, snapshot: BusOverview) -> None:
        t = self._view.t
        self._title.set_text(
            t(
                "bus.cluster",
                cluster=snapshot.cluster_id,
                brokers=len(snapshot.brokers),
                topics=len(snapshot.topics),
            )
        )
        faults = "; ".join(snapshot.faults)
        self._faults.show(t("bus.faults") if faults else "", faults)


def _topic_columns(view: View) -> list[Row]:
    t = view.t
    return [
        column(t, "topic", "name", flex=2, minWidth=170, cellClass="strong", sortable=True),
        column(t, "partitions", "partitions", number=True, width=80),
        column(t, "replicas", "replicas", number=True, width=80),
        column(t, "records", "records", renderer="number", number=True, width=110, sortable=True),
        column(t, "skew", "skew", renderer="percent", number=True, width=90),
        column(t, "offsets", "offsets", flex=3, minWidth=220, tooltipField="offsets"),
        column(t, "retention", "retention", width=100),
        column(t, "cleanup", "cleanup", width=90),
    ]


def _topic_row(one: TopicOverview, view: View) -> Row:
    offsets = "  ".join(f"{n}: {one.starts[n]:,}–{end:,}" for n, end in one.ends.items())
    return {
        "id": one.name,
        "name": one.name,
        "partitions": one.partitions,
        "replicas": one.replicas,
        "records": one.records,
        "skew": one.skew_percent if one.partitions > 1 else None,
        "offsets": offsets,
        "cleanup": one.configs.get("cleanup.policy", ""),
        "retention": retention_text(one.configs.get("retention.ms", ""), view.t("bus.forever")),
    }


def retention_text(retention_ms: str, forever: str) -> str:
    """`7 d`, `12 h`; the word for no limit; empty when unknown."""
    if not retention_ms.lstrip("-").isdecimal():
        return ""
    value = int(retention_ms)
    if value < 0:
        return forever
    return f"{value / DAY_MS:g} d" if value >= DAY_MS else f"{value / 3_600_000:g} h"


def _backlog_columns(view: View) -> list[Row]:
    t = view.t
    return [
        column(t, "application", "application", flex=1, minWidth=100, cellClass="strong"),
        column(t, "topic", "topic", flex=2, minWidth=140),
        column(t, "position", "position", renderer="number", number=True, width=110),
        column(t, "end", "end", renderer="number", number=True, width=110),
        column(t, "lag", "backlog", renderer="number", number=True, width=100),
        column(t, "lost", "lost", renderer="number", number=True, width=90),
    ]


def _broker_columns(view: View) -> list[Row]:
    t = view.t
    return [
        column(t, "broker", "id", width=80),
        column(t, "address", "address", flex=2, minWidth=140),
        column(t, "role", "role", flex=1, minWidth=90),
    ]


def _cleaned_columns(view: View) -> list[Row]:
    t = view.t
    return [
        column(t, "topic", "topic", flex=2, minWidth=170, cellClass="strong"),
        column(t, "partition", "partition", number=True, width=90),
        column(t, "broker", "broker", number=True, width=80),
        column(t, "dirty", "dirty", renderer="percent", number=True, width=90),
        column(t, "oldest_dirty", "oldest", width=150),
        column(t, "last_clean", "cleaned", width=150),
        column(t, "state", "state", flex=3, minWidth=120, tooltipField="state"),
    ]


def _cleaned_row(one: CleanedPartition, view: View) -> Row:
    return {
        "id": f"{one.broker}|{one.topic}|{one.partition}",
        "topic": one.topic,
        "partition": one.partition,
        "broker": one.broker,
        "dirty": one.dirty_percent,
        "oldest": _ago(one.oldest_dirty_ms, view),
        "cleaned": _ago(one.last_clean_ms, view),
        "state": _cleaned_state(one, view),
    }


def _cleaned_state(one: CleanedPartition, view: View) -> str:
    if not one.uncleanable:
        return ""
    cause = why_uncleanable(one, view.t)
    if one.uncleanable_ms is None:
        return view.t("bus.uncleanable", cause=cause)
    since = duration(one.uncleanable_ms / 1000, view.t)
    return view.t("bus.uncleanable_for", duration=since, cause=cause)


def _ago(age_ms: int | None, view: View) -> str:
    return "" if age_ms is None else duration(age_ms / 1000, view.t)


def _group_columns(view: View) -> list[Row]:
    t = view.t
    return [
        column(t, "group", "group", flex=2, minWidth=160, cellClass="strong"),
        column(t, "state", "state", width=130),
        column(t, "members", "members", number=True, width=90),
        column(t, "lag", "lag", renderer="number", number=True, width=110),
        column(t, "topic", "topics", flex=3, minWidth=200),
    ]


def _group_row(one: GroupOverview) -> Row:
    topics = "  ".join(f"{topic}: {lag:,}" for topic, lag in sorted(one.topics.items()))
    return {
        "id": one.group_id,
        "group": one.group_id,
        "state": one.state.lower(),
        "members": one.members,
        "lag": one.lag,
        "topics": topics,
    }
