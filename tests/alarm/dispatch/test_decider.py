"""Deciders against our real broker: each command is decided once and answered, whoever dies when."""

from __future__ import annotations

import asyncio
import signal
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from alarm.watchlist_reader import WatchlistReader, has_earlier_rules
from bus.client.kafka.admin import Admin
from bus.client.kafka.command_client import CommandClient, CommandUnanswered, new_command_id
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import TopicPartition
from bus.contracts.commands import CommandAnswer, DecidedRule, WatchCommand
from bus.contracts.topics import (
    ADDED_KEYS,
    CONTROL_WATCHLIST,
    DATA_VEHICLE,
    EVENT_COMMAND,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.contracts.version_floor import FLOOR_KEY
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker
from tests.alarm.dispatch.dispatch_world import (
    WITHIN_S,
    DispatchWorld,
    bind,
    ids,
    until,
)
from tests.running_decider import running_decider

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

DIES = """
import os, signal
from alarm.dispatch import decision_topics

def die(self, answers, until_s):
    os.kill(os.getpid(), signal.SIGKILL)

decision_topics.DecisionTopics.answer = die
from deploy.__main__ import main
main()
"""
"""A dispatcher that ends by kill -9 when its decisions are recorded and its answers are not given."""


def put(rule_id: str = "r", **fields: object) -> WatchCommand:
    usual: dict[str, object] = {
        "rule_id": rule_id, "op": "put", "version": 1, "name": "n", "account": "li",
        "match": {"plate_number": ["浙AWL999"]}, "command_id": new_command_id(),
    }  # fmt: skip
    return msgspec.convert({**usual, **fields}, WatchCommand)


def on_topic(bus: BusSettings, topic: str) -> list[bytes | None]:
    with Consumer(bus, client_id="check") as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        found: list[bytes | None] = []
        while not consumer.at_end:
            found += [one.value for one in consumer.poll(1000, 0.2)]
        return found


def decided(bus: BusSettings) -> list[DecidedRule]:
    return [msgspec.json.decode(one or b"", type=DecidedRule) for one in on_topic(bus, STATE_WATCHLIST)]


def answers(bus: BusSettings) -> list[CommandAnswer]:
    return [msgspec.json.decode(one or b"", type=CommandAnswer) for one in on_topic(bus, EVENT_COMMAND)]


async def request(client: CommandClient, command: WatchCommand, timeout_s: float = WITHIN_S) -> CommandAnswer:
    return await asyncio.to_thread(client.request, command, timeout_s)


async def test_what_was_answered_is_in_force_for_every_candidate_that_comes_later(
    world: DispatchWorld, client: CommandClient
) -> None:
    """And what was removed raises nothing."""
    async with world.running():
        accepted = await request(client, put())
        world.candidates([1])
        await until(world.stored, ids([1]))
        removal = await request(client, put(op="remove", seen_version=accepted.version))
        world.candidates([2])
        await until(world.read_up_to, 2)
    assert (accepted.state, removal.state, removal.version > accepted.version) == (
        "accepted", "accepted", True,
    )  # fmt: skip
    assert world.stored() == ids([1])


async def test_a_refusal_names_its_reason_and_changes_nothing(
    world: DispatchWorld, client: CommandClient
) -> None:
    async with world.running():
        first = await request(client, put())
        refused = [
            await request(client, one)
            for one in (put(name=""), put(seen_version=5), put("none", op="remove"), put(op="floor"))
        ]
    codes = [(one.state, one.field, one.code) for one in refused]
    assert codes == [
        ("refused", "name", "name_length"), ("refused", "seen_version", "stale"),
        ("refused", "rule_id", "no_such_rule"), ("refused", "op", "not_a_request"),
    ]  # fmt: skip
    assert (refused[1].changed_by, refused[1].version) == ("li", first.version)
    assert [one.version for one in decided(world.bus)] == [first.version]


async def test_a_message_of_an_earlier_version_and_garbage_are_passed_or_decided(
    world: DispatchWorld, client: CommandClient
) -> None:
    """What has no id is answered under its place; nothing stops the next one."""
    producer = Producer(world.bus, client_id="test")
    for value in (b"\xff", b"{", b"[]", None, b'{"rule_id": "r", "op": "jump", "version": 1}'):
        producer.send(CONTROL_WATCHLIST, value, key="garbage")
    earlier = {"rule_id": "old", "op": "put", "version": 5, "name": "n", "match": {"plate_number": ["A12345"]}}
    producer.send(CONTROL_WATCHLIST, msgspec.json.encode(earlier), key="old")
    assert producer.close() == 0
    with running_decider(world.bus.bootstrap_servers):
        await request(client, put())
    assert [one.rule_id for one in decided(world.bus)] == ["old", "r"]
    assert answers(world.bus)[0].command_id.startswith("control.watchlist-0-5:")


async def test_a_request_waits_for_a_dispatcher_and_is_decided_when_one_works(
    world: DispatchWorld, client: CommandClient
) -> None:
    """It stands on the bus: the sender is told so, and not that it is in force."""
    command = put()
    with pytest.raises(CommandUnanswered, match="nobody has decided"):
        await request(client, command, 0.2)
    assert decided(world.bus) == []
    with running_decider(world.bus.bootstrap_servers):
        answer = await request(client, command)  # sent again: it is one command
    assert answer.state == "accepted"
    assert [one.command_id for one in decided(world.bus)] == [command.command_id]


async def test_killed_between_record_and_answer_the_other_dispatcher_answers(
    world: DispatchWorld, client: CommandClient
) -> None:
    """kill -9 of the one that decides, at the worst moment; the decision is not made again."""
    dying = world.spawn("first", ("-c", DIES))
    standing_by = None
    try:
        await until(lambda: "decider: ready" in dying.log_path.read_text(), True)
        standing_by = world.spawn("second")
        await until(lambda: standing_by.says("dispatcher: ready"), True)
        commands = [put(f"r{number}") for number in range(3)]
        futures = [client.begin(one) for one in commands]
        found = [await asyncio.to_thread(one.result, WITHIN_S) for one in futures]
        assert dying.process.wait(WITHIN_S) == -signal.SIGKILL
    finally:
        dying.end()
        if standing_by is not None:
            standing_by.end()
    rules = decided(world.bus)
    assert sorted(one.command_id for one in rules) == sorted(one.command_id for one in commands)
    assert {one.rule_id: one.version for one in rules} == {one.key: one.version for one in found}
    assert len(answers(world.bus)) == 3


async def test_a_site_whose_data_are_anothers_refuses_until_it_is_the_primary(
    world: DispatchWorld, client: CommandClient, broker: RunningBroker
) -> None:
    with closing(Admin(world.bus, client_id="test")) as admin:
        admin.ensure_topics([TOPICS[DATA_VEHICLE]])
    bind(broker, "another-cluster")
    with running_decider(world.bus.bootstrap_servers):
        assert (await request(client, put())).code == "not_primary"
        assert decided(world.bus) == []
        bind(broker, None)
        while (answer := await request(client, put())).state == "refused":
            assert answer.code == "not_primary"
    assert [one.version for one in decided(world.bus)] == [answer.version]


async def test_rules_of_an_earlier_version_are_taken_over_once(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """A topic made the old way: compacted, with rules, removals, late commands, tombstones and a
    floor; before, nothing but that topic knew them. Then it is one of requests."""
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    make_earlier_topic(bus)
    with pytest.raises(Exception, match="a dispatcher takes them over"):
        WatchlistReader(bus, "early", timeout_s=0.5)
    with closing(CommandClient(bus, "main", "test")) as client:
        early = client.begin(put("new"))  # it waits behind them, and is no rule of the old way
        for _ in range(2):  # the second one finds all of it done
            with running_decider(broker.bootstrap):
                assert (await asyncio.to_thread(early.result, WITHIN_S)).state == "accepted"
                assert (await request(client, put("new"))).state == "accepted"
    rules = {(one.rule_id, one.op): one.version for one in decided(bus) if one.rule_id != "new"}
    assert rules == {
        ("stays", "put"): 200, ("late", "put"): 180, ("gone", "remove"): 170, (FLOOR_KEY, "floor"): 150,
    }  # fmt: skip
    assert len(decided(bus)) == 4 + 3
    with closing(WatchlistReader(bus, "later")) as reader:
        reader.catch_up()
        assert set(reader.rules.rules) == {"stays", "late", "new"}
        assert reader.rules.versions.floor == 150
    with closing(Admin(bus, client_id="test")) as admin:
        assert not has_earlier_rules(admin)
        configs = admin.topic_configs(CONTROL_WATCHLIST)
        assert configs.items() >= TOPICS[CONTROL_WATCHLIST].configs.items()
        assert configs.keys().isdisjoint(ADDED_KEYS)


def make_earlier_topic(bus: BusSettings) -> None:
    configs = TOPICS[STATE_WATCHLIST].configs
    with closing(Admin(bus, client_id="test")) as admin:
        admin.delete_topic(CONTROL_WATCHLIST)
        while CONTROL_WATCHLIST in admin.topic_names():
            pass
        admin.create_topic(CONTROL_WATCHLIST, 1, configs)
    producer = Producer(bus, client_id="test")
    for command in (
        put("stays", version=100), put("stays", version=200), put("late", version=180),
        put("late", version=160), put("gone", version=165), put("gone", op="remove", version=170),
        put("long-gone", op="remove", version=140), put(FLOOR_KEY, op="floor", version=150),
        put("too-late", version=145),
    ):  # fmt: skip
        value = msgspec.json.encode(msgspec.structs.replace(command, command_id=""))
        producer.send(CONTROL_WATCHLIST, value, key=command.rule_id)
    producer.send(CONTROL_WATCHLIST, None, key="long-gone")
    assert producer.close() == 0


async def test_a_topic_of_requests_made_anew_is_read_from_its_start(
    world: DispatchWorld, client: CommandClient
) -> None:
    """Its first offsets were answered on the former one."""
    with running_decider(world.bus.bootstrap_servers):
        for number in range(3):
            await request(client, put(f"r{number}", command_id=f"c{number}"))
        with closing(Admin(world.bus, client_id="test")) as admin:
            admin.delete_topic(CONTROL_WATCHLIST)
            await until(lambda: CONTROL_WATCHLIST in admin.topic_names(), False)
            admin.ensure_topics([TOPICS[CONTROL_WATCHLIST]])
        assert (await request(client, put("again"))).state == "accepted"
    assert [one.rule_id for one in decided(world.bus)] == ["r0", "r1", "r2", "again"]
