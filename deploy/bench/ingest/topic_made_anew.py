"""A data topic made anew under the running product: until its first record is stored.

In: nothing. Out: seconds from the acknowledgement of a record to its row. Never: a pause between
creation and sending: the first record comes before anybody can have heard of the new topic.
"""

from __future__ import annotations

import json
import time
from contextlib import closing

from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.topics import DATA_VEHICLE, TOPICS
from bus.settings import BusSettings
from deploy.bench.flow_times import stored_records
from deploy.bench.ingest.product import Arrangement, Product, running
from deploy.errors import OperatorError

BEFORE = 100  # records of the former topic: the first of the new one lies before their end
TIMEOUT_S = 180.0
POLL_S = 0.05
NAME = "ingest-topic-made-anew"


def measured() -> dict[str, float]:
    """One run in a product of its own."""
    with running(Arrangement.A) as product:
        return {NAME: seconds_until_stored(product, 0)}


def seconds_until_stored(product: Product, stored: int) -> float:
    """`stored`: records that the store has already."""
    bus = BusSettings(bootstrap_servers=product.bootstrap)
    _send(bus, stored, BEFORE)
    _wait_until_stored(product, stored + BEFORE)
    with closing(Admin(bus, client_id="bench")) as admin:
        admin.delete_topic(DATA_VEHICLE)
        admin.create_topic(DATA_VEHICLE, TOPICS[DATA_VEHICLE].partitions)
    _send(bus, stored + BEFORE, 1)
    began = time.monotonic()
    _wait_until_stored(product, stored + BEFORE + 1)
    return time.monotonic() - began


def _send(bus: BusSettings, first: int, count: int) -> None:
    """By a new producer, which knows nothing of the former topic."""
    producer = Producer(bus, client_id="bench")
    for number in range(first, first + count):
        body = {"卡口编号": "c1", "车牌号码": f"浙B{number:05d}", "抓拍设备地址": "10.0.0.1",
                "抓拍时间": time.strftime("%Y-%m-%d %H:%M:%S")}  # fmt: skip
        value = json.dumps(body, ensure_ascii=False).encode()
        producer.send(DATA_VEHICLE, value, key=str(number))
    if producer.close():
        raise OperatorError("the bus did not take the records")


def _wait_until_stored(product: Product, wanted: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while (now := stored_records(product.store_url)) < wanted:
        if time.monotonic() > deadline:
            raise OperatorError(f"{now} of {wanted} records were stored in time")
        time.sleep(POLL_S)
