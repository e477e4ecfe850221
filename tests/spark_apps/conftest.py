"""A real Spark driver as a process, on our real broker or Apache Kafka."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer
from bus.contracts.alarms import Candidate
from bus.contracts.commands import DecidedRule
from bus.contracts.feature_models import FeatureModel
from bus.contracts.groups import application_group
from bus.contracts.headers import RECEIVED_AT, RECORD_ID
from bus.contracts.plate_lists import Tolerance
from bus.contracts.topics import (
    DATA_FACE,
    DATA_VEHICLE,
    EVENT_CANDIDATE,
    STATE_LISTS,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.domain.rule_check import parsed_where
from bus.settings import BusSettings
from deploy.errors import Unavailable
from deploy.reconcile.topic_totals import read_topic_totals
from deploy.servers.databus import start_broker
from deploy.servers.hbase import Hbase
from deploy.setup.jars import spark_connector_jars
from ingest.store.hbase.columns import read_ledger
from ingest.store.open import hbase_connection, open_store
from ingest.store.port import RecordReader
from tests.alarm.lists.stored_list import records_of_gallery, records_of_list

INTO_HBASE = "executors into HBase"
PROJECT_ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 240  # of a machine that runs other tests as well
TIME = "2026-08-24 17:25:34.123"


class DriverProcess:
    """One driver process at a time, started again on the same data directory."""

    def __init__(
        self, bus: BusSettings, folder: Path, jars: Sequence[Path], work_in: str = "driver",
        store_url: str = "", name: str = "driver",
    ) -> None:  # fmt: skip
        """`name`: of a second one on the same data directory."""
        self.bus = bus
        self.jars = jars
        self.data_dir = folder / "var"
        self.log = folder / f"{name}.log"
        self._settings = folder / f"{name}.json"
        streams = {"jars": ":".join(map(str, jars)), "checkpoint_dir": str(folder / "checkpoints"),
                   "work_in": work_in}  # fmt: skip
        self.store_url = store_url or f"sqlite://{self.data_dir / 'store' / 'records.db'}"
        content = {"store": {"url": self.store_url}, "site": {"data_dir": str(self.data_dir)},
                   "streams": streams, "bus": msgspec.to_builtins(bus)}  # fmt: skip
        self._settings.write_text(json.dumps(content), encoding="utf-8")
        self.process: subprocess.Popen[bytes] | None = None
        self._producer = Producer(self.bus, client_id="test")

    def set_streams(self, **changed: object) -> None:
        """Settings of `[streams]` from the next start on."""
        content = json.loads(self._settings.read_text(encoding="utf-8"))
        content["streams"] |= changed
        self._settings.write_text(json.dumps(content), encoding="utf-8")

    def start(self, *applications: str) -> None:
        """Start (these applications only, if any are named) and wait until every query runs."""
        before = self.said("streams: ready")
        self.launch(*applications)
        self.until(lambda: self.said("streams: ready") > before, True)

    def launch(self, *applications: str) -> None:
        """Start, and wait for nothing."""
        words = [word for name in applications for word in ("--application", name)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "spark_apps.driver", "--settings", str(self._settings), *words],
                stdout=log, stderr=log, cwd=PROJECT_ROOT,
            )  # fmt: skip

    def said(self, words: str) -> int:
        """How often the log has these words."""
        return self.log.read_text(encoding="utf-8").count(words) if self.log.exists() else 0

    def failed_attempts(self) -> tuple[int, ...]:
        """Numbers of a store in HBase that will never count: one for each death of its writer."""
        connection, _ = hbase_connection(self.store_url)
        with connection.session() as session:
            ledger, _ = read_ledger(session)
        connection.close()
        return ledger.failed

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGTERM)
        return self.process.wait(60)

    def close(self) -> None:
        """End what still runs."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self._producer.close()

    def until(self, what: Callable[[], object], expected: object) -> None:
        """Poll until the question has its expected answer."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while (found := what()) != expected:
            alive = self.process is None or self.process.poll() is None
            text = self.log.read_text(encoding="utf-8")[-3000:] if self.log.exists() else ""
            assert alive, f"the driver ended: {text}"
            assert time.monotonic() < deadline, (found, expected, text)
            time.sleep(0.1)

    def send(
        self, topic: str, value: bytes, record_id: str = "", key: str | None = None,
        received_at_ms: int = 0,
    ) -> None:  # fmt: skip
        """Queue one record."""
        headers = [(RECORD_ID, record_id)] if record_id else []
        if received_at_ms:
            headers.append((RECEIVED_AT, str(received_at_ms)))
        self._producer.send(topic, value, key=key, headers=headers)

    def metrics(self) -> dict[str, float]:
        """What its page says, by the name with its labels."""
        [address] = re.findall(r"metrics: (http://\S+)", self.log.read_text("utf-8"))[-1:]
        with urllib.request.urlopen(address, timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(number) for name, number in pairs}

    def send_vehicle(
        self, number: int, plate: str = "", picture: int = 0, time: str = TIME,
        received_at_ms: int = 0,
    ) -> None:  # fmt: skip
        """Queue a valid vehicle record with an id, and so many bytes that nobody can compress."""
        body = {"卡口编号": f"c{number % 7}", "车牌号码": plate or f"浙B{number:05d}", "抓拍时间": time,
                "抓拍设备地址": f"10.0.0.{number % 5}"}  # fmt: skip
        if picture:
            body["特征"] = os.urandom(picture // 2).hex()
        value = json.dumps(body, ensure_ascii=False).encode()
        self.send("data.vehicle", value, f"id-{number}", body["车牌号码"], received_at_ms)

    def put_rule(self, rule_id: str, plate: str) -> None:
        """Put a rule; acknowledged when this returns."""
        self._put(DecidedRule(rule_id=rule_id, op="put", version=1, match={"plate_number": [plate]}))

    def put_tree(self, rule_id: str, text: str) -> None:
        """The same for a rule that is an expression."""
        where = parsed_where("vehicle", text, "Asia/Shanghai")
        self._put(DecidedRule(rule_id=rule_id, op="put", version=1, where=where))

    def _put(self, rule: DecidedRule) -> None:
        self.send(STATE_WATCHLIST, msgspec.json.encode(rule), key=rule.rule_id)
        self.flush()

    def put_list(
        self, list_id: str, plates: Sequence[str], added: Sequence[str] = (), version: int = 1,
        tolerance: Tolerance = "exact",
    ) -> None:  # fmt: skip
        """Put a list as the site's decider does, with a base and perhaps a change of it."""
        for key, value in records_of_list(list_id, plates, added, version, tolerance):
            self.send(STATE_LISTS, value, key=key)
        self.flush()

    def put_gallery(
        self, list_id: str, model: FeatureModel, faces: Mapping[str, bytes],
        added: Mapping[str, bytes] | None = None, removed: Sequence[str] = (), version: int = 1,
    ) -> None:  # fmt: skip
        """The same of a gallery of faces."""
        for key, value in records_of_gallery(list_id, model, faces, added, removed, version):
            self.send(STATE_LISTS, value, key=key)
        self.flush()

    def send_face(self, number: int, feature: str, model: str) -> None:
        """Queue a valid face record with an id."""
        body = {"卡口编号": f"c{number % 7}", "抓拍时间": TIME, "抓拍设备地址": "10.0.0.9",
                "人脸特征": feature, "特征模型": model}  # fmt: skip
        value = json.dumps(body, ensure_ascii=False).encode()
        self.send("data.face", value, f"id-{number}", body["抓拍设备地址"])

    def new_producer(self) -> None:
        """That knows nothing of the topics yet."""
        self._producer.close()
        self._producer = Producer(self.bus, client_id="test")

    def flush(self) -> None:
        """Wait for every acknowledgement."""
        assert self._producer.flush() == 0

    def reader(self) -> RecordReader:
        """The store's read side."""
        return open_store(self.store_url)

    def stored(self) -> int:
        """How many records the store says it holds."""
        reader = self.reader()
        try:
            return sum(reader.counts().stored.values())
        finally:
            reader.close()

    def lag(self, application: str) -> int:
        """How many records of its topics lie beyond what the application has committed."""
        totals = read_topic_totals(self.bus, [DATA_VEHICLE, DATA_FACE])
        return totals.behind_group(application_group(application), [DATA_VEHICLE, DATA_FACE])

    def candidates(self) -> Counter[tuple[str, str]]:
        """What is on the topic of candidates: (rule, record) and how often."""
        with Consumer(self.bus, client_id="check") as consumer:
            consumer.assign(dict.fromkeys(consumer.partitions_of(EVENT_CANDIDATE), 0))
            found: Counter[tuple[str, str]] = Counter()
            while not consumer.at_end:
                for received in consumer.poll(1000, 0.2):
                    one = msgspec.json.decode(received.value or b"", type=Candidate)
                    found[one.rule_id, one.record_id] += 1
            return found


@pytest.fixture(params=["our broker", "Apache Kafka"])
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The applications must run on both."""
    if request.param == "Apache Kafka":
        yield str(request.getfixturevalue("apache_kafka").address)
        return
    broker = start_broker(tmp_path / "broker")
    yield broker.bootstrap
    broker.stop()


@pytest.fixture
def work_in(request: pytest.FixtureRequest) -> str:
    """Where records are judged: in the driver's process unless a test says otherwise."""
    return str(getattr(request, "param", "driver"))


@pytest.fixture
def driver(
    request: pytest.FixtureRequest, bootstrap: str, work_in: str, tmp_path: Path
) -> Iterator[DriverProcess]:
    """Not started yet; the topics are there."""
    store_url = ""
    if work_in == INTO_HBASE:
        hbase: Hbase = request.getfixturevalue("hbase")
        store_url = f"hbase://{hbase.address}/s{uuid.uuid4().hex}"
    bus = BusSettings(bootstrap_servers=bootstrap)
    yield from driver_on(bus, tmp_path, work_in.partition(" ")[0], store_url)


def driver_on(
    bus: BusSettings, folder: Path, work_in: str, store_url: str = ""
) -> Iterator[DriverProcess]:
    """A driver for this bus, closed at the end; the topics are made."""
    try:
        jars = spark_connector_jars()
    except Unavailable as missing:
        pytest.skip(f"Spark's Kafka connector: {missing}")
    admin = Admin(bus, client_id="test")
    admin.ensure_topics(TOPICS.values())
    found = DriverProcess(bus, folder, jars, work_in, store_url)
    yield found
    found.close()
