"""What people and commands have made at the primary is at the other site, before it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from alarm.decisions.known_rules import KnownRules
from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer, RecordHeaders
from bus.client.model import ConsumedRecord, TopicPartition
from bus.contracts.commands import WatchCommand
from bus.contracts.mirror_origin import MIRROR_ORIGIN
from bus.contracts.proposals import SettledProposal, WatchProposal, beside_rules
from bus.contracts.register import Device
from bus.contracts.register_entry import RegisterEntry
from bus.contracts.topics import (
    CONTROL_REGISTER,
    DATA_VEHICLE,
    EVENT_ALARM,
    EVENT_INCIDENT,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.settings import BusSettings
from deploy.servers.databus_cluster import RunningCluster
from dr_mirror.state import state_replicator
from dr_mirror.state.state_replicator import StateReplicator
from tests.dr_mirror.switch.test_switch import both_sites
from tests.dr_mirror.two_sites import wait_until

HERE = (STATE_WATCHLIST, CONTROL_REGISTER, EVENT_ALARM, EVENT_INCIDENT)


def put(
    cluster: RunningCluster, topic: str, key: str, value: msgspec.Struct,
    headers: RecordHeaders = (),
) -> None:  # fmt: skip
    producer = Producer(BusSettings(bootstrap_servers=cluster.bootstrap), client_id="test")
    producer.send(topic, msgspec.json.encode(value), key=key, headers=headers)
    assert producer.close() == 0


def records(cluster: RunningCluster, topic: str) -> list[ConsumedRecord]:
    place = TopicPartition(topic, 0)
    bus = BusSettings(bootstrap_servers=cluster.bootstrap)
    with Consumer(bus, client_id="test") as consumer:
        if place not in consumer.partitions_of_all([topic]):
            return []
        consumer.assign({place: 0})
        found: list[ConsumedRecord] = []
        while not consumer.at_end:
            found += consumer.poll(1000, 0.1)
        return found


def rule(number: int, version: int) -> WatchCommand:
    return WatchCommand(rule_id=f"r{number}", op="put", version=version,
                        match={"plate_number": ["浙AWL999"]})  # fmt: skip


def versions(cluster: RunningCluster) -> dict[str, int]:
    """Of each rule, as a reader of the topic knows it."""
    found: dict[str, int] = {}
    for one in records(cluster, STATE_WATCHLIST):
        if beside_rules(one.value) is not None:
            continue
        said = msgspec.json.decode(one.value or b"", type=WatchCommand)
        found[said.rule_id] = max(found.get(said.rule_id, 0), said.version)
    return found


PROPOSAL = WatchProposal(rule_id="r1", version=6, text=rule(1, 1), decided_at_ms=6, command_id="c")
REJECTED = SettledProposal(
    rule_id="r1", version=8, outcome="rejected", proposal=6, decided_at_ms=8, command_id="d"
)


def waiting(cluster: RunningCluster) -> list[str]:
    """What waits for an approval, as the decider there knows it."""
    known = KnownRules()
    for one in records(cluster, STATE_WATCHLIST):
        known.apply(one)
    return [one.rule_id for one in known.all_waiting()]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_rules_register_and_alarms_are_at_the_other_site_and_turn_round_with_the_primary(
    tmp_path: Path,
) -> None:
    """Over a kill of the mirror; after a switch what the new primary makes comes back, and what the
    secondary had newer is kept and counted."""
    with both_sites(tmp_path) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        admin = Admin(BusSettings(bootstrap_servers=a.bootstrap), client_id="test")
        admin.ensure_topics([TOPICS[name] for name in (*HERE, DATA_VEHICLE)])
        admin.close()
        put(a, STATE_WATCHLIST, "r1", rule(1, 5))
        device = Device(camera_ip="10.0.0.1", checkpoint_id="c", kind="vehicle",
                        lanes=("1", "2"), headings=("north", "south"))  # fmt: skip
        entry = RegisterEntry(kind="device", id="10.0.0.1", device=device)
        put(a, CONTROL_REGISTER, entry.key, entry)
        put(a, EVENT_ALARM, "r1", rule(1, 1))  # what it says is its readers' affair
        put(a, STATE_WATCHLIST, "r1~proposed", PROPOSAL)
        wait_until(lambda: versions(b) == {"r1": 5}, "the rule is at B")
        wait_until(lambda: waiting(b) == ["r1"], "what waits is at B, and is no rule there")
        wait_until(lambda: len(records(b, CONTROL_REGISTER)) == 1, "the entry is at B")
        [of_b] = records(b, CONTROL_REGISTER)
        assert msgspec.json.decode(of_b.value or b"", type=RegisterEntry).device == device
        wait_until(lambda: len(records(b, EVENT_ALARM)) == 1, "the alarm is at B")
        [carried] = records(b, EVENT_ALARM)
        assert carried.header(MIRROR_ORIGIN) == f"{a.cluster_id}:0".encode()
        put(a, EVENT_INCIDENT, "i", rule(1, 1))
        wait_until(lambda: len(records(b, EVENT_INCIDENT)) == 1, "the incident is at B")
        sites.mirror.kill()
        put(a, STATE_WATCHLIST, "r2", rule(2, 7))
        put(a, EVENT_ALARM, "r2", rule(2, 1))
        sites.mirror.start()
        wait_until(lambda: versions(b) == {"r1": 5, "r2": 7}, "the second rule is at B")
        wait_until(lambda: len(records(b, EVENT_ALARM)) == 2, "the second alarm is at B, once")
        sites.wait_until_copying("A")
        wait_until(lambda: all(one.caught_up_ms > 0 for one in sites.mirror.status().state
                               if one.topic in HERE), "it says that B knows all")  # fmt: skip
        assert "state.watchlist" in sites.mirror.command("status").stdout
        done = sites.switch("B")
        assert done.returncode == 0, done.stdout + done.stderr
        [opening] = records(b, EVENT_INCIDENT)
        put(b, EVENT_INCIDENT, "i", rule(1, 2), opening.headers)  # its end at B, which stays there
        put(b, EVENT_INCIDENT, "j", rule(1, 3))
        wait_until(lambda: [one.key for one in records(a, EVENT_INCIDENT)] == [b"i", b"j"],
                   "of B's incidents only B's own is at A")  # fmt: skip
        put(b, STATE_WATCHLIST, "r1~proposed", REJECTED)
        wait_until(lambda: waiting(a) == [], "what B has settled is settled at A")
        put(b, STATE_WATCHLIST, "r1", rule(1, 9))
        put(a, STATE_WATCHLIST, "r2", rule(2, 20))
        put(b, STATE_WATCHLIST, "r2", rule(2, 10))
        wait_until(lambda: versions(a)["r1"] == 9, "what B has changed is at A")

        def newer_there() -> int:
            return sum(one.newer_there for one in sites.mirror.status().state)

        wait_until(lambda: newer_there() == 1, "a rule that A has newer is counted")
        assert versions(a)["r2"] == 20
        before = [len(records(one, name)) for one in (a, b) for name in HERE]
        sites.mirror.kill()
        sites.mirror.start()
        wait_until(lambda: newer_there() == 1, "the mirror carries again")
        assert [len(records(one, name)) for one in (a, b) for name in HERE] == before


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_topic_that_is_too_large_is_named_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules beyond the bound; register and alarms go on being carried."""
    monkeypatch.setattr(state_replicator, "MAX_KEYS", 3)
    monkeypatch.setattr(state_replicator, "RETRY_S", 0.2)
    with both_sites(tmp_path) as sites:
        sites.mirror.kill()
        a, b = sites.clusters["A"], sites.clusters["B"]
        admin = Admin(BusSettings(bootstrap_servers=a.bootstrap), client_id="test")
        admin.ensure_topics([TOPICS[name] for name in HERE])
        admin.close()
        for number in range(5):
            put(a, STATE_WATCHLIST, f"r{number}", rule(number, 1))
        carrier = StateReplicator(
            BusSettings(bootstrap_servers=a.bootstrap), BusSettings(bootstrap_servers=b.bootstrap),
            a.cluster_id, lambda: None,
        ).start()
        try:
            put(a, EVENT_ALARM, "r1", rule(1, 1))
            wait_until(lambda: len(records(b, EVENT_ALARM)) == 1, "the alarm is at B")
            problems = {one.topic: one.problem for one in carrier.statuses if one.problem}
            wait_until(
                lambda: [one.topic for one in carrier.statuses if one.problem] == [STATE_WATCHLIST],
                f"the rules are named, and nothing else: {problems}",
            )
            put(a, EVENT_ALARM, "r2", rule(2, 1))
            wait_until(lambda: len(records(b, EVENT_ALARM)) == 2, "the next alarm is at B")
        finally:
            carrier.stop()


def make_anew(cluster: RunningCluster, topic: str) -> None:
    with closing(Admin(BusSettings(bootstrap_servers=cluster.bootstrap), client_id="test")) as admin:
        admin.delete_topic(topic)
        admin.ensure_topics([TOPICS[topic]])


@contextmanager
def carrying(a: RunningCluster, b: RunningCluster) -> Iterator[StateReplicator]:
    carrier = StateReplicator(
        BusSettings(bootstrap_servers=a.bootstrap), BusSettings(bootstrap_servers=b.bootstrap),
        a.cluster_id, lambda: None,
    ).start()  # fmt: skip
    try:
        yield carrier
    finally:
        carrier.stop()
        carrier._thread.join(30)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_topic_made_anew_at_either_site_is_carried_from_its_start(tmp_path: Path) -> None:
    """Before, the alarms below the number of the last one that was carried never came, and a new
    topic at the other site stayed empty."""
    with both_sites(tmp_path) as sites:
        sites.mirror.kill()
        a, b = sites.clusters["A"], sites.clusters["B"]
        with closing(Admin(BusSettings(bootstrap_servers=a.bootstrap), client_id="test")) as admin:
            admin.ensure_topics([TOPICS[name] for name in HERE])
        wanted: list[bytes] = []

        def raise_alarms(count: int) -> None:
            for _ in range(count):
                wanted.append(f"alarm {len(wanted)}".encode())
                put(a, EVENT_ALARM, wanted[-1].decode(), rule(1, len(wanted)))

        def alarms() -> list[bytes | None]:
            return [one.key for one in records(b, EVENT_ALARM)]

        put(a, STATE_WATCHLIST, "r1", rule(1, 5))
        raise_alarms(3)
        with carrying(a, b):
            wait_until(lambda: alarms() == wanted, "the alarms are at B")
            make_anew(a, EVENT_ALARM)
            raise_alarms(6)
            wait_until(lambda: alarms() == wanted, "those of the new topic are, too")
            make_anew(b, STATE_WATCHLIST)
            wait_until(lambda: versions(b) == {"r1": 5}, "the rule is at B again")
        make_anew(a, EVENT_ALARM)
        raise_alarms(8)
        with carrying(a, b):
            wait_until(lambda: alarms() == wanted, "also what came while nobody carried")
            raise_alarms(1)
            wait_until(lambda: alarms() == wanted, "what comes is there once")
