"""One-time links: how `demo` lets the person at its terminal in without a password.

In: a name and roles. Out: a token that opens one session, once, before it expires; only its hash is
written. Never: a link that works twice or for ever.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from monitor.accounts.locked_file import LockedFile
from monitor.accounts.roles import EVERYBODY, Principal, Role

MAX_LINKS = 20  # a link nobody opened is forgotten when so many newer ones exist


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One link that waits to be opened."""

    token_hash: str
    name: str
    roles: tuple[Role, ...]
    expires_at_ms: int


class LinkList(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file."""

    links: tuple[Link, ...] = ()


def _file(data_path: Path) -> LockedFile[LinkList]:
    return LockedFile(data_path / "console" / "links.json", LinkList)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def issue_one_time_link(
    data_path: Path,
    *,
    name: str = "demo",
    roles: Iterable[Role] = EVERYBODY,
    minutes: int = 60,
    base_url: str = "http://127.0.0.1:8651",
) -> str:
    """The address to print. Works while the console runs as well as before it starts."""
    token = secrets.token_urlsafe(32)
    now = time.time_ns() // 1_000_000
    link = Link(
        token_hash=_hash(token),
        name=name,
        roles=tuple(sorted(set(roles), key=list(Role).index)),
        expires_at_ms=now + minutes * 60_000,
    )
    _file(data_path).change(
        lambda old: LinkList(
            links=(*(x for x in old.links if x.expires_at_ms > now), link)[-MAX_LINKS:]
        )
    )
    return f"{base_url}/auth/once/{token}"


def redeem(data_path: Path, token: str, now_ms: int) -> Principal | None:
    """The guest behind a token, or None; the link is gone on disk before this returns."""
    wanted = _hash(token)
    found: list[Link] = []

    def edit(old: LinkList) -> LinkList:
        found.extend(x for x in old.links if x.token_hash == wanted)
        return LinkList(links=tuple(x for x in old.links if x.token_hash != wanted))

    _file(data_path).change(edit)
    if not found or found[0].expires_at_ms <= now_ms:
        return None
    return Principal(name=found[0].name, roles=frozenset(found[0].roles))
