"""Two thousand cameras in one process: each record is produced at the moment in its capture time.

    python -m deploy.bench.ingest.devices --bootstrap HOST:PORT --rate 500 --seconds 60
In: a bus, a rate. Out: valid vehicle records, every so often one of the wanted car; at the end how
many, as JSON. Never: records in bursts: every few milliseconds those that are due.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from itertools import count, islice

from bus.client.kafka.producer import Producer
from bus.contracts import headers
from bus.contracts.topics import DATA_VEHICLE, TOPICS
from bus.domain.times import local_time
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings, SiteSettings
from ingest.senders.simulator.day import day_records
from ingest.senders.simulator.settings import CitySettings

DEVICES = 2_000
WANTED_PLATE = "京A88888"
TICK_S = 0.005
_CITY = CitySettings(rate=200.0, misfortunes=False, picture_every=0, face_share=0.0)


def devices() -> list[dict[str, object]]:
    """One record of each device, as a camera of the simulated city would write it."""
    made = day_records(SiteSettings(), _CITY, now_ms(), 24)
    vehicles = (record.body for record in made if record.line.topic == DATA_VEHICLE)
    return [
        {
            **json.loads(body),
            "抓拍设备地址": f"10.{1 + number // 250}.{number % 250}.1",
            "记录编号": "",
        }
        for number, body in enumerate(islice(vehicles, DEVICES))
    ]


def bodies(hit_every: int) -> Iterator[bytes]:
    """Records without end, each captured when it is asked for."""
    seen, clock, plates = devices(), local_time(SiteSettings().zone), random.Random(1)
    for number in count(1):
        record = seen[number % DEVICES]
        wanted = number % hit_every == 0
        record["车牌号码"] = WANTED_PLATE if wanted else f"京B{plates.randrange(100_000):05d}"
        record["抓拍时间"] = clock.to_text(now_ms())
        yield json.dumps(record, ensure_ascii=False).encode()


def send(producer: Producer, *, rate: float, seconds: float, hit_every: int) -> int:
    """Produce what is due until the time is over; how many."""
    run, made, sent = random.randrange(1 << 40), bodies(hit_every), 0
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        for _ in range(int(passed * rate) - sent):
            sent += 1
            extra = [
                (headers.RECORD_ID, f"bench-{run:x}-{sent}".encode()),
                (headers.SCHEMA, TOPICS[DATA_VEHICLE].schema.encode()),
            ]
            producer.send(DATA_VEHICLE, next(made), headers=extra)
        time.sleep(TICK_S)
    return sent


def main() -> None:
    """Runs for the time that is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--hit-every", type=int, default=100)
    asked = parser.parse_args()
    producer = Producer(
        BusSettings(bootstrap_servers=asked.bootstrap),
        client_id="bench-devices",
        overrides={"linger.ms": 0},
    )
    sent = send(producer, rate=asked.rate, seconds=asked.seconds, hit_every=asked.hit_every)
    left = producer.close(60)
    print(json.dumps({"sent": sent, "unconfirmed": left}))


if __name__ == "__main__":
    main()
