"""What stands at an address that no page has: the same frame, and the way back."""

from __future__ import annotations

from nicegui import ui

from monitor.console.layout import PAGES, View


def build(view: View) -> None:
    """The page."""
    first = next(iter(PAGES))
    with ui.element("section").classes("panel"):
        text = view.t("missing.text", path=view.request.url.path)
        ui.label(text).style("overflow-wrap: anywhere")
        with ui.element("div").classes("bar"):
            ui.link(view.t("missing.back", page=view.t(f"nav.{first}")), f"/{first}").classes(
                "header-button"
            )
