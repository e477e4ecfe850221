"""Topics of a site's own programs: a form for one more, a card for each that may be changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from bus.domain.command_error import CommandError
from bus.domain.topic_orders import CLEANUPS, MAX_PARTITIONS, MAX_REPLICAS, is_own
from bus.errors import BusError
from monitor.accounts.roles import ConsoleOperation
from monitor.cluster.bus_overview import TopicOverview
from monitor.console.elements import facts, panel
from monitor.console.layout import View
from monitor.console.notices import notify_fault
from monitor.i18n import Texts

Shown = Callable[[], Awaitable[None]]


class NewTopicForm:
    """Name, partitions, replicas, what is kept how long."""

    def __init__(self, view: View, show: Shown) -> None:
        self._view, self._show = view, show
        t = view.t
        with panel(t("topics.create")):
            ui.label(t("topics.how")).classes("soft small")
            with ui.element("div").classes("bar"):
                self._name = ui.input(t("column.topic")).props(
                    "outlined dense maxlength=249 autocomplete=off"
                )
                self._partitions = _number(t("column.partitions"), 1, MAX_PARTITIONS, value=1)
                self._replicas = _number(t("topics.replicas"), 0, MAX_REPLICAS, value=0)
                cleanups = {one: t(f"topics.cleanup_{one}") for one in CLEANUPS}
                self._cleanup = ui.select(cleanups, value="delete", label=t("column.cleanup"))
                self._cleanup.props("outlined dense").style("width: 190px")
                self._days = _number(t("topics.days"), 0, 36_500, value=7)
                ui.button(t("topics.create"), on_click=self._create).props("unelevated")

    async def _create(self) -> None:
        view, name = self._view, (self._name.value or "").strip()
        if not may_change(view):
            return
        order = view.services.topic_orders.create(
            view.principal.name, name, partitions=_whole(self._partitions),
            replication_factor=_whole(self._replicas), cleanup=str(self._cleanup.value),
            retention_days=_whole(self._days),
        )  # fmt: skip
        if await is_done(view, order):
            ui.notify(view.t("topics.created", name=name), type="positive")
            self._name.set_value("")
            await self._show()


class TopicCard:
    """What can be done with one topic; of the product's own it says that nothing can."""

    def __init__(self, view: View, topic: TopicOverview, show: Shown) -> None:
        self._view, self._show, self._topic = view, show, topic
        t = view.t
        with ui.dialog() as self._dialog, ui.card().classes("dialog-card"):
            with ui.element("h2"):
                ui.label(topic.name)
            facts([
                (t("column.partitions"), str(topic.partitions)),
                (t("column.replicas"), str(topic.replicas)),
                (t("column.records"), f"{topic.records:,}"),
            ])  # fmt: skip
            if is_own(topic.name):
                ui.label(t("topics.fault_own_topic")).classes("notice")
            else:
                self._build()
            ui.button(t("accounts.close"), color=None, on_click=self._dialog.close).classes(
                "header-button"
            )
        self._dialog.on("hide", self._dialog.delete)
        self._dialog.open()

    def _build(self) -> None:
        t, topic = self._view.t, self._topic
        with ui.element("div").classes("bar"):
            least = min(topic.partitions + 1, MAX_PARTITIONS)
            self._partitions = _number(t("topics.grow_to"), least, MAX_PARTITIONS, value=least)
            ui.button(t("topics.grow"), on_click=self._grow).props("unelevated")
        ui.label(t("topics.grow_note")).classes("soft small")
        with ui.element("div").classes("bar"):
            self._typed = ui.input(t("topics.type_name")).props(
                "outlined dense maxlength=249 autocomplete=off"
            )
            delete = ui.button(t("topics.delete"), color="negative", on_click=self._delete)
            delete.props("unelevated").bind_enabled_from(
                self._typed, "value", lambda typed: typed == topic.name
            )
        ui.label(t("topics.delete_note")).classes("soft small")

    async def _grow(self) -> None:
        view, name, count = self._view, self._topic.name, _whole(self._partitions)
        if may_change(view):
            order = view.services.topic_orders.grow(view.principal.name, name, count)
            await self._end(order, view.t("topics.grown", name=name, count=count))

    async def _delete(self) -> None:
        view, name = self._view, self._topic.name
        if may_change(view):
            typed = self._typed.value or ""
            order = view.services.topic_orders.delete(view.principal.name, name, typed)
            await self._end(order, view.t("topics.deleted", name=name))

    async def _end(self, order: Awaitable[None], said: str) -> None:
        if await is_done(self._view, order):
            ui.notify(said, type="positive")
            await self._show()
            self._dialog.close()


def may_change(view: View) -> bool:
    """The right may have been taken away while the page is open."""
    if view.may(ConsoleOperation.BUS_WRITE):
        return True
    ui.notify(view.t("topics.no_right"), type="negative")
    return False


async def is_done(view: View, order: Awaitable[None]) -> bool:
    """Whether the brokers have accepted it; else it is said why not."""
    try:
        await order
    except CommandError as error:
        notify_fault(topic_fault_text(error.code, view.t), error)
    except BusError as error:
        notify_fault(topic_fault_text(error.code.name.lower(), view.t), error)
    else:
        return True
    return False


def topic_fault_text(code: str, t: Texts) -> str:
    """Why it was refused, in the language of the page; brokers have further reasons, whose text is
    the detail."""
    key = f"topics.fault_{code}"
    return t(key if key in t.table else "topics.fault")


def _number(label: str, least: int, most: int, *, value: int) -> ui.number:
    made = ui.number(label, value=value, min=least, max=most, precision=0)
    return made.props("outlined dense").style("width: 150px")


def _whole(field: ui.number) -> int:
    return int(field.value) if field.value is not None else -1
