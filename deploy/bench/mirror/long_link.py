"""Copying over a link of 50 ms round trip, and after a cut of it.

In: a side. Out: records per second, seconds. The source and its producers run at the far end of a
`DelayedLink`, the mirror and the target at the near one. Never: a producer whose records cross the
link before the mirror fetches them.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from deploy.bench.mirror.bench_mirror import (
    NONE,
    OURS,
    TOPIC,
    WAIT_S,
    BenchMirror,
    MirroringRun,
    end,
    load_command,
    mirroring,
    pair_of_ours,
)
from deploy.bench.mirror.mirror_load import records_in
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.servers.delayed_link import DelayedLink

ONE_WAY_S = 0.025
WARM_S = 20
RECORDS = 400_000
"""Produced while the mirror is stopped, which may last less than its session in Connect's group."""
SMALL_BUFFERS, LARGE_BUFFERS = "16384", "1048576"
CUT_S, CUT_RATE, RATE = 60, 10_000, 1_000
"""As many records as in ten minutes at 1,000/s."""
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class LongLinkRun:
    """One mirror that copies over the link."""

    link: DelayedLink
    run: MirroringRun

    def produce(self, count: int, seconds: int) -> subprocess.Popen[bytes]:
        """At the far end, to its own cluster."""
        words = load_command("produce", self.run.pair, TOPIC, count, seconds)
        return subprocess.Popen(
            [*self.link.far, *words], cwd=PROJECT_ROOT, stdout=subprocess.DEVNULL
        )

    def records_at_target(self) -> int:
        """In all partitions."""
        return records_in(self.run.pair.target, self.run.bench_mirror.topic)

    def records_at_source(self) -> int:
        """In all partitions."""
        return records_in(self.run.pair.source, TOPIC)

    def wait_for(self, records: int) -> float:
        """Until so many are at the target; the time it took, in seconds."""
        begin = time.perf_counter()
        while self.records_at_target() < records:
            if time.perf_counter() - begin > WAIT_S:
                title = self.run.bench_mirror.title
                raise OperatorError(f"{title}: {records} records did not come over")
            time.sleep(POLL_S)
        return time.perf_counter() - begin


def records_per_second(bench_mirror: BenchMirror, settings: Mapping[str, str] = NONE) -> float:
    """Of a backlog that lies at the source."""
    with _running(bench_mirror, settings) as far:
        before = far.records_at_target()
        far.run.process.send_signal(signal.SIGSTOP)
        try:
            if far.produce(RECORDS, 0).wait(WAIT_S):
                raise OperatorError("the producer at the far end has failed")
        finally:
            far.run.process.send_signal(signal.SIGCONT)
        return RECORDS / far.wait_for(before + RECORDS)


def gain_of_buffers() -> dict[str, float]:
    """Records per second with large socket buffers, beside small ones."""
    small, large = (
        records_per_second(OURS, {"socket_receive_buffer_bytes": size})
        for size in (SMALL_BUFFERS, LARGE_BUFFERS)
    )
    return {"buffers": large / small}


def catch_up_after_cut() -> dict[str, float]:
    """Seconds from the end of a cut until the target is less than a second behind, while records
    go on to come."""
    with _running(OURS, NONE) as far:
        far.link.cut()
        if far.produce(CUT_RATE, CUT_S).wait(WAIT_S):
            raise OperatorError("the producer at the far end has failed")
        going_on = far.produce(RATE, int(WAIT_S))
        try:
            far.link.heal()
            begin = time.perf_counter()
            while far.records_at_source() - far.records_at_target() > RATE:
                if time.perf_counter() - begin > WAIT_S:
                    raise OperatorError("the mirror did not catch up")
                time.sleep(POLL_S)
            return {"cut": time.perf_counter() - begin}
        finally:
            end(going_on)


@contextmanager
def _running(bench_mirror: BenchMirror, settings: Mapping[str, str]) -> Iterator[LongLinkRun]:
    with DelayedLink(ONE_WAY_S) as link:
        at_far_end = partial(pair_of_ours, host=link.far_address, prefix=link.far)
        with mirroring(bench_mirror, at_far_end, warm_s=WARM_S, settings=settings) as run:
            yield LongLinkRun(link, run)
