"""The dialog of a rule's form in which places are chosen: by name out of the register, by a click
on a checkpoint, or as a polygon that is drawn; those of the rule are shown on the map.

What is chosen becomes a condition of the rule's text, which says all of it: nothing is kept here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from nicegui import ui

from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    Conjunction,
    Expression,
    InArea,
    OneOf,
    PlaceKind,
    TravelHeading,
)
from bus.contracts.register import Register
from bus.domain.expressions.to_text import to_text
from bus.domain.expressions.tree import nodes_of
from bus.domain.kinds import WIRE_KEYS
from bus.domain.polygons import Corner
from bus.domain.registered_places import RegisteredPlaces
from bus.domain.rule_values import DIRECTION, LANE
from bus.domain.travel_headings import HEADINGS
from monitor.console.area_drawing import AreaDrawing
from monitor.console.components.city_map import CityMap
from monitor.console.elements import named_dialog
from monitor.console.layout import View
from monitor.console.notices import FaultNotice

KINDS: tuple[PlaceKind, ...] = ("district", "road", "checkpoint", "device")
_between_lanes = re.compile("[,，、;；]").split
MAX_RINGS = 2_000  # checkpoints of a rule that a map shows


class PlaceSelection:
    """One per form. `on_chosen` is given the text of a condition."""

    def __init__(self, view: View, on_chosen: Callable[[str], None]) -> None:
        self._view, self._on_chosen = view, on_chosen

    def show(self, tree: Expression | None, data_kind: str) -> None:
        """With the places of the rule as it is written; `data_kind`: of its records."""
        view, t = self._view, self._view.t
        register = view.services.register.read()
        self._dialog = named_dialog(t("places.title"))
        with self._dialog, ui.card().classes("dialog-card place-selection"):
            with ui.element("h2"):
                ui.label(t("places.title"))
            NamedPlace(view, RegisteredPlaces(register), data_kind, self._take)
            city = CityMap(
                register_url=f"/api/register?v={view.services.register.version}",
                language=t.language, words={}, label=t("map.label"),
            )  # fmt: skip
            AreaDrawing(t, city, label=t("places.take_area"), on_taken=self._take_area)
            with ui.element("div").classes("bar"):
                ui.element("div").classes("grow")
                ui.button(t("watch.cancel"), color=None, on_click=self._dialog.close).classes(
                    "header-button"
                )
        city.on_pick(self._picked)
        self._show_places(city, tree, RegisteredPlaces(register))
        self._dialog.on_value_change(lambda e: None if e.value else self._dialog.delete())
        self._dialog.open()

    async def _picked(self, checkpoint_id: str) -> None:
        self._take(AtPlace(kind="checkpoint", names=(checkpoint_id,)))

    def _take_area(self, corners: tuple[Corner, ...]) -> None:
        self._take(InArea(corners=corners))

    def _take(self, tree: Expression) -> None:
        self._on_chosen(to_text(tree))
        self._dialog.close()

    def _show_places(
        self, city: CityMap, tree: Expression | None, places: RegisteredPlaces
    ) -> None:
        leaves = [node for node, _ in nodes_of(tree)] if tree is not None else []
        areas = [
            [(north, east) for east, north in leaf.corners]
            for leaf in leaves
            if isinstance(leaf, InArea)
        ]
        found = frozenset[str]().union(*(places.checkpoints_at(leaf) for leaf in leaves))
        city.show_places(areas, places.checkpoint_ids(found)[:MAX_RINGS])


class NamedPlace:
    """A place by its name, a way along a road, directions and lanes; `on_taken` is given all that
    was chosen, as one condition."""

    def __init__(
        self,
        view: View,
        places: RegisteredPlaces,
        data_kind: str,
        on_taken: Callable[[Expression], None],
    ) -> None:
        """`data_kind`: of the rule's records; not all of them have a direction and a lane."""
        self._t, self._places, self._on_taken = view.t, places, on_taken
        known = WIRE_KEYS[data_kind]
        kinds = {str(one): self._t(f"places.{one}") for one in KINDS}
        with ui.element("div").classes("bar"):
            self._kind = self._choice("kind", kinds, 130, value=KINDS[0])
            self._name = self._choice("name", names_of(places.register, KINDS[0]), 300)
            self._begin, self._end = (self._choice(one, {}, 240) for one in ("from", "to"))
        with ui.element("div").classes("bar"):
            headings = {str(one): self._t.word("heading", one) for one in HEADINGS}
            self._headings = self._choices("headings", headings, 260)
            self._headings.set_visibility(DIRECTION in known)
            self._lanes = ui.input(self._t("places.lanes"), placeholder="1, 2")
            self._lanes.props("outlined dense").style("width: 120px")
            self._lanes.set_visibility(LANE in known)
            ui.element("div").classes("grow")
            ui.button(self._t("places.take"), on_click=self._take).props("unelevated")
        self._fault = FaultNotice()
        self._kind.on_value_change(self._offer_names)
        self._name.on_value_change(self._offer_ends)
        self._has_ways = DIRECTION in known
        self._offer_ends()

    def _choice(
        self, name: str, options: Mapping[str, str], width: int, value: str | None = None
    ) -> ui.select:
        made = ui.select(
            dict(options), label=self._t(f"places.{name}"), value=value, with_input=value is None
        )
        return made.props("outlined dense").style(f"width: {width}px")

    def _choices(self, name: str, options: Mapping[str, str], width: int) -> ui.select:
        made = ui.select(
            dict(options), label=self._t(f"places.{name}"), value=[], multiple=True
        )
        return made.props("outlined dense").style(f"width: {width}px")

    def _offer_names(self) -> None:
        self._name.set_options(names_of(self._places.register, self._kind.value), value=None)
        self._offer_ends()

    def _offer_ends(self) -> None:
        """Checkpoints of the road that is chosen."""
        is_road = self._has_ways and self._kind.value == "road" and bool(self._name.value)
        found = self._places.checkpoints_of_road(self._name.value) if is_road else []
        names = {one.checkpoint_id: f"{one.name} ({one.checkpoint_id})" for one in found}
        for end in (self._begin, self._end):
            end.set_options(names, value=None)
            end.set_visibility(bool(names))

    def _take(self) -> None:
        ends = [self._begin.value, self._end.value]
        if any(ends) and (not all(ends) or ends[0] == ends[1]):
            self._fault.show(self._t("places.both_ends"))
            return
        parts = list(self._chosen())
        if any(isinstance(one, AlongRoad) and self._is_no_way(one) for one in parts):
            self._fault.show(self._t("places.no_way"))
            return
        if not parts:
            self._fault.show(self._t("places.nothing"))
            return
        self._on_taken(Conjunction(parts=tuple(parts)) if len(parts) > 1 else parts[0])

    def _is_no_way(self, way: AlongRoad) -> bool:
        return bool(self._places.find(way).missing)

    def _chosen(self) -> Iterator[Expression]:
        kind, name, begin = self._kind.value, self._name.value, self._begin.value
        if name and begin:
            yield AlongRoad(road=name, begin=begin, end=self._end.value)
        elif name:
            yield AtPlace(kind=kind, names=(name,))
        if self._headings.value:
            yield TravelHeading(headings=tuple(self._headings.value))
        lanes = filter(None, map(str.strip, _between_lanes(self._lanes.value or "")))
        if values := tuple(dict.fromkeys(lanes)):
            yield OneOf(attribute=LANE, values=values)


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
