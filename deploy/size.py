"""`size`: what a city needs of brokers, executors and region servers, with the sums. Pure.

In: cameras, their rate, how long records are kept. Out: `Sizing`, each number with the line that
made it. Never: a cost that was not measured without saying so (docs/sizing.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

DAY_S = 86_400
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class RecordCosts:
    """What a record costs; microseconds of one core, bytes. The values here are taken where the
    bench has none; docs/sizing.md says what they rest on."""

    broker_us: float = 113.0  # at its leader, one record a request, acks=all, 4,000 connections
    copy_us: float = 25.0  # at each follower
    edge_us: float = 260.0  # parse, spool with fsync, forward
    executor_us: float = 620.0  # judge, match, write to HBase: driver and executors
    region_us: float = 250.0  # region servers and Thrift servers
    bus_bytes: float = 600.0  # of vehicles and faces as the city mixes them
    store_bytes: float = 1_500.0  # a record, its index entries and its share of cells


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
    outage_h: float = 24.0  # without the bus, which the edges' spools must last


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
    return [
        _records(demand, average, peak),
        _servers("edges", peak, costs.edge_us, usable),
        _brokers(demand, costs, average, peak, usable),
        _partitions(costs, peak),
        _executors(costs, peak),
        _meters(),
        *_store(demand, costs, average, peak, usable),
        *_disks(demand, costs, average),
    ]


def _records(demand: Demand, average: float, peak: float) -> Need:
    told = (
        f"{demand.cameras:,} cameras × {demand.rate:g}/s = {average:,.0f}/s on average; "
        f"× {demand.peak:g} at the peak"
    )
    return Need("records at the peak", math.ceil(peak), "a second", told)


def _servers(what: str, peak: float, cost_us: float, usable: float) -> Need:
    cores = peak * cost_us / 1e6
    told = f"{peak:,.0f}/s × {cost_us:g} µs = {cores:.1f} cores; {usable:g} usable in each"
    return Need(what, max(2, math.ceil(cores / usable)), "servers", told + "; 2 at least")


def _brokers(
    demand: Demand, costs: RecordCosts, average: float, peak: float, usable: float
) -> Need:
    cost_us = costs.broker_us + (demand.copies - 1) * costs.copy_us
    by_cpu = peak * cost_us / 1e6 / usable
    by_disk = bus_gib(demand, costs, average) / (0.7 * demand.disk_per_server_gib)
    told = (
        f"by CPU {peak:,.0f}/s × ({costs.broker_us:g} + {demand.copies - 1} × "
        f"{costs.copy_us:g}) µs / {usable:g} cores = {by_cpu:.1f}; by disk {by_disk:.1f}; "
        f"{demand.copies} copies need as many"
    )
    count = max(demand.copies, math.ceil(by_cpu), math.ceil(by_disk))
    return Need("brokers", count, "servers", told)


def _partitions(costs: RecordCosts, peak: float) -> Need:
    """Of `data.vehicle`: as many tasks as there are partitions read at once."""
    executors = _executors(costs, peak).count
    count = max(4, 2 * executors)
    return Need("partitions of data.vehicle", count, "", f"2 × {executors} executor cores")


def _executors(costs: RecordCosts, peak: float) -> Need:
    cores = peak * costs.executor_us / 1e6
    told = (
        f"{peak:,.0f}/s × {costs.executor_us:g} µs = {cores:.1f} cores, "
        "twice that to catch up after an outage; 2 at least"
    )
    return Need("executors of ingest and watch list", max(2, math.ceil(2 * cores)), "cores", told)


def _meters() -> Need:
    """They read what ingest has added up, not records."""
    return Need("executors of latency and quality", 2, "cores", "1 × 2 applications")


def _store(
    demand: Demand, costs: RecordCosts, average: float, peak: float, usable: float
) -> list[Need]:
    gib = average * DAY_S * demand.keep_days * costs.store_bytes * demand.copies / GIB
    by_cpu = peak * costs.region_us / 1e6 / usable
    by_disk = gib / (0.7 * demand.disk_per_server_gib)
    count = max(3, math.ceil(by_cpu), math.ceil(by_disk))
    told = (
        f"by CPU {peak:,.0f}/s × {costs.region_us:g} µs / {usable:g} cores = {by_cpu:.1f}; "
        f"by disk {by_disk:.1f}; 3 at least"
    )
    disk = (
        f"{average:,.0f}/s × {demand.keep_days:g} days × {costs.store_bytes:g} B × "
        f"{demand.copies} copies"
    )
    return [
        Need("region servers", count, "servers", told),
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
    return needs


def bus_gib(demand: Demand, costs: RecordCosts, average: float) -> float:
    """What the data topics hold."""
    return average * DAY_S * demand.bus_days * costs.bus_bytes * demand.copies / GIB
