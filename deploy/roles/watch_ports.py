"""What the watch is handed: readers, notifiers, the stages of the pipeline, addresses.

In: settings. Out: `WatchPorts`. Never: Spark, the console, a writer of a store; the watch must stay
small.
"""

from __future__ import annotations

from functools import partial

import msgspec

from alarm.lists.records_reader import ListRecordsReader
from bus.contracts.groups import DECIDER as DECIDERS
from bus.contracts.groups import DISPATCHER as DISPATCHERS
from bus.contracts.topics import (
    EVENT_ACKNOWLEDGED,
    EVENT_ALARM,
    EVENT_CANDIDATE,
    EVENT_INCIDENT,
    EVENT_NOTIFIED,
    EVENT_SUPPRESSED,
    REQUEST_TOPICS,
    STATE_ALARM,
)
from bus.notify.notifiers import incident_notifiers
from deploy.open_stores import open_operations, open_records
from deploy.roles.stages import stages_of
from deploy.roles.table import STREAMS, console_endpoint, driver_name
from deploy.settings.composed import Settings, edge_url
from deploy.supervisor.child import ServiceEndpoint
from deploy.supervisor.state_file import supervised
from monitor.settings import WatchSettings
from monitor.watch.driver_pages import StageTopics
from monitor.watch.ending_certificates import CertificateEnd
from monitor.watch.judge import is_edge
from monitor.watch.ports import WatchPorts
from spark_apps.settings import APART

DISPATCHER = StageTopics(DISPATCHERS, "dispatcher", (EVENT_CANDIDATE,))
DECIDER = StageTopics(DECIDERS, "dispatcher", REQUEST_TOPICS)
RECORDER = StageTopics(
    "recorder", "dispatcher",
    (EVENT_ALARM, EVENT_SUPPRESSED, EVENT_INCIDENT, EVENT_NOTIFIED, EVENT_ACKNOWLEDGED,
     STATE_ALARM),
)  # fmt: skip
HEALTH = "/healthz"
STATUS = "/status"
FOLDERS = ("", "broker", "store", "spool", "pictures", "log", "watch")


def watch_settings(settings: Settings) -> WatchSettings:
    """The watch's own table, completed by what other tables say of its neighbours."""
    endpoint = console_endpoint(settings)
    neighbours = {
        "edge": f"{edge_url(settings)}{HEALTH}",
        "console": f"http://{endpoint.probe_host}:{endpoint.port}{HEALTH}",
        **_pages(settings),
    }
    asked = {name: url for name, url in {**neighbours, **settings.watch.health}.items() if url}
    token = settings.watch.edge_token or reader_token(settings)
    return msgspec.structs.replace(settings.watch, health=asked, edge_token=token)


def reader_token(settings: Settings) -> str:
    """With which this machine's edge is read; empty where anybody may."""
    return next(iter(settings.edge.reader_tokens.values()), "")


def _pages(settings: Settings) -> dict[str, str]:
    """Where drivers and dispatcher show their metrics, which is where they say that they live."""
    streams, dispatcher = settings.streams, settings.dispatcher
    ports = {
        DISPATCHER.role: dispatcher.metrics_port,
        **{driver_name(name): streams.page_port(few) for name, few in APART.items()},
        STREAMS: streams.page_port(streams.applications_of(alarms_alone=False)),
    }
    hosts = {DISPATCHER.role: dispatcher.metrics_host}
    pages = {
        name: ServiceEndpoint(hosts.get(name, streams.metrics_host), port, "metrics_port")
        for name, port in ports.items()
        if port > 0
    }
    return {name: f"http://{page.probe_host}:{page.port}{HEALTH}" for name, page in pages.items()}


def _status_url(health_url: str) -> str:
    """Where the edge that answers there tells of its spool."""
    return health_url.removesuffix(HEALTH) + "/v1/status"


def mirror_url(settings: Settings, path: str = "") -> str:
    """Where the console and the watch ask the mirror; empty where neither is told of one nor one is
    configured on this machine."""
    mirror = settings.mirror
    if settings.console.mirror:
        return settings.console.mirror.rstrip("/") + path
    if not mirror.source_bootstrap_servers or mirror.metrics_port <= 0:
        return ""
    page = ServiceEndpoint(mirror.metrics_host, mirror.metrics_port, "metrics_port")
    return f"http://{page.probe_host}:{page.port}{path}"


def certificate_ends(settings: Settings) -> list[CertificateEnd]:
    """Those of a secured site's folder; none where it is open. Raises OperatorError."""
    folder = settings.security.folder_path(settings.site)
    if folder is None:
        return []
    from deploy.secure.certificate_rotation import certificate_state  # 8 MB

    state = certificate_state(folder)
    found = [("authority", ends) for ends in state.trusted]
    found += [(one.node, one.ends) for one in state.nodes]
    return [CertificateEnd(name, int(ends.timestamp() * 1000)) for name, ends in found]


def watch_ports(settings: Settings) -> WatchPorts:
    """Everything the watch needs of others."""
    folder = settings.site.data_path
    health = watch_settings(settings).health
    configured = incident_notifiers(settings.site, settings.notices)
    return WatchPorts(
        notifiers=configured,
        plan=settings.notices.plan([one.name for one in configured], settings.site.tz),
        give_up_ms=settings.notices.give_up_ms_of,
        open_records=lambda: open_records(settings),
        open_alarms=lambda: open_operations(settings),
        read_processes=lambda: supervised(folder),
        stages=stages_of(settings.streams),
        groups=[DISPATCHER, DECIDER],
        recorder=RECORDER,
        edge_status_urls={n: _status_url(url) for n, url in health.items() if is_edge(n)},
        spool_max_bytes=settings.edge.spool_max_bytes,
        folders=[folder / name for name in FOLDERS],
        lists=ListRecordsReader(settings.bus, settings.watch.probe_timeout_s),
        read_certificates=partial(certificate_ends, settings),
        mirror_url=mirror_url(settings, STATUS),
        page_token=settings.security.page_token,
    )
