"""Who is asking, and what they may do at the edge. Pure.

In: request headers, the peer's address, the tokens. Out: a `Caller`, and yes or no.
Never: trusting what a body says about its sender.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from bus.security.page_token import bearer_token, is_one_of

PAGE_READER = "page reader"
"""Who came with the token of the pages."""


class EdgePermission(Enum):
    """What a route does. Probing (whether the edge lives) is open to everybody; its pages (metrics,
    totals, what it sent again) where no token of pages is set; copying pictures in, under names
    that others gave them, to mirrors with a token only."""

    SEND = "send"
    READ = "read"
    COPY = "copy"
    PAGE = "page"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class Caller:
    """A sender or reader: its name (scope of its record numbers) and its address as seen."""

    name: str
    address: str
    permissions: frozenset[EdgePermission]
    known: bool = False  # by its token; else by its address only


def authenticate(
    headers: Mapping[str, str],
    address: str,
    senders: Mapping[str, str],
    readers: Mapping[str, str],
    mirrors: Mapping[str, str],
    page_token: str = "",
) -> Caller:
    """The owner of the bearer token that came, or the address itself.

    Without tokens of senders everybody may send; without those of readers, too, everybody may read
    as well; without one of pages everybody sees them. Mirrors read what they copy. Readers and
    mirrors see the pages.
    """
    permissions = {EdgePermission.PROBE}
    if not page_token:
        permissions.add(EdgePermission.PAGE)
    if not senders:
        permissions.add(EdgePermission.SEND)
    if not senders and not readers:
        permissions.add(EdgePermission.READ)
    token, name = bearer_token(headers.get("authorization", "")), ""
    for tokens, given in (
        (senders, (EdgePermission.SEND,)),
        (readers, (EdgePermission.READ, EdgePermission.PAGE)),
        (mirrors, (EdgePermission.READ, EdgePermission.COPY, EdgePermission.PAGE)),
        ({PAGE_READER: page_token}, (EdgePermission.PAGE,)),
    ):
        owner = _owner(token, tokens)
        if owner:
            permissions.update(given)
            name = name or owner
    return Caller(name or address, address, frozenset(permissions), bool(name))


def authorise(caller: Caller, permission: EdgePermission) -> bool:
    """Whether the caller may do this; every request passes here."""
    return permission in caller.permissions


def _owner(token: str, tokens: Mapping[str, str]) -> str:
    """The name behind a token. An empty token has no owner."""
    return next((name for name, known in tokens.items() if is_one_of(token, (known,))), "")
