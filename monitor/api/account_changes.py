"""Changes of accounts by people in the console, for its pages and its API alike.

In: who asks, what is to be. Out: the change, in the file and as a line of the log; or why not, as
an exception. Never: whether somebody may; the page or the route has decided that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from monitor.accounts.errors import AccountError
from monitor.accounts.login_limiter import LoginSender
from monitor.accounts.roles import AccountRole, ConsolePrincipal, roles_text
from monitor.accounts.store import AccountStore
from monitor.api.account_writes import AccountWrites
from monitor.api.auth import PasswordCheck

log = logging.getLogger(__name__)


class AccountChanges:
    """Every method raises `AccountError` and `AccountsUnavailable`; those that take a new password
    raise `WeakPassword`. The rules are the store's, as for `databus accounts`; here nobody
    changes his own roles or removes himself, and somebody who may do this is always left.
    """

    def __init__(
        self, store: AccountStore, writes: AccountWrites, passwords: PasswordCheck
    ) -> None:
        self._store = store
        self._writes = writes
        self._passwords = passwords

    async def change_own_password(
        self, who: ConsolePrincipal, old: str, new: str, sender: LoginSender
    ) -> None:
        """A wrong old one counts as a failed log-in. Raises `TooManyAttempts`, too."""
        account = None if who.is_guest else self._store.find(who.name)
        if account is None:
            raise AccountError("who came by a one-time link has no password", "guest")
        if await self._passwords.principal(who.name, old, sender) is None:
            log.warning("accounts: wrong old password of %s from %s", who.name, sender.address)
            raise AccountError("the old password is wrong", "old")
        await self._writes.run(
            lambda: self._store.change_password(who.name, account.password, new, who.session)
        )
        log.info("accounts: %s changed the own password", who.name)

    async def add(
        self, who: ConsolePrincipal, name: str, password: str, roles: Iterable[AccountRole]
    ) -> None:
        """One more person."""
        given = tuple(roles)
        await self._writes.run(lambda: self._store.add(name, password, given))
        log.info("accounts: %s added %s (%s)", who.name, name, roles_text(given))

    async def set_roles(
        self, who: ConsolePrincipal, name: str, roles: Iterable[AccountRole]
    ) -> None:
        """They count from the next request on."""
        _check_not_oneself(who, name)
        given = tuple(roles)
        await self._writes.run(lambda: self._store.set_roles(name, given, keeps_administrator=True))
        log.info("accounts: %s gave %s the roles %s", who.name, name, roles_text(given))

    async def set_unit(
        self, who: ConsolePrincipal, name: str, unit: str, districts: Iterable[str]
    ) -> None:
        """They count from the next request on; pages that are open are loaded again."""
        _check_not_oneself(who, name)
        given = tuple(districts)
        await self._writes.run(lambda: self._store.set_unit(name, unit.strip(), given))
        log.info("accounts: %s gave %s the unit %s (%s)", who.name, name, unit, ",".join(given))

    async def set_password(self, who: ConsolePrincipal, name: str, password: str) -> None:
        """Somebody else's, who has forgotten it: sessions of the account end."""
        _check_not_oneself(who, name)
        await self._writes.run(lambda: self._store.set_password(name, password))
        log.info("accounts: %s set a new password of %s", who.name, name)

    async def remove(self, who: ConsolePrincipal, name: str) -> None:
        """Sessions of the account end."""
        _check_not_oneself(who, name)
        await self._writes.run(lambda: self._store.remove(name, keeps_administrator=True))
        log.info("accounts: %s removed %s", who.name, name)

    def unlock(self, who: ConsolePrincipal, name: str) -> None:
        """Forget the failed log-ins of an account."""
        if self._store.find(name) is None:
            raise AccountError(f"there is no account {name}", "gone")
        self._passwords.unlock(name)
        log.info("accounts: %s unlocked %s", who.name, name)

    def rows(self) -> list[dict[str, Any]]:
        """All accounts in the order they were added."""
        locked, last = self._passwords.locked(), self._store.last_log_ins()
        return [
            {
                "name": one.name,
                "roles": [role.value for role in one.roles],
                "unit": one.unit,
                "districts": list(one.districts),
                "last_log_in_ms": last.get(one.name, 0),
                "locked_for_s": -(-locked.get(one.name, 0) // 1000),
            }
            for one in self._store.accounts()
        ]


def _check_not_oneself(who: ConsolePrincipal, name: str) -> None:
    if who.name == name and not who.is_guest:
        raise AccountError("nobody changes his own account here but its password", "self")
