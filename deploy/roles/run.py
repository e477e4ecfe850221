"""`run ROLE`: one process of the product in the foreground; what the supervisor, systemd and
compose start.

In: settings and a role's name. Out: the role runs until SIGTERM or Ctrl-C.
Never: more than choosing the package's own entry point; a package's `serve` does the work.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from broker.settings import METRICS_TOKEN_KEY
from bus.runtime import tasks
from bus.runtime.log_format import log_to_stderr
from bus.runtime.wall_clock import now_ms
from deploy.errors import OperatorError
from deploy.roles.table import ALARM_STREAMS, ROLES, STREAMS, environment
from deploy.secure.account_settings import as_role
from deploy.settings.composed import Settings, broker_pages, edge_url
from deploy.settings.sources import unknown
from deploy.supervisor.process_end import end_with_the_supervisor
from deploy.supervisor.state_file import supervised
from monitor.settings import ConsoleSettings

if TYPE_CHECKING:
    from spark_apps.settings import JobSettings

ACCESS_PAUSE_S = 1.0
ARCHIVE_TIMEOUT_S = 25.0  # takes 6 s; the supervisor gives this role 45 s to stop in all
M_ARENA_MAX = -8  # of glibc's malloc.h
M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES = -3, 1 << 16
log = logging.getLogger(__name__)


def run(name: str, settings: Settings) -> int:
    """Run one role here; returns its exit status when it was asked to stop."""
    if name not in ROLES:
        raise OperatorError(unknown("role", name, ROLES))
    end_with_the_supervisor()
    log_to_stderr()
    for chatty in ("py4j", "pyspark", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    settings.site.data_path.mkdir(parents=True, exist_ok=True)
    return STARTERS[name](as_role(settings, name))


def _topics_in_the_background(settings: Settings) -> None:
    """The first role to start makes the topics; roles that need them wait for them. In a secured
    site its brokers do, so that no role needs the right to."""
    if settings.security.folder:
        return
    from deploy.topics import make_topics

    def make() -> None:
        try:
            make_topics(settings.bus, settings.mirror)
        except OperatorError as error:
            log.error("%s", error)

    threading.Thread(target=make, name="topics", daemon=True).start()


def _put_back_restored(settings: Settings) -> None:
    """Rules and register of a restored backup, where the topics lack them."""
    from deploy.backup.control_topics import put_back, restored_folder

    if restored_folder(settings).exists():
        threading.Thread(
            target=put_back, args=(settings, threading.Event()), name="restored", daemon=True
        ).start()


def _broker(settings: Settings) -> int:
    from broker.server.process import run

    if settings.security.folder:
        threading.Thread(target=_apply_access, args=(settings,), name="access", daemon=True).start()
    return run(broker_properties(settings), data_dir=str(settings.site.data_path / "broker"))


def broker_properties(settings: Settings) -> dict[str, str]:
    """The broker's own table, and the token of its page, which stands on no command line."""
    token = settings.security.page_token
    return ({METRICS_TOKEN_KEY: token} if token else {}) | settings.broker


def _apply_access(settings: Settings) -> None:
    """Users, rights and topics, in a process of its own: the broker's loop has other work. It says
    on the broker's output when all are in force, and is started again until they are."""
    words = [sys.executable, "-m", "deploy", *settings.arguments, "secure", "apply"]
    while subprocess.run(words, env=environment(), stdin=subprocess.DEVNULL).returncode:
        time.sleep(ACCESS_PAUSE_S)


def _edge(settings: Settings) -> int:
    from ingest.edge.app import serve

    _topics_in_the_background(settings)
    tasks.run(
        serve(
            settings.site, settings.bus, settings.edge, settings.pictures, settings.retention,
            settings.security.page_token,
        )
    )  # fmt: skip
    return 0


def job_settings(settings: Settings, packages: Path) -> JobSettings:
    """What a driver of our applications needs, complete: the connector's jars, and the zip of our
    packages, made at `packages`."""
    from deploy.roles.package import build_zip
    from deploy.setup.jars import spark_connector_jars
    from spark_apps.settings import JobSettings

    streams = settings.streams
    if not streams.jars:
        jars = ":".join(map(str, spark_connector_jars()))
        streams = msgspec.structs.replace(streams, jars=jars)
    if not streams.py_files:
        streams = msgspec.structs.replace(streams, py_files=str(build_zip(packages)))
    return JobSettings(
        site=settings.site,
        bus=settings.bus,
        store=settings.store,
        streams=streams,
        retention=settings.retention,
        page_token=settings.security.page_token,
    )


def _streams(settings: Settings, *, alarms_alone: bool = False) -> int:
    from deploy.setup.java import java_home

    _topics_in_the_background(settings)
    os.environ["JAVA_HOME"] = str(java_home())
    names = settings.streams.applications_of(alarms_alone=alarms_alone)
    zip_name = "packages-watchlist.zip" if alarms_alone else "packages.zip"
    return _drive(job_settings(settings, settings.site.data_path / zip_name), names)


def _drive(job: JobSettings, applications: Sequence[str]) -> int:
    """Run the driver; on one machine with Java's archive of Spark's classes (ADR 0022)."""
    from deploy.setup.class_archive import class_archive, spark_jars
    from deploy.setup.java import ensure_java
    from spark_apps.driver import run as run_driver
    from spark_apps.session.session import end_java, java_options

    streams = job.streams
    if streams.wanted_master and not streams.wanted_master.startswith("local"):
        return run_driver(job, applications)
    jars = [*spark_jars(), *map(Path, streams.jars.split(":"))]
    flags = f"{java_options(streams)} {streams.driver_memory}"
    with class_archive(ensure_java(), jars, flags) as archive:
        options = " ".join(filter(None, [streams.java_options, archive.option]))
        streams = msgspec.structs.replace(streams, java_options=options)
        status = run_driver(msgspec.structs.replace(job, streams=streams), applications)
        if archive.partial is not None and end_java(ARCHIVE_TIMEOUT_S):
            archive.keep()
    return status


def _dispatcher(settings: Settings) -> int:
    from alarm.dispatch.service import serve
    from ingest.pictures.alarm_copies import AlarmCopies
    from ingest.pictures.open import open_pictures

    _topics_in_the_background(settings)
    _put_back_restored(settings)
    pictures = AlarmCopies(open_pictures(settings.pictures, settings.site, settings.edge))
    tasks.run(
        serve(
            settings.site, settings.bus, settings.dispatcher, settings.notices,
            settings.retention, pictures, settings.policy, settings.features,
            settings.security.page_token,
        )
    )  # fmt: skip
    return 0


def _console(settings: Settings) -> int:
    from alarm.face_search import face_piece
    from alarm.lists.base_tables import tables_folder
    from alarm.lists.stored_list_reader import StoredListReader
    from alarm.lists.uploaded_list import import_uploaded
    from alarm.preview import preview_piece
    from bus.confusion_file import source_of
    from deploy.open_stores import open_operations, open_records, picture_reader
    from monitor.api.other_site_pictures import PicturesOfBothSites
    from monitor.serve import serve
    from monitor.watch.incident_reader import newest_in_file

    _topics_in_the_background(settings)
    confusion = source_of(settings.site)
    console = console_settings(settings)
    read_picture = picture_reader(console.pictures)
    if console.other_site_pictures:
        url, token = console.other_site_pictures, console.other_site_pictures_token
        read_picture = PicturesOfBothSites(read_picture, url, token).read
    tasks.run(
        serve(
            settings.site,
            settings.bus,
            console,
            open_records=lambda: open_records(settings),
            open_alarms=lambda: open_operations(settings),
            read_picture=read_picture,
            preview_rule=lambda reader, rule, asked, places: preview_piece(
                reader, rule, asked, places, confusion.read()
            ),
            open_lists=partial(StoredListReader, settings.bus, tables_folder(settings.site)),
            import_list=partial(
                import_uploaded, settings.site, settings.bus, settings.features.table()
            ),
            read_processes=lambda: supervised(settings.site.data_path),
            read_watch=partial(_watch_sign, settings),
            read_incidents=partial(newest_in_file, settings.watch.file_path(settings.site)),
            policy=settings.policy,
            features=settings.features,
            find_faces=face_piece,
            alarms_a_minute=settings.notices.alarms_a_minute,
            page_token=settings.security.page_token,
        )
    )
    return 0


def _watch_sign(settings: Settings) -> str:
    from monitor.watch.heartbeat import read_heartbeat

    return read_heartbeat(settings.watch.heartbeat_path(settings.site), now_ms())


def console_settings(settings: Settings) -> ConsoleSettings:
    """The console's own table, completed by what other tables say of its neighbours."""
    from deploy.roles.watch_ports import mirror_url, reader_token

    console = settings.console
    return msgspec.structs.replace(
        console,
        health=console.health or {"edge": f"{edge_url(settings)}/healthz"},
        brokers=broker_pages(settings),
        pictures=console.pictures or settings.pictures.store_url(settings.site),
        mirror=mirror_url(settings),
        edge_token=console.edge_token or reader_token(settings),
    )


def _city(settings: Settings) -> int:
    from ingest.senders.simulator.simulator import serve

    tasks.run(serve(settings.site, settings.bus, settings.city, edge_url(settings)))
    return 0


def _one_malloc_arena() -> None:
    """A dozen threads that mostly wait: glibc would keep free memory for each of them."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(AttributeError):  # another C library has no such function
            libc = ctypes.CDLL(None)
            libc.mallopt(M_ARENA_MAX, 1)
            # As it begins: it would grow with each large buffer that is freed, and keep them all.
            libc.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)


def _watch(settings: Settings) -> int:
    from deploy.roles.watch_ports import watch_ports, watch_settings
    from monitor.watch.service import serve

    _one_malloc_arena()
    ports = watch_ports(settings)
    tasks.run(serve(settings.site, settings.bus, watch_settings(settings), ports))
    return 0


def _mirror(settings: Settings) -> int:
    import uvloop

    from dr_mirror.service.role import MirrorNotConfigured, serve

    try:
        tasks.run(
            serve(settings.site, settings.mirror, settings.security.page_token),
            loop_factory=uvloop.new_event_loop,
        )
    except MirrorNotConfigured as error:
        raise OperatorError(str(error)) from None
    return 0


def _recorder(settings: Settings) -> int:
    import uvloop

    from ingest.films.recorder import serve

    _topics_in_the_background(settings)
    _one_malloc_arena()
    tasks.run(
        serve(settings.site, settings.bus, settings.film), loop_factory=uvloop.new_event_loop
    )
    return 0


STARTERS: dict[str, Callable[[Settings], int]] = {
    "broker": _broker,
    "edge": _edge,
    STREAMS: _streams,
    ALARM_STREAMS: partial(_streams, alarms_alone=True),
    "dispatcher": _dispatcher,
    "console": _console,
    "watch": _watch,
    "mirror": _mirror,
    "recorder": _recorder,
    "city": _city,
}
