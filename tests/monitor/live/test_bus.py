"""The hub against our own broker in a process: tail, commands, topics and groups, loss and return."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer
from console_city import alarms, incidents
from console_services import make_services
from console_traffic import make_topics, producer, send_events, send_records
from rules_in_force import in_force

from bus.contracts.commands import WatchCommand
from bus.contracts.diverged_ranges import DivergedRange, encode_diverged_range
from bus.contracts.topics import CONTROL_MIRROR_TAILS, DATA_VEHICLE, STATE_WATCHLIST, TOPICS
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker
from ingest.store.port import Position
from monitor.accounts.roles import AccountRole, ConsolePrincipal
from monitor.api.operations import NewRule, put_command, remove_command
from monitor.api.services import ConsoleServices
from monitor.cluster.bus_overview import BusOverviewReader, BusUnavailable, backlog
from monitor.live.command_sender import CommandNotAcknowledged, CommandRefused, CommandSender
from tests.running_decider import running_decider

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console-bus")]
PATIENCE_SECONDS = 30.0


def person(name: str) -> ConsolePrincipal:
    """An operator without a unit."""
    return ConsolePrincipal(name=name, roles=frozenset({AccountRole.OPERATOR}))


async def until(condition: Callable[[], Any]) -> None:
    """Poll with a bound."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "did not come in time"
        await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def topics(broker: RunningBroker) -> Iterator[str]:
    """Our topics on the broker, and who decides; its address."""
    make_topics(broker.bootstrap)
    with running_decider(broker.bootstrap):
        yield broker.bootstrap


@pytest.fixture
async def live(topics: str, data_path: Any, filled: Any) -> AsyncIterator[ConsoleServices]:
    """A console with a running live consumer."""
    services = make_services(data_path, filled[1], topics)
    hub = asyncio.create_task(services.hub.run())
    await until(lambda: services.hub.unavailable == "")
    yield services
    hub.cancel()
    await asyncio.gather(hub, return_exceptions=True)


async def test_records_alarms_and_incidents_arrive_by_themselves(
    live: ConsoleServices, topics: str
) -> None:
    """Every record is counted; the newest are shown with their ids."""
    deltas: list[Any] = []
    live.hub.add_listener(deltas.append)
    to = producer(topics)
    ids = await asyncio.to_thread(lambda: send_records(to, now_ms=now_ms(), count=60, seed=1))
    await asyncio.to_thread(send_events, to, alarms(now_ms())[:5], incidents(now_ms()))
    await until(lambda: sum(d.passed for d in deltas) >= 60 and len(live.hub.live.alarms) >= 5)
    await until(live.hub.live.open_incidents)  # another topic: perhaps of a later answer
    assert sum(d.passed for d in deltas) == 60
    assert {r.record_id for r in live.hub.live.rows} <= set(ids)
    assert len(live.hub.live.rows) > 20
    assert len(live.hub.live.open_incidents()) == 1


async def test_garbage_on_the_topics_harms_nobody(live: ConsoleServices, topics: str) -> None:
    """It is counted as passing and not shown; the next good record is."""
    to = producer(topics)
    for value in (b"\xff", b"{", b"[]", None, b"x" * 100_000):
        to.produce(DATA_VEHICLE, value=value)
        to.produce("event.alarm", value=value)
        to.produce(STATE_WATCHLIST, key="garbage", value=value)
    to.flush(20)
    ids = send_records(to, now_ms=now_ms(), count=3, seed=2)
    await until(lambda: set(ids) <= {r.record_id for r in live.hub.live.rows})


async def test_a_rule_put_and_removed_is_what_every_reader_of_the_topic_sees(
    live: ConsoleServices, topics: str
) -> None:
    """The list shows what the broker returned, and a second console agrees."""
    rule = NewRule(name="被盗车辆", match={"plate_number": ["浙AWL999"]}, severity="critical")
    sent = (await live.send_rule(put_command(live, rule, person("li")))).command
    await until(lambda: live.hub.live.rules.get(sent.rule_id) is not None)
    [decided] = in_force(live.hub.live.rules, now_ms())
    assert (decided.version, decided.command_id) == (sent.version, sent.command_id)
    assert (decided.author, decided.decided_by) == ("li", "li")
    removal = remove_command(live, sent.rule_id, person("wang"))
    assert removal is not None
    removed = (await live.send_rule(removal)).command
    assert removed.version > sent.version
    await until(lambda: in_force(live.hub.live.rules, now_ms()) == [])
    assert remove_command(live, sent.rule_id, person("wang")) is None


async def test_of_two_who_change_the_rule_they_saw_the_second_learns_who_was_first(
    live: ConsoleServices, topics: str
) -> None:
    """Before, the later one overwrote the earlier one."""
    rule = NewRule(name="n", match={"vehicle_color": ["黑色"]}, rule_id="seen")
    seen = (await live.send_rule(put_command(live, rule, person("li")))).command.version
    rule = msgspec.structs.replace(rule, seen_version=seen)
    changed = (await live.send_rule(put_command(live, rule, person("zhao")))).command
    with pytest.raises(CommandRefused) as refused:
        await live.send_rule(put_command(live, rule, person("wang")))
    answer = refused.value.answer
    assert (answer.code, answer.changed_by, answer.version) == ("stale", "zhao", changed.version)


async def test_a_console_started_later_knows_the_rules_in_force(
    live: ConsoleServices, topics: str, data_path: Any, filled: Any
) -> None:
    """The topic is the state, from its beginning."""
    rule = NewRule(name="later", match={"vehicle_color": ["白色"]})
    sent = (await live.send_rule(put_command(live, rule, person("li")))).command
    second = make_services(data_path, filled[1], topics)
    hub = asyncio.create_task(second.hub.run())
    await until(
        lambda: (sent.rule_id, sent.version)
        in [(one.rule_id, one.version) for one in in_force(second.hub.live.rules, now_ms())]
    )
    hub.cancel()
    await asyncio.gather(hub, return_exceptions=True)


async def test_what_only_this_site_had_is_known_from_the_topics_beginning_and_as_it_comes(
    live: ConsoleServices, topics: str, data_path: Any, filled: Any
) -> None:
    """Garbage on the topic is passed over; a console that is started later knows the same."""
    first, later = (
        DivergedRange(epoch=2, topic=DATA_VEHICLE, partition=0, offset=n, end_offset=n + 1, ids=(f"own-{n}",))
        for n in range(2)
    )
    to = producer(topics)
    for value in (b"{", None, encode_diverged_range(first), b"\xff"):
        to.produce(CONTROL_MIRROR_TAILS, key=first.key, value=value)
    assert to.flush(20) == 0
    await until(lambda: live.diverged_epoch("own-0") == 2)
    to.produce(CONTROL_MIRROR_TAILS, key=later.key, value=encode_diverged_range(later))
    assert to.flush(20) == 0
    await until(lambda: live.diverged_epoch("own-1") == 2)
    second = make_services(data_path, filled[1], topics)
    hub = asyncio.create_task(second.hub.run())
    await until(lambda: second.hub.live.diverged_ids.counts() == {2: 2})
    hub.cancel()
    await asyncio.gather(hub, return_exceptions=True)


async def test_topics_groups_and_backlog_are_the_brokers_own(live: ConsoleServices, topics: str) -> None:
    """Partitions and retention as the contract says, lag as a group left it."""
    to = producer(topics)
    send_records(to, now_ms=now_ms(), count=40, seed=3)
    await asyncio.to_thread(_read_some, topics)
    snapshot = await BusOverviewReader(BusSettings(bootstrap_servers=topics), now_ms).overview()
    assert snapshot.faults == ()
    by_name = {t.name: t for t in snapshot.topics}
    assert set(TOPICS) <= set(by_name)
    vehicle = by_name[DATA_VEHICLE]
    assert vehicle.partitions == TOPICS[DATA_VEHICLE].partitions
    assert vehicle.configs["retention.ms"] == TOPICS[DATA_VEHICLE].configs["retention.ms"]
    assert vehicle.records == sum(vehicle.ends.values()) > 0
    group = next(g for g in snapshot.groups if g.group_id == "readers")
    assert group.topics == {DATA_VEHICLE: vehicle.records - 5}
    at = Position(
        application="ingest",
        cluster_id=snapshot.cluster_id,
        topic=DATA_VEHICLE,
        topic_id="",
        partition=0,
        end_offset=vehicle.ends[0],
    )
    rows = backlog("ingest", [at], snapshot)
    assert [(r.topic, r.backlog) for r in rows] == [
        (DATA_VEHICLE, vehicle.records - vehicle.ends[0])
    ]
    foreign = Position(
        application="ingest",
        cluster_id="other",
        topic=DATA_VEHICLE,
        topic_id="",
        partition=0,
        end_offset=1,
    )
    assert backlog("ingest", [foreign], snapshot) == []


def _read_some(bootstrap: str) -> None:
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    reader.subscribe([DATA_VEHICLE])
    taken = reader.consume(5, 20)
    assert len(taken) == 5
    reader.commit(offsets=_next(taken), asynchronous=False)
    reader.close()


def _next(messages: list[Any]) -> list[Any]:
    from confluent_kafka import TopicPartition

    ends: dict[int, int] = {}
    for m in messages:
        ends[m.partition()] = max(ends.get(m.partition(), 0), m.offset() + 1)
    partitions = TOPICS[DATA_VEHICLE].partitions
    return [TopicPartition(DATA_VEHICLE, p, ends.get(p, 0)) for p in range(partitions)]


async def test_without_a_broker_the_pages_know_and_commands_are_not_pretended() -> None:
    """Typed refusals, within seconds."""
    with pytest.raises(BusUnavailable):
        await BusOverviewReader(BusSettings(bootstrap_servers="127.0.0.1:1"), now_ms).overview()
    sender = CommandSender(BusSettings(bootstrap_servers="127.0.0.1:1"), "main")
    with pytest.raises(CommandNotAcknowledged):
        await sender.send(WatchCommand(rule_id="w", op="put", version=1, command_id="c"))
    sender.close()


async def test_the_tail_outlives_the_brokers_death(live: ConsoleServices, broker: RunningBroker) -> None:
    """kill -9, a word on every page, and on it goes when the broker is back; last in this file."""
    broker.kill()
    await until(lambda: live.hub.unavailable)
    again = await asyncio.to_thread(broker.restart)
    broker.process = again.process
    await until(lambda: live.hub.unavailable == "")
    ids = await asyncio.to_thread(
        lambda: send_records(producer(again.bootstrap), now_ms=now_ms(), count=3, seed=9)
    )
    await until(lambda: set(ids) <= {r.record_id for r in live.hub.live.rows})
