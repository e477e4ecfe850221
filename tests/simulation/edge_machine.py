"""The machine of an edge that has both sites: its spool, its forwarder, its eye on both, as they are.

In: what a camera sends, orders of nobody: it moves by itself. Out: the values that it has accepted;
its spool lies in a real folder. Never: a clean-up after a kill; the next process finds what the last
one left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from bus.client.kafka import mirrored_ends, topic_follower
from bus.runtime import periodic_thread
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from ingest.edge import forwarder
from ingest.edge.forwarder import SpoolForwarder
from ingest.edge.sites import epoch_confirmer, second_site
from ingest.edge.sites.epoch_confirmer import EpochConfirmer
from ingest.edge.sites.second_site import SecondSite
from ingest.edge.sites.site_route import SiteRoute
from ingest.spool import Spool, SpoolEntry, SpoolFull, retained_segments, spool, writer
from tests.simulation.edge_clients import EdgeAdmin, EdgeConsumer, EdgeProducer
from tests.simulation.loop import ProcessLife
from tests.simulation.mirror_machine import enter
from tests.simulation.threads import VirtualThread, VirtualThreading
from tests.simulation.world import SimWorld

EDGE_HOST = "10.0.5.3"
EDGE_TOPIC = "data.vehicle"
EDGE_PARTITIONS = 2
KEYS = 7
EVERY_S = 0.4
MOVE_AFTER_S = 2.0
MAX_IN_FLIGHT = 50
SPOOL_BYTES = 64 << 20
LOOK_S = 0.2


class EdgeMachine:
    """Invariant: at most one process of it runs. `accepted`: what cameras were told is safe."""

    def __init__(self, world: SimWorld, home: str, second: str, folder: Path) -> None:
        """Bootstrap servers of both sites, their listeners for clients."""
        self.world, self._folder = world, folder
        self._buses = BusSettings(bootstrap_servers=home), BusSettings(bootstrap_servers=second)
        self.accepted: set[str] = set()
        self.stopping = False
        self.uncovered = 0
        self._count = self._starts = 0
        self._life: ProcessLife | None = None
        self._spool: Spool | None = None
        self.route: SiteRoute | None = None

    @property
    def alive(self) -> bool:
        """Whether a process runs (it may be paused)."""
        return self._life is not None and not self._life.dead

    @property
    def waiting(self) -> str:
        """What it has still to do; empty: all is on the bus, and at the other site."""
        found = self._spool
        if found is None or self.route is None:
            return "the edge does not run"
        if self.route.moving_to is not None:
            return f"the edge moves to {self.route.moving_to}"
        if found.drained_sequence < found.end_sequence:
            return f"{found.end_sequence - found.drained_sequence} records wait in the spool"
        if found.retained_messages:
            return f"{found.retained_messages} records are kept, and not confirmed at the other site"
        return ""

    def start(self) -> None:
        """Starts a new process."""
        if self.alive:
            return
        self._starts += 1
        life = self._life = ProcessLife(f"edge#{self._starts}")
        life.deathbed += [self.world.loop.bury, lambda: self.world.network.process_died(life)]
        self.world.trace(f"{life} starts")
        clock = enter(self.world, life, EDGE_HOST)
        clock.spawn(self._serve(), name="edge")

    async def _serve(self) -> None:
        await asyncio.to_thread(self._begin)
        while not self.stopping:
            await self._post()
            await asyncio.sleep(EVERY_S)

    def _begin(self) -> None:
        """As `ingest.edge.app` puts them together."""
        self.route = SiteRoute(self._folder / "route", *self._buses)
        self._spool = Spool(
            self._folder / "spool", max_bytes=SPOOL_BYTES, segment_bytes=4096,
            retained_max_bytes=SPOOL_BYTES,
        )  # fmt: skip
        SecondSite(self._spool, self.route, move_after_s=MOVE_AFTER_S).start()
        EpochConfirmer(self.route).start()
        SpoolForwarder(self._spool, self.route, MAX_IN_FLIGHT).start()

    async def _post(self) -> None:
        """One record of a camera; it is told once it is on the edge's disk."""
        assert self._spool is not None
        value, self._count = f"edge.{self._count}", self._count + 1
        entry = SpoolEntry(
            topic=EDGE_TOPIC, key=b"%d" % (self._count % KEYS), value=value.encode(), headers=[],
            timestamp_ms=now_ms(), tally="vehicle/accepted",
        )  # fmt: skip
        try:
            await self._spool.append([entry])
        except SpoolFull as full:
            self.world.complain(f"the edge refuses a camera: {full}")
            return
        self.accepted.add(value)
        self.uncovered = self._spool.uncovered_messages

    def kill(self) -> None:
        """SIGKILL; the kernel frees its files."""
        if self._life is None or not self.alive:
            return
        self.world.trace(f"{self._life} is killed")
        self._life.die()
        if self._spool is not None:
            self._spool._lock_file.close()
            self._spool._reader.close()
        self._spool = self.route = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Gives the edge's modules the world's threads and clients."""
        threads = (
            forwarder, second_site, topic_follower, periodic_thread, spool, writer, retained_segments,
        )  # fmt: skip
        clients = {
            forwarder: {"Producer": EdgeProducer},
            second_site: {"Consumer": EdgeConsumer, "Admin": EdgeAdmin},
            epoch_confirmer: {"own_name": lambda: "an-edge@world"},
            mirrored_ends: {"Consumer": EdgeConsumer, "Admin": EdgeAdmin},
        }
        with ExitStack() as patches:
            for module in threads:
                patches.enter_context(patch.object(module, "threading", VirtualThreading))
            for module, names in clients.items():
                for name, value in names.items():
                    patches.enter_context(patch.object(module, name, value))
            complain = staticmethod(self.world.complain)
            patches.enter_context(patch.object(VirtualThread, "report", complain))
            yield
