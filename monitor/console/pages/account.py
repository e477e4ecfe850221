"""One's own account: who I am, what I may, another password."""

from __future__ import annotations

from nicegui import ui

from bus.domain.visibility import EVERY_UNIT
from monitor.accounts.login_limiter import LoginSender
from monitor.accounts.roles import AccountRole, ConsoleOperation
from monitor.api.login import sender_of
from monitor.console.elements import facts, panel
from monitor.console.layout import View
from monitor.console.password_fields import (
    FORM_STYLE,
    NewPasswordFields,
    is_changed,
    password_field,
)
from monitor.console.rows import district_names
from monitor.i18n import Texts


def build(view: View) -> None:
    """The page."""
    t = view.t
    with panel(t("account.who")):
        facts(
            [
                (t("column.name"), view.principal.name),
                (t("column.roles"), roles_text(t, view.principal.roles)),
                (t("account.unit"), _unit_text(view)),
                (t("account.districts"), _districts_text(view)),
            ]
        )
    if view.principal.is_guest:
        ui.label(t("accounts.fault_guest")).classes("notice")
    else:
        OwnPasswordForm(view)


def _unit_text(view: View) -> str:
    unit = view.principal.viewer.unit
    if unit == EVERY_UNIT:
        return view.t("account.all_units")
    return unit or view.t("account.no_unit")


def _districts_text(view: View) -> str:
    t, names = view.t, district_names(view.services.register.read(), view.t)
    named = [names.get(one, one) for one in view.principal.districts]
    return t("list.comma").join(named) or t("account.all_districts")


def roles_text(t: Texts, roles: frozenset[AccountRole]) -> str:
    """Roles in words, in their usual order."""
    return t("list.comma").join(t(f"account.role_{r.value}") for r in AccountRole if r in roles)


class OwnPasswordForm:
    """The old password, the new one twice; what is wrong stands beside its field."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        with panel(t("account.password")):
            with ui.element("div").style(FORM_STYLE):
                self._old = password_field(t("account.old"), "current-password")
                self._new = NewPasswordFields(t)
                ui.button(t("account.change"), on_click=self._change).props("unelevated")
            ui.label(t("account.others_end")).classes("soft small")

    async def _change(self) -> None:
        view = self._view
        self._old.error = None
        new = self._new.value()
        if new is None:
            return
        if not view.may(ConsoleOperation.ACCOUNT_OWN):
            ui.notify(view.t("shell.session_over"), type="negative")
            return
        done = await is_changed(
            view.t,
            view.services.account_changes.change_own_password(
                view.principal, self._old.value or "", new, self._sender()
            ),
            {"old": self._old, "weak": self._new.first},
            self._old,
        )
        if done:
            self._old.set_value("")
            self._new.clear()
            ui.notify(view.t("account.changed"), type="positive")

    def _sender(self) -> LoginSender:
        return sender_of(self._view.services, self._view.request, self._view.principal.name)
