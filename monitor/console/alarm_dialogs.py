"""What a request about an alarm has to say, asked of the person in a dialog."""

from __future__ import annotations

from nicegui import ui

from bus.contracts.alarm_states import AlarmOp
from bus.domain.alarm_life import FALSE_REASONS, MAX_NAME_CHARACTERS, MAX_TEXT_CHARACTERS, RESULTS
from monitor.console.elements import named_dialog
from monitor.i18n import Texts

NEEDS: dict[AlarmOp, tuple[str, ...]] = {
    "assign": ("to", "text"),
    "false": ("why", "text"),
    "comment": ("text",),
    "close": ("result", "text"),
}
"""Fields of `AlarmRequest` by what is asked for; the others need nothing."""


async def ask_for(t: Texts, op: AlarmOp, accounts: list[str]) -> dict[str, str] | None:
    """What was said; None where the person thought better of it."""
    needed = NEEDS.get(op, ())
    if not needed:
        return {}
    with named_dialog(t(f"alarm_op.{op}")) as dialog, ui.card().classes("dialog-card alarm-dialog"):
        with ui.element("h2"):
            ui.label(t(f"alarm_op.{op}"))
        fields = {name: _field(t, name, accounts) for name in needed}

        def submit() -> None:
            dialog.submit({name: str(field.value or "") for name, field in fields.items()})

        fields[needed[-1]].props("autofocus")
        for field in fields.values():
            field.props("outlined dense").style("width: 360px; max-width: 80vw")
            field.on("keydown.enter", submit)
        with ui.element("div").classes("bar"):
            ui.button(
                t("alarm.cancel"), color=None, on_click=lambda: dialog.submit(None)
            ).classes("header-button")
            ui.button(t(f"alarm_op.{op}"), on_click=submit).props("unelevated")
    said: dict[str, str] | None = await dialog
    dialog.delete()
    return said


def _field(t: Texts, name: str, accounts: list[str]) -> ui.input | ui.select:
    label = t(f"alarm.{name}")
    if name == "why":
        choices = {one: t(f"false_why.{one}") for one in FALSE_REASONS}
        return ui.select(choices, value=FALSE_REASONS[0], label=label)
    if name == "result":
        choices = {one: t(f"alarm_result.{one}") for one in RESULTS}
        return ui.select(choices, value=RESULTS[0], label=label)
    if name == "to":
        return ui.input(label, autocomplete=accounts).props(f"maxlength={MAX_NAME_CHARACTERS}")
    return ui.input(label).props(f"maxlength={MAX_TEXT_CHARACTERS}")
