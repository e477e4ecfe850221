"""What Python refers to in the JVM is let go while the driver works."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from spark_apps.session.java_references import COLLECT_EVERY_S, GarbageCollector
from tests.spark_apps.conftest import DriverProcess

OURS = pytest.mark.parametrize("bootstrap", ["our broker"], indirect=True)


class JavaPart:
    """As py4j's objects: one of its parts refers to it."""

    def __init__(self) -> None:
        self.parts = [self]


@pytest.fixture
def no_collection_by_number() -> Iterator[None]:
    """Python's own comes by chance."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection_by_number")
def test_cycles_are_freed_when_it_is_due_and_not_before() -> None:
    """Also those that were in use at the collection before, which Python would leave for hours."""
    now_s = [100.0]
    collector = GarbageCollector(lambda: now_s[0])
    in_use = JavaPart()
    freed = weakref.ref(in_use)
    collector.collect_due()
    for _ in range(2):
        now_s[0] += COLLECT_EVERY_S
        collector.collect_due()
        assert freed() is in_use
    del in_use
    now_s[0] += COLLECT_EVERY_S / 2
    collector.collect_due()
    assert freed() is not None, "a collection looks through all objects: not at each call"
    now_s[0] += COLLECT_EVERY_S / 2
    collector.collect_due()
    assert freed() is None


@OURS
@pytest.mark.slow
def test_a_driver_that_works_refers_to_no_more_of_java_batch_after_batch(
    driver: DriverProcess,
) -> None:
    """What broke: each batch left a dozen objects that refer to themselves, and with them Java its
    plan and data set, until there were two hundred thousand."""
    driver.set_streams(applications=["ingest"], metrics_port=0)
    driver.start()
    sent, before = 0, 0.0

    def falls() -> bool:
        nonlocal sent, before
        driver.send_vehicle(sent)
        driver.flush()
        sent += 1
        now = driver.metrics()["databus_streams_java_references"]
        has_fallen, before = now < before / 2, now
        return has_fallen

    driver.until(falls, True)
    assert driver.stop() == 0
