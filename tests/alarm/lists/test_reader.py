"""Lists as they are read, whatever dies while one is imported: the version before, or the new one."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from alarm.lists import base_tables
from alarm.lists.base_tables import BaseTables
from alarm.lists.importer import ListImporter, read_list
from alarm.lists.list_file import table_rows
from alarm.lists.lists_topic import read_lists
from alarm.lists.reader import ListReader
from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer
from bus.client.kafka.send_all import send_all
from bus.client.model import KeyedValue, TopicPartition
from bus.contracts.commands import CommandAnswer
from bus.contracts.plate_lists import (
    ListCommand,
    ListLine,
    ListRecord,
    base_key,
    change_key,
    is_chunk_key,
)
from bus.contracts.topics import EVENT_COMMAND, STATE_LISTS, TOPICS
from bus.domain import list_chunks
from bus.domain.list_chunks import base_chunks, chunk_value
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from tests.alarm.dispatch.dispatch_world import WITHIN_S, DispatchWorld, running_broker
from tests.running_decider import running_decider

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

DRAWS = int(os.environ.get("IMPORT_KILLS", "2"))
"""Of places where an import dies; twenty by hand."""
IMPORT = """
import os, signal, sys
from pathlib import Path
from alarm.lists.importer import ListImporter, read_list
from alarm.lists.list_file import table_rows
from bus.client.kafka import producer
from bus.contracts.plate_lists import ListCommand
from bus.domain import list_chunks
from bus.settings import BusSettings

bootstrap, path, version, dies_at, flushes = sys.argv[1:]
list_chunks.CHUNK_LINES = 10
sent, send = 0, producer.Producer.send

def dying(self, *args, **named):
    global sent
    if sent == int(dies_at):
        if flushes == "yes":
            self.flush(10)
        os.kill(os.getpid(), signal.SIGKILL)
    sent += 1
    return send(self, *args, **named)

producer.Producer.send = dying
path = Path(path)
read = read_list(table_rows(path), path, Path(f"{path}.refused"), lambda *_: None)
importer = ListImporter(BusSettings(bootstrap_servers=bootstrap), "main", "import")
command = ListCommand(
    list_id="l", op="put", name="l", seen_version=int(version), confirms_removal=True
)
importer.put(command, read, lambda *_: None)
"""
"""An import that ends by kill -9 before its `dies_at`th record is sent."""
DIES = """
import os, signal
from alarm.dispatch import decision_topics
from bus.contracts.topics import STATE_LISTS

record, answer = decision_topics.DecisionTopics.record, decision_topics.DecisionTopics.answer

def recorded(self, topic, decisions, until_s):
    if topic == STATE_LISTS and decisions:
        assert record(self, topic, decisions[:{count}], until_s)
        os.kill(os.getpid(), signal.SIGKILL)
    return record(self, topic, decisions, until_s)

decision_topics.DecisionTopics.record = recorded
from deploy.__main__ import main
main()
"""
"""A dispatcher that ends by kill -9 when so many records of its decision on a list stand there."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DispatchWorld]:
    with running_broker(tmp_path / "broker") as broker:
        yield DispatchWorld(broker.bootstrap, tmp_path / "var")


@pytest.fixture
def reader(world: DispatchWorld, tmp_path: Path) -> Iterator[ListReader]:
    with closing(ListReader(world.bus, "test", tmp_path / "tables")) as found:
        yield found


def lines(count: int, letter: str = "A") -> list[ListLine]:
    return [ListLine(number, f"浙{letter}{number:05d}") for number in range(count)]


def send(bus: BusSettings, *values: KeyedValue) -> None:
    send_all(bus, "test", STATE_LISTS, values, headers=[], timeout_s=30, what="records")


def put(bus: BusSettings, base: str, version: int, found: list[ListLine], **fields: object) -> ListRecord:
    """As an importer and the decider write it."""
    chunks = list(base_chunks(found))
    record = msgspec.convert(
        {"list_id": "l", "op": "put", "version": version, "base": base,
         "chunks": tuple(one.named for one in chunks), **fields}, ListRecord
    )  # fmt: skip
    send(
        bus, *(KeyedValue(base_key("l", base, one.named.number).encode(), one.value) for one in chunks),
        KeyedValue(b"l", msgspec.json.encode(record)),
    )  # fmt: skip
    return record


def on_list(reader: ListReader, *plates: str) -> list[bool]:
    lists = reader.catch_up()
    return ["l" in lists and lists["l"].find(plate) is not None for plate in plates]


def keys(bus: BusSettings) -> list[str]:
    with Consumer(bus, client_id="check") as consumer:
        consumer.assign({TopicPartition(STATE_LISTS, 0): 0})
        found: list[str] = []
        while not consumer.at_end:
            found += [(one.key or b"").decode() for one in consumer.poll(1000, 0.2)]
        return found


def answers(bus: BusSettings) -> list[CommandAnswer]:
    with Consumer(bus, client_id="check") as consumer:
        consumer.assign({TopicPartition(EVENT_COMMAND, 0): 0})
        found: list[CommandAnswer] = []
        while not consumer.at_end:
            found += [msgspec.json.decode(one.value or b"", type=CommandAnswer)
                      for one in consumer.poll(1000, 0.2)]  # fmt: skip
        return found


def test_an_import_that_dies_anywhere_leaves_the_version_before_in_force(
    world: DispatchWorld, reader: ListReader, tmp_path: Path, dice: random.Random
) -> None:
    """And what it has left is in no one's way: the same file is imported afterwards."""
    path = tmp_path / "list.csv"
    path.write_text("plate\n" + "".join(f"{one.plate}\n" for one in lines(95, "B")), "utf-8")
    first = put(world.bus, "1" * 32, 5, lines(3))
    with running_decider(world.bus.bootstrap_servers):
        for _ in range(DRAWS):
            place, flushes = dice.randrange(11), dice.choice(["yes", "no"])
            words = [world.bus.bootstrap_servers, str(path), str(first.version), str(place), flushes]
            done = subprocess.run([sys.executable, "-c", IMPORT, *words], cwd=PROJECT_ROOT, check=False)
            assert done.returncode == -signal.SIGKILL, f"at {place}, {flushes}"
            assert on_list(reader, "浙A00000", "浙B00000") == [True, False], f"at {place}, {flushes}"
        read = read_list(table_rows(path), path, tmp_path / "refused.csv", lambda *_: None)
        with closing(ListImporter(world.bus, "main", "test")) as importer:
            command = ListCommand(list_id="l", op="put", name="l", seen_version=5, removed_lines=3,
                                  confirms_removal=True)  # fmt: skip
            assert importer.put(command, read, lambda *_: None).state == "accepted"
    assert on_list(reader, "浙A00000", "浙B00000", "浙B00094") == [False, True, True]


@pytest.mark.parametrize("count", [1, 2])
def test_a_change_is_decided_once_though_its_decider_dies_on_the_way(
    world: DispatchWorld, reader: ListReader, count: int
) -> None:
    """Between the lines and the record that names them, or between the record and the answer."""
    put(world.bus, "1" * 32, 5, lines(3))
    dying = world.spawn("first", ("-c", DIES.replace("{count}", str(count))))
    try:
        with closing(ListImporter(world.bus, "main", "test")) as importer:
            command = ListCommand(list_id="l", op="change", put_lines=(ListLine(0, "沪B12345"),), command_id="c")
            waiting = importer._commands.begin(command)
            assert dying.process.wait(WITHIN_S) == -signal.SIGKILL
            expected = [True, count == 2]
            assert on_list(reader, "浙A00000", "沪B12345") == expected
            with running_decider(world.bus.bootstrap_servers):
                answer = waiting.result(WITHIN_S)
    finally:
        dying.end()
    assert (answer.state, len(answers(world.bus))) == ("accepted", 1)
    assert on_list(reader, "浙A00000", "沪B12345") == [True, True]
    record = reader.lists["l"].record
    assert (record.version, len(record.changes)) == (answer.version, 1)
    assert len([one for one in keys(world.bus) if "/+" in one]) == 3 - count


def test_changes_count_in_their_order_and_a_plate_that_went_may_come_again(
    world: DispatchWorld, reader: ListReader
) -> None:
    record = put(world.bus, "1" * 32, 5, lines(3))
    changes = [
        chunk_value(6, [ListLine(0, "沪B12345", "one")], ["浙A00001"]),
        chunk_value(7, [ListLine(0, "浙A00001", "again")], ["沪B12345"]),
    ]
    for number in (1, 2):
        named = tuple(one.named for one in changes[:number])
        newer = msgspec.structs.replace(record, version=5 + number, changes=named)
        one = changes[number - 1]
        send(world.bus, KeyedValue(change_key("l", record.base, one.named.number).encode(), one.value),
             KeyedValue(b"l", msgspec.json.encode(newer)))  # fmt: skip
        expected = [False, True] if number == 1 else [True, False]
        assert on_list(reader, "浙A00001", "沪B12345") == expected
    found = reader.lists["l"].find("浙A00001")
    assert found is not None
    assert found.note == "again"
    send(world.bus, KeyedValue(b"l", msgspec.json.encode(ListRecord(list_id="l", op="remove", version=9))))
    assert reader.catch_up() == {}


def test_lines_that_are_not_what_the_record_says_leave_the_version_before_in_force(
    world: DispatchWorld, reader: ListReader
) -> None:
    put(world.bus, "1" * 32, 5, lines(3))
    assert on_list(reader, "浙A00000") == [True]
    wrong = base_chunks(lines(3, "C"))
    named = tuple(one.named for one in wrong)
    broken = ListRecord(list_id="l", op="put", version=8, base="2" * 32, chunks=named)
    send(world.bus, KeyedValue(base_key("l", broken.base, 0).encode(), b"anything"),
         KeyedValue(b"l", msgspec.json.encode(broken)))  # fmt: skip
    assert on_list(reader, "浙A00000") == [True]
    assert "not the one that the list names" in reader.problems["l"]
    put(world.bus, "3" * 32, 9, lines(3, "D"))
    assert on_list(reader, "浙A00000", "浙D00000") == [False, True]
    assert reader.problems == {}


def test_a_topic_that_was_made_anew_says_all_lists(world: DispatchWorld, reader: ListReader) -> None:
    put(world.bus, "1" * 32, 50, lines(3))
    assert on_list(reader, "浙A00000") == [True]
    with closing(Admin(world.bus, client_id="test")) as admin:
        admin.delete_topic(STATE_LISTS)
        while STATE_LISTS in admin.topic_names():
            pass
        admin.ensure_topics([TOPICS[STATE_LISTS]])
    put(world.bus, "2" * 32, 5, lines(3, "B"))
    deadline = time.monotonic() + WITHIN_S
    while not reader.generation and time.monotonic() < deadline:
        reader.catch_up()  # that it is another topic is learnt a moment after it is
    assert on_list(reader, "浙A00000", "浙B00000") == [False, True]
    assert reader.generation == 1


def _open(bootstrap: str, folder: str, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    bus = BusSettings(bootstrap_servers=bootstrap)
    with closing(ListReader(bus, "other", Path(folder))) as found:
        assert found.catch_up()["l"].find("浙A00007") is not None


def test_a_table_is_built_once_on_a_machine_and_again_where_it_is_damaged(
    world: DispatchWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world.bus, "1" * 32, 5, lines(30_000))
    folder = tmp_path / "tables"
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    words = (world.bus.bootstrap_servers, str(folder), barrier)
    workers = [context.Process(target=_open, args=words) for _ in range(2)]
    for one in workers:
        one.start()
    for one in workers:
        one.join(WITHIN_S)
    assert [one.exitcode for one in workers] == [0, 0]
    [path] = folder.glob("*.table")
    built = path.stat().st_ino
    with closing(ListReader(world.bus, "test", folder)) as reader:
        assert on_list(reader, "浙A29999") == [True]
        assert path.stat().st_ino == built, "the one that is there is used"
    path.write_bytes(path.read_bytes()[:-1000] + bytes(1000))
    with closing(ListReader(world.bus, "test", folder)) as reader:
        assert on_list(reader, "浙A29999") == [True]
        assert path.stat().st_ino != built
        monkeypatch.setattr(base_tables, "KEPT_S", -1.0)
        put(world.bus, "2" * 32, 6, lines(3, "B"))
        assert on_list(reader, "浙B00000") == [True]
    assert [one.name for one in folder.glob("*.table")] == [f"{'2' * 32}.table"]


def test_a_build_that_another_process_holds_is_waited_for_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And said to be, so that nobody waits without end."""
    monkeypatch.setattr(base_tables, "LOCK_S", 0.2)
    record = ListRecord(list_id="l", op="put", version=1, base="1" * 32)
    tables = BaseTables(tmp_path)
    release, held = threading.Event(), threading.Event()

    def slow() -> Iterator[ListLine]:
        held.set()
        release.wait(WITHIN_S)
        yield ListLine(1, "浙A12345")

    builder = threading.Thread(target=lambda: tables.open_or_build(record, slow))
    builder.start()
    held.wait(WITHIN_S)
    with pytest.raises(base_tables.TablesUnavailable):
        BaseTables(tmp_path).open_or_build(record, lambda: lines(1))
    release.set()
    builder.join(WITHIN_S)
    assert len(BaseTables(tmp_path).open_or_build(record, list)) == 1


def test_a_million_lines_fit_into_the_records_that_they_may_have() -> None:
    """As a property of the chunks: so many lines each, and none is larger than a broker takes."""
    long = [ListLine(n, f"浙A{n:05d}", "".join(chr(0x4E00 + (n * 7919 + k * k * 31) % 20_000) for k in range(200)))
            for n in range(10_000)]  # fmt: skip
    found = list(base_chunks(long))
    assert [one.named.number for one in found] == list(range(len(found)))
    assert len(found) > 1
    assert all(len(one.value) <= list_chunks.MAX_VALUE_BYTES for one in found)
    back = [line for one in found for line in list_chunks.read_chunk(one.named, one.value).lines]
    assert back == long


def test_only_named_keys_are_those_of_lists_and_chunks(world: DispatchWorld, reader: ListReader) -> None:
    """Whatever else somebody puts there changes nothing."""
    put(world.bus, "1" * 32, 5, lines(3))
    producer = Producer(world.bus, client_id="test")
    for key in ("l/", "/", "l/1/2/3", "x", "l"):
        producer.send(STATE_LISTS, b"\xff{", key=key)
    producer.send(STATE_LISTS, None, key="l")
    assert producer.close() == 0
    assert on_list(reader, "浙A00000") == [True]
    assert list(read_lists(world.bus, "test").in_force) == ["l"]
    assert [key for key in keys(world.bus) if is_chunk_key(key)] == [f"l/{'1' * 32}/0", "l/", "/", "l/1/2/3"]
