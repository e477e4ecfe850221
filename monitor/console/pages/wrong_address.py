"""What stands instead of a page whose address says something that cannot be read: which of its
fields, and the way to the page without it. Nothing else: half a question has another answer.
"""

from __future__ import annotations

from nicegui import ui

from monitor.console.layout import View


def build(view: View) -> None:
    """The page."""
    t = view.t
    with ui.element("section").classes("panel").props("role=alert"):
        ui.label(t("address.nothing_shown")).classes("notice")
        for name in view.address.wrong:
            field = ui.input(name, value=view.address.given(name))
            field.props("outlined dense readonly error").style("width: 420px; max-width: 100%")
            field.props["error-message"] = t("address.wrong", field=name)
        with ui.element("div").classes("bar"):
            ui.link(t("address.without"), view.address.without_wrong()).classes("header-button")
