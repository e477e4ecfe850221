"""What the tests of this folder do to dispatchers and ask of them, with a real broker."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import msgspec

from alarm.dispatch.reader import OperationsReader
from alarm.dispatch.service import AlarmDispatcher
from alarm.settings import DispatcherSettings
from bus.client.admin import commands
from bus.client.admin.config_resources import TOPIC, AlterConfigOp
from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import ConsumedRecord, TopicPartition
from bus.client.wire.sync_client import SyncClient
from bus.contracts.alarms import Alarm, Candidate, Incident
from bus.contracts.commands import DecidedRule
from bus.contracts.groups import DISPATCHER
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.topics import (
    CONTROL_REGISTER,
    DATA_VEHICLE,
    EVENT_ACKNOWLEDGED,
    EVENT_ALARM,
    EVENT_CANDIDATE,
    EVENT_INCIDENT,
    EVENT_NOTIFIED,
    EVENT_SUPPRESSED,
    STATE_LISTS,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.domain.policy import NO_POLICY, PolicySettings
from bus.domain.retention import RetentionSettings
from bus.errors import BusError
from bus.notify.settings import NoticeSettings
from bus.settings import BusSettings, SiteSettings
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus import RunningBroker, start_broker
from ingest.pictures.alarm_copies import AlarmCopies
from ingest.pictures.store import PictureStore
from ingest.store.port import PageRequest, StoreUnavailable
from tests.alarm.lists.stored_list import records_of_list
from tests.running_decider import DECIDED

RECORD = {"卡口编号": "c1", "车牌号码": "浙AWL999", "抓拍时间": "2017-08-24 17:25:34"}
USED = (
    *DECIDED, EVENT_CANDIDATE, EVENT_ALARM, EVENT_INCIDENT, EVENT_NOTIFIED, EVENT_ACKNOWLEDGED,
    EVENT_SUPPRESSED, CONTROL_REGISTER,
)  # fmt: skip
SETTINGS = DispatcherSettings()
NOTICES = NoticeSettings(alarms_a_minute=1_000_000)
"""Each alarm has a notice of its own."""
WITHIN_S = 60.0  # on a machine that does much else


@contextmanager
def running_broker(folder: Path) -> Iterator[RunningBroker]:
    """A broker with the topics; the first member of a group need not wait for others."""
    running = start_broker(folder, {"group.initial.rebalance.delay.ms": "0"})
    admin = Admin(BusSettings(bootstrap_servers=running.bootstrap), client_id="test")
    admin.ensure_topics(TOPICS[name] for name in USED)
    admin.close()
    yield running
    running.stop()


class DispatchWorld:
    """A site whose data directory is `folder`."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bus = BusSettings(bootstrap_servers=bootstrap)
        self.site = SiteSettings(data_dir=str(folder))
        self.path = SETTINGS.operations_path(self.site)
        self.pictures = PictureStore((folder / "pictures").as_uri(), "http://edge:8650")

    def send(self, topic: str, key: str, messages: Sequence[msgspec.Struct]) -> None:
        producer = Producer(self.bus, client_id="test")
        for message in messages:
            producer.send(topic, msgspec.json.encode(message), key=key)
        assert producer.close() == 0

    def put_rule(
        self, rule_id: str = "r", op: str = "put", version: int = 1, quiet_s: int = 0
    ) -> None:
        """Each of the candidates is an alarm, unless a quiet time is asked for."""
        command = {"rule_id": rule_id, "op": op, "version": version, "quiet_s": quiet_s,
                   "match": {"plate_number": ["浙AWL999"]}}  # fmt: skip
        self.send(STATE_WATCHLIST, rule_id, [msgspec.convert(command, DecidedRule)])

    def put_list(self, list_id: str, plates: Sequence[str], version: int = 1) -> None:
        producer = Producer(self.bus, client_id="test")
        for key, value in records_of_list(list_id, plates, version=version):
            producer.send(STATE_LISTS, value, key=key)
        assert producer.close() == 0

    def candidates(self, numbers: Sequence[int]) -> None:
        self.send(EVENT_CANDIDATE, "r", [candidate(number) for number in numbers])

    def stored(self) -> list[str]:
        try:
            reader = OperationsReader(self.path)
        except StoreUnavailable:
            return []
        with closing(reader):
            return sorted(alarm.alarm_id for alarm in reader.every_alarm())

    def incidents(self) -> list[Incident]:
        """Those that are stored."""
        reader = OperationsReader(self.path)
        found, _ = reader.incidents(page=PageRequest())
        reader.close()
        return list(found)

    def records_of(self, topic: str) -> list[ConsumedRecord]:
        """All that stand there."""
        with Consumer(self.bus, client_id="check") as consumer:
            consumer.assign(dict.fromkeys(consumer.partitions_of(topic), 0))
            found: list[ConsumedRecord] = []
            while not consumer.at_end:
                found += consumer.poll(1000, 0.2)
            return found

    def alarms_on_topic(self) -> list[Alarm]:
        records = self.records_of(EVENT_ALARM)
        return [msgspec.json.decode(one.value or b"", type=Alarm) for one in records]

    def on_topic(self) -> list[str]:
        return sorted(alarm.alarm_id for alarm in self.alarms_on_topic())

    def raised(self) -> int:
        """How many records `event.alarm` has."""
        place = TopicPartition(EVENT_ALARM, 0)
        with Consumer(self.bus, client_id="check") as consumer:
            return consumer.bounds(place)[1]

    def notified(self) -> int:
        """How many lines the alarm log has."""
        log = NOTICES.alarm_log_path(self.site)
        assert log is not None
        return len(log.read_text().splitlines()) if log.exists() else 0

    def read_up_to(self) -> int:
        """Where the group stands on the candidates."""
        admin = Admin(self.bus, client_id="test")
        try:
            found = admin.committed(DISPATCHER)
        except BusError as error:  # the coordinator has just begun
            if not error.retriable:
                raise
            return 0
        finally:
            admin.close()
        return found.get(TopicPartition(EVENT_CANDIDATE, 0), 0)

    @asynccontextmanager
    async def running(
        self, settings: DispatcherSettings = SETTINGS, policy: PolicySettings = NO_POLICY
    ) -> AsyncIterator[None]:
        pictures = AlarmCopies(self.pictures)
        dispatcher = AlarmDispatcher(
            self.site, self.bus, settings, NOTICES, RetentionSettings(), pictures, policy
        )
        task = asyncio.create_task(dispatcher.run())
        yield
        dispatcher.stop()
        await task

    def spawn(
        self, name: str, program: Sequence[str] = ("-m", "deploy"), *, has_policy: bool = False
    ) -> DispatcherProcess:
        """A dispatcher as `databus run dispatcher` starts it; `program`: what Python runs."""
        return DispatcherProcess(self, name, program, has_policy=has_policy)


class DispatcherProcess:
    """One process with its log."""

    def __init__(
        self, world: DispatchWorld, name: str, program: Sequence[str], *, has_policy: bool
    ) -> None:
        self.log_path = Path(world.site.data_dir) / f"{name}.log"
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        flags = [f"site.data_dir={world.site.data_dir}",
                 f"bus.bootstrap_servers={world.bus.bootstrap_servers}",
                 f"notices.alarms_a_minute={NOTICES.alarms_a_minute}",
                 *(f"policy.{one}={str(has_policy).lower()}"
                   for one in ("requires_approval", "requires_reason"))]  # fmt: skip
        words = [word for flag in flags for word in ("--set", flag)]
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, *program, *words, "run", "dispatcher"],
                cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def says(self, sentence: str) -> bool:
        return sentence in self.log_path.read_text()

    @property
    def works(self) -> bool:
        lines = self.log_path.read_text().splitlines()
        last = [line for line in lines if "dispatcher: works" in line or "stands by" in line]
        return bool(last) and "works" in last[-1]

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> int:
        """End it, stopped or not."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.terminate()
        return self.process.wait(WITHIN_S)


async def until(what: Callable[[], object], expected: object, within_s: float = WITHIN_S) -> None:
    """Poll until the question has its expected answer."""
    deadline = time.monotonic() + within_s
    while (found := what()) != expected:
        assert time.monotonic() < deadline, (found, expected)
        await asyncio.sleep(0.02)


def candidate(number: int) -> Candidate:
    """Of a record of its own."""
    record = msgspec.json.encode(RECORD).decode()
    return Candidate(rule_id="r", rule_version=1, record_id=str(number), kind="vehicle",
                     received_at_ms=1, captured_at_ms=1, record=record)  # fmt: skip


def ids(numbers: Sequence[int]) -> list[str]:
    """Of the alarms of these candidates."""
    return sorted(f"r:{number}" for number in numbers)


def bind(broker: RunningBroker, source: str | None) -> None:
    """Make the site's data another site's mirror, or its own."""
    operation = AlterConfigOp.DELETE if source is None else AlterConfigOp.SET
    with SyncClient(broker.bootstrap, "test") as client:
        change = [(SOURCE_CLUSTER_KEY, operation, source)]
        commands.alter_configs(client, {(TOPIC, DATA_VEHICLE): change})
