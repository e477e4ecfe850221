"""The city as a process: generates records as time passes, hands them to the uplinks, keeps ground
truth and counters.

Core: `generator`, `counters`; shells: `edge_uplink`, `bus_uplink`, `ground_truth_log`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from bus.client.kafka.site_follower import SendProgress, SiteFollower
from bus.contracts.register import encode_register
from bus.contracts.topics import DATA_TOPICS, METER_SENT
from bus.runtime import tasks, wall_clock
from bus.settings import BusSettings, SiteSettings, other_bus
from ingest.senders.simulator.bus_uplink import BusRecord, BusUplink
from ingest.senders.simulator.counters import SentCounters
from ingest.senders.simulator.edge_connection import EdgeResponse
from ingest.senders.simulator.edge_uplink import EdgeUplink, UplinkSettings
from ingest.senders.simulator.generator import GeneratedRecord, RecordGenerator
from ingest.senders.simulator.ground_truth import RuleLine, RunLine
from ingest.senders.simulator.ground_truth_log import TruthLog
from ingest.senders.simulator.outbox import Outgoing, Post
from ingest.senders.simulator.settings import CitySettings
from ingest.senders.simulator.startup import put_watch_rules, send_owed_counters
from ingest.senders.simulator.world import CityWorld, build_world

log = logging.getLogger(__name__)

TICK_S = 0.03
SYNC_S = 1.0
LONGEST_GAP_MS = 3_000  # after a stop this long, missed passes are not made up for
BARELY_BEHIND_MS = 100
SMART_TOPICS = (*DATA_TOPICS, METER_SENT)  # of smart cameras, without an edge
SENDER = "127.0.0.1"  # under this address the edge knows a city on its own machine


async def serve(site: SiteSettings, bus: BusSettings, city: CitySettings, edge_url: str) -> None:
    """Run until SIGTERM or SIGINT, hand over what is pending, write the truth's end."""
    world = build_world(city.seed, site.name)
    write_register(site.data_path / "register.json", world)
    simulator = Simulator(site, bus, city, edge_url, world)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, simulator.stop)
    follower: SiteFollower | None = None
    second = other_bus(bus, city.second_site_bootstrap_servers, city.second_site_librdkafka)
    if second is not None:

        def on_move(to: BusSettings) -> None:
            loop.call_soon_threadsafe(simulator.move, to)

        follower = SiteFollower(bus, second, SMART_TOPICS, simulator.progress, on_move)
        follower.start()
    try:
        await simulator.run()
    finally:
        if follower is not None:
            await asyncio.to_thread(follower.stop)


def write_register(path: Path, world: CityWorld) -> None:
    """The deployment register of this city; unchanged files are left alone."""
    text = encode_register(world.register)
    if path.exists() and path.read_bytes() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(text)
    fresh.replace(path)


class Simulator:
    """Invariant: a record has a line in the truth before any uplink sees it."""

    def __init__(
        self,
        site: SiteSettings,
        bus: BusSettings,
        city: CitySettings,
        edge_url: str,
        world: CityWorld,
    ) -> None:
        self._site, self._city, self._bus_settings = site, city, bus
        self._edge_url = edge_url
        self._started_ms = wall_clock.now_ms()
        self._run_name = f"{self._started_ms:x}"
        self._directory = site.data_path / "city"
        self._truth = TruthLog(
            self._directory,
            RunLine(self._run_name, site.name, city.seed, self._started_ms),
        )
        self._bus = BusUplink(
            bus,
            buffer_records=city.camera_buffer_records,
            message_timeout_ms=city.message_timeout_ms,
        )
        self._generator = RecordGenerator(
            world, city, site.tz, run=self._run_name, start_ms=self._started_ms, edge_sender=SENDER
        )
        self._servers = {server: self._uplink(server) for server in world.servers}
        self._counters = {server: SentCounters(self._started_ms) for server in ("", *world.servers)}
        self._stopping = asyncio.Event()
        self._skipped = 0
        self.sent = 0

    def stop(self) -> None:
        """End cleanly, soon."""
        self._stopping.set()

    def progress(self) -> SendProgress:
        """Of the smart cameras; from any thread."""
        return SendProgress(self._bus.acknowledged, self._bus.pending)

    def move(self, to: BusSettings) -> None:
        """The smart cameras send to the other site from now on."""
        self._bus.move(to)
        log.warning("the smart cameras send to %s", to.bootstrap_servers)

    async def run(self) -> None:
        """Watch list first, then traffic until `stop`, then everything out."""
        watches = self._generator.rules
        await put_watch_rules(self._site, self._bus_settings, watches, self._stopping)
        self._truth.rules([RuleLine(watch.rule_id, watch.name, watch.plate) for watch in watches])
        send_owed_counters(self._bus, self._directory, self._run_name)
        for uplink in self._servers.values():
            uplink.start()
        beside = [
            tasks.spawn(self._sync_loop(), name="city-truth"),
            tasks.spawn(self._counters_loop(), name="city-counters"),
        ]
        try:
            await self._run_traffic()
        finally:
            for task in beside:
                task.cancel()
            await self._finish()

    async def _run_traffic(self) -> None:
        self._warm_up()
        log.info("city %s lives: %s records/s at the peak", self._run_name, self._city.rate)
        while not self._stopping.is_set():
            now_ms = wall_clock.now_ms()
            self._send(list(self._generator.until(now_ms, not_before_ms=now_ms - LONGEST_GAP_MS)))
            self._record_acknowledged()
            await asyncio.sleep(TICK_S)

    def _warm_up(self) -> None:
        """Traffic runs before anybody looks, until it has caught up with the clock."""
        now_ms, behind_ms = wall_clock.now_ms(), BARELY_BEHIND_MS
        while behind_ms >= BARELY_BEHIND_MS:
            for _ in self._generator.until(now_ms, not_before_ms=now_ms):
                pass
            behind_ms, now_ms = wall_clock.now_ms() - now_ms, wall_clock.now_ms()
        gc.collect()
        gc.freeze()  # thousands of trips that live for minutes are not worth looking through

    def _send(self, made: Sequence[GeneratedRecord]) -> None:
        if not made:
            return
        kept = self._fitting(made)
        self._truth.records([record.line for record in kept])
        now_ms = wall_clock.now_ms()
        posts: dict[str, list[Outgoing]] = defaultdict(list)
        for record in kept:
            server = record.camera.recognizer_ip
            self._counters[server].count(record.camera, record.line.minute_ms, now_ms)
            if server:
                posts[server].append(_outgoing(record))
            else:
                self._bus.put(_produced(record))
        for server, records in posts.items():
            self._servers[server].put(records)
        self.sent += len(kept)

    def _fitting(self, records: Sequence[GeneratedRecord]) -> list[GeneratedRecord]:
        """A full buffer means that a capture is never made; it is counted, not sent."""
        room = {server: uplink.room() for server, uplink in self._servers.items()}
        room[""] = self._bus.room
        kept = []
        for record in records:
            server = record.camera.recognizer_ip
            if room[server] > 0:
                room[server] -= 1
                kept.append(record)
        self._skipped += len(records) - len(kept)
        return kept

    def _record_acknowledged(self) -> None:
        acknowledged = self._bus.poll_acknowledged()
        if acknowledged:
            self._truth.sent(acknowledged)

    def _on_response(self, post: Post, response: EdgeResponse) -> None:
        """Called in a server's thread."""
        ns = [record.n for record in post.records]
        ids = {n: given for n, given in zip(ns, response.ids, strict=False) if given}
        self._truth.sent(ns, ids, {ns[each.index]: each.reason for each in response.rejected})

    def _uplink(self, server: str) -> EdgeUplink:
        city, faults = self._city, self._generator.faults
        settings = UplinkSettings(
            edge_url=self._edge_url,
            run=self._run_name,
            interval_ms=city.post_interval_ms,
            max_records=city.post_max_records,
            buffer_records=city.server_buffer_records,
            timeout_ms=city.post_timeout_ms,
            token=city.edge_token,
        )
        return EdgeUplink(
            server, settings, self._on_response, lambda at_ms: faults.uplink_delay_ms(server, at_ms)
        )

    async def _sync_loop(self) -> None:
        while True:
            await asyncio.sleep(SYNC_S)
            await asyncio.to_thread(self._truth.sync)

    async def _counters_loop(self) -> None:
        while True:
            await asyncio.sleep(self._city.counters_interval_ms / 1000)
            self._send_counters()
            log.info(
                "city: %d sent, %d not acknowledged, %d skipped",
                self.sent, self._truth.pending, self._skipped,
            )  # fmt: skip

    def _send_counters(self) -> None:
        now_ms = wall_clock.now_ms()
        for server, counters in self._counters.items():
            due = counters.due(now_ms)
            if not due:
                continue
            if server:
                self._servers[server].send_counters(due, counters.mark_acknowledged)
            else:
                self._bus.send_counters(due, counters.mark_acknowledged)

    async def _finish(self) -> None:
        """Hand over what is pending, counters last; bounded by the settings."""
        self._send_counters()
        timeout_s = self._city.flush_timeout_ms / 1000
        for uplink in self._servers.values():
            uplink.stop()
        deadline = time.monotonic() + timeout_s
        for uplink in self._servers.values():
            done = await asyncio.to_thread(uplink.join, max(0.1, deadline - time.monotonic()))
            if not done:
                log.warning("server %s could not hand over everything", uplink.server)
        await asyncio.to_thread(self._bus.flush, max(1.0, deadline - time.monotonic()))
        self._record_acknowledged()
        pending = self._truth.pending
        owed = sum(counters.unacknowledged for counters in self._counters.values())
        if owed:
            log.warning("%d counters were not accepted; the next start sends them", owed)
        self._truth.close(wall_clock.now_ms(), self._skipped, ended=not owed)
        log.info("city %s ended: %d sent, %d unconfirmed", self._run_name, self.sent, pending)


def _outgoing(record: GeneratedRecord) -> Outgoing:
    return Outgoing(record.line.n, record.camera.kind, record.body, record.at_ms)


def _produced(record: GeneratedRecord) -> BusRecord:
    line = record.line
    return BusRecord(line.n, line.topic, record.key, line.id, record.body)
