"""Everybody's accounts, for who may change them: a table, a form for one more, a card for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from monitor.accounts.errors import AccountError, AccountsUnavailable
from monitor.accounts.roles import AccountRole, ConsoleOperation
from monitor.api.account_changes import AccountChanges
from monitor.api.views import clock
from monitor.console.elements import facts, grid, named_dialog, panel, update_rows
from monitor.console.layout import View
from monitor.console.notices import notify_fault
from monitor.console.pages.account import roles_text
from monitor.console.password_fields import FORM_STYLE, NewPasswordFields, fault_text, is_changed
from monitor.console.rows import Row, column, district_names
from monitor.i18n import Texts

REFRESH_SECONDS = 5.0  # locks end by time, and others log in


def build(view: View) -> None:
    """The page."""
    AccountTable(view)


class AccountTable:
    """All accounts as the file has them; a click opens one."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        NewAccountForm(view, self.show)
        with panel(t("accounts.all"), "rest") as bar:
            with bar:
                ui.label(t("accounts.how")).classes("soft small")
            self._grid = grid(t, _columns(t), label=t("accounts.all"), rowData=self._rows())
            self._grid.classes("pick")
        self._grid.on("cellClicked", self._clicked, args=["data"])
        ui.timer(REFRESH_SECONDS, self.show)

    def show(self) -> None:
        """Draw again."""
        update_rows(self._grid, self._rows())

    def _rows(self) -> list[Row]:
        """Empty for whom the right has been taken from while the page is open."""
        if not self._view.may(ConsoleOperation.ACCOUNTS_WRITE):
            return []
        try:
            return [_row(one, self._view) for one in self._view.services.account_changes.rows()]
        except AccountsUnavailable as error:
            notify_fault(self._view.t("accounts.failed"), error)
            return []

    def _clicked(self, event: GenericEventArguments) -> None:
        if not may(self._view):
            return
        name = str(event.args["data"]["id"])
        found = [r for r in self._view.services.account_changes.rows() if r["name"] == name]
        if found:
            AccountCard(self._view, found[0], self.show)
        else:
            self.show()


class NewAccountForm:
    """Name, roles, password twice."""

    def __init__(self, view: View, show: Callable[[], None]) -> None:
        self._view, self._show = view, show
        t = view.t
        with panel(t("accounts.add")), ui.element("div").classes("account-form"):
            self._name = ui.input(t("column.name")).props("outlined dense maxlength=64")
            self._name.props("autocomplete=off")
            self._roles = role_choice(t, [AccountRole.VIEWER.value])
            self._password = NewPasswordFields(t)
            ui.button(t("accounts.add"), on_click=self._add).props("unelevated")

    async def _add(self) -> None:
        view, t = self._view, self._view.t
        self._name.error = self._roles.error = None
        password = self._password.value()
        if password is None or not may(view):
            return
        name = (self._name.value or "").strip()
        change = view.services.account_changes.add(
            view.principal, name, password, chosen(self._roles)
        )
        beside = {"roles": self._roles, "weak": self._password.first}
        if await is_changed(t, change, beside, self._name):
            ui.notify(t("accounts.added", name=name), type="positive")
            self._name.set_value("")
            self._password.clear()
            self._show()


class AccountCard:
    """What can be done with one account. One's own shows why nothing can."""

    def __init__(self, view: View, row: dict[str, Any], show: Callable[[], None]) -> None:
        self._view, self._show, self._name = view, show, str(row["name"])
        t = view.t
        with named_dialog(self._name) as self._dialog, ui.card().classes("dialog-card"):
            with ui.element("h2"):
                ui.label(self._name)
            facts([(t("column.last_log_in"), _last(row, view)), (t("column.lock"), _lock(row, t))])
            if self._name == view.principal.name and not view.principal.is_guest:
                ui.label(t("accounts.fault_self")).classes("notice")
            else:
                self._build(row)
            self._button(t("accounts.close"), self._dialog.close)
        self._dialog.on("hide", self._dialog.delete)
        self._dialog.open()

    def _build(self, row: dict[str, Any]) -> None:
        t = self._view.t
        with ui.element("div").style(FORM_STYLE):
            self._roles = role_choice(t, row["roles"])
            ui.button(t("accounts.set_roles"), on_click=self._set_roles).props("unelevated")
            self._unit = ui.input(t("accounts.unit"), value=row["unit"])
            self._unit.props("outlined dense maxlength=40 autocomplete=off")
            self._districts = district_choice(self._view, row["districts"])
            ui.button(t("accounts.set_unit"), on_click=self._set_unit).props("unelevated")
            self._password = NewPasswordFields(t)
            ui.button(t("accounts.set_password"), on_click=self._set_password).props("unelevated")
        with ui.element("div").classes("bar"):
            if row["locked_for_s"]:
                self._button(t("accounts.unlock"), self._unlock)
            self._sure = ui.checkbox(t("accounts.remove_sure"))
            remove = ui.button(t("accounts.remove"), color="negative", on_click=self._remove)
            remove.props("unelevated").bind_enabled_from(self._sure, "value")

    def _button(self, text: str, on_click: Callable[[], object]) -> None:
        ui.button(text, color=None, on_click=on_click).classes("header-button")

    async def _set_roles(self) -> None:
        self._roles.error = None
        roles = chosen(self._roles)
        await self._change(
            lambda: self._changes.set_roles(self._view.principal, self._name, roles),
            "accounts.roles_set",
            dict.fromkeys(("roles", "last"), self._roles),
        )

    async def _set_unit(self) -> None:
        self._unit.error = self._districts.error = None
        unit, districts = self._unit.value or "", list(self._districts.value or ())
        await self._change(
            lambda: self._changes.set_unit(self._view.principal, self._name, unit, districts),
            "accounts.unit_set",
            {"unit": self._unit, "districts": self._districts},
        )

    async def _set_password(self) -> None:
        password = self._password.value()
        if password is None:
            return
        await self._change(
            lambda: self._changes.set_password(self._view.principal, self._name, password),
            "accounts.password_set",
            {"weak": self._password.first},
        )

    async def _remove(self) -> None:
        await self._change(
            lambda: self._changes.remove(self._view.principal, self._name),
            "accounts.removed",
            {"last": self._roles},
        )

    def _unlock(self) -> None:
        if not may(self._view):
            return
        try:
            self._changes.unlock(self._view.principal, self._name)
        except AccountError as error:
            ui.notify(fault_text(self._view.t, error), type="warning")
        else:
            self._end("accounts.unlocked")

    async def _change(
        self, change: Callable[[], Awaitable[None]], text_key: str, beside: dict[str, Any]
    ) -> None:
        if not may(self._view):
            return
        if await is_changed(self._view.t, change(), beside, self._password.first):
            self._end(text_key)

    def _end(self, text_key: str) -> None:
        ui.notify(self._view.t(text_key, name=self._name), type="positive")
        self._show()
        self._dialog.close()

    @property
    def _changes(self) -> AccountChanges:
        return self._view.services.account_changes


def may(view: View) -> bool:
    """Whether this person still may; says so if not."""
    allowed = view.may(ConsoleOperation.ACCOUNTS_WRITE)
    if not allowed:
        ui.notify(view.t("accounts.no_right"), type="negative")
    return allowed


def role_choice(t: Texts, roles: list[str]) -> ui.select:
    """Which roles."""
    names = {role.value: t(f"account.role_{role.value}") for role in AccountRole}
    made = ui.select(names, value=roles, multiple=True, label=t("column.roles"))
    return made.props("outlined dense options-dense")


def district_choice(view: View, chosen_ids: list[str]) -> ui.select:
    """Which districts of the register; one that it no longer has by its id."""
    t = view.t
    known = {one: one for one in chosen_ids}
    known |= district_names(view.services.register.read(), t)
    made = ui.select(known, value=chosen_ids, multiple=True, label=t("accounts.districts"))
    return made.props("outlined dense options-dense use-chips")


def chosen(choice: ui.select) -> list[AccountRole]:
    """What a choice says."""
    return [AccountRole(value) for value in choice.value or ()]


def _row(one: dict[str, Any], view: View) -> Row:
    names = district_names(view.services.register.read(), view.t)
    return {
        "id": one["name"],
        "name": one["name"],
        "roles": roles_text(view.t, frozenset(map(AccountRole, one["roles"]))),
        "unit": one["unit"],
        "districts": view.t("list.comma").join(names.get(i, i) for i in one["districts"]),
        "last_log_in": _last(one, view),
        "lock": _lock(one, view.t),
        "is_locked": one["locked_for_s"] > 0,
    }


def _last(one: dict[str, Any], view: View) -> str:
    at = clock(one["last_log_in_ms"], view.services.site.tz)[:19]
    return at or view.t("accounts.never")


def _lock(one: dict[str, object], t: Texts) -> str:
    seconds = one["locked_for_s"]
    return t("accounts.locked", seconds=seconds) if seconds else t("accounts.open")


def _columns(t: Texts) -> list[Row]:
    return [
        column(t, "name", "name", flex=2, minWidth=120, cellClass="strong"),
        column(t, "roles", "roles", flex=3, minWidth=160),
        column(t, "unit", "unit", width=120),
        column(t, "districts", "districts", flex=2, minWidth=110),
        column(t, "last_log_in", "last_log_in", width=180),
        column(t, "lock", "lock", flex=2, minWidth=160)
        | {":cellClass": "p => p.data.is_locked ? 'bad' : 'ok'"},
    ]
