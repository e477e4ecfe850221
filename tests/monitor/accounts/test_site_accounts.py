"""What a console does with the accounts on the bus, as primary and as secondary; a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.client.wire.sync_client import SyncClient
from bus.contracts.topics import CONTROL_ACCOUNTS, DATA_VEHICLE, TOPICS
from bus.settings import BusSettings
from deploy.testservers.databus import RunningBroker, start_broker
from monitor.accounts.carried import CarriedAccounts
from monitor.accounts.roles import AccountRole
from monitor.accounts.site_accounts import SiteAccounts
from monitor.accounts.store import AccountStore
from tests.broker.mirror.client import create_mirrored
from tests.dr_mirror.two_sites import wait_until
from tests.monitor.accounts.running_accounts import carrying

PASSWORD = "correct horse battery"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path / "broker", {})
    admin = Admin(BusSettings(bootstrap_servers=running.bootstrap), client_id="test")
    admin.ensure_topics([TOPICS[CONTROL_ACCOUNTS]])
    admin.close()
    yield running
    running.stop()


@contextmanager
def console(broker: RunningBroker, store: AccountStore) -> Iterator[SiteAccounts]:
    with closing(store), carrying(broker.bootstrap, store) as running:
        yield running


def names(store: AccountStore) -> set[str]:
    return {account.name for account in store.accounts()}


def version(store: AccountStore) -> int:
    return CarriedAccounts(store.database).version()


def publish(broker: RunningBroker, store: AccountStore) -> None:
    """As the primary's console, until the snapshot is on the topic."""
    before = version(store)
    with console(broker, store):
        wait_until(lambda: version(store) > before, "the accounts are on the topic")


@pytest.mark.slow
def test_a_console_that_first_runs_when_its_site_is_the_primary_takes_what_the_lost_site_has_left(
    broker: RunningBroker, tmp_path: Path
):
    """Before, it put its own accounts over the only snapshot: the lost site's people stayed out."""
    lost, taking_over = (AccountStore(tmp_path / name) for name in "AB")
    lost.add("wang", PASSWORD, [AccountRole.OPERATIONS])
    publish(broker, lost)
    taking_over.add("own", PASSWORD, [AccountRole.OPERATIONS])
    with console(broker, taking_over):
        wait_until(lambda: version(taking_over) > version(lost), "its snapshot is on the topic")
        assert names(taking_over) == {"own", "wang"}
        assert taking_over.verify("wang", PASSWORD) is not None


@pytest.mark.slow
def test_a_primary_whose_file_was_lost_does_not_remove_the_accounts_of_the_other_site(
    broker: RunningBroker, tmp_path: Path
):
    """Before, its empty file was the newest snapshot."""
    before = AccountStore(tmp_path / "before")
    before.add("wang", PASSWORD, [AccountRole.OPERATIONS])
    publish(broker, before)
    lost = AccountStore(tmp_path / "an empty disk")
    with console(broker, lost):
        wait_until(lambda: version(lost) >= 0, "it has read the topic or written to it")
        assert names(lost) == {"wang"}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_secondary_that_lost_its_brokers_for_a_while_reports_no_problem_afterwards(
    broker: RunningBroker, tmp_path: Path
):
    """Before, the page of the processes named the outage until the next change of an account."""
    primary, secondary = (AccountStore(tmp_path / name) for name in "AB")
    primary.add("wang", PASSWORD, [AccountRole.OPERATIONS])
    publish(broker, primary)
    with SyncClient(broker.bootstrap, "test") as client:
        create_mirrored(client, DATA_VEHICLE)
    with console(broker, secondary) as first:
        wait_until(lambda: names(secondary) == {"wang"}, "the account is at the secondary")
        assert not first.problem
    broker.kill()
    with console(broker, secondary) as second:
        wait_until(lambda: second.problem, "the outage is named")
        again = broker.restart()
        try:
            wait_until(lambda: not second.problem, "nothing is wrong any longer")
        finally:
            again.kill()
