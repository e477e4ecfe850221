"""The dialog of a rule's form in which places are chosen: by name out of the register, by a click
on a checkpoint, or as a polygon that is drawn; those of the rule are shown on the map.

What is chosen becomes a condition of the rule's text, which says all of it: nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui

from bus.contracts.expressions import AtPlace, Expression, InArea, PlaceKind
from bus.contracts.register import Register
from bus.domain.expressions.to_text import to_text
from bus.domain.expressions.tree import nodes_of
from bus.domain.polygons import Corner, polygon_fault
from bus.domain.registered_places import RegisteredPlaces
from monitor.console.components.city_map import CityMap
from monitor.console.elements import named_dialog
from monitor.console.layout import View
from monitor.console.notices import FaultNotice

KINDS: tuple[PlaceKind, ...] = ("district", "road", "checkpoint", "device")
MAX_RINGS = 2_000  # checkpoints of a rule that a map shows


class PlaceSelection:
    """One per form. `on_chosen` is given the text of a condition."""

    def __init__(self, view: View, on_chosen: Callable[[str], None]) -> None:
        self._view, self._on_chosen = view, on_chosen
        self._corners: list[Corner] = []

    def show(self, tree: Expression | None) -> None:
        """With the places of the rule as it is written."""
        view, t = self._view, self._view.t
        register = view.services.register.read()
        self._dialog = named_dialog(t("places.title"))
        with self._dialog, ui.card().classes("dialog-card place-selection"):
            with ui.element("h2"):
                ui.label(t("places.title"))
            self._names(register)
            city = CityMap(
                register_url=f"/api/register?v={view.services.register.version}",
                language=t.language, words={}, label=t("map.label"),
            )  # fmt: skip
            self._drawing(city)
            with ui.element("div").classes("bar"):
                ui.element("div").classes("grow")
                ui.button(t("watch.cancel"), color=None, on_click=self._dialog.close).classes(
                    "header-button"
                )
        city.on_pick(self._picked)
        self._show_places(city, tree, RegisteredPlaces(register))
        self._dialog.on_value_change(lambda e: None if e.value else self._dialog.delete())
        self._dialog.open()

    def _names(self, register: Register) -> None:
        t = self._view.t
        with ui.element("div").classes("bar"):
            kind = ui.select(
                {one: t(f"places.{one}") for one in KINDS}, value=KINDS[0], label=t("places.kind")
            ).props("outlined dense").style("width: 130px")
            name = ui.select(
                names_of(register, KINDS[0]), label=t("places.name"), with_input=True
            ).props("outlined dense").style("width: 300px")
            ui.button(
                t("places.take"), on_click=lambda: self._take_name(kind.value, name.value)
            ).props("unelevated")
        kind.on_value_change(
            lambda e: name.set_options(names_of(register, e.value), value=None)
        )

    def _drawing(self, city: CityMap) -> None:
        t = self._view.t
        fault = FaultNotice()
        with ui.element("div").classes("bar"):
            draw = ui.checkbox(t("places.draw")).props("dense")
            ui.button(t("places.undo"), color=None, on_click=city.undo).classes("header-button")
            corners = ui.label().classes("soft")
            ui.element("div").classes("grow")
            take = ui.button(t("places.take_area"), on_click=self._take_area).props("unelevated")
        draw.on_value_change(lambda e: city.draw(on=bool(e.value)))
        take.set_enabled(False)

        def drawn(found: list[Corner]) -> None:
            self._corners = found
            wrong = polygon_fault(found) if len(found) > 2 else None
            fault.show(t(f"watch.fault_{wrong.code}") if wrong else "", wrong.text if wrong else "")
            corners.set_text(t("places.corners", count=len(found)) if found else "")
            take.set_enabled(len(found) > 2 and wrong is None)

        city.on_drawn(drawn)

    async def _picked(self, checkpoint_id: str) -> None:
        self._take_name("checkpoint", checkpoint_id)

    def _take_name(self, kind: PlaceKind, name: str | None) -> None:
        if name:
            self._take(AtPlace(kind=kind, names=(name,)))

    def _take_area(self) -> None:
        corners = tuple(self._corners)
        if polygon_fault(corners) is None:
            self._take(InArea(corners=corners))

    def _take(self, leaf: AtPlace | InArea) -> None:
        self._on_chosen(to_text(leaf))
        self._dialog.close()

    def _show_places(
        self, city: CityMap, tree: Expression | None, places: RegisteredPlaces
    ) -> None:
        leaves = [node for node, _ in nodes_of(tree)] if tree is not None else []
        asked = [leaf for leaf in leaves if isinstance(leaf, AtPlace | InArea)]
        areas = [
            [(north, east) for east, north in leaf.corners]
            for leaf in asked
            if isinstance(leaf, InArea)
        ]
        found = frozenset[str]().union(*(places.find(leaf).checkpoints for leaf in asked))
        city.show_places(areas, places.checkpoint_ids(found)[:MAX_RINGS])


def names_of(register: Register, kind: PlaceKind) -> dict[str, str]:
    """What a rule would say -> what a person reads."""
    match kind:
        case "district":
            return {one.name: f"{one.name} {one.name_en}".strip() for one in register.districts}
        case "road":
            return {one.name: f"{one.name} {one.name_en}".strip() for one in register.roads}
        case "checkpoint":
            return {
                one.checkpoint_id: f"{one.name} ({one.checkpoint_id})"
                for one in register.checkpoints
            }
        case "device":
            return {one.camera_ip: one.camera_ip for one in register.devices}
