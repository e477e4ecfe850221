"""Sessions: who is logged in, kept over a restart of the console; only hashes of the ids are
written.

In: a principal, or the id out of a cookie. Out: the principal behind it. Never: HTTP, passwords.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec

from monitor.accounts.locked_file import LockedFile
from monitor.accounts.roles import Principal, Role
from monitor.accounts.store import AccountStore

MAX_SESSIONS = 1000  # the oldest go first; a console has operators, not customers


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One log-in. `account` tells whether the name must still have an account (a link's guest has
    not).
    """

    id_hash: str
    name: str
    roles: tuple[Role, ...]
    expires_at_ms: int
    account: bool = True
    credential: str = ""  # hash of the password line at log-in: a new password ends old sessions


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file."""

    sessions: tuple[Session, ...] = ()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Sessions:
    """Log-ins of people. A removed account or a changed password ends its sessions at the next
    request.
    """

    def __init__(
        self,
        data_path: Path,
        accounts: AccountStore,
        *,
        lifetime_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._file = LockedFile(data_path / "console" / "sessions.json", SessionList)
        self._accounts = accounts
        self._lifetime_ms = lifetime_ms
        self._now_ms = now_ms

    def open(self, principal: Principal, *, guest: bool = False) -> str:
        """A new session; returns the id for the cookie. Always a fresh id: this is the rotation."""
        session_id = secrets.token_urlsafe(32)
        now = self._now_ms()
        account = None if guest else self._accounts.find(principal.name)
        session = Session(
            id_hash=_hash(session_id),
            name=principal.name,
            roles=tuple(sorted(principal.roles, key=list(Role).index)),
            expires_at_ms=now + self._lifetime_ms,
            account=not guest,
            credential=_hash(account.password) if account else "",
        )
        self._file.change(
            lambda s: SessionList(
                sessions=(*(x for x in s.sessions if x.expires_at_ms > now), session)[
                    -MAX_SESSIONS:
                ]
            )
        )
        return session_id

    def principal(self, session_id: str) -> Principal | None:
        """Who is behind an id; None when it is unknown, over, or its account has changed."""
        return self.by_hash(_hash(session_id)) if session_id else None

    def by_hash(self, id_hash: str) -> Principal | None:
        """As `principal`, for a page that is already open and knows only the hash."""
        now = self._now_ms()
        for session in self._file.read().sessions:
            if session.id_hash == id_hash and session.expires_at_ms > now:
                return self._still_valid(session)
        return None

    def close(self, id_hash: str) -> None:
        """End one session."""
        self._file.change(
            lambda s: SessionList(sessions=tuple(x for x in s.sessions if x.id_hash != id_hash))
        )

    def _still_valid(self, session: Session) -> Principal | None:
        roles = session.roles
        if session.account:
            account = self._accounts.find(session.name)
            if account is None or _hash(account.password) != session.credential:
                return None
            roles = account.roles  # a role taken away is away at once
        return Principal(name=session.name, roles=frozenset(roles), session=session.id_hash)
