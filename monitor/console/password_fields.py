"""Fields for passwords, and what a refused change of an account says beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from monitor.accounts.errors import AccountError, AccountsUnavailable
from monitor.accounts.login_limiter import TooManyAttempts
from monitor.accounts.passwords import (
    MAX_PASSWORD_CHARACTERS,
    MIN_PASSWORD_CHARACTERS,
    WeakPassword,
)
from monitor.console.notices import notify_fault
from monitor.i18n import Texts

FORM_STYLE = "display: grid; gap: 6px; max-width: 360px"


def password_field(label: str, autocomplete: str) -> ui.input:
    """One that a browser's password manager understands."""
    made = ui.input(label, password=True, password_toggle_button=True)
    made.props(f"outlined dense autocomplete={autocomplete} maxlength={MAX_PASSWORD_CHARACTERS}")
    return made


class NewPasswordFields:
    """A new password, typed twice."""

    def __init__(self, t: Texts) -> None:
        self._t = t
        self.first = password_field(t("account.new"), "new-password")
        self._again = password_field(t("account.again"), "new-password")

    def value(self) -> str | None:
        """What both say; None, and the fault beside the second one, if they differ."""
        self.first.error = None
        is_same = (self.first.value or "") == (self._again.value or "")
        self._again.error = None if is_same else self._t("accounts.fault_again")
        return (self.first.value or "") if is_same else None

    def clear(self) -> None:
        """Empty again."""
        for field in (self.first, self._again):
            field.set_value("")
            field.error = None


async def is_changed(
    t: Texts,
    change: Awaitable[None],
    fields: Mapping[str, ValidationElement[Any]],
    otherwise: ui.input,
) -> bool:
    """Whether the change was made. If not, the fault stands beside its field: `fields` has one by
    fault, `otherwise` is where those of no field stand.
    """
    try:
        await change
    except AccountError as error:
        fields.get(error.fault, otherwise).error = fault_text(t, error)
    except WeakPassword:
        fields.get("weak", otherwise).error = t(
            "accounts.fault_weak", least=MIN_PASSWORD_CHARACTERS, most=MAX_PASSWORD_CHARACTERS
        )
    except TooManyAttempts as error:
        otherwise.error = t("login.wait", seconds=error.retry_after_s)
    except AccountsUnavailable as error:
        notify_fault(t("accounts.failed"), error)
    else:
        return True
    return False


def fault_text(t: Texts, error: AccountError) -> str:
    """Why a change is not made, in the language of the page."""
    return t.table.get(f"accounts.fault_{error.fault}", str(error))
