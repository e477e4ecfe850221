"""Who asks waits for his own answer, whatever else stands on the topic of answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.command_client import (
    CommandClient,
    CommandNotAcknowledged,
    CommandUnanswered,
    new_command_id,
)
from bus.client.kafka.producer import Producer
from bus.contracts.commands import WatchCommand
from bus.contracts.topics import EVENT_COMMAND, TOPICS
from bus.settings import BusSettings
from deploy.servers.databus import start_broker
from tests.running_decider import DECIDED, running_decider

pytestmark = pytest.mark.slow
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusSettings]:
    broker = start_broker(
        Path(tmp_path_factory.mktemp("broker")), {"group.initial.rebalance.delay.ms": "0"}
    )
    found = BusSettings(bootstrap_servers=broker.bootstrap)
    with closing(Admin(found, client_id="test")) as admin:
        admin.ensure_topics(TOPICS[name] for name in DECIDED)
    yield found
    broker.stop()


@pytest.fixture
def client(bus: BusSettings) -> Iterator[CommandClient]:
    with closing(CommandClient(bus, "main", "test")) as found:
        yield found


def put(rule_id: str) -> WatchCommand:
    return WatchCommand(
        rule_id=rule_id, op="put", version=1, name="n", match={"plate_number": ["浙A12345"]},
        command_id=new_command_id(),
    )  # fmt: skip


def test_each_of_many_who_ask_at_once_gets_his_own_answer(
    bus: BusSettings, client: CommandClient
) -> None:
    """Among answers of others, and what is none."""
    producer = Producer(bus, client_id="garbage")
    for value in (b"\xff", b"{", b"[]", None, b'{"command_id": 5}'):
        producer.send(EVENT_COMMAND, value, key="garbage")
    assert producer.close() == 0
    commands = [put(f"r{number}") for number in range(40)]
    with running_decider(bus.bootstrap_servers), ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda one: client.request(one, WITHIN_S), commands))
    assert [(one.command_id, one.key, one.state) for one in answers] == [
        (one.command_id, one.rule_id, "accepted") for one in commands
    ]
    assert client._waiting == {}


def test_answers_are_found_on_a_topic_that_was_made_anew(
    bus: BusSettings, client: CommandClient
) -> None:
    with running_decider(bus.bootstrap_servers):
        client.request(put("before"), WITHIN_S)
        with closing(Admin(bus, client_id="test")) as admin:
            admin.delete_topic(EVENT_COMMAND)
            while EVENT_COMMAND in admin.topic_names():
                pass
            admin.ensure_topics([TOPICS[EVENT_COMMAND]])
        command = put("after")
        answer = None
        while answer is None:  # a reader may begin behind the first answer of the new topic
            try:
                answer = client.request(command, 2.0)
            except CommandUnanswered:
                continue
    assert answer.state == "accepted"


def test_who_waits_no_more_is_forgotten(client: CommandClient) -> None:
    with pytest.raises(CommandUnanswered):
        client.request(put("nobody"), 0.1)
    assert client._waiting == {}


def test_without_a_bus_a_command_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no thread is left behind."""
    monkeypatch.setattr("bus.client.kafka.command_client.DELIVERY_S", 0.2)
    with closing(CommandClient(BusSettings(bootstrap_servers="127.0.0.1:1"), "main", "away")) as client:
        with pytest.raises(CommandNotAcknowledged):
            client.request(put("r"))
        assert client._waiting == {}
    assert [one.name for one in threading.enumerate() if one.name == "answers"] == []
