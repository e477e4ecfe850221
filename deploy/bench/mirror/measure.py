"""`bench mirror`: our mirror beside MirrorMaker 2, and what only ours does.

In: which figures, how often. Out: samples, ours and MirrorMaker's. Both copy the same records from
the same kind of broker to the same kind of broker, each with a fresh pair: two of ours, where our
mirror appends the same bytes at the same offsets, and for the figures `apache-…` two of Apache
Kafka, where it produces as MirrorMaker does. Never: an end because one figure cannot be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from deploy.bench.mirror import copying, flipped_bit, group_offsets, long_link, switching
from deploy.bench.mirror.bench_mirror import (
    AT_LEAST_ONCE,
    MIRROR_MAKER,
    MIRROR_MAKER_IN_TRANSACTIONS,
    OURS,
    BenchMirror,
    OpenPair,
    pair_of_apache,
    pair_of_ours,
)
from deploy.bench.mirror.copying import CPU, DELAY, MEMORY
from deploy.bench.report import FIGURES, Samples
from deploy.bench.samples import SampleRecorder, Say, attempt
from deploy.errors import OperatorError

PREFIX = "mirror-"
LINK = "link"
APACHE_DELAY = PREFIX + "apache-delay"
ALIKE: dict[str, BenchMirror] = {
    PREFIX + "apache-sooner": AT_LEAST_ONCE,
    PREFIX + "apache-committed": MIRROR_MAKER_IN_TRANSACTIONS,
}
"""Both sides with, and both without transactions. By default ours has them and MirrorMaker 2 has
not: the other side's value of each is the one of `APACHE_DELAY`."""
PAIRS: dict[str, OpenPair] = {"": pair_of_ours, "apache-": pair_of_apache}
OURS_ALONE: dict[str, Callable[[], dict[str, float]]] = {
    "buffers": long_link.gain_of_buffers,
    "cut": long_link.catch_up_after_cut,
    "many": copying.delay_of_many,
    "switch": switching.planned_ms,
    "forced": switching.forced_ms,
    "switch-stored": switching.stored_ms,
    "group": group_offsets.behind_s,
    "flipped": flipped_bit.named_s,
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
            wanted = [
                what
                for what in (CPU, DELAY, MEMORY)
                if any(_figures_of(PREFIX + of + what, names, is_kafka=k) for k in (False, True))
            ]
            for mirror in (OURS, MIRROR_MAKER) if wanted else ():
                work = partial(copying.run_bench_mirror, mirror, open_pair, wanted)
                for what, value in (attempt(mirror.title, work, say) or {}).items():
                    is_kafka = mirror is MIRROR_MAKER
                    for name in _figures_of(PREFIX + of + what, names, is_kafka=is_kafka):
                        recorder.add(name, value, of=mirror.title, is_kafka=is_kafka)
            yield from recorder.samples()
        for name, mirror in ALIKE.items():
            if name in names:
                work = partial(copying.run_bench_mirror, mirror, pair_of_apache, [DELAY])
                for value in (attempt(mirror.title, work, say) or {}).values():
                    is_kafka = mirror is MIRROR_MAKER_IN_TRANSACTIONS
                    recorder.add(name, value, of=mirror.title, is_kafka=is_kafka)
        for mirror in (OURS, MIRROR_MAKER) if PREFIX + LINK in names else ():
            rate = attempt(mirror.title, partial(long_link.records_per_second, mirror), say)
            if rate is not None:
                recorder.add(PREFIX + LINK, rate, of=mirror.title, is_kafka=mirror is MIRROR_MAKER)
        for name, alone in OURS_ALONE.items():
            if PREFIX + name in names:
                for what, value in (attempt(name, alone, say) or {}).items():
                    recorder.add(PREFIX + what, value, of=OURS.title)
        yield from recorder.samples()


def _figures_of(measured: str, names: Sequence[str], *, is_kafka: bool) -> list[str]:
    """The wanted figures that this value counts for."""
    also = [
        name
        for name, mirror in ALIKE.items()
        if measured == APACHE_DELAY and (mirror is MIRROR_MAKER_IN_TRANSACTIONS) != is_kafka
    ]
    return [name for name in [measured, *also] if name in names]
