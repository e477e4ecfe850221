"""The console's process: application and server. One worker, because a page lives in the process
that built it (spec: console, trap 4)."""

from __future__ import annotations

import logging

import uvicorn
from fastapi import FastAPI

from bus.domain.feature_models import FeatureSettings
from bus.domain.policy import PolicySettings
from bus.notify.notice_plan import ALARMS_A_MINUTE
from bus.settings import BusSettings, SiteSettings
from monitor.accounts.errors import AccountsUnavailable
from monitor.api.app import create_api
from monitor.api.services import ConsoleServices, build_services
from monitor.ports import (
    FindFaces,
    ImportList,
    OpenAlarms,
    OpenLists,
    OpenRecords,
    PreviewRule,
    ReadIncidents,
    ReadPicture,
    ReadProcesses,
    ReadWatch,
)
from monitor.settings import ConsoleSettings

log = logging.getLogger(__name__)

STOP_SECONDS = 5  # open websockets never end by themselves


def create_app(services: ConsoleServices) -> FastAPI:
    """API, guard and pages. Once per process."""
    # Imported here: the API and the accounts alone do not need NiceGUI.
    from monitor.console.mount import end_session, mount_pages

    app = create_api(services, end_session)
    mount_pages(app, services)
    return app


async def serve(
    site: SiteSettings,
    bus: BusSettings,
    console: ConsoleSettings,
    *,
    open_records: OpenRecords,
    open_alarms: OpenAlarms,
    read_picture: ReadPicture,
    preview_rule: PreviewRule,
    read_processes: ReadProcesses = tuple,
    read_watch: ReadWatch = str,
    read_incidents: ReadIncidents = tuple,
    open_lists: OpenLists | None = None,
    import_list: ImportList | None = None,
    policy: PolicySettings = PolicySettings(),
    features: FeatureSettings = FeatureSettings(),
    find_faces: FindFaces | None = None,
    alarms_a_minute: int = ALARMS_A_MINUTE,
    page_token: str = "",
) -> None:
    """Run the console until the process is asked to stop. Broker and stores may come and go."""
    services = build_services(
        site, bus, console, open_records, open_alarms, read_picture, preview_rule, read_processes,
        read_watch, read_incidents, open_lists, import_list, policy, features,
        find_faces, alarms_a_minute, page_token,
    )  # fmt: skip
    _open_accounts(services)
    app = create_app(services)
    from monitor.console.page_garbage import put_startup_aside  # NiceGUI, as in `create_app`

    put_startup_aside()
    server = uvicorn.Server(uvicorn.Config(
        app, host=console.host, port=console.port, log_level="warning",
        access_log=False, proxy_headers=bool(console.trusted_proxies),
        forwarded_allow_ips=console.trusted_proxies, timeout_graceful_shutdown=STOP_SECONDS,
        ws_max_size=1024 * 1024,
    ))  # fmt: skip
    log.info("console ready on http://%s:%d", console.host, console.port)
    await server.serve()


def _open_accounts(services: ConsoleServices) -> None:
    """Opens the file before the first request, which takes over the files of earlier versions. One
    that cannot be used does not prevent the start: every request says what is wrong with it.
    """
    try:
        services.sessions.remove_expired()
        if not services.account_store.accounts():
            log.warning("no accounts yet: add one with `databus accounts add NAME`")
    except AccountsUnavailable as error:
        log.error("%s", error)
