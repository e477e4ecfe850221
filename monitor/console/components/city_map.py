"""The map element: roads, checkpoints by colour and shape, pulses, one growing trajectory.

Loads no tiles, and the register from its own address, not as a prop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import nicegui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

_LEAFLET = Path(nicegui.__file__).parent / "elements" / "leaflet" / "dist"


class CityMap(Element, component="city_map.js", esm={"nicegui-leaflet": str(_LEAFLET)}):
    """Loads the register by URL, so that it is cached and is no part of every page."""

    def __init__(
        self, *, register_url: str, language: str, words: dict[str, str], label: str
    ) -> None:
        super().__init__()
        self.add_resource(_LEAFLET)
        self._props["register"] = register_url
        self._props["language"] = language
        self._props["words"] = words
        self._props["label"] = label
        self.classes("city-map")

    def on_pick(self, handler: Callable[[str], Awaitable[object]]) -> None:
        """Hear the checkpoint id that was clicked."""

        async def picked(event: GenericEventArguments) -> None:
            if isinstance(event.args, str):
                await handler(event.args)

        self.on("pick", picked)

    def on_drawn(self, handler: Callable[[list[tuple[float, float]]], object]) -> None:
        """Hear all corners of the polygon that is drawn, [longitude, latitude], with each
        change."""

        def drawn(event: GenericEventArguments) -> None:
            try:
                handler(msgspec.convert(event.args, list[tuple[float, float]]))
            except msgspec.ValidationError:
                return  # whoever may send here may send anything

        self.on("drawn", drawn)

    def draw(self, *, on: bool) -> None:
        """Begin a polygon, or give it up."""
        self.run_method("draw", on)

    def undo(self) -> None:
        """Take the last corner of the polygon back."""
        self.run_method("undo")

    def show_places(
        self, areas: Sequence[Sequence[tuple[float, float]]], ids: Sequence[str]
    ) -> None:
        """Polygons, as [latitude, longitude], and rings around checkpoints, instead of the former
        ones."""
        self.run_method("showPlaces", areas, ids)

    def set_states(self, states: Sequence[tuple[str, str]]) -> None:
        """Checkpoint id and state of those that changed."""
        self.run_method("setStates", states)

    def pulse(self, checkpoint_id: str, severity: str) -> None:
        """Rings around a checkpoint."""
        self.run_method("pulse", checkpoint_id, severity)

    def track(self, stops: Sequence[Mapping[str, str | int]]) -> None:
        """Redraw a trajectory: `id` and `time` of each stop, and its `number` where that is not
        its place among those drawn. All of them stay."""
        self.run_method("track", stops)

    def grow(self, stop: dict[str, str]) -> None:
        """One more stop."""
        self.run_method("grow", stop)

    def clear_track(self) -> None:
        """Take the trajectory away."""
        self.run_method("clear")

    def select(self, checkpoint_id: str) -> None:
        """Go there."""
        self.run_method("select", checkpoint_id)

    def fit(self) -> None:
        """Show everything."""
        self.run_method("fit")
