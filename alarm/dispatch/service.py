"""The dispatcher: one process with a worker, which raises alarms, a recorder, which stores, and a
decider, which answers commands.

Each goes on without the others: alarms do not wait for a disk or a command, and what is on
`event.alarm` is stored and told while another process works.
"""

from __future__ import annotations

import asyncio
import signal
import threading

from alarm.dispatch.decider import CommandDecider
from alarm.dispatch.metrics import DispatcherMetrics
from alarm.dispatch.picture_copier import AlarmPictures
from alarm.dispatch.recorder import OperationsRecorder
from alarm.dispatch.worker import AlarmWorker
from alarm.settings import DispatcherSettings
from bus.domain.feature_models import FeatureSettings
from bus.domain.policy import PolicySettings
from bus.domain.retention import RetentionSettings
from bus.metrics.server import MetricsServer
from bus.notify.settings import NoticeSettings
from bus.runtime.tasks import watch
from bus.settings import BusSettings, SiteSettings


class AlarmDispatcher:
    """One process; all its state is on the bus or in the operations store."""

    def __init__(
        self,
        site: SiteSettings,
        bus: BusSettings,
        settings: DispatcherSettings,
        notices: NoticeSettings,
        keep: RetentionSettings = RetentionSettings(),
        pictures: AlarmPictures | None = None,
        policy: PolicySettings = PolicySettings(),
        features: FeatureSettings = FeatureSettings(),
        page_token: str = "",
    ) -> None:
        """Without `pictures` alarms keep the addresses of the originals only; without `page_token`
        everybody may read the page of metrics."""
        self._page_token = page_token
        self._stopping = threading.Event()
        self._settings = settings
        self._metrics = DispatcherMetrics()
        self._recorder = OperationsRecorder(
            site, bus, settings, notices, keep, pictures, self._stopping, self._metrics
        )
        self._worker = AlarmWorker(
            site, bus, settings, self._recorder.settled, self._stopping, self._metrics
        )
        self._decider = CommandDecider(
            site, bus, self._stopping, self._metrics, policy, features.table()
        )

    @property
    def decides(self) -> bool:
        """Whether commands are decided here, now."""
        return self._decider.decides

    def stop(self) -> None:
        """Asks `run` to return."""
        self._stopping.set()

    async def run(self) -> None:
        """Runs until stopped. Raises when the bus fails permanently, for a restart."""
        settings = self._settings
        page = MetricsServer(
            settings.metrics_host, settings.metrics_port, self._metrics.registry,
            page_token=self._page_token,
        )  # fmt: skip
        try:
            async with asyncio.TaskGroup() as tasks:
                # Watched: the group reports a failure only when its other tasks have ended.
                watch(tasks.create_task(self._recorder.run(), name="recorder"))
                watch(tasks.create_task(asyncio.to_thread(self._worker.run), name="worker"))
                watch(tasks.create_task(asyncio.to_thread(self._decider.run), name="decider"))
        finally:
            page.close()
            self._stopping.set()  # a wait in a thread must not outlast this object


async def serve(
    site: SiteSettings,
    bus: BusSettings,
    settings: DispatcherSettings,
    notices: NoticeSettings,
    keep: RetentionSettings,
    pictures: AlarmPictures,
    policy: PolicySettings,
    features: FeatureSettings,
    page_token: str = "",
) -> None:
    """Runs until SIGTERM or Ctrl-C."""
    dispatcher = AlarmDispatcher(
        site, bus, settings, notices, keep, pictures, policy, features, page_token
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, dispatcher.stop)
    await dispatcher.run()
