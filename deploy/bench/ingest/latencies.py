"""How late records are stored and alarms raised, and what a city's servers take for it.

In: an arrangement with all its applications, devices that send. Out: seconds from capture to a
commit that is seen, and to `event.alarm`; for a city's servers also their start, their first two
minutes, and CPU by what takes it. Never: a time of the product's own account.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import NamedTuple

from bus.runtime.wall_clock import now_ms
from deploy.bench.flow_times import percentile_s, stored_records, stored_rows
from deploy.bench.ingest.process_cpu import PartCpu, read_cpu, spent
from deploy.bench.ingest.product import Arrangement, Product, running
from deploy.bench.ingest.sending import HIT_EVERY, answer_of_load, start_devices, want_plate
from deploy.bench.ingest.watchers import alarms, commits, moment_of
from deploy.bench.samples import each_attempted
from deploy.errors import OperatorError
from ingest.store.port import Query

A, B = "ingest-a", "ingest-b"
WARM_UP_S, MEASURED_S = 40, 60
STORED_TIMEOUT_S = 180.0
FIRST_S = 120
"""Of a city's servers, from the moment that all its roles run: their JVMs have compiled nothing."""
SLOW, MIDDLE, FAST = 100, 500, 1000
QUIET_S, SINGLE_S = 30, 60
SINGLE_RATE = 0.5
"""Records a second, each of which is a batch by itself in both applications."""
DRIVERS_AND_EXECUTORS = ("driver's ", "executors' ", "Python workers ")
CITY = tuple(
    f"{B}-{name}"
    for name in (
        "start", "first-stored", "first-alarm", f"stored-{SLOW}-p50", f"stored-{SLOW}",
        f"stored-{MIDDLE}", f"alarm-{MIDDLE}-p50", f"alarm-{MIDDLE}-p99",
        f"stored-{FAST}", f"alarm-{FAST}-p50", f"alarm-{FAST}-p99",
        "idle", "batch-ingest", "batch-watchlist",
    )
)  # fmt: skip


class MeasuredWindow(NamedTuple):
    """Records captured in [``since_ms``, ``until_ms``), of which ``rate`` a second were sent."""

    since_ms: int
    until_ms: int
    rate: float

    def holds(self, captured_ms: int) -> bool:
        """Whether it was captured then."""
        return self.since_ms <= captured_ms < self.until_ms


class Delays(NamedTuple):
    """(captured, milliseconds later) of records stored, of alarms raised."""

    stored: Sequence[tuple[int, int]]
    raised: Sequence[tuple[int, int]]

    def stored_s(self, window: MeasuredWindow, percent: int) -> float:
        """Of the window's records. Raises OperatorError if they are too few."""
        return percentile_s([ms for at, ms in self.stored if window.holds(at)], percent)

    def raised_s(self, window: MeasuredWindow, percent: int) -> float:
        """Of the window's alarms. Raises OperatorError if one of fifty is missing: it would be left
        out of the percentile."""
        found = [ms for at, ms in self.raised if window.holds(at)]
        wanted = window.rate * (window.until_ms - window.since_ms) / 1000 // HIT_EVERY
        if len(found) < wanted * 0.98:
            raise OperatorError(f"{len(found)} of about {wanted:.0f} alarms were raised in time")
        return percentile_s(found, percent)


class Watch:
    """What was seen of a product from outside while devices sent to it."""

    def __init__(
        self, product: Product, seen: dict[int, int], raised: Sequence[tuple[int, int]]
    ) -> None:
        self.product = product
        self.seen = seen
        self._raised = raised
        self._sent = 0

    def send(self, rate: float, seconds: int) -> int:
        """Until all of it is stored; when it began, in epoch ms."""
        began_ms = now_ms()
        sender = start_devices(
            self.product.bootstrap, rate=rate, seconds=seconds, hit_every=HIT_EVERY
        )
        self._sent += answer_of_load(sender, rate, seconds)["sent"]
        deadline = time.monotonic() + STORED_TIMEOUT_S
        while (now := stored_records(self.product.store_url)) < self._sent:
            if time.monotonic() > deadline:
                raise OperatorError(f"{now} of {self._sent} records were stored in time")
            time.sleep(0.5)
        return began_ms

    def window(self, rate: float, warm_up_s: int) -> MeasuredWindow:
        """Send at this rate, and measure behind the warm-up."""
        since_ms = self.send(rate, warm_up_s + MEASURED_S) + warm_up_s * 1000
        return MeasuredWindow(since_ms, since_ms + MEASURED_S * 1000, rate)

    def delays(self) -> Delays:
        """Of all records and alarms so far."""
        moment_of_batch = cache(partial(moment_of, dict(self.seen)))  # it is still added to
        stored = [
            (row.captured_at_ms, moment - row.captured_at_ms)
            for row in stored_rows(self.product.store_url, Query())
            if (moment := moment_of_batch(row.stored_at_ms)) is not None
        ]
        return Delays(stored, [(captured, moment - captured) for captured, moment in self._raised])


@contextmanager
def watched(arrangement: Arrangement) -> Iterator[Watch]:
    """Every role runs, and one car is wanted."""
    with running(arrangement) as product:
        want_plate(product)
        with commits(product) as seen, alarms(product.bootstrap) as raised:
            yield Watch(product, seen, raised)


def of_one_machine(rate: int) -> dict[str, float]:
    """Everything embedded, at one rate."""
    with watched(Arrangement.A) as watch:
        window = watch.window(rate, WARM_UP_S)
        delays = watch.delays()
    return {
        f"{A}-stored-{rate}": delays.stored_s(window, 99),
        f"{A}-alarm-{rate}-p50": delays.raised_s(window, 50),
        f"{A}-alarm-{rate}-p99": delays.raised_s(window, 99),
    }


def of_a_city() -> dict[str, float]:
    """A city's servers from their start on, at one rate after the other, then with nothing to do
    and with single records: one start for all of it, which takes minutes."""
    began_ms = now_ms()
    windows: dict[int, MeasuredWindow] = {}
    parts: dict[str, list[PartCpu]] = {}
    ended = ""
    with watched(Arrangement.B) as watch:
        since_ms = watch.send(SLOW, FIRST_S + MEASURED_S)
        measured_ms = since_ms + FIRST_S * 1000
        first = MeasuredWindow(since_ms, measured_ms, SLOW)
        windows[SLOW] = MeasuredWindow(measured_ms, measured_ms + MEASURED_S * 1000, SLOW)
        try:
            for rate in (MIDDLE, FAST):
                windows[rate] = watch.window(rate, WARM_UP_S)
            parts["idle"] = _spent(watch, QUIET_S, 0)
            parts["single"] = _spent(watch, SINGLE_S, SINGLE_RATE)
        except OperatorError as error:  # what was measured before counts
            ended = f"ended early: {error}"
        delays = watch.delays()
    batches = SINGLE_RATE * SINGLE_S

    def of_a_batch(cores_of: Callable[[Sequence[PartCpu]], float]) -> float:
        return SINGLE_S * (cores_of(parts["single"]) - cores_of(parts["idle"])) / batches

    figures: dict[str, Callable[[], float]] = {
        "start": lambda: (min(watch.seen.values()) - began_ms) / 1000,
        "first-stored": lambda: delays.stored_s(first, 99),
        "first-alarm": lambda: delays.raised_s(first, 99),
        f"stored-{SLOW}-p50": lambda: delays.stored_s(windows[SLOW], 50),
    }
    for rate, window in windows.items():
        figures[f"stored-{rate}"] = partial(delays.stored_s, window, 99)
        if rate != SLOW:
            figures[f"alarm-{rate}-p50"] = partial(delays.raised_s, window, 50)
            figures[f"alarm-{rate}-p99"] = partial(delays.raised_s, window, 99)
    if not ended:
        figures["idle"] = lambda: _cores(parts["idle"], *DRIVERS_AND_EXECUTORS)
        figures["batch-ingest"] = lambda: of_a_batch(_of_ingest)
        figures["batch-watchlist"] = lambda: of_a_batch(_of_watchlist)
    return each_attempted({f"{B}-{name}": work for name, work in figures.items()}, ended)


def _spent(watch: Watch, seconds: int, rate: float) -> list[PartCpu]:
    """Cores by part, while so many records a second come."""
    before, began = read_cpu(watch.product), time.monotonic()
    if rate:
        watch.send(rate, seconds)
    else:
        time.sleep(seconds)
    passed = time.monotonic() - began
    return spent(before, read_cpu(watch.product), passed)


def _of_ingest(parts: Sequence[PartCpu]) -> float:
    """Its driver, executors and workers, and the store's servers, which nobody else writes to."""
    return _cores(parts, "hbase") + _of_application(parts, "ingest")


def _of_watchlist(parts: Sequence[PartCpu]) -> float:
    return _of_application(parts, "watchlist")


def _of_application(parts: Sequence[PartCpu], name: str) -> float:
    return sum(part.cores for part in parts if part.part.endswith(f"streams-{name}"))


def _cores(parts: Sequence[PartCpu], *begins: str) -> float:
    return sum(part.cores for part in parts if part.part.startswith(begins))
