"""Who may use the primary's console may use the other site's, too.

Real brokers and a real mirror; of the consoles the part that carries accounts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.contracts.topics import CONTROL_ACCOUNTS, DATA_VEHICLE, TOPICS
from bus.settings import BusSettings
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from tests.dr_mirror.switch.test_switch import both_sites
from tests.dr_mirror.two_sites import wait_until
from tests.monitor.accounts.running_accounts import carrying

PASSWORD = "correct horse battery"


def may_log_in(store: AccountStore, name: str, password: str = PASSWORD) -> bool:
    return store.verify(name, password) is not None


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_accounts_follow_the_primary_through_a_switch_and_another_key_opens_none(tmp_path: Path):
    with both_sites(tmp_path) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        admin = Admin(BusSettings(bootstrap_servers=a.bootstrap), client_id="test")
        admin.ensure_topics([TOPICS[name] for name in (CONTROL_ACCOUNTS, DATA_VEHICLE)])
        admin.close()
        sites.wait_until_copying("A")
        at_a, at_b = (AccountStore(tmp_path / f"console-{name}") for name in "AB")
        at_b.add("own", PASSWORD, [AccountRole.OPERATIONS])
        at_a.add("wang", PASSWORD, [AccountRole.OPERATIONS])
        with carrying(a.bootstrap, at_a):
            with carrying(b.bootstrap, at_b, "another secret, as long as that one") as wrong:
                wait_until(lambda: "accounts_secret" in wrong.problem, "the key is named")
                assert not may_log_in(at_b, "wang")
            with carrying(b.bootstrap, at_b) as right:
                wait_until(lambda: may_log_in(at_b, "wang"), "the account is at B")
                at_a.set_password("wang", "another password, as good")
                wait_until(lambda: not may_log_in(at_b, "wang"), "the new password is at B")
                at_a.add("li", PASSWORD, [AccountRole.OPERATIONS])
                wait_until(lambda: may_log_in(at_b, "li"), "a second account is at B")
                at_a.remove("li")
                wait_until(lambda: not may_log_in(at_b, "li"), "who was removed is not at B")
                assert may_log_in(at_b, "own")
                assert not right.problem
                assert sites.switch("B").returncode == 0
                sites.wait_until_copying("B")
                at_b.add("zhao", PASSWORD, [AccountRole.OPERATIONS])
                wait_until(lambda: may_log_in(at_a, "zhao"), "B's account is at A")
                assert may_log_in(at_a, "own"), "B is the primary: its own are A's now"
                new = "another password, as good"
                assert may_log_in(at_a, "wang", new)
                at_b.remove("wang")
                wait_until(lambda: not may_log_in(at_a, "wang", new), "nor is he at A, who was A's")
        for store in (at_a, at_b):
            store.close()
