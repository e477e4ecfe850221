"""The area of a search: a button that opens a map to draw one on, what is chosen, and a cross that
takes it away.

The area stands in the page's address only; nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from nicegui import ui

from bus.domain.expressions.to_text import corners_text
from bus.domain.polygons import Corner
from bus.domain.searched_area import MAX_CORNERS, AreaFault, read_area, searched_area
from monitor.api.registered import places_now
from monitor.console.area_drawing import AreaDrawing
from monitor.console.components.city_map import CityMap
from monitor.console.elements import named_dialog
from monitor.console.layout import View

Choose: TypeAlias = Callable[[str], Awaitable[object]]
MAX_RINGS = 2_000  # checkpoints that a map shows


class AreaField:
    """One per form. `on_chosen` is given the area as the address has it; empty: none."""

    def __init__(self, view: View, on_chosen: Choose) -> None:
        self._view, self._on_chosen = view, on_chosen
        self._text = ""
        with ui.element("div").classes("bar") as self._place:
            self._button = ui.button(
                view.t("area.open"), color=None, icon="polyline", on_click=self._open
            ).classes("header-button")
            self._clear = ui.button(color=None, icon="close", on_click=self._take_away)
            self._clear.classes("header-button").props(f'aria-label="{view.t("area.clear")}"')
        self.show("")

    def show(self, text: str) -> None:
        """The area that is asked for; one that cannot be read is none."""
        self._text = text
        try:
            corners = read_area(text) if text else ()
        except AreaFault:
            corners = ()
        t = self._view.t
        self._button.set_text(t("area.chosen", count=len(corners)) if corners else t("area.open"))
        self._clear.set_visibility(bool(text))

    async def _take_away(self) -> None:
        await self._on_chosen("")

    def _open(self) -> None:
        view, t = self._view, self._view.t
        dialog = named_dialog(t("area.title"))

        async def taken(corners: tuple[Corner, ...]) -> None:
            dialog.close()
            with self._place:  # the dialog, where the click came from, is going
                await self._on_chosen(corners_text(corners))

        with dialog, ui.card().classes("dialog-card place-selection"):
            with ui.element("h2"):
                ui.label(t("area.title"))
            ui.label(t("area.how")).classes("soft")
            city = CityMap(
                register_url=f"/api/register?v={view.services.register.version}",
                language=t.language, words={}, label=t("map.label"),
            )  # fmt: skip
            self._show_chosen(city)
            AreaDrawing(
                t, city, label=t("area.take"), on_taken=taken, most_corners=MAX_CORNERS, is_on=True
            )
            with ui.element("div").classes("bar"):
                ui.element("div").classes("grow")
                ui.button(t("watch.cancel"), color=None, on_click=dialog.close).classes(
                    "header-button"
                )
        dialog.on_value_change(lambda e: None if e.value else dialog.delete())
        dialog.open()

    def _show_chosen(self, city: CityMap) -> None:
        """With the checkpoints that lie in it."""
        if not self._text:
            return
        try:
            found = searched_area(self._text, places_now(self._view.services))
        except AreaFault:
            return
        shown = [(north, east) for east, north in read_area(self._text)]
        city.show_places([shown], sorted(found.checkpoints)[:MAX_RINGS])
