"""`size`: what a city needs of brokers, executors and region servers, with the sums. Pure.

In: cameras, their rate, how long records are kept. Out: `Need`s, each number with the line that
made it; `DemandError` for a demand that is none. Never: a cost that was not measured without saying
so (docs/sizing.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

DAY_S = 86_400
GIB = 1 << 30
RECORDER_US_PER_MBIT, RECORDER_CORES = 1_900, 0.5
"""CPU of a second of film (measured: docs/decisions/0124), and how much of its core a recorder,
which is one process, may use."""
DRIVERS = 4  # each application has one of its own in a cluster


@dataclass(frozen=True, slots=True)
class RecordCosts:
    """What a record costs; microseconds of one core, bytes. The values here are taken where the
    bench has none; docs/sizing.md says what they rest on."""

    broker_us: float = 113.0  # at its leader, one record a request, acks=all, 4,000 connections
    copy_us: float = 25.0  # at each follower
    edge_rate: float = 3_000.0  # records/s that one edge acknowledges after fsync: one process
    executor_us: float = 620.0  # judge, match, write to HBase: driver and executors
    region_us: float = 250.0  # region servers and Thrift servers
    bus_bytes: float = 600.0  # of vehicles and faces as the city mixes them
    store_bytes: float = 1_500.0  # a record, its index entries and its share of cells
    broker_mb: float = 100.0  # of a process; what is left of its server is page cache
    edge_mb: float = 300.0
    driver_mb: float = 1_500.0  # with its Python processes, of all applications together
    executor_mb: float = 1_500.0  # of each core: heap and Python worker
    region_mb: float = 8_000.0  # heap of a region server and of the Thrift server beside it


class DemandError(ValueError):
    """A city that cannot be: the sentence says what of it."""


BOUNDS = {
    "cameras": (1, 10_000_000, "cameras"),
    "rate": (1e-6, 1_000, "records a second of each camera"),
    "keep_days": (1e-3, 36_525, "days for which records are kept"),
    "peak": (1, 100, "times the average at the peak"),
    "copies": (1, 10, "copies"),
    "bus_days": (1e-3, 36_525, "days on the bus"),
    "cores_per_server": (1, 1_024, "cores of a server"),
    "disk_per_server_gib": (1, 10_000_000, "GiB of a server's disk"),
    "busy": (0.01, 1, "of a server's cores at the peak"),
    "picture_kib": (0, 1_000_000, "KiB of a record's pictures"),
    "film_mbit": (0, 1_000, "Mbit/s of a camera's film"),
    "film_days": (0, 36_525, "days for which films are kept"),
    "outage_h": (0, 8_784, "hours without the bus"),
}
"""What each part of a demand may be; a number beyond is a slip of the hand."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked for. `peak` is the rush hour's rate over the day's average."""

    cameras: int
    rate: float  # records a second of each camera, on average over the day
    keep_days: float
    peak: float = 3.0
    copies: int = 3
    bus_days: float = 7.0  # the data topics' retention
    cores_per_server: int = 8
    disk_per_server_gib: float = 4_000.0
    busy: float = 0.5  # of its cores a server may use at the peak: the other half is for a failure
    picture_kib: float = 0.0  # of a record's pictures together; 0: they are kept elsewhere
    film_mbit: float = 0.0  # a second of each camera's film; 0: none is kept
    film_days: float = 7.0
    outage_h: float = 24.0  # without the bus, which the edges' spools must last

    def __post_init__(self) -> None:
        """Raises `DemandError`; no comparison with NaN holds, so it is refused as well."""
        for name, (low, high, what) in BOUNDS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise DemandError(f"{value:g} {what}: must be from {low:g} to {high:,}")


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that is needed, how many of it, and how that was computed."""

    what: str
    count: int
    unit: str
    sum: str


def size(demand: Demand, costs: RecordCosts = RecordCosts()) -> list[Need]:
    """Everything, in the order of the flow."""
    average = demand.cameras * demand.rate
    peak = average * demand.peak
    usable = demand.cores_per_server * demand.busy
    edges, brokers = _edges(demand, costs, peak), _brokers(demand, costs, average, peak, usable)
    executors, meters = _executors(costs, peak), _meters()
    regions, store_disk = _store(demand, costs, average, peak, usable)
    return [
        _records(demand, average, peak),
        edges,
        brokers,
        _partitions(costs, peak),
        executors,
        meters,
        regions,
        store_disk,
        *_disks(demand, costs, average),
        _memory("edges", edges.count, costs.edge_mb),
        _memory("brokers", brokers.count, costs.broker_mb),
        _memory("drivers", DRIVERS, costs.driver_mb),
        _memory("executors", executors.count + meters.count, costs.executor_mb),
        _memory("region servers", regions.count, costs.region_mb),
    ]


def _records(demand: Demand, average: float, peak: float) -> Need:
    reckoning = (
        f"{demand.cameras:,} cameras × {demand.rate:g}/s = {average:,.0f}/s on average; "
        f"× {demand.peak:g} at the peak"
    )
    return Need("records at the peak", math.ceil(peak), "a second", reckoning)


def _edges(demand: Demand, costs: RecordCosts, peak: float) -> Need:
    """An edge is one process: its rate is measured as a whole, more cores do not raise it."""
    edges = peak / (costs.edge_rate * demand.busy)
    reckoning = f"{peak:,.0f}/s / ({costs.edge_rate:,.0f}/s × {demand.busy:g}) = {edges:.1f}"
    return Need("edges", max(2, math.ceil(edges)), "processes", reckoning + "; 2 at least")


def _memory(what: str, count: int, each_mb: float) -> Need:
    reckoning = f"{count:,} × {each_mb:,.0f} MB"
    return Need(f"memory of {what}", math.ceil(count * each_mb / 1_000), "GB", reckoning)


def _brokers(
    demand: Demand, costs: RecordCosts, average: float, peak: float, usable: float
) -> Need:
    cost_us = costs.broker_us + (demand.copies - 1) * costs.copy_us
    by_cpu = peak * cost_us / 1e6 / usable
    by_disk = bus_gib(demand, costs, average) / (0.7 * demand.disk_per_server_gib)
    reckoning = (
        f"by CPU {peak:,.0f}/s × ({costs.broker_us:g} + {demand.copies - 1} × "
        f"{costs.copy_us:g}) µs / {usable:g} cores = {by_cpu:.1f}; by disk {by_disk:.1f}; "
        f"{demand.copies} copies need as many"
    )
    count = max(demand.copies, math.ceil(by_cpu), math.ceil(by_disk))
    return Need("brokers", count, "servers", reckoning)


def _partitions(costs: RecordCosts, peak: float) -> Need:
    """Of `data.vehicle`: as many tasks as there are partitions read at once."""
    executors = _executors(costs, peak).count
    count = max(4, 2 * executors)
    return Need("partitions of data.vehicle", count, "", f"2 × {executors} executor cores")


def _executors(costs: RecordCosts, peak: float) -> Need:
    cores = peak * costs.executor_us / 1e6
    reckoning = (
        f"{peak:,.0f}/s × {costs.executor_us:g} µs = {cores:.1f} cores, "
        "twice that to catch up after an outage; 2 at least"
    )
    count = max(2, math.ceil(2 * cores))
    return Need("executors of ingest and watch list", count, "cores", reckoning)


def _meters() -> Need:
    """They read what ingest has added up, not records."""
    return Need("executors of latency and quality", 1, "cores", "1 × 1 driver of both")


def _store(
    demand: Demand, costs: RecordCosts, average: float, peak: float, usable: float
) -> list[Need]:
    gib = average * DAY_S * demand.keep_days * costs.store_bytes * demand.copies / GIB
    by_cpu = peak * costs.region_us / 1e6 / usable
    by_disk = gib / (0.7 * demand.disk_per_server_gib)
    count = max(3, math.ceil(by_cpu), math.ceil(by_disk))
    reckoning = (
        f"by CPU {peak:,.0f}/s × {costs.region_us:g} µs / {usable:g} cores = {by_cpu:.1f}; "
        f"by disk {by_disk:.1f}; 3 at least"
    )
    disk = (
        f"{average:,.0f}/s × {demand.keep_days:g} days × {costs.store_bytes:g} B × "
        f"{demand.copies} copies"
    )
    return [
        Need("region servers", count, "servers", reckoning),
        Need("disk of the record store", math.ceil(gib), "GiB", disk),
    ]


def _disks(demand: Demand, costs: RecordCosts, average: float) -> list[Need]:
    needs = [
        Need(
            "disk of the bus", math.ceil(bus_gib(demand, costs, average)), "GiB",
            f"{average:,.0f}/s × {demand.bus_days:g} days × {costs.bus_bytes:g} B × "
            f"{demand.copies} copies",
        ),
        Need(
            "disk of the edges' spools",
            math.ceil(average * 3_600 * demand.outage_h * costs.bus_bytes / GIB), "GiB",
            f"{average:,.0f}/s × {demand.outage_h:g} h without the bus × {costs.bus_bytes:g} B",
        ),
    ]  # fmt: skip
    if demand.picture_kib:
        needs.append(
            Need(
                "disk of the pictures",
                math.ceil(average * DAY_S * demand.keep_days * demand.picture_kib / (1 << 20)),
                "GiB",
                f"{average:,.0f}/s × {demand.keep_days:g} days × {demand.picture_kib:g} KiB, "
                "each once",
            )
        )
    if demand.film_mbit:
        needs += _films(demand)
    return needs


def _films(demand: Demand) -> list[Need]:
    gib = demand.cameras * demand.film_mbit * 1e6 / 8 * DAY_S * demand.film_days / GIB
    each = f"{demand.cameras:,} cameras × {demand.film_mbit:g} Mbit/s"
    cores = demand.cameras * RECORDER_US_PER_MBIT * demand.film_mbit / 1e6
    return [
        Need("disk of the films", math.ceil(gib), "GiB",
             f"{each} × {demand.film_days:g} days, each once"),
        Need("recorders", math.ceil(cores / RECORDER_CORES), "processes",
             f"{each} × {RECORDER_US_PER_MBIT:,} µs/s a Mbit = {cores:.1f} cores; "
             f"{RECORDER_CORES:g} of one core each"),
    ]  # fmt: skip


def bus_gib(demand: Demand, costs: RecordCosts, average: float) -> float:
    """What the data topics hold."""
    return average * DAY_S * demand.bus_days * costs.bus_bytes * demand.copies / GIB
