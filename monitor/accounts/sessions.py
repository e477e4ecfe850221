"""Sessions: who is logged in, kept over a restart of the console; only hashes of the ids are
written."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

from monitor.accounts.database import remove_expired
from monitor.accounts.roles import ConsolePrincipal, roles_text
from monitor.accounts.store import AccountStore, credential_of

MAX_SESSIONS = 1000  # the oldest go first; a console has operators, not customers


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class SessionStore:
    """Log-ins of people. A removed account or a changed password ends its sessions at the next
    request.

    Every method raises `AccountsUnavailable`. `open`, `close` and `remove_expired` wait for the
    disk and for other processes, so the event loop must not call them.
    """

    def __init__(
        self, accounts: AccountStore, *, lifetime_ms: int, now_ms: Callable[[], int]
    ) -> None:
        self._accounts = accounts
        self._database = accounts.database
        self._lifetime_ms = lifetime_ms
        self._now_ms = now_ms

    def open(self, principal: ConsolePrincipal, *, guest: bool = False) -> str:
        """A new session; returns the id for the cookie. Always a fresh id: this is the rotation."""
        session_id = secrets.token_urlsafe(32)
        account = None if guest else self._accounts.find(principal.name)
        row = (
            _hash(session_id),
            principal.name,
            roles_text(principal.roles),
            self._now_ms() + self._lifetime_ms,
            not guest,
            # A new password ends sessions, because its line has another hash.
            credential_of(account.password) if account else "",
        )
        with self._database.transaction() as connection:
            remove_expired(connection, self._now_ms())
            connection.execute(
                "INSERT INTO sessions (id_hash, name, roles, expires_at_ms, account, credential)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
            if account is not None:
                connection.execute(
                    "INSERT OR REPLACE INTO log_ins (name, last_ms) VALUES (?, ?)",
                    (account.name, self._now_ms()),
                )
            connection.execute(
                "DELETE FROM sessions WHERE id NOT IN"
                " (SELECT id FROM sessions ORDER BY id DESC LIMIT ?)",
                (MAX_SESSIONS,),
            )
        return session_id

    def principal(self, session_id: str) -> ConsolePrincipal | None:
        """Who is behind an id; None when it is unknown, over, or its account has changed."""
        return self.by_hash(_hash(session_id)) if session_id else None

    def by_hash(self, id_hash: str) -> ConsolePrincipal | None:
        """As `principal`, for a page that is already open and knows only the hash."""
        rows = self._database.read(
            "SELECT name, roles, account, credential FROM sessions"
            " WHERE id_hash = ? AND expires_at_ms > ?",
            id_hash,
            self._now_ms(),
        )
        if not rows:
            return None
        name, roles_at_log_in, is_account, credential = rows[0]
        if not is_account:
            roles = frozenset(self._database.roles(roles_at_log_in))
            return ConsolePrincipal(name=name, roles=roles, session=id_hash, is_guest=True)
        account = self._accounts.find(name)
        if account is None or credential_of(account.password) != credential:
            return None
        # The account's roles and unit of now: what is taken away is away at once.
        return account.principal(id_hash)

    def began_ms(self, id_hash: str) -> int:
        """When somebody logged in; 0 where there is no such session any more."""
        rows = self._database.read("SELECT expires_at_ms FROM sessions WHERE id_hash = ?", id_hash)
        return int(rows[0][0]) - self._lifetime_ms if rows else 0

    def close(self, id_hash: str) -> None:
        """End one session."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE id_hash = ?", (id_hash,))

    def remove_expired(self) -> None:
        """Delete sessions and links whose time is over, as every log-in does."""
        with self._database.transaction() as connection:
            remove_expired(connection, self._now_ms())
