"""Alarms while ingest cannot work: captured → on `event.alarm`, before a fault and during it.

In: a running watch list and dispatcher, a fault of ingest. Out: times of both spans. Never: a fault
of what alarms need.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from bus.runtime.wall_clock import now_ms
from deploy.bench.flow_times import percentile_s
from deploy.bench.ingest.product import Arrangement, Product, running
from deploy.bench.ingest.sending import answer_of, start_devices, want_plate
from deploy.bench.ingest.watchers import alarms
from deploy.errors import OperatorError
from deploy.servers.hbase import start_hbase
from deploy.servers.small_disk import CannotMount, ResizableDisk

WARM_UP_S, SPAN_S = 40.0, 60.0
RATE, HIT_EVERY = 500, 25
LAST_S = 5.0  # for the alarms of the last records
FIRST_TIMEOUT_S = 60.0
DISK_BYTES = 512 << 20
LEAST_SHARE = 0.95  # of the planted hits of a span must be on the topic

Fault = Callable[[], AbstractContextManager[object]]


class AlarmTimes(NamedTuple):
    """Milliseconds from capture to the topic, of what was captured in the span before the fault and
    during it."""

    before: list[int]
    during: list[int]

    @property
    def ratio(self) -> float:
        """Of the p99 during the fault to that before."""
        return percentile_s(self.during, 99) / percentile_s(self.before, 99)


def alarm_times(
    bootstrap: str, fault: Fault, *, rate: float, hit_every: int, warm_up_s: float, span_s: float
) -> AlarmTimes:
    """A rule for the wanted plate is in force. Raises `OperatorError` where alarms are missing."""
    seconds = warm_up_s + 2 * span_s
    with alarms(bootstrap) as raised:
        sender = start_devices(bootstrap, rate=rate, seconds=seconds, hit_every=hit_every)
        try:
            _wait_for_the_first(raised)
            time.sleep(warm_up_s + span_s)
            fault_ms = now_ms()
            with fault():
                answer = answer_of(sender, seconds + 60)
                time.sleep(LAST_S)
        finally:
            sender.kill()
            sender.wait()
    if answer["unconfirmed"]:
        raise OperatorError("the bus did not take every record")
    return times_around(raised, fault_ms, span_s, rate / hit_every)


def times_around(
    raised: list[tuple[int, int]], fault_ms: int, span_s: float, hits_per_s: float
) -> AlarmTimes:
    """Pairs of captured and seen, split at the fault. Raises `OperatorError` where alarms are
    missing. Pure."""
    from_ms = fault_ms - span_s * 1000
    found = AlarmTimes(
        [seen - captured for captured, seen in raised if from_ms <= captured < fault_ms],
        [seen - captured for captured, seen in raised if captured >= fault_ms],
    )
    last_ms = max((captured for captured, _ in raised), default=0)
    expected = LEAST_SHARE * hits_per_s * min(span_s, max(0, last_ms - fault_ms) / 1000)
    if len(found.during) < max(1, expected) or last_ms < fault_ms + span_s * 500:
        raise OperatorError(f"only {len(found.during)} alarms came during the fault")
    return found


def _wait_for_the_first(raised: list[tuple[int, int]]) -> None:
    deadline = time.monotonic() + FIRST_TIMEOUT_S
    while not raised:
        if time.monotonic() > deadline:
            raise OperatorError("no alarm before the fault")
        time.sleep(0.05)


def driver_dead() -> dict[str, float]:
    """kill -9 of the driver of ingest, whenever the supervisor has started it again."""
    return {"ingest-fault-driver": _ratio(lambda product: _held_dead(product, "streams"))}


def disk_full() -> dict[str, float]:
    """The file system of the record store alone."""
    with tempfile.TemporaryDirectory(prefix="databus-disk-") as folder:
        try:
            disk = ResizableDisk(Path(folder) / "disk", DISK_BYTES)
        except CannotMount as why:
            raise OperatorError(f"a full disk needs a file system of its own: {why}") from why
        try:
            url = f"store.url=sqlite://{disk.folder / 'records.db'}"
            return {"ingest-fault-disk": _ratio(lambda _: full(disk), url)}
        finally:
            disk.unmount()


def hbase_dead() -> dict[str, float]:
    """kill -9 of the Thrift server, the one way to HBase."""
    with tempfile.TemporaryDirectory(prefix="databus-hbase-") as folder:
        hbase = start_hbase(Path(folder))
        try:
            words = (f"store.url=hbase://{hbase.address}/bench", "streams.work_in=executors")

            @contextlib.contextmanager
            def fault(_: Product) -> Iterator[None]:
                hbase.kill_thrift()
                yield

            return {"ingest-fault-hbase": _ratio(fault, *words)}
        finally:
            hbase.stop()


@contextlib.contextmanager
def full(disk: ResizableDisk) -> Iterator[None]:
    """Not a byte is free."""
    (disk.folder / "ballast").write_bytes(b"x" * max(0, disk.free_bytes - 1))
    yield


def _ratio(fault: Callable[[Product], AbstractContextManager[object]], *settings: str) -> float:
    with running(Arrangement.A, "streams.drivers=2", *settings) as product:
        want_plate(product)
        return alarm_times(
            product.bootstrap, lambda: fault(product), rate=RATE, hit_every=HIT_EVERY,
            warm_up_s=WARM_UP_S, span_s=SPAN_S,
        ).ratio  # fmt: skip


@contextlib.contextmanager
def _held_dead(product: Product, role: str) -> Iterator[None]:
    ended = threading.Event()

    def work() -> None:
        killed: set[int] = set()
        while not ended.wait(0.1):
            found = product.roles()[role]
            pid = found.get("pid") or 0
            if pid and pid not in killed and (not killed or found["state"] == "running"):
                killed.add(pid)
                product.kill(role)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
