"""Traffic for the console's tests: topics made, records, alarms and incidents produced to a real broker."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from console_city import plate, register, vehicle_body

from bus.contracts.commands import WatchCommand
from bus.contracts.headers import RECORD_ID
from bus.contracts.proposals import WatchProposal, key_of
from bus.contracts.topics import (
    DATA_FACE,
    DATA_VEHICLE,
    EVENT_ALARM,
    EVENT_INCIDENT,
    STATE_LISTS,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.domain.feature_models import FeatureSettings
from tests.alarm.lists.made_galleries import feature, unit
from tests.alarm.lists.stored_list import records_of_gallery, records_of_list


def make_topics(bootstrap: str, names: Iterable[str] = tuple(TOPICS)) -> None:
    """As the contract says."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(n, TOPICS[n].partitions, 1, config=TOPICS[n].configs) for n in names]
    for future in admin.create_topics(wanted).values():
        future.result(20)


def producer(bootstrap: str) -> Any:
    """As our own senders are."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": "lz4",
            "linger.ms": 2,
            "partitioner": "murmur2_random",
        }
    )


def send_records(
    to: Any, *, now_ms: int, count: int, seed: int, pictures: Sequence[str] = ()
) -> list[str]:
    """Vehicles and faces of the small city; returns their record ids."""
    dice, devices, ids = random.Random(seed), register().devices, []
    for i in range(count):
        device = dice.choice(devices)
        number = plate(dice) if device.kind == "vehicle" else ""
        url = dice.choice(pictures) if pictures and i % 2 else ""
        body = vehicle_body(dice, device, now_ms, number, url)
        ids.append(f"t-{seed}-{i}")
        to.produce(
            DATA_VEHICLE if device.kind == "vehicle" else DATA_FACE,
            key=number or device.camera_ip,
            value=msgspec.json.encode(body),
            headers={RECORD_ID: ids[-1]},
        )
    to.flush(20)
    return ids


def send_list(to: Any, list_id: str, plates: Sequence[str], version: int) -> None:
    """A list of plates as the decider writes it."""
    for key, value in records_of_list(list_id, plates, version=version, tolerance="look-alikes"):
        to.produce(STATE_LISTS, key=key, value=value)
    to.flush(20)


def send_gallery(to: Any, list_id: str, people: int, version: int) -> None:
    """A gallery of faces as the decider writes it; its entries are P0, P1 and so on."""
    model = FeatureSettings().table()["CITY-FACE-128/1"]
    faces = {f"P{number}": feature(unit(model.dimensions, number)) for number in range(people)}
    for key, value in records_of_gallery(list_id, model, faces, version=version):
        to.produce(STATE_LISTS, key=key, value=value)
    to.flush(20)


def send_events(to: Any, alarms: Iterable[Any] = (), incidents: Iterable[Any] = ()) -> None:
    """Alarms and incidents as the dispatcher writes them."""
    for alarm in alarms:
        to.produce(EVENT_ALARM, key=alarm.rule_id, value=msgspec.json.encode(alarm))
    for incident in incidents:
        to.produce(EVENT_INCIDENT, key=incident.incident_id, value=msgspec.json.encode(incident))
    to.flush(20)


def send_proposal(to: Any, now_ms: int) -> None:
    """What waits for an approval, as the site's decider writes it."""
    text = WatchCommand(
        rule_id="proposed-1", op="put", version=now_ms, name="hit and run", account="sun",
        reason="stolen", case="K-1", match={"plate_number": ["浙A12345"]},
    )  # fmt: skip
    proposal = WatchProposal(
        rule_id=text.rule_id, version=now_ms, text=text, decided_at_ms=now_ms, command_id="c"
    )
    to.produce(STATE_WATCHLIST, key=key_of(proposal), value=msgspec.json.encode(proposal))
    to.flush(20)
