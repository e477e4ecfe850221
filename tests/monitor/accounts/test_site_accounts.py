"""What a console does with the accounts on the bus, as primary and as secondary; a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import ConsumedRecord, TopicPartition
from bus.client.wire.sync_client import SyncClient
from bus.contracts.topics import CONTROL_ACCOUNTS, DATA_VEHICLE, TOPICS
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker
from monitor.accounts.replicated_accounts import ReplicatedAccounts
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
    return ReplicatedAccounts(store.database).version()


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


def snapshots(broker: RunningBroker) -> list[ConsumedRecord]:
    """All that stand on the topic."""
    with Consumer(BusSettings(bootstrap_servers=broker.bootstrap), client_id="test") as consumer:
        consumer.assign({TopicPartition(CONTROL_ACCOUNTS, 0): 0})
        found: list[ConsumedRecord] = []
        while not consumer.at_end:
            found += consumer.poll(100, 0.1)
        return found


def make_anew(broker: RunningBroker, *said: ConsumedRecord) -> None:
    """The topic, with these snapshots."""
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    with closing(Admin(bus, client_id="test")) as admin:
        admin.delete_topic(CONTROL_ACCOUNTS)
        admin.ensure_topics([TOPICS[CONTROL_ACCOUNTS]])
    producer = Producer(bus, client_id="test")
    for one in said:
        producer.send(CONTROL_ACCOUNTS, one.value or b"", key=one.key, headers=one.headers)
    assert producer.close() == 0


@pytest.mark.slow
def test_the_primary_says_its_accounts_again_on_a_topic_that_was_made_anew(
    broker: RunningBroker, tmp_path: Path
):
    """Before, the new topic stayed empty until the next change of an account: a second site that
    read it knew nobody."""
    primary = AccountStore(tmp_path / "A")
    primary.add("wang", PASSWORD, [AccountRole.OPERATIONS])
    with console(broker, primary):
        for _ in range(2):
            wait_until(lambda: snapshots(broker), "the accounts are on the topic")
            make_anew(broker)


@pytest.mark.slow
def test_a_secondary_reads_the_first_snapshot_of_a_topic_that_was_made_anew(
    broker: RunningBroker, tmp_path: Path
):
    """It lies below the end of the former one. The id says that it is another topic."""
    primary, secondary = (AccountStore(tmp_path / name) for name in "AB")
    for name in ("wang", "li", "zhao"):
        primary.add(name, PASSWORD, [AccountRole.OPERATIONS])
        before = version(primary)
        with carrying(broker.bootstrap, primary):
            wait_until(lambda before=before: version(primary) > before, "its snapshot is there")
    primary.close()
    first, second, third = snapshots(broker)
    make_anew(broker, first, second)
    with SyncClient(broker.bootstrap, "test") as client:
        create_mirrored(client, DATA_VEHICLE)
    with console(broker, secondary):
        wait_until(lambda: names(secondary) == {"wang", "li"}, "both accounts are at the secondary")
        make_anew(broker, third, first, second)
        wait_until(lambda: names(secondary) == {"wang", "li", "zhao"}, "so is the third")


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
