"""Open incidents of a site that is no longer the primary end at the one that is."""

from __future__ import annotations

import signal
import sqlite3
from collections import Counter
from functools import partial
from pathlib import Path

import msgspec
import pytest

from alarm.dispatch import site_takeover
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.reader import OperationsReader
from alarm.dispatch.replicated_incidents import ReplicatedIncident, ended_by_takeover
from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.alarms import NOT_PRIMARY, Incident
from bus.contracts.mirror_origin import MIRROR_ORIGIN, MirrorOrigin
from bus.contracts.topics import DATA_VEHICLE, EVENT_INCIDENT, TOPICS
from bus.notify.notice_plan import NoticePlan
from bus.runtime.wall_clock import now_ms
from deploy.servers.databus import RunningBroker
from ingest.store.port import PageRequest, Position, StoreUnavailable
from tests.alarm.dispatch.dispatch_world import DispatchWorld, until
from tests.alarm.dispatch.test_operations import incident
from tests.alarm.dispatch.test_shadow import bind, subjects

ORIGIN = MirrorOrigin("another-cluster", 7).value


def carried(state: str, name: str = "i", at_ms: int = 1) -> ReplicatedIncident:
    return ReplicatedIncident(incident(state, name, at_ms), ORIGIN)


def takeover_end(name: str = "i") -> ReplicatedIncident:
    return ReplicatedIncident(ended_by_takeover(incident("open", name), 9), ORIGIN)


def to_end(operations: OperationsStore) -> list[str]:
    return [one.incident.incident_id for one in operations.replicated_open()]


def states(path: Path) -> dict[str, str]:
    try:
        reader = OperationsReader(path)
    except StoreUnavailable:
        return {}
    found, _ = reader.incidents(page=PageRequest(limit=1000))
    reader.close()
    return {one.incident_id: one.state for one in found}


def test_an_open_incident_of_the_other_site_is_one_to_end_and_its_end_says_why(
    operations: OperationsStore,
) -> None:
    operations.apply(BatchChanges(foreign_incidents=[carried("open")], shadow_since_ms=0))
    assert operations.replicated_open() == [carried("open")]
    end = ended_by_takeover(incident("open"), 9)
    assert (end.incident_id, end.state, end.closed_at_ms) == ("i", "closed", 9)
    assert end.detail["reason"] == NOT_PRIMARY


def test_nothing_of_this_site_and_nothing_that_has_ended_is_to_end(
    operations: OperationsStore,
) -> None:
    operations.apply(
        BatchChanges(
            incidents=[incident("open", "ours")],
            foreign_incidents=[carried("open"), carried("closed"), carried("open")],
            shadow_since_ms=0,
        )
    )
    assert to_end(operations) == []


@pytest.mark.parametrize("is_ours_first", [True, False])
def test_an_incident_that_both_sites_have_raised_goes_on_here(
    operations: OperationsStore, path: Path, is_ours_first: bool
) -> None:
    """Quality and latency of the same records have the same id at both."""
    ours = BatchChanges(incidents=[incident("open")])
    both = [ours, BatchChanges(foreign_incidents=[carried("open")])]
    for changes in both if is_ours_first else reversed(both):
        operations.apply(changes)
    assert to_end(operations) == []
    operations.apply(BatchChanges(foreign_incidents=[takeover_end()]))
    assert states(path) == {"i": "open"}, "the end of another dispatcher"


def test_what_this_site_raises_after_the_end_is_open_and_notified_and_ends_as_ever(
    operations: OperationsStore, path: Path
) -> None:
    """It comes to know a few seconds later of what A had raised; repeated, nothing changes."""
    raised = BatchChanges(incidents=[incident("open")])
    for changes in (BatchChanges(foreign_incidents=[carried("open")]),
                    BatchChanges(foreign_incidents=[takeover_end()]), raised, raised,
                    BatchChanges(foreign_incidents=[takeover_end()])):  # fmt: skip
        operations.apply(changes)
    assert states(path) == {"i": "open"}
    operations.apply(BatchChanges(incidents=[incident("closed")]))
    operations.apply(raised)
    assert states(path) == {"i": "closed"}
    assert subjects(operations) == ["i:open", "i:closed"]


def test_neither_an_opening_of_the_other_site_nor_its_end_here_is_notified(
    operations: OperationsStore,
) -> None:
    operations.apply(BatchChanges(foreign_incidents=[carried("open")]))
    operations.apply(BatchChanges(foreign_incidents=[takeover_end()]))
    assert subjects(operations) == []


def test_a_store_of_version_5_reads_the_topic_again_and_ends_nothing_that_it_does_not_know(
    path: Path,
) -> None:
    """It did not keep who had raised what; an incident is stored and notified once all the same."""
    store = OperationsStore(path, NoticePlan(("log",)))
    place = Position(application="recorder", cluster_id="c", topic=EVENT_INCIDENT, topic_id="t",
                     partition=0, end_offset=3)  # fmt: skip
    opened = BatchChanges(
        incidents=[incident("open", "ours")],
        foreign_incidents=[carried("open"), carried("open", "too old for the topic")],
        positions=[place],
    )
    store.apply(opened)
    store.close()
    with sqlite3.connect(path) as db:
        db.executescript("DROP TABLE suppressed; DROP TABLE rule_minutes; DROP TABLE digested_alarms;"
            "ALTER TABLE alarms DROP COLUMN kind; ALTER TABLE alarms DROP COLUMN district_id;"
            "DROP INDEX alarms_by_case; ALTER TABLE alarms DROP COLUMN case_number;"
            "ALTER TABLE alarms DROP COLUMN case_target;"
            "ALTER TABLE alarms DROP COLUMN visible_to; DROP TABLE open_incidents; PRAGMA user_version = 5")
    store = OperationsStore(path, NoticePlan(("log",)))
    reader = OperationsReader(path)
    assert reader.positions("recorder") == []
    reader.close()
    assert to_end(store) == []
    store.apply(msgspec.structs.replace(opened, foreign_incidents=[carried("open")]))
    assert to_end(store) == ["i"]
    assert subjects(store) == ["ours:open"]
    store.close()


@pytest.fixture
def secondary(broker: RunningBroker, tmp_path: Path) -> DispatchWorld:
    """A site whose data are another one's."""
    world = DispatchWorld(broker.bootstrap, tmp_path / "site")
    admin = Admin(world.bus, client_id="test")
    admin.ensure_topics([TOPICS[DATA_VEHICLE]])
    admin.close()
    bind(broker, "another-cluster")
    return world


def carry(world: DispatchWorld, first_offset: int, *names: str) -> None:
    """As the mirror does."""
    producer = Producer(world.bus, client_id="test")
    for offset, name in enumerate(names, first_offset):
        body = msgspec.json.encode(incident("open", name, now_ms()))
        origin = MirrorOrigin("another-cluster", offset).value
        producer.send(EVENT_INCIDENT, body, key=name, headers=[(MIRROR_ORIGIN, origin)])
    assert producer.close() == 0


def ends(world: DispatchWorld) -> Counter[str]:
    """How often each incident has ended on the topic."""
    read = (msgspec.json.decode(one.value or b"", type=Incident) for one in world.records_of(EVENT_INCIDENT))
    return Counter(one.incident_id for one in read if one.state == "closed")


def stored(world: DispatchWorld) -> dict[str, str]:
    return states(world.path)


@pytest.mark.slow
async def test_incidents_of_the_former_primary_end_once_when_its_site_is_replaced_also_late_ones(
    broker: RunningBroker, secondary: DispatchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In shadow none ends, of this site none ever; nobody is told of the end, and it has the header
    of what it ends, so that it is not carried back."""
    monkeypatch.setattr(site_takeover, "SETTLED_S", 0.2)
    world = secondary
    async with world.running():
        carry(world, 7, "first")
        await until(partial(stored, world), {"first": "open"})
        world.send(EVENT_INCIDENT, "ours", [incident("open", "ours", now_ms())])
        await until(partial(stored, world), {"first": "open", "ours": "open"})
        carry(world, 8, "second")
        await until(partial(stored, world), {"first": "open", "ours": "open", "second": "open"})
        assert ends(world) == {}
        bind(broker, None)
        await until(partial(ends, world), {"first": 1, "second": 1})
        carry(world, 9, "late")
        await until(partial(ends, world), {"first": 1, "second": 1, "late": 1})
        assert stored(world) == {
            "first": "closed", "ours": "open", "second": "closed", "late": "closed"
        }  # fmt: skip
        await until(world.notified, 1)  # ours, as it is open still
    origins = [one.header(MIRROR_ORIGIN) for one in world.records_of(EVENT_INCIDENT)]
    assert Counter(origins) == {
        None: 1, b"another-cluster:7": 2, b"another-cluster:8": 2, b"another-cluster:9": 2
    }  # fmt: skip


@pytest.mark.slow
async def test_an_end_that_was_said_and_not_stored_is_not_said_again(
    broker: RunningBroker, secondary: DispatchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between the two; the recorder begins again with what the store has."""
    monkeypatch.setattr(site_takeover, "SETTLED_S", 0.2)
    world, failed = secondary, []
    apply = OperationsStore.apply

    def fail_once(store: OperationsStore, changes: BatchChanges) -> object:
        said = [one for one, _ in changes.foreign_incidents if one.state == "closed"]
        if said and not changes.positions and not failed:
            failed.append(said)
            raise StoreUnavailable("killed")
        return apply(store, changes)

    monkeypatch.setattr(OperationsStore, "apply", fail_once)
    async with world.running():
        carry(world, 7, "first")
        await until(partial(stored, world), {"first": "open"})
        bind(broker, None)
        await until(partial(stored, world), {"first": "closed"})
        await until(lambda: bool(failed), True)  # the topic may have been read before
        carry(world, 8, "second")
        await until(partial(stored, world), {"first": "closed", "second": "closed"})
    assert ends(world) == {"first": 1, "second": 1}


@pytest.mark.slow
async def test_a_dispatcher_that_is_killed_while_incidents_end_ends_each_once(
    broker: RunningBroker, secondary: DispatchWorld
) -> None:
    """The next one begins at the stored position, and reads what its predecessor has said."""
    world = secondary
    names = [f"i{number}" for number in range(300)]
    carry(world, 0, *names)
    first = world.spawn("first")
    await until(lambda: len(stored(world)), len(names))
    bind(broker, None)
    await until(lambda: len(ends(world)) > 0, True)
    first.signal(signal.SIGKILL)
    assert first.process.wait(30) == -signal.SIGKILL
    second = world.spawn("second")
    carry(world, len(names), "late")
    await until(partial(ends, world), Counter([*names, "late"]))
    await until(lambda: set(stored(world).values()), {"closed"})
    assert ends(world) == Counter([*names, "late"])
    assert world.notified() == 0
    assert second.end() == 0
