"""One-time links: `demo` logs the person at its terminal in without a password.

A token opens one session, once, before it expires; only its hash is written.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from bus.runtime import wall_clock
from monitor.accounts.database import AccountDatabase, remove_expired
from monitor.accounts.roles import EVERYBODY, AccountRole, ConsolePrincipal, roles_text

MAX_LINKS = 20  # an unused link is deleted when so many newer ones exist

_SELECT = "SELECT name, roles, expires_at_ms FROM links WHERE token_hash = ?"


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def issue_one_time_link(
    data_path: Path,
    *,
    name: str = "demo",
    roles: Iterable[AccountRole] = EVERYBODY,
    minutes: int = 60,
    base_url: str = "http://127.0.0.1:8651",
) -> str:
    """The address to print. Works while the console runs as well as before it starts. Raises
    `AccountsUnavailable`.
    """
    token = secrets.token_urlsafe(32)
    now_ms = wall_clock.now_ms()
    row = (_hash(token), name, roles_text(roles), now_ms + minutes * 60_000)
    with closing(AccountDatabase(data_path)) as database, database.transaction() as connection:
        remove_expired(connection, now_ms)
        connection.execute(
            "INSERT INTO links (token_hash, name, roles, expires_at_ms) VALUES (?, ?, ?, ?)", row
        )
        connection.execute(
            "DELETE FROM links WHERE id NOT IN (SELECT id FROM links ORDER BY id DESC LIMIT ?)",
            (MAX_LINKS,),
        )
    return f"{base_url}/auth/once/{token}"


def redeem(database: AccountDatabase, token: str, now_ms: int) -> ConsolePrincipal | None:
    """The guest behind a token, or None; the link is gone on disk before this returns. Raises
    `AccountsUnavailable`. Waits for the disk, so the event loop must not call it.
    """
    token_hash = _hash(token)
    if not database.read(_SELECT, token_hash):
        return None  # without a write, because a stranger may ask for any token
    with database.transaction() as connection:
        row = connection.execute(_SELECT, (token_hash,)).fetchone()
        connection.execute("DELETE FROM links WHERE token_hash = ?", (token_hash,))
    if row is None or row[2] <= now_ms:
        return None
    return ConsolePrincipal(name=row[0], roles=frozenset(database.roles(row[1])))
