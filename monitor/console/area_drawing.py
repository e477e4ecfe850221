"""A polygon that is drawn on a map, corner by corner, and what is wrong with it while it is drawn.

In: a map, what to do with a polygon that is one. Never: a polygon that could not be taken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from nicegui import ui

from bus.domain.polygons import LEAST_CORNERS, MOST_CORNERS, Corner, polygon_fault
from monitor.console.address_bar import finish
from monitor.console.components.city_map import CityMap
from monitor.console.notices import FaultNotice
from monitor.i18n import Texts

Take: TypeAlias = Callable[[tuple[Corner, ...]], Awaitable[object] | object]


class AreaDrawing:
    """The controls below a map."""

    def __init__(
        self,
        t: Texts,
        city: CityMap,
        *,
        label: str,
        on_taken: Take,
        most_corners: int = MOST_CORNERS,
        is_on: bool = False,
    ) -> None:
        """`label`: of the button that takes the polygon; `is_on`: each click is a corner from the
        beginning on."""
        self._t, self._on_taken, self._most = t, on_taken, most_corners
        self._corners: list[Corner] = []
        self._fault = FaultNotice()
        with ui.element("div").classes("bar"):
            draw = ui.checkbox(t("places.draw"), value=is_on).props("dense")
            ui.button(t("places.undo"), color=None, on_click=city.undo).classes("header-button")
            self._count = ui.label().classes("soft").props("role=status")
            ui.element("div").classes("grow")
            self._take = ui.button(label, on_click=self._taken).props("unelevated")
        draw.on_value_change(lambda e: city.draw(on=bool(e.value)))
        self._take.set_enabled(False)
        city.on_drawn(self._drawn)
        if is_on:
            city.draw(on=True)

    def _drawn(self, corners: list[Corner]) -> None:
        t, self._corners = self._t, corners
        wrong = polygon_fault(corners) if len(corners) >= LEAST_CORNERS else None
        is_too_many = len(corners) > self._most
        if is_too_many:
            self._fault.show(t("places.most_corners", count=self._most))
        else:
            text = t(f"watch.fault_{wrong.code}") if wrong else ""
            self._fault.show(text, wrong.text if wrong else "")
        self._count.set_text(t("places.corners", count=len(corners)) if corners else "")
        is_one = len(corners) >= LEAST_CORNERS and wrong is None
        self._take.set_enabled(is_one and not is_too_many)

    async def _taken(self) -> None:
        corners = tuple(self._corners)
        if polygon_fault(corners) is None and len(corners) <= self._most:
            await finish(self._on_taken(corners))
