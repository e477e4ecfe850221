"""Roles, principals and the one decision who may do what on the HTTP side.

In: principal, operation, resource. Out: yes or no. Never: sessions, files.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from bus.domain.visibility import EVERY_UNIT, Viewer


class AccountRole(str, Enum):
    """What an account is for; an account may hold several."""

    VIEWER = "viewer"  # looks
    OPERATOR = "operator"  # puts targets on the watch list and takes them off; changes the register
    APPROVER = "approver"  # releases what needs a second pair of eyes
    OPERATIONS = "operations"  # runs the platform: bus, processes, who may use the console


class ConsoleOperation(str, Enum):
    """What a request wants; every route and every button names exactly one."""

    VIEW = "view"  # records, alarms, map, charts, pictures
    EXPORT = "export"  # many records at once, out of the house
    WATCH_READ = "watch.read"
    WATCH_WRITE = "watch.write"
    WATCH_APPROVE = "watch.approve"
    QUESTIONS_READ = "questions.read"  # who asked what, when and why
    REGISTER_WRITE = "register.write"
    BUS_READ = "bus.read"
    BUS_WRITE = "bus.write"  # topics are created, grown and deleted
    SYSTEM_READ = "system.read"
    ACCOUNT_OWN = "account.own"  # see it, change one's own password
    ACCOUNTS_WRITE = "accounts.write"  # see and change everybody's


class ConsolePrincipal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. `session` is the hash of the session's id, empty for a request with a password.
    A guest came by a one-time link and has no account. `unit` and `districts` are the account's;
    see `bus.domain.visibility`."""

    name: str
    roles: frozenset[AccountRole]
    session: str = ""
    is_guest: bool = False
    unit: str = ""
    districts: tuple[str, ...] = ()

    @property
    def viewer(self) -> Viewer:
        """What he may see: of an account without a unit what everybody sees, or all where it runs
        the platform."""
        unit = self.unit or (EVERY_UNIT if ADMINISTRATOR in self.roles else "")
        return Viewer(unit, frozenset(self.districts))


EVERYBODY = frozenset(AccountRole)
ADMINISTRATOR = AccountRole.OPERATIONS
"""Changes accounts; who runs the platform could with `databus accounts` anyway."""


def roles_text(roles: Iterable[AccountRole]) -> str:
    """Roles as they are stored: their values in the order of `AccountRole`, separated by commas."""
    return ",".join(role.value for role in sorted(set(roles), key=list(AccountRole).index))


def parse_roles(text: str) -> tuple[AccountRole, ...]:
    """The roles of a stored text. Raises `ValueError`."""
    return tuple(AccountRole(word) for word in text.split(",") if word)


_ALLOWED: dict[ConsoleOperation, frozenset[AccountRole]] = {
    ConsoleOperation.VIEW: EVERYBODY,
    ConsoleOperation.EXPORT: frozenset(
        {AccountRole.OPERATOR, AccountRole.APPROVER, AccountRole.OPERATIONS}
    ),
    ConsoleOperation.WATCH_READ: EVERYBODY,
    ConsoleOperation.WATCH_WRITE: frozenset({AccountRole.OPERATOR}),
    ConsoleOperation.WATCH_APPROVE: frozenset({AccountRole.APPROVER}),
    ConsoleOperation.QUESTIONS_READ: frozenset({ADMINISTRATOR}),
    ConsoleOperation.REGISTER_WRITE: frozenset({AccountRole.OPERATOR}),
    ConsoleOperation.BUS_READ: EVERYBODY,
    ConsoleOperation.BUS_WRITE: frozenset({ADMINISTRATOR}),
    ConsoleOperation.SYSTEM_READ: EVERYBODY,
    ConsoleOperation.ACCOUNT_OWN: EVERYBODY,
    ConsoleOperation.ACCOUNTS_WRITE: frozenset({ADMINISTRATOR}),
}


def authorise(principal: ConsolePrincipal, operation: ConsoleOperation, resource: str = "") -> bool:
    """Whether the principal may. `resource` names the thing; no rule looks at it before
    accountability comes.
    """
    del resource
    return not principal.roles.isdisjoint(_ALLOWED[operation])
