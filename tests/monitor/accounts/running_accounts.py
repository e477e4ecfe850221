"""The part of a console that carries accounts, beside a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bus.settings import BusSettings
from monitor.accounts.replicated_accounts import ReplicatedAccounts
from monitor.accounts.site_accounts import SiteAccounts
from monitor.accounts.store import AccountStore

SECRET = "a long secret that both sites have"


@contextmanager
def carrying(bootstrap: str, store: AccountStore, secret: str = SECRET) -> Iterator[SiteAccounts]:
    bus = BusSettings(bootstrap_servers=bootstrap)
    running = SiteAccounts(bus, secret, ReplicatedAccounts(store.database)).start()
    try:
        yield running
    finally:
        running.close()
