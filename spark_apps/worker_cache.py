"""What a Python worker of Spark keeps between tasks: the one place where packages hold state there.

A worker serves many tasks, one at a time. Connections are made once per worker and not per task;
whatever failed is dropped, so that the next task begins with a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from bus.settings import BusSettings
from spark_apps.publisher import EventPublisher

_publishers: dict[tuple[bytes, str], EventPublisher] = {}


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
