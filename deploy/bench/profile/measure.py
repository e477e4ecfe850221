"""The profile: an arrangement with nothing to do, then with more and more records a second.

In: an arrangement, rates. Out: a `RateProfile` for each. Never: a figure of the bench: Spark's
event log, which the steps are read from, costs some CPU itself.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from bus.runtime.wall_clock import now_ms
from deploy.bench.ingest.process_cpu import PartCpu, read_cpu, spent
from deploy.bench.ingest.product import Arrangement, Product, running
from deploy.bench.ingest.role_processes import conf_setting
from deploy.bench.ingest.sending import HIT_EVERY, answer_of_load, start_devices, want_plate
from deploy.bench.profile.batch_steps import QuerySteps, steps_of
from deploy.bench.profile.driver_pages import means_ms, read_counts
from deploy.bench.profile.spark_events import read_events
from deploy.bench.samples import Say
from deploy.errors import OperatorError

RATES = "0,100"


class RateProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One rate of records a second. `cores`: of everything; `means_ms`: what the processes tell of
    themselves; `queries` is empty without Spark's event log."""

    rate: int
    cores: float
    parts: Sequence[PartCpu]
    means_ms: Mapping[str, float]
    queries: Sequence[QuerySteps]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one rate while it was sent."""

    rate: int
    from_ms: int
    until_ms: int
    parts: Sequence[PartCpu]
    means_ms: Mapping[str, float]


def parse_rates(text: str) -> list[int]:
    """Records a second, separated by commas. Raises `OperatorError`."""
    try:
        found = [int(word) for word in text.split(",") if word.strip()]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise OperatorError(f"rates: {text!r} is no list of records a second, as {RATES}")
    return found


def parse_arrangement(text: str) -> Arrangement:
    """`a` or `b`. Raises `OperatorError`."""
    if text in (Arrangement.A.value, Arrangement.B.value):
        return Arrangement(text)
    raise OperatorError(f"only: {text!r} is neither one machine (a) nor a city's servers (b)")


def profiled(
    arrangement: Arrangement, rates: Sequence[int], seconds: int, steps: bool, say: Say
) -> list[RateProfile]:
    """Each rate is sent for twice `seconds`; the second half is measured."""
    with tempfile.TemporaryDirectory(prefix="databus-events-") as name:
        folder = Path(name)
        settings = [conf_setting(event_log(folder))] if steps else []
        with running(arrangement, *settings) as product:
            want_plate(product)
            stretches = [_stretch(product, rate, seconds, say) for rate in rates]
        return list(_profiles(stretches, folder))


def event_log(folder: Path) -> dict[str, str]:
    """Spark's configuration: a log as `spark_events` reads it."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def _stretch(product: Product, rate: int, seconds: int, say: Say) -> Stretch:
    say(f"  {rate} records/s for {2 * seconds} s")
    with _sent(product, rate, 2 * seconds):
        time.sleep(seconds)
        cpu, counts = read_cpu(product), read_counts(product)
        from_ms, began = now_ms(), time.monotonic()
        time.sleep(max(0.0, seconds - 2))
        passed, after = time.monotonic() - began, read_cpu(product)
        return Stretch(
            rate=rate,
            from_ms=from_ms,
            until_ms=now_ms(),
            parts=spent(cpu, after, passed),
            means_ms=means_ms(counts, read_counts(product)),
        )


@contextlib.contextmanager
def _sent(product: Product, rate: int, seconds: int) -> Iterator[None]:
    if not rate:
        yield
        return
    sender = start_devices(product.bootstrap, rate=rate, seconds=seconds, hit_every=HIT_EVERY)
    try:
        yield
        answer_of_load(sender, rate, seconds)
    finally:
        sender.kill()


def _profiles(stretches: Sequence[Stretch], folder: Path) -> Iterator[RateProfile]:
    logs = [read_events(_lines(path)) for path in sorted(folder.iterdir())]
    for one in stretches:
        yield RateProfile(
            rate=one.rate,
            cores=sum(part.cores for part in one.parts),
            parts=one.parts,
            means_ms=one.means_ms,
            queries=[q for log in logs for q in steps_of(log, one.from_ms, one.until_ms)],
        )


def _lines(path: Path) -> Iterator[str]:
    with open(path, encoding="utf-8", errors="replace") as log:
        yield from log
