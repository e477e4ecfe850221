"""kill -9 of one of three brokers beside a steady load: how long nothing comes, step by step.

In: who keeps the metadata. Out: the longest time between two alarms by victim, and beside it the
same of every step on the way, before the death too, and the slowest answer of edge and console.
Never: two deaths at once: a broker is back and in sync before the next one dies.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence

from bus.client.kafka.cluster import admin_client
from bus.contracts.groups import DISPATCHER
from bus.contracts.topics import DATA_VEHICLE, EVENT_ALARM, EVENT_CANDIDATE
from bus.settings import BusSettings
from deploy.bench.cluster.cluster_probe import ClusterProbe, wait_until
from deploy.bench.ingest.answers import edge_answers, rule_answers
from deploy.bench.ingest.product import Arrangement, Product, running
from deploy.bench.ingest.sending import start_devices, want_plate
from deploy.bench.ingest.watchers import Moments, recorded, seen_on
from deploy.errors import OperatorError

PREFIX = "ingest-broker-"
LEADER, COORDINATOR, CONTROLLER = "leader", "coordinator", "controller"
VICTIMS = (LEADER, COORDINATOR, CONTROLLER)
RATE, HIT_EVERY = 500, 20
"""25 hits a second."""
WARM_UP_S, AFTER_S = 40.0, 15.0
QUIET_S = 5.0  # between the return of one broker and the death of the next
BEFORE_MS, COUNTED_MS = 500, 12_000
STEADY_MS, LEAST_ALARMS = 5_000, 75  # before a death; fewer, and the load is not what it should be
HEALED_S = 120.0


def name_of(arrangement: Arrangement, victim: str) -> str:
    """The figure of one victim."""
    return f"{PREFIX}{victim}-{arrangement.value}"


def measured(arrangement: Arrangement) -> dict[str, float]:
    """Seconds, of each victim and step; the figure itself is what is seen of alarms."""
    found: dict[str, float] = {}
    seconds = WARM_UP_S + len(VICTIMS) * (AFTER_S + QUIET_S + HEALED_S)
    with running(arrangement) as product:
        want_plate(product)
        sender = start_devices(product.bootstrap, rate=RATE, seconds=seconds, hit_every=HIT_EVERY)
        try:
            with _steps(product) as steps:
                time.sleep(WARM_UP_S)
                for victim in VICTIMS:
                    for step, gap_s in _gaps_around_death(product, victim, steps).items():
                        name = name_of(arrangement, victim)
                        found[name if step == EVENT_ALARM else f"{name} {step}"] = gap_s
        finally:
            sender.kill()
            sender.wait()
    return found


@contextlib.contextmanager
def _steps(product: Product) -> Iterator[Mapping[str, Moments]]:
    """Moments by step, in the order of the way; they grow while the context is open."""
    bootstrap = product.bootstrap
    with (
        seen_on(bootstrap, DATA_VEHICLE) as vehicles,
        seen_on(bootstrap, EVENT_CANDIDATE) as candidates,
        seen_on(bootstrap, EVENT_ALARM) as alarms,
        recorded(product) as stored,
        edge_answers(product) as edge,
        rule_answers(product) as rules,
    ):
        yield {
            "record sent": vehicles.produced,
            "record on the bus": vehicles.seen,
            "candidate made": candidates.produced,
            "candidate on the bus": candidates.seen,
            "alarm made": alarms.produced,
            EVENT_ALARM: alarms.seen,
            "alarm recorded": stored,
            "edge's answers": edge,
            "console's answers to a new rule": rules,
        }


def _gaps_around_death(
    product: Product, victim: str, steps: Mapping[str, Moments]
) -> dict[str, float]:
    with contextlib.closing(ClusterProbe(product.bootstrap)) as probe:
        wait_until(lambda: _is_healed(probe), "every copy is in sync", within_s=HEALED_S)
        time.sleep(QUIET_S)
        node_id = _node_of(product.bootstrap, probe, victim)
    killed_ms = time.time() * 1000
    _check_load(steps, killed_ms)
    os.kill(product.pid(f"broker-{node_id}"), signal.SIGKILL)
    time.sleep(AFTER_S)
    found = {}
    for step, moments in steps.items():
        found[step] = longest_s(moments, killed_ms - BEFORE_MS, killed_ms + COUNTED_MS)
        found[f"{step}, before"] = longest_s(moments, killed_ms - COUNTED_MS, killed_ms)
    return found


def _check_load(steps: Mapping[str, Moments], killed_ms: float) -> None:
    """Before the death alarms came as they should."""
    alarms = [at for at in steps[EVENT_ALARM] if killed_ms - STEADY_MS <= at < killed_ms]
    if len(alarms) < LEAST_ALARMS:
        raise OperatorError(f"only {len(alarms)} alarms came in {STEADY_MS / 1000:g} s")


def longest_s(moments: Sequence[float], from_ms: float, until_ms: float) -> float:
    """The longest time between two of them, or an end of the span: what never came again is as long
    as that."""
    counted = sorted(at for at in list(moments) if from_ms <= at < until_ms)
    ends = [from_ms, *counted, until_ms]
    return max(b - a for a, b in itertools.pairwise(ends)) / 1000


def _is_healed(probe: ClusterProbe) -> bool:
    topics = (DATA_VEHICLE, EVENT_CANDIDATE, EVENT_ALARM, "__consumer_offsets")
    return all(probe.in_sync(topic) for topic in topics)


def _node_of(bootstrap: str, probe: ClusterProbe, victim: str) -> int:
    match victim:
        case "leader":
            return probe.leader(EVENT_ALARM)
        case "coordinator":
            return _coordinator(bootstrap, DISPATCHER)
        case _:
            return probe.controller()


def _coordinator(bootstrap: str, group: str) -> int:
    """Who keeps the positions of a group."""
    admin = admin_client(BusSettings(bootstrap_servers=bootstrap))
    found = admin.describe_consumer_groups([group])[group].result()
    return int(found.coordinator.id)
