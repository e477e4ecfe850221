"""What the watch is handed: readers, notifiers, the stages of the pipeline, addresses.

In: settings. Out: `WatchPorts`. Never: Spark, the console, a writer of a store; the watch must stay
small.
"""

from __future__ import annotations

import msgspec

from bus.contracts.groups import DISPATCHER as DISPATCHERS
from bus.contracts.topics import EVENT_ALARM, EVENT_CANDIDATE, EVENT_INCIDENT
from bus.notify.notifiers import notifiers
from deploy.reconcile.open_stores import open_operations, open_records
from deploy.roles import console_endpoint
from deploy.settings import Settings, edge_url
from deploy.stages import stages_of
from deploy.state_file import supervised
from monitor.settings import WatchSettings
from monitor.watch.judge import StageTopics
from monitor.watch.ports import WatchPorts

DISPATCHER = StageTopics(DISPATCHERS, "dispatcher", (EVENT_CANDIDATE,))
RECORDER = StageTopics("recorder", "dispatcher", (EVENT_ALARM, EVENT_INCIDENT))
FOLDERS = ("", "broker", "store", "spool", "pictures", "log", "watch")


def watch_settings(settings: Settings) -> WatchSettings:
    """The watch's own table, completed by what other tables say of its neighbours."""
    endpoint = console_endpoint(settings)
    neighbours = {
        "edge": f"{edge_url(settings)}/healthz",
        "console": f"http://{endpoint.probe_host}:{endpoint.port}/healthz",
    }
    return msgspec.structs.replace(settings.watch, health=settings.watch.health or neighbours)


def watch_ports(settings: Settings) -> WatchPorts:
    """Everything the watch needs of others."""
    folder = settings.site.data_path
    health = watch_settings(settings).health
    configured = notifiers(settings.site, settings.notices)
    return WatchPorts(
        notifiers=configured,
        plan=settings.notices.plan([one.name for one in configured], settings.site.tz),
        give_up_ms=settings.notices.give_up_ms,
        open_records=lambda: open_records(settings),
        open_alarms=lambda: open_operations(settings),
        read_processes=lambda: supervised(folder),
        stages=stages_of(settings.streams),
        dispatcher=DISPATCHER,
        recorder=RECORDER,
        edge_status_url=f"{edge_url(settings)}/v1/status" if "edge" in health else "",
        spool_max_bytes=settings.edge.spool_max_bytes,
        folders=[folder / name for name in FOLDERS],
    )
