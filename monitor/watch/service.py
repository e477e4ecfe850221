"""The watch's process: probes and the consumer ask, `WatchJudge` decides, file and notifiers tell.

Shares no driver and no store with what it watches: it goes on with any of it dead. Core:
`WatchJudge`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from bus.client.register_follower import RegisterFollower
from bus.metrics.server import MetricsServer
from bus.notify.acknowledgements import Acknowledgements
from bus.notify.delivery import NoticeDelivery
from bus.runtime import wall_clock
from bus.runtime.file_thread import FileThread
from bus.runtime.tasks import spawn
from bus.settings import BusSettings, SiteSettings
from monitor.settings import WatchSettings
from monitor.watch.bounds import bounds_of
from monitor.watch.heartbeat import write_heartbeat
from monitor.watch.incident_file import IncidentFile, IncidentFileError
from monitor.watch.incident_keeper import IncidentKeeper
from monitor.watch.incident_publisher import IncidentPublisher
from monitor.watch.judge import WatchJudge
from monitor.watch.metrics import WatchMetrics
from monitor.watch.ports import WatchPorts
from monitor.watch.probes import WatchProbes
from monitor.watch.sender_consumer import SenderConsumer

log = logging.getLogger(__name__)

TICK_S = 1.0
HEARTBEAT_S = 5.0
SAVE_S = 300.0  # a kill costs so much of what was learnt; the incidents are written at once


class WatchService:
    """One process: `run` until `stop`. Invariant: what the judge said is the keeper's."""

    def __init__(
        self, site: SiteSettings, bus: BusSettings, settings: WatchSettings, ports: WatchPorts
    ) -> None:
        self._site = site
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
        self._probes = WatchProbes(bus, settings, ports, self._judge, self._metrics)
        self._tasks: list[asyncio.Task[None]] = []

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stopping.set()

    @property
    def is_bus_there(self) -> bool:
        """Whether a broker answers."""
        return self._probes.is_bus_there

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
        page = MetricsServer(
            settings.metrics_host, settings.metrics_port, self._metrics.registry,
            page_token=self._ports.page_token,
        )  # fmt: skip
        self._resume()
        self._senders.start()
        self._register.start()
        self._probes.start()
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
        await self._probes.close()
        await asyncio.to_thread(self._senders.stop)
        await asyncio.to_thread(self._register.close)
        await self._save()
        for notifier in self._ports.notifiers:
            await notifier.close()
        await self._keeper.close()

    def _spawn(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.append(spawn(run(), name=name))


async def serve(
    site: SiteSettings, bus: BusSettings, settings: WatchSettings, ports: WatchPorts
) -> None:
    """Run until SIGTERM or Ctrl-C."""
    service = WatchService(site, bus, settings, ports)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.stop)
    await service.run()
