"""What a Python worker of Spark keeps between tasks: the one place where packages hold state there.

A worker serves many tasks, one at a time. Connections are made once per worker and not per task;
whatever failed is dropped, so that the next task begins with a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from bus.settings import BusSettings
from ingest.store.open import hbase_connection
from spark_apps.publisher import EventPublisher

if TYPE_CHECKING:
    from ingest.store.hbase.connection import HbaseConnection

_publishers: dict[tuple[bytes, str], EventPublisher] = {}
_hbases: dict[str, HbaseConnection] = {}


@contextmanager
def publisher(bus: BusSettings, site: str) -> Iterator[EventPublisher]:
    """This worker's producer. What was sent inside is acknowledged when the block ends; raises
    `DeliveryFailed` or `BusError` if it is not."""
    key = (msgspec.json.encode(bus), site)
    found = _publishers.get(key)
    if found is None:
        found = _publishers[key] = EventPublisher(bus, site)
    try:
        yield found
        found.flush()
    except BaseException:
        _publishers.pop(key).close()
        raise


def hbase(url: str) -> HbaseConnection:
    """This worker's lines to the Thrift servers of a store; they mend themselves."""
    found = _hbases.get(url)
    if found is None:
        found, _ = hbase_connection(url)
        _hbases[url] = found
    return found
