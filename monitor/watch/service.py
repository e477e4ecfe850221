"""The watch's process: probes and the consumer ask, `WatchJudge` decides, file and notifiers tell.

Shares no driver and no store with what it watches: it goes on with any of it dead. Core:
`WatchJudge`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from bus.client.model import TopicAndPartition
from bus.client.register_follower import RegisterFollower
from bus.client.wire.ports import Address
from bus.contracts.groups import application_group
from bus.metrics.server import MetricsServer
from bus.notify.acknowledgements import Acknowledgements
from bus.notify.delivery import NoticeDelivery
from bus.runtime import wall_clock
from bus.runtime.file_thread import FileThread
from bus.runtime.tasks import spawn
from bus.settings import BusSettings, SiteSettings
from ingest.store.port import Position
from ingest.store.positions import valid_positions
from monitor.settings import WatchSettings
from monitor.watch.bounds import bounds_of
from monitor.watch.heartbeat import write_heartbeat
from monitor.watch.incident_file import IncidentFile, IncidentFileError
from monitor.watch.incident_keeper import IncidentKeeper
from monitor.watch.incident_publisher import IncidentPublisher
from monitor.watch.judge import EDGE, UsedSpace, WatchJudge, positions_of
from monitor.watch.metrics import WatchMetrics
from monitor.watch.ports import WatchPorts
from monitor.watch.probe import Probe
from monitor.watch.progress import StageOffsets
from monitor.watch.questions import (
    MAX_BROKERS,
    BrokerQuestion,
    BusOffsets,
    EdgeSpool,
    MinutesQuestion,
    OffsetsQuestion,
    SettledMinutes,
    StoreQuestion,
    ask_mirror,
    ask_spool,
    bootstrap_addresses,
    fetch,
    used_space,
    with_suspended,
)
from monitor.watch.sender_consumer import SenderConsumer

log = logging.getLogger(__name__)

TICK_S = 1.0
HEARTBEAT_S = 5.0
SAVE_S = 300.0  # a kill costs so much of what was learnt; the incidents are written at once
SAY_S = 60.0  # a question without an answer is logged so often
FRESH_S = 15.0  # positions older than this are not compared with the ends of now
SITE_KEYS_S = 10.0  # two hundred keys of a broker; an operator waits minutes, not seconds
MINUTES_S = 60.0
MINUTES_TIMEOUT_S = 30.0  # ten thousand cells out of a store that is busy
SETTLE_MS = 120_000  # a minute is judged when its records can be expected to be stored
MINUTES_BACK = 10


class WatchService:
    """One process: `run` until `stop`. Invariant: what the judge said is the keeper's."""

    def __init__(
        self, site: SiteSettings, bus: BusSettings, settings: WatchSettings, ports: WatchPorts
    ) -> None:
        self._site = site
        self._bus = bus
        self._settings = settings
        self._ports = ports
        self._stopping = asyncio.Event()
        path = site.data_path / "register.json"
        self._register = RegisterFollower(bus, path, "databus-watch-register")
        self._file = IncidentFile(settings.file_path(site), ports.plan)
        self._judge = WatchJudge(
            wall_clock.now_ms(), site.tz, bounds_of(settings), ports.all_stages
        )
        self._senders = SenderConsumer(bus, settings.probe_timeout_s)
        self._keeper = IncidentKeeper(self._file, ports.plan)
        self._publisher = IncidentPublisher(self._file, self._keeper, bus, site.name)
        acknowledged = Acknowledgements(site)
        self._metrics = WatchMetrics()
        self._deliveries = [
            NoticeDelivery(
                self._file.notices, one, ports.give_up_ms(one.name), IncidentFileError,
                acknowledged.who if one.name in ports.plan.escalations else None,
                metrics=self._metrics.notices, memory=self._keeper.memory,
            )
            for one in ports.notifiers
        ]  # fmt: skip
        self._keeper.wake = self._wake
        self._brokers: dict[Address, bool] = {}  # whether each answers
        self._positions: dict[str, tuple[float, list[Position]]] = {}
        self._said_s: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._closers: list[Callable[[], None]] = []

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stopping.set()

    @property
    def is_bus_there(self) -> bool:
        """Whether a broker answers."""
        return any(self._brokers.values())

    @property
    def blindness(self) -> str:
        """Why no record could be seen just now; empty: they can."""
        return self._senders.unavailable or ("" if self.is_bus_there else "no broker answers")

    def known_senders(self) -> list[tuple[str, str]]:
        """Scope and address of everyone seen so far."""
        return list(self._judge.silence.senders.by_key)

    async def run(self) -> None:
        """Until stopped."""
        settings = self._settings
        page = MetricsServer(settings.metrics_host, settings.metrics_port, self._metrics.registry)
        self._resume()
        self._senders.start()
        self._register.start()
        self._start_probes()
        self._spawn("publisher", self._publisher.run)
        self._spawn("keeper", self._keeper.run)
        self._spawn("habits", self._save_again_and_again)
        self._spawn("heartbeat", self._beat)
        for notifier, delivery in zip(self._ports.notifiers, self._deliveries, strict=True):
            self._spawn(f"notices {notifier.name}", delivery.run)
        log.info("watch: ready, %d incidents are open", len(self._judge.open_incidents()))
        try:
            await self._tick_until_stopped()
        finally:
            page.close()
            await self._close()

    # -- the clock ---------------------------------------------------------------------------

    async def _tick_until_stopped(self) -> None:
        while not self._stopping.is_set():
            self._tick()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), TICK_S)

    def _tick(self) -> None:
        """Everything that depends on the time of day happens here, once a second."""
        self._judge.on_register(self._register.read())
        self._publisher.is_bus_there = self.is_bus_there
        self._judge.on_blindness(self.blindness)
        self._judge.silence.seen(self._senders.pop_sightings())
        changes = self._judge.tick(wall_clock.now_ms())
        self._metrics.changed(changes)
        self._metrics.open(self._judge.open_incidents())
        self._metrics.senders.set(len(self._judge.silence.senders.by_key))
        for one in changes:
            log.warning("incident %s %s: %s", one.incident_id, one.state, one.detail)
        members = self._judge.silence.members
        self._keeper.add((one, members(one.incident_id)) for one in changes)

    def _wake(self) -> None:
        for delivery in self._deliveries:
            delivery.wake()

    async def _save_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(SAVE_S)
            await self._save()

    async def _save(self) -> None:
        silence = self._judge.silence
        for part in silence.senders.changed():
            await self._keeper.save(
                part,
                [(name, silence.members(name)) for name in silence.open],
                list(silence.senders.pop_forgotten()),
            )

    async def _beat(self) -> None:
        """Tell that the watch lives, for those who ask without a supervisor."""
        thread = FileThread("heartbeat", HEARTBEAT_S, OSError)
        try:
            while True:
                try:
                    await thread.run(
                        write_heartbeat, self._settings.heartbeat_path(self._site),
                        wall_clock.now_ms(), len(self._judge.open_incidents()),
                        len(self._judge.silence.senders.by_key),
                    )  # fmt: skip
                except OSError as error:
                    log.error("the heartbeat is not written: %s", error)
                await asyncio.sleep(HEARTBEAT_S)
        finally:
            thread.close()

    def _resume(self) -> None:
        self._judge.on_register(self._register.read())
        for row in self._judge.silence.senders.load(self._file.habits()):
            log.warning("the habit of %s %s is learnt again: not readable", row.scope, row.address)
        for incident, members in self._file.open_incidents():
            self._judge.resume(incident, members)

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._senders.stop)
        await asyncio.to_thread(self._register.close)
        for close in self._closers:
            await asyncio.to_thread(close)
        await self._save()
        for notifier in self._ports.notifiers:
            await notifier.close()
        await self._keeper.close()

    # -- probes ------------------------------------------------------------------------------

    def _start_probes(self) -> None:
        ports, settings = self._ports, self._settings
        for address in bootstrap_addresses(self._bus):
            self._watch_broker(address)
        for name, url in settings.health.items():
            self._probe_address(name, partial(fetch, url, settings.probe_timeout_s))
        applications = [one.stage for one in ports.stages]
        records = StoreQuestion(ports.open_records, applications)
        alarms = StoreQuestion(ports.open_alarms, [ports.recorder.stage])
        self._probe_part("store", records.ask, self._on_positions)
        self._probe_part("operations", alarms.ask, self._on_positions)
        topics = {topic for one in ports.all_stages for topic in one.topics}
        groups = [application_group(one.stage) for one in (*ports.stages, ports.dispatcher)]
        offsets = OffsetsQuestion(self._bus, topics, groups, settings.probe_timeout_s)
        self._closers.append(offsets.close)
        self._probe("offsets", offsets.ask, self._on_offsets)
        self._probe(
            "site keys", offsets.ask_site_keys, self._judge.on_site_keys, interval_s=SITE_KEYS_S
        )
        self._probe("processes", self._ask_processes, self._on_processes)
        self._probe("space", partial(used_space, ports.folders), self._judge.on_space)
        for name, url in ports.edge_status_urls.items():
            ask_edge = partial(ask_spool, url, settings.probe_timeout_s, settings.edge_token)
            self._probe(f"spool {name}", ask_edge, partial(self._on_spool, name))
        if ports.mirror_url:
            ask = partial(ask_mirror, ports.mirror_url, settings.probe_timeout_s)
            self._probe_part("mirror", ask, self._judge.on_mirror)
        self._probe_minutes()

    def _probe_minutes(self) -> None:
        minutes = MinutesQuestion(
            self._ports.open_records, wall_clock.now_ms, settle_ms=SETTLE_MS, minutes=MINUTES_BACK
        )
        probe: Probe[Any] = Probe(
            "minutes", minutes.ask, self._on_minutes,
            partial(self._unanswered, "minutes"),
            interval_s=MINUTES_S, timeout_s=MINUTES_TIMEOUT_S,
        )  # fmt: skip
        self._spawn("probe minutes", probe.run)

    def _watch_broker(self, address: Address) -> None:
        if address in self._brokers or len(self._brokers) >= MAX_BROKERS:
            return
        self._brokers[address] = False
        name = f"broker {address.host}:{address.port}"
        question = BrokerQuestion(self._bus, address, self._settings.probe_timeout_s)
        answers = self._brokers

        def on_answer(_: object) -> None:
            answers[address] = True

        def on_fault(_: str) -> None:
            answers[address] = False

        self._probe_part(name, question.ask, on_answer, on_fault)

    def _probe_part(
        self,
        name: str,
        ask: Callable[[], Any],
        on_answer: Callable[[Any], None],
        on_fault: Callable[[str], None] = lambda _: None,
    ) -> None:
        """A part that is away while it does not answer."""

        def answered(answer: Any) -> None:
            on_answer(answer)
            self._judge.on_parts(name, {name: ""})

        def failed(why: str) -> None:
            on_fault(why)
            self._judge.on_parts(name, {name: why})

        self._probe(name, ask, answered, failed)

    def _probe_address(self, name: str, ask: Callable[[], Any]) -> None:
        """A part that is away while it does not answer; of drivers, the judge knows which."""
        if name not in self._judge.pages:
            self._probe_part(name, ask, lambda _: None)
            return
        judge = self._judge
        self._probe(name, ask, lambda _: judge.on_page(name, ""), partial(judge.on_page, name))

    def _probe(
        self,
        name: str,
        ask: Callable[[], Any],
        on_answer: Callable[[Any], None],
        on_fault: Callable[[str], None] | None = None,
        interval_s: float = 0.0,
    ) -> None:
        def answered(answer: Any) -> None:
            self._metrics.answered(name)
            on_answer(answer)

        probe: Probe[Any] = Probe(
            name, ask, answered, on_fault or partial(self._unanswered, name),
            interval_s=interval_s or self._settings.probe_interval_s,
            timeout_s=self._settings.probe_timeout_s,
        )
        self._spawn(f"probe {name}", probe.run)

    def _spawn(self, name: str, run: Callable[[], Any]) -> None:
        self._tasks.append(spawn(run(), name=name))

    # -- answers -----------------------------------------------------------------------------

    def _on_positions(self, found: dict[str, list[Position]]) -> None:
        now_s = time.monotonic()
        self._positions |= {name: (now_s, positions) for name, positions in found.items()}

    def _on_offsets(self, found: BusOffsets) -> None:
        for address in found.brokers:
            self._watch_broker(address)
        for stage in self._ports.all_stages:
            positions = self._stage_positions(stage.stage, found)
            wanted = set(stage.topics)
            self._judge.on_stage(
                StageOffsets(
                    stage=stage.stage,
                    positions=positions_of(stage.topics, positions),
                    ends={tp: end for tp, end in found.ends.items() if tp[0] in wanted},
                    starts={tp: start for tp, start in found.starts.items() if tp[0] in wanted},
                )
            )

    def _stage_positions(
        self, stage: str, found: BusOffsets
    ) -> dict[TopicAndPartition, int] | None:
        """What its group has committed, else what its store says; None while that is away. Nothing
        of it is valid where the topics were made anew: then it has read nothing of them."""
        committed = found.committed.get(application_group(stage))
        if committed is not None:
            return dict(committed)
        at_s, positions = self._positions.get(stage, (-FRESH_S, []))
        if time.monotonic() - at_s > FRESH_S or not positions:
            return None
        return valid_positions(positions, found.cluster)

    def _on_minutes(self, found: SettledMinutes) -> None:
        self._metrics.answered("minutes")
        self._judge.on_minutes(found.totals)
        self._judge.on_missing(found.missing)

    def _ask_processes(self) -> Any:
        return with_suspended(self._ports.read_processes())

    def _on_processes(self, found: Any) -> None:
        self._judge.on_processes(found)

    def _on_spool(self, edge: str, found: EdgeSpool) -> None:
        place = ("spool", 0)
        self._judge.on_stage(
            StageOffsets(edge, {place: found.drained}, {place: found.spooled}, {place: 0})
        )
        name = "spool" if edge == EDGE else f"spool {edge}"
        self._judge.on_spool(
            UsedSpace(name, found.spool_bytes, self._ports.spool_max_bytes, is_spool=True)
        )
        if found.second_site is not None:
            self._judge.on_uncovered(edge, found.second_site.uncovered_records)
        self._judge.on_refused(edge, found.refused.groups)

    def _unanswered(self, name: str, why: str) -> None:
        """No part by itself: what depends on the answer is not judged. Logged once a minute."""
        now_s = time.monotonic()
        if now_s - self._said_s.get(name, -SAY_S) >= SAY_S:
            self._said_s[name] = now_s
            log.info("%s could not be asked: %s", name, why)


async def serve(
    site: SiteSettings, bus: BusSettings, settings: WatchSettings, ports: WatchPorts
) -> None:
    """Run until SIGTERM or Ctrl-C."""
    service = WatchService(site, bus, settings, ports)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.stop)
    await service.run()
