"""The figures of `databus bench ingest`.

In: which figures, how often. Out: samples in the figures' units. Never: a part of the product
replaced, or a time of the product's own account where it can be seen from outside.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial

from deploy.bench.backlog import produce_backlog
from deploy.bench.flow_side import catch_up
from deploy.bench.flow_times import percentile_s, stored_rows
from deploy.bench.ingest import edge_load, plates
from deploy.bench.ingest.devices import WANTED_PLATE
from deploy.bench.ingest.product import Arrangement, Product, running
from deploy.bench.ingest.watchers import alarms, commits, moment_of
from deploy.bench.report import FIGURES, Samples
from deploy.bench.samples import SampleRecorder, Say, attempt
from deploy.bench.targets import OURS, role
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.settings_sources import unknown
from ingest.store import open_store
from ingest.store.port import Query

PREFIX = "ingest-"
WARM_UP_S, MEASURED_S = 40, 60
CATCH_UP_IN_HBASE = 200_000
CATCH_UP_TIMEOUT_S = 900.0
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
            for name, value in (attempt(what, work, say) or {}).items():
                if name in names:
                    recorder.add(name, value, of=OURS)
            yield from recorder.samples()


def latencies(arrangement: Arrangement, rate: int) -> dict[str, float]:
    """Captured → the commit is seen, and captured → on `event.alarm`, in seconds."""
    with running(arrangement) as product:
        _want(product)
        with commits(product) as seen, alarms(product) as raised:
            since_ms = _feed(product, rate, WARM_UP_S + MEASURED_S)
        stored = [
            moment - row.captured_at_ms
            for row in stored_rows(product.store_url, Query())
            if row.captured_at_ms >= since_ms
            and (moment := moment_of(seen, row.stored_at_ms)) is not None
        ]
        told = [moment - captured for captured, moment in raised if captured >= since_ms]
    name = f"{PREFIX}{arrangement.value}"
    return {
        f"{name}-stored-{rate}": percentile_s(stored, 99),
        f"{name}-alarm-{rate}-p50": percentile_s(told, 50),
        f"{name}-alarm-{rate}-p99": percentile_s(told, 99),
    }


def catch_up_in_hbase() -> dict[str, float]:
    """Records per second into HBase while a backlog lies on the bus."""
    with running(Arrangement.B) as product:
        produce_backlog(product.bootstrap, CATCH_UP_IN_HBASE)
        began, before = time.monotonic(), _stored(product.store_url)
        deadline = began + CATCH_UP_TIMEOUT_S
        while (now := _stored(product.store_url)) < CATCH_UP_IN_HBASE:
            if time.monotonic() > deadline:
                raise OperatorError(f"{now} of {CATCH_UP_IN_HBASE} records were stored")
            time.sleep(0.2)
        return {f"{PREFIX}b-backlog": (now - before) / (time.monotonic() - began)}


def longest_gap(drivers: int) -> dict[str, float]:
    """kill -9 of the driver that matches: the longest time between two alarms, in seconds."""
    with running(Arrangement.A) as product:
        _want(product)
        if drivers == 1:
            gap = _gap_after_kill(product)
        else:
            settings = [*product.flags, f"bus.bootstrap_servers={product.bootstrap}",
                        'streams.applications=["watchlist"]',
                        f"streams.checkpoint_dir={product.folder / 'second'}"]  # fmt: skip
            with role("streams", product.folder, settings):
                gap = _gap_after_kill(product)
    return {f"{PREFIX}gap-{drivers}": gap}


def _gap_after_kill(product: Product) -> float:
    seconds = GAP_BEFORE_S + GAP_AFTER_S
    with alarms(product) as raised:
        process = _sender(product, GAP_RATE, seconds, hit_every=1)
        time.sleep(GAP_BEFORE_S)
        if not raised:
            raise OperatorError("no alarm before the kill")
        product.kill("streams")
        _answer_of(process)
        time.sleep(5)
    moments = [moment for _, moment in raised]
    first = next(n for n, at in enumerate(moments) if at >= moments[0] + GAP_BEFORE_S * 500)
    gaps = [b - a for a, b in zip(moments[first:], moments[first + 1 :], strict=False)]
    return max(gaps) / 1000


def _want(product: Product) -> None:
    product.databus("watch", "add", "--id", "bench", "--match", f"plate_number={WANTED_PLATE}")


def _feed(product: Product, rate: int, seconds: int) -> int:
    """Send for a time; the moment from which records count, in epoch ms."""
    began_ms = int(time.time() * 1000)
    answer = _answer_of(_sender(product, rate, seconds, hit_every=50))
    if answer["unconfirmed"] or answer["sent"] < 0.98 * rate * seconds:
        raise OperatorError(f"the bus did not take the load: {answer}")
    deadline = time.monotonic() + 60
    while _stored(product.store_url) < answer["sent"] and time.monotonic() < deadline:
        time.sleep(0.5)
    return began_ms + WARM_UP_S * 1000


def _sender(product: Product, rate: int, seconds: int, hit_every: int) -> subprocess.Popen[str]:
    words = ["--bootstrap", product.bootstrap, "--rate", str(rate), "--seconds", str(seconds)]
    return subprocess.Popen(
        [sys.executable, "-m", "deploy.bench.ingest.devices", *words,
         "--hit-every", str(hit_every)],
        cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _answer_of(process: subprocess.Popen[str]) -> dict[str, int]:
    output, errors = process.communicate(timeout=600)
    if process.returncode != 0:
        raise OperatorError(f"the devices failed: {errors[-400:]}")
    answer: dict[str, int] = json.loads(output.splitlines()[-1])
    return answer


def _stored(url: str) -> int:
    reader = open_store(url)
    try:
        return sum(reader.counts().stored.values())
    finally:
        reader.close()


def _of(arrangement: Arrangement, rate: int) -> tuple[str, ...]:
    name = f"{PREFIX}{arrangement.value}"
    return f"{name}-stored-{rate}", f"{name}-alarm-{rate}-p50", f"{name}-alarm-{rate}-p99"


PROGRAMS = (
    ("A at 500/s", _of(Arrangement.A, 500), partial(latencies, Arrangement.A, 500)),
    ("A at 1,000/s", _of(Arrangement.A, 1000), partial(latencies, Arrangement.A, 1000)),
    ("B at 1,000/s", _of(Arrangement.B, 1000), partial(latencies, Arrangement.B, 1000)),
    ("a backlog in SQLite", (f"{PREFIX}a-backlog",), lambda: {f"{PREFIX}a-backlog": catch_up()}),
    ("a backlog in HBase", (f"{PREFIX}b-backlog",), catch_up_in_hbase),
    ("plates in SQLite", (f"{PREFIX}plate",), lambda: {f"{PREFIX}plate": plates.in_sqlite()}),
    ("the edge", (f"{PREFIX}edge", f"{PREFIX}edge-p99"), edge_load.measured),
    ("a killed driver", (f"{PREFIX}gap-1",), partial(longest_gap, 1)),
    ("one of two drivers killed", (f"{PREFIX}gap-2",), partial(longest_gap, 2)),
)
