"""A backup rehearsed: saved while traffic runs, put back after a loss, gone on with from there."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import confluent_kafka
import msgspec
import pytest
from confluent_kafka.admin import AdminClient
from running_product import Demo, RunningProduct, eventually

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.model import ConsumedRecord, TopicPartition
from bus.contracts.alarms import Incident
from bus.contracts.headers import RECORD_ID
from bus.contracts.topics import DATA_TOPICS, DATA_VEHICLE, EVENT_INCIDENT
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

UP_S = 60.0
CUT = 200  # records of each partition that retention takes beyond the restored positions
Ends = dict[TopicPartition, int]


def test_a_restored_product_goes_on_from_its_positions_and_tells_what_retention_took(
    tmp_path: Path,
) -> None:
    """The ids of the store afterwards are those of the backup and those that the topics still have,
    no more and no less; what is missing is an incident with its number. (The account of the city
    balanced before: it does not know of a restore.)"""
    place, saved = RunningProduct(tmp_path / "data"), tmp_path / "saved"
    with Demo(place, "--rate", "200") as demo:
        demo.runs()
        done = place.databus("backup", str(saved))
        assert done.returncode == 0, done.stderr
        demo.flows("records after the backup", 2_000)
        demo.ctrl_c()
    in_backup, positions = ids(saved / "records.db"), ends_in(saved / "records.db")
    before = ids(place.folder / "store" / "records.db")
    assert in_backup < before
    with broker_alone(place):
        lost = cut(place, positions)
        on_topics = ids_on(place)
    assert sum(lost.values()) > 0
    restored = place.databus("restore", str(saved), "--replace")
    assert restored.returncode == 0, restored.stderr

    up = place.databus("up", "--detach")
    assert up.returncode == 0, up.stderr + up.stdout
    try:
        wanted = in_backup | (on_topics & before)  # some are rejected wherever they come from
        found = place.folder / "store" / "records.db"
        eventually(
            lambda: ids(found) >= wanted, lambda: f"{len(wanted - ids(found))} ids are missing", 120
        )
        eventually(
            lambda: told_lost(place) == sum(lost.values()),
            lambda: f"{told_lost(place)} of {lost}: {list(read(place, EVENT_INCIDENT))}",
            60,
        )
        assert ids(found) == wanted
        assert before - wanted, "what was cut is gone"
    finally:
        place.databus("down")


def ids(store: Path) -> set[str]:
    """Of all records in a file."""
    with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)) as db:
        return {row[0] for row in db.execute("SELECT record_id FROM records")}


def ends_in(store: Path) -> Ends:
    """Up to where each partition of the data topics is in the file."""
    with closing(sqlite3.connect(store)) as db:
        rows = db.execute(
            "SELECT topic, partition, end_offset FROM positions WHERE application = 'ingest'"
        )
        return {
            TopicPartition(topic, number): end
            for topic, number, end in rows
            if topic in DATA_TOPICS
        }


@contextmanager
def broker_alone(place: RunningProduct) -> Iterator[None]:
    """The bus of the data directory, and nobody who reads it."""
    log_path = place.folder.parent / "broker.log"
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [*place.command, "run", "broker"], cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log,
        )  # fmt: skip
        admin = Admin(bus(place), client_id="test")
        try:
            admin.wait_until_up(UP_S)
            yield
        finally:
            admin.close()
            process.terminate()
            process.wait(UP_S)


def cut(place: RunningProduct, positions: Ends) -> Ends:
    """Delete the beginning of the vehicle topic's log up to some records beyond the positions, as
    retention does; how many of each partition were not stored yet."""
    admin = AdminClient({"bootstrap.servers": place.bootstrap})
    with Consumer(bus(place), client_id="check") as consumer:
        places = consumer.partitions_of(DATA_VEHICLE)
        ends = {one: consumer.bounds(one)[1] for one in places}
    until = {one: min(positions[one] + CUT, ends[one]) for one in places}
    wanted = [confluent_kafka.TopicPartition(*one, end) for one, end in until.items()]
    for future in admin.delete_records(wanted).values():
        future.result(30)
    return {one: end - positions[one] for one, end in until.items()}


def ids_on(place: RunningProduct) -> set[str]:
    """Of all records that the data topics still have."""
    return {
        str(record.header(RECORD_ID), "ascii")
        for topic in DATA_TOPICS
        for record in read(place, topic)
    }


def told_lost(place: RunningProduct) -> int:
    """How many records the driver has said to be lost (the watch may say it, too), by the newest
    state of its incidents. One query reads for all applications; ingest stands furthest back."""
    said = [
        msgspec.json.decode(record.value or b"", type=Incident)
        for record in read(place, EVENT_INCIDENT)
    ]
    newest = {one.incident_id: one for one in said if one.kind == "lost" and not one.notified_by}
    return sum(int(one.detail["lost"]) for one in newest.values())


def read(place: RunningProduct, topic: str) -> Iterator[ConsumedRecord]:
    with Consumer(bus(place), client_id="check") as consumer:
        consumer.assign(dict.fromkeys(consumer.partitions_of(topic), BEGINNING))
        while not consumer.at_end:
            yield from consumer.poll(1000, 0.2)


def bus(place: RunningProduct) -> BusSettings:
    return BusSettings(bootstrap_servers=place.bootstrap)
