"""What the probes ask: brokers, HTTP addresses, stores, offsets, processes, disks.

Each is called in a thread of its own, ends within a bound, and raises where there is no answer.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from bus.client.committed import valid_offsets
from bus.client.kafka.admin import Admin
from bus.client.kafka.broker_probe import ask_broker
from bus.client.model import ClusterIdentity, TopicAndPartition, TopicPartition
from bus.client.wire.ports import Address, addresses
from bus.contracts.mirror_status import MirrorReport
from bus.contracts.sender_faults import RefusedGroup
from bus.metrics.read_page import read_page
from bus.settings import BusSettings
from ingest.store.port import Position, RecordReader
from monitor.ports import ProcessStatus
from monitor.watch.confirmation import SiteKeysOfBus
from monitor.watch.curve import MinuteTotal
from monitor.watch.judge import SUSPENDED, UsedSpace
from monitor.watch.missing import MissingRecords

CLIENT_ID = "databus-watch"
MAX_BROKERS = 100  # remembered once they were seen: a broker that died is no longer listed
MAX_REPLY_BYTES = 1 << 20
REASON_SHARE = 0.8  # of a probe's time: librdkafka says at the end of it why there was no answer
_QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 1000}


class BrokerQuestion:
    """Whether a broker speaks the Kafka protocol with us, over TLS and with a log-in where the bus
    has those."""

    def __init__(self, bus: BusSettings, address: Address, timeout_s: float) -> None:
        self._bus = bus
        self._address = address
        self._timeout_s = timeout_s * REASON_SHARE

    def ask(self) -> None:
        """Raises BusError."""
        ask_broker(self._bus, self._address, CLIENT_ID, self._timeout_s)


def bootstrap_addresses(bus: BusSettings) -> list[Address]:
    """The brokers that the settings name."""
    return addresses(bus.bootstrap_servers)


@dataclass(frozen=True, slots=True)
class BusOffsets:
    """What the brokers say of the topics of all stages."""

    cluster: ClusterIdentity
    starts: Mapping[TopicAndPartition, int]
    ends: Mapping[TopicAndPartition, int]
    committed: Mapping[str, Mapping[TopicAndPartition, int]]
    """By consumer group; what was committed on a topic that was made anew since is left out."""
    brokers: tuple[Address, ...]


class OffsetsQuestion:
    """Start and end offsets, and what the groups of our applications have committed."""

    def __init__(
        self, bus: BusSettings, topics: Iterable[str], groups: Iterable[str], timeout_s: float
    ) -> None:
        self._topics = sorted(set(topics))
        self._groups = set(groups)
        self._admin = Admin(bus, client_id=CLIENT_ID, timeout_s=timeout_s, overrides=_QUIET)

    def ask(self) -> BusOffsets:
        """Raises BusError."""
        identity = self._admin.existing(self._topics)
        places = [TopicPartition(*place) for place in identity.partitions]
        known = self._groups.intersection(self._admin.groups())
        alive = self._admin.cluster().alive
        return BusOffsets(
            cluster=identity,
            starts=_plain(self._admin.start_offsets(places)),
            ends=_plain(self._admin.end_offsets(places)),
            committed={
                group: valid_offsets(offsets, identity.topic_ids)[0]
                for group in sorted(known)
                if (offsets := self._admin.committed_offsets(group))
            },
            brokers=tuple(Address(b.host, b.port) for b in alive),
        )

    def ask_site_keys(self) -> SiteKeysOfBus:
        """Over the same connections, and for itself: it needs a permission that offsets do not.
        Raises BusError."""
        cluster = self._admin.cluster()
        alive = frozenset(broker.broker_id for broker in cluster.alive)
        configs = self._admin.broker_configs(min(alive)) if alive else {}
        return SiteKeysOfBus(cluster.cluster_id, configs, alive)

    def close(self) -> None:
        """End its threads."""
        self._admin.close()


def _plain(offsets: Mapping[TopicPartition, int]) -> dict[TopicAndPartition, int]:
    return {(place.topic, place.partition): offset for place, offset in offsets.items()}


class _PositionReader(Protocol):
    def positions(self, application: str) -> Sequence[Position]: ...
    def close(self) -> None: ...


Reader = TypeVar("Reader", bound=_PositionReader)


class StoreQuestion(Generic[Reader]):
    """A cheap read of a store: how far its applications are.

    Opened again for every question: a reader that stays open goes on reading a file that was
    replaced or removed.
    """

    def __init__(self, open_reader: Callable[[], Reader], applications: Sequence[str]) -> None:
        self._open = open_reader
        self._applications = applications
        self._had_positions = False

    def ask(self) -> dict[str, list[Position]]:
        """Positions by application. Raises what the reader raises."""
        with closing(self._open()) as reader:
            found = {name: list(reader.positions(name)) for name in self._applications}
        has_positions = any(found.values())
        if self._had_positions and not has_positions:
            raise LookupError("the positions that were in it are gone")
        self._had_positions = has_positions
        return found


@dataclass(frozen=True, slots=True)
class SettledMinutes:
    """`totals` of minutes in which something was sent; what is `missing`, by device and slot."""

    totals: Sequence[MinuteTotal]
    missing: Sequence[MissingRecords]


class MinutesQuestion:
    """The quality of the last settled minutes: summed up over all devices of a kind, and what edges
    have handed to the bus and nobody found."""

    def __init__(
        self, open_reader: Callable[[], RecordReader], now_ms: Callable[[], int],
        *, settle_ms: int, minutes: int,
    ) -> None:  # fmt: skip
        self._open = open_reader
        self._now_ms = now_ms
        self._settle_ms = settle_ms
        self._minutes = minutes

    def ask(self) -> SettledMinutes:
        """Raises what the reader raises."""
        until_ms = (self._now_ms() - self._settle_ms) // 60_000 * 60_000
        from_ms = until_ms - self._minutes * 60_000
        with closing(self._open()) as reader:
            found = reader.quality_summary(from_ms=from_ms, until_ms=until_ms)
        return SettledMinutes(
            totals=[MinuteTotal(*minute) for minute in found.minutes if minute.sent],
            missing=[MissingRecords(*slot) for slot in found.missing],
        )


def fetch(url: str, timeout_s: float, token: str = "") -> bytes:
    """The body of a GET. Raises `OSError` for anything but a 2xx; asks no proxy."""
    return read_page(url, timeout_s, token, MAX_REPLY_BYTES)


class EdgeRetention(msgspec.Struct, frozen=True):
    """What it says of what it keeps for a second site."""

    uncovered_records: int


class RefusedOfEdge(msgspec.Struct, frozen=True):
    """What it says of requests that it refuses."""

    groups: list[RefusedGroup] = []


class EdgeSpool(msgspec.Struct, frozen=True):
    """What `/v1/status` of the edge says of its spool. `second_site` None: it knows none."""

    spooled: int
    drained: int
    spool_bytes: int
    second_site: EdgeRetention | None = None
    refused: RefusedOfEdge = RefusedOfEdge()


def ask_spool(url: str, timeout_s: float, token: str = "") -> EdgeSpool:
    """With a reader's token it names the peers that are refused. Raises `OSError` or
    `msgspec.MsgspecError`."""
    return msgspec.json.decode(fetch(url, timeout_s, token), type=EdgeSpool)


def ask_mirror(url: str, timeout_s: float, token: str = "") -> MirrorReport | None:
    """What it says; None before it has spoken with both clusters. Raises `OSError` or
    `msgspec.MsgspecError`."""
    return msgspec.json.decode(fetch(url, timeout_s, token), type=MirrorReport | None)


def with_suspended(found: Iterable[ProcessStatus]) -> list[ProcessStatus]:
    """The processes; one that was stopped by a signal says so instead of `running`."""
    return [
        msgspec.structs.replace(one, state=SUSPENDED) if _is_suspended(one.pid) else one
        for one in found
    ]


def _is_suspended(pid: int | None) -> bool:
    """By Linux' /proc; elsewhere nobody can tell."""
    if pid is None:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in ("T", "t")


def used_space(folders: Iterable[Path]) -> list[UsedSpace]:
    """The disks of these folders, each once; folders that are not there yet are left out."""
    found: dict[int, UsedSpace] = {}
    for folder in folders:
        try:
            device, usage = folder.stat().st_dev, shutil.disk_usage(folder)
        except OSError:
            continue
        # As `df` counts: what only root may use is not free.
        total = usage.used + usage.free
        found.setdefault(device, UsedSpace(f"disk {folder}", usage.used, total))
    return list(found.values())
