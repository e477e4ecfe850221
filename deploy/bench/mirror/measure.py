"""`bench mirror`: our mirror beside MirrorMaker 2, and what only ours does.

In: which figures, how often. Out: samples, ours and MirrorMaker's. Both copy the same records from
the same kind of broker to the same kind of broker, each with a fresh pair: two of ours, where our
mirror appends the same bytes at the same offsets, and for the figures `apache-…` two of Apache
Kafka, where it produces as MirrorMaker does. Never: an end because one figure cannot be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from deploy.bench.mirror import copying, long_link, switching
from deploy.bench.mirror.copying import CPU, DELAY, MEMORY
from deploy.bench.mirror.sides import (
    AT_LEAST_ONCE,
    MIRROR_MAKER,
    OURS,
    OpenPair,
    pair_of_apache,
    pair_of_ours,
)
from deploy.bench.report import FIGURES, Samples
from deploy.bench.samples import SampleRecorder, Say, attempt
from deploy.errors import OperatorError

PREFIX = "mirror-"
LINK = "link"
APACHE_DELAY, SOONER = "apache-delay", PREFIX + "apache-sooner"
"""MirrorMaker's delay is measured with the first and counts for both: it has no transactions."""
PAIRS: dict[str, OpenPair] = {"": pair_of_ours, "apache-": pair_of_apache}
OURS_ALONE: dict[str, Callable[[], dict[str, float]]] = {
    "buffers": long_link.gain_of_buffers,
    "cut": long_link.catch_up_after_cut,
    "many": copying.delay_of_many,
    "switch": switching.planned_ms,
    "forced": switching.forced_ms,
    "switch-stored": switching.stored_ms,
}


def chosen(only: str) -> list[str]:
    """`cpu,delay` as names of figures."""
    known = [name for name in FIGURES if name.startswith(PREFIX)]
    wanted = [PREFIX + part.strip() for part in only.split(",") if part.strip()]
    if unknown := [name for name in wanted if name not in known]:
        raise OperatorError(f"there is no figure {unknown[0]}; known: {', '.join(known)}")
    return wanted or known


def measure(names: Sequence[str], repeat: int, say: Say) -> Iterator[Samples]:
    """One side after the other, `repeat` times each."""
    recorder = SampleRecorder(names, repeat, say)
    for _ in range(repeat):
        for of, open_pair in PAIRS.items():
            wanted = [what for what in (CPU, DELAY, MEMORY) if PREFIX + of + what in names]
            for side in (OURS, MIRROR_MAKER) if wanted else ():
                work = partial(copying.run_side, side, open_pair, wanted)
                for what, value in (attempt(side.title, work, say) or {}).items():
                    is_kafka = side is MIRROR_MAKER
                    recorder.add(PREFIX + of + what, value, of=side.title, is_kafka=is_kafka)
                    if is_kafka and of + what == APACHE_DELAY and SOONER in names:
                        recorder.add(SOONER, value, of=side.title, is_kafka=True)
            yield from recorder.samples()
        if SOONER in names:
            work = partial(copying.run_side, AT_LEAST_ONCE, pair_of_apache, [DELAY])
            for value in (attempt(AT_LEAST_ONCE.title, work, say) or {}).values():
                recorder.add(SOONER, value, of=AT_LEAST_ONCE.title)
        for side in (OURS, MIRROR_MAKER) if PREFIX + LINK in names else ():
            rate = attempt(side.title, partial(long_link.records_per_second, side), say)
            if rate is not None:
                recorder.add(PREFIX + LINK, rate, of=side.title, is_kafka=side is MIRROR_MAKER)
        for name, alone in OURS_ALONE.items():
            if PREFIX + name in names:
                for what, value in (attempt(name, alone, say) or {}).items():
                    recorder.add(PREFIX + what, value, of=OURS.title)
        yield from recorder.samples()
