"""The figures of `databus bench ingest`.

In: which figures, how often. Out: samples in the figures' units. Never: a part of the product
replaced, or a time of the product's own account where it can be seen from outside.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from deploy.bench.backlog import produce_backlog
from deploy.bench.flow_times import rate_of_commits
from deploy.bench.ingest import (
    broker_death,
    edge_load,
    executors,
    faults,
    latencies,
    plates,
    register_start,
    topic_made_anew,
)
from deploy.bench.ingest.product import READY_TIMEOUT_S, Arrangement, Product, running
from deploy.bench.ingest.role_processes import (
    KEEPS_EXECUTORS,
    conf_setting,
    resident_mb,
    standing_still,
)
from deploy.bench.ingest.sending import (
    HIT_EVERY,
    NO_CITY_RULES,
    answer_of,
    start_devices,
    want_cars,
    want_plate,
)
from deploy.bench.ingest.watchers import alarms
from deploy.bench.report import FIGURES, Samples
from deploy.bench.samples import PartialSamples, SampleRecorder, Say, attempt
from deploy.bench.targets import OURS, role
from deploy.errors import OperatorError
from deploy.roles.table import ROLES
from deploy.settings.sources import unknown

PREFIX = "ingest-"
CATCH_UP = 1_000_000
MINUTE_S, EARLY_MINUTE, LATE_MINUTE, MEMORY_RATE = 60, 10, 60, 500
GAP_RATE = 10  # planted hits a second
GAP_BEFORE_S, GAP_AFTER_S = 30, 90


def chosen(words: str) -> list[str]:
    """The figures that begin with one of the words; all without a word."""
    names = [name for name in FIGURES if name.startswith(PREFIX)]
    wanted = [word for word in words.split(",") if word]
    found = [n for n in names if not wanted or n.removeprefix(PREFIX).startswith(tuple(wanted))]
    if not found:
        raise OperatorError(unknown("figure", words, [n.removeprefix(PREFIX) for n in names]))
    return found


def measure(names: Sequence[str], repeat: int, say: Say) -> Iterator[Samples]:
    """Run by run, so that what is measured is kept even if the rest fails."""
    recorder = SampleRecorder(names, repeat, say)
    for _ in range(repeat):
        for what, figures, work in PROGRAMS:
            if not set(figures) & set(names):
                continue
            found = attempt(what, partial(_known_figures, work, say), say) or {}
            for name, value in found.items():
                if name in names:
                    recorder.add(name, value, of=OURS)
                elif name not in FIGURES:  # a step of a figure
                    say(f"    {name}: {value:.4g}")
            yield from recorder.samples()


def _known_figures(work: Callable[[], dict[str, float]], say: Say) -> dict[str, float]:
    """Also those of a program in which others failed."""
    try:
        return work()
    except PartialSamples as error:
        say(f"  not measured: {error}")
        return error.found


def catch_up(arrangement: Arrangement) -> dict[str, float]:
    """Records per second into the store from a backlog that lies on the bus, everything running.
    Two rules are in force, as ever since this is measured: what the others cost a record is a
    figure of the alarms (`deploy/bench/alarms/matching_cost.py`)."""
    driver = "streams" if arrangement is Arrangement.A else executors.APPLICATION
    with running(arrangement, conf_setting(KEEPS_EXECUTORS), NO_CITY_RULES) as product:
        want_cars(product)
        with standing_still(product, driver):
            produce_backlog(product.bootstrap, CATCH_UP)
        rate = rate_of_commits(
            product.store_url, CATCH_UP, timeout_s=executors.TIMEOUT_S, poll_s=executors.POLL_S
        )
    return {f"{PREFIX}{arrangement.value}-backlog": rate}


def memory() -> dict[str, float]:
    """Resident memory of the driver, Java and Python: after an hour, and beside ten minutes."""
    with running(Arrangement.A) as product:
        began = time.monotonic()
        seconds = (LATE_MINUTE + 1) * MINUTE_S
        sender = _send(product, MEMORY_RATE, seconds)
        found = []
        for minute in (EARLY_MINUTE, LATE_MINUTE):
            time.sleep(max(0.0, began + minute * MINUTE_S - time.monotonic()))
            found.append(resident_mb(product, "streams"))
        answer_of(sender)
    early, late = found
    return {f"{PREFIX}memory": late, f"{PREFIX}memory-growth": late / early}


def longest_gap(drivers: int) -> dict[str, float]:
    """kill -9 of the driver that matches: the longest time between two alarms, in seconds."""
    with running(Arrangement.A) as product:
        want_plate(product)
        if drivers == 1:
            gap = _gap_after_kill(product)
        else:
            settings = [*product.flags, f"bus.bootstrap_servers={product.bootstrap}",
                        'streams.applications=["watchlist"]',
                        f"streams.checkpoint_dir={product.folder / 'second'}"]  # fmt: skip
            with role("streams", product.folder, settings):
                _wait_until_ready(product.folder / "streams.log")
                gap = _gap_after_kill(product)
    return {f"{PREFIX}gap-{drivers}": gap}


def _wait_until_ready(log: Path) -> None:
    """Until a second driver works: what it would miss before is no gap."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while (ROLES["streams"].ready_line or "") not in log.read_text("utf-8", "replace"):
        if time.monotonic() > deadline:
            raise OperatorError(f"the second driver does not work; see {log}")
        time.sleep(0.2)


def _gap_after_kill(product: Product) -> float:
    seconds = GAP_BEFORE_S + GAP_AFTER_S
    with alarms(product.bootstrap) as raised:
        process = _send(product, GAP_RATE, seconds, hit_every=1)
        time.sleep(GAP_BEFORE_S)
        if not raised:
            raise OperatorError("no alarm before the kill")
        product.kill("streams")
        answer_of(process)
        time.sleep(5)
    moments = [moment for _, moment in raised]
    first = next(n for n, at in enumerate(moments) if at >= moments[0] + GAP_BEFORE_S * 500)
    gaps = [b - a for a, b in zip(moments[first:], moments[first + 1 :], strict=False)]
    return max(gaps) / 1000


def _send(
    product: Product, rate: int, seconds: int, hit_every: int = HIT_EVERY
) -> subprocess.Popen[str]:
    return start_devices(product.bootstrap, rate=rate, seconds=seconds, hit_every=hit_every)


def _of_one_machine(rate: int) -> tuple[str, ...]:
    name = f"{latencies.A}-"
    return f"{name}stored-{rate}", f"{name}alarm-{rate}-p50", f"{name}alarm-{rate}-p99"


EXECUTORS = (
    f"{PREFIX}regions-us",
    *(f"{PREFIX}executors-{name}" for name in ("share", "driver", "cpu", "us", "held")),
)

Program = tuple[str, tuple[str, ...], Callable[[], dict[str, float]]]

PROGRAMS: tuple[Program, ...] = (
    ("A at 500/s", _of_one_machine(500), partial(latencies.of_one_machine, 500)),
    ("A at 1,000/s", _of_one_machine(1000), partial(latencies.of_one_machine, 1000)),
    ("B from its start on", latencies.CITY, latencies.of_a_city),
    ("a backlog in SQLite", (f"{PREFIX}a-backlog",), partial(catch_up, Arrangement.A)),
    ("a backlog in HBase", (f"{PREFIX}b-backlog",), partial(catch_up, Arrangement.B)),
    ("two executors", EXECUTORS, executors.measured),
    ("plates in SQLite", (f"{PREFIX}plate-a",), lambda: {f"{PREFIX}plate-a": plates.in_sqlite()}),
    ("plates in HBase", (f"{PREFIX}plate-b", f"{PREFIX}store-bytes"), plates.in_hbase),
    ("the edge", (f"{PREFIX}edge", f"{PREFIX}edge-p99", f"{PREFIX}edge-us"), edge_load.measured),
    ("the register", (f"{PREFIX}register",), register_start.measured),
    ("a killed driver", (f"{PREFIX}gap-1",), partial(longest_gap, 1)),
    ("one of two drivers killed", (f"{PREFIX}gap-2",), partial(longest_gap, 2)),
    ("the driver of ingest dead", (f"{PREFIX}fault-driver",), faults.driver_dead),
    ("the store's disk full", (f"{PREFIX}fault-disk",), faults.disk_full),
    ("HBase dead", (f"{PREFIX}fault-hbase",), faults.hbase_dead),
    ("a topic made anew", (topic_made_anew.NAME,), topic_made_anew.measured),
    *(
        (
            f"one of three brokers killed, {kind.value}",
            tuple(broker_death.name_of(kind, victim) for victim in broker_death.VICTIMS),
            partial(broker_death.measured, kind),
        )
        for kind in (Arrangement.KRAFT, Arrangement.ZOOKEEPER)
    ),
    ("memory", (f"{PREFIX}memory", f"{PREFIX}memory-growth"), memory),
)
