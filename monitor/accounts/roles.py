"""Roles, principals and the one decision who may do what on the HTTP side.

In: principal, operation, resource. Out: yes or no. Never: sessions, files.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec


class Role(str, Enum):
    """What an account is for; an account may hold several."""

    VIEWER = "viewer"  # looks
    OPERATOR = "operator"  # puts targets on the watch list and takes them off
    APPROVER = "approver"  # releases what needs a second pair of eyes
    OPERATIONS = "operations"  # runs the platform: bus, processes


class Operation(str, Enum):
    """What a request wants; every route and every button names exactly one."""

    VIEW = "view"  # records, alarms, map, charts, pictures
    EXPORT = "export"  # many records at once, out of the house
    WATCH_READ = "watch.read"
    WATCH_WRITE = "watch.write"
    BUS_READ = "bus.read"
    SYSTEM_READ = "system.read"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. `session` is the hash of the session's id, empty for a request with a password."""

    name: str
    roles: frozenset[Role]
    session: str = ""


EVERYBODY = frozenset(Role)


def roles_text(roles: Iterable[Role]) -> str:
    """Roles as they are stored: their values in the order of `Role`, separated by commas."""
    return ",".join(role.value for role in sorted(set(roles), key=list(Role).index))


def parse_roles(text: str) -> tuple[Role, ...]:
    """The roles of a stored text. Raises `ValueError`."""
    return tuple(Role(word) for word in text.split(",") if word)


_ALLOWED: dict[Operation, frozenset[Role]] = {
    Operation.VIEW: EVERYBODY,
    Operation.EXPORT: frozenset({Role.OPERATOR, Role.APPROVER, Role.OPERATIONS}),
    Operation.WATCH_READ: EVERYBODY,
    Operation.WATCH_WRITE: frozenset({Role.OPERATOR}),
    Operation.BUS_READ: EVERYBODY,
    Operation.SYSTEM_READ: EVERYBODY,
}


def authorise(principal: Principal, operation: Operation, resource: str = "") -> bool:
    """Whether the principal may. `resource` names the thing; no rule looks at it before
    accountability comes.
    """
    del resource
    return not principal.roles.isdisjoint(_ALLOWED[operation])
