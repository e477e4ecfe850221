"""A dispatcher in a thread, for tests of what reads its store and asks its decider."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from alarm.dispatch.reader import OperationsReader
from alarm.dispatch.service import AlarmDispatcher
from alarm.settings import DispatcherSettings
from bus.domain.policy import NO_POLICY, PolicySettings
from bus.domain.visibility import EVERYTHING
from bus.notify.settings import NoticeSettings
from bus.settings import BusSettings, SiteSettings
from ingest.store.port import PageRequest, StoreUnavailable

READY_S, POLL_S = 60.0, 0.05


@contextmanager
def running_dispatcher(
    bootstrap: str, folder: Path, *, alarms: int = 0, notices: NoticeSettings = NoticeSettings(),
    policy: PolicySettings = NO_POLICY, metrics_port: int = DispatcherSettings().metrics_port,
    confusion_table: str = "",
) -> Iterator[Path]:
    """For as long as the block lasts; the operations store, once it has so many alarms and commands
    are decided: whoever asks waits a few seconds only, which a group's first member may need beside
    other tests."""
    site = SiteSettings(data_dir=str(folder), confusion_table=confusion_table)
    dispatcher = AlarmDispatcher(
        site, BusSettings(bootstrap_servers=bootstrap), DispatcherSettings(metrics_port=metrics_port),
        notices, policy=policy,
    )
    thread = threading.Thread(target=lambda: asyncio.run(dispatcher.run()), name="dispatcher")
    thread.start()
    path = DispatcherSettings().operations_path(site)
    try:
        deadline = time.monotonic() + READY_S
        while not (_stored(path) >= alarms and dispatcher.decides):
            decides = "decides" if dispatcher.decides else "does not decide"
            assert time.monotonic() < deadline, f"{_stored(path)} of {alarms} alarms, {decides}"
            thread.join(POLL_S)
        yield path
    finally:
        dispatcher.stop()
        thread.join(30)


def _stored(path: Path) -> int:
    try:
        with closing(OperationsReader(path)) as reader:
            return len(reader.alarms(viewer=EVERYTHING, page=PageRequest(limit=1000))[0])
    except StoreUnavailable:
        return -1
