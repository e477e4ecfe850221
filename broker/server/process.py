"""One broker as a process: takes settings and serves until SIGTERM or Ctrl-C.

Prints one line when it serves, `broker N ready on HOST:PORT ...`, and stops cleanly on request.
Never: a second broker in the same process; the garbage collector is tuned for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import uvloop

from broker.cleaner_process.real import RealCleanerProcess
from broker.clock.real import RealClock
from broker.config.key import ConfigError
from broker.config.views import BrokerConfig
from broker.controller.kraft.bootstrap import MetadataLogMissing
from broker.controller.kraft.storage.format import AlreadyFormatted
from broker.controller.kraft.storage.integrity import MetadataLogDamaged
from broker.controller.kraft.storage.snapshots import MetadataSnapshotDamaged
from broker.controller.kraft.storage.state_file import QuorumStateError
from broker.controller.kraft.transport.connections import QuorumAddressError
from broker.disk.port import DirectoryLocked, DiskError
from broker.disk.real import RealDisk
from broker.log.log_dir_files import WrongDirectory
from broker.network.port import ListenError
from broker.network.real import RealNetwork
from broker.network.real_https import RealHttps
from broker.network.real_tls import RealTls
from broker.server.broker import Broker
from broker.server.control_plane import StartError
from broker.server.listeners import ListenerError
from broker.server.process_logs import close_logs, open_logs
from broker.server.tools.storage import format_storage
from broker.settings import CLUSTER_ID_KEY, ProcessSettings, SettingError, split
from bus.runtime import tasks

if TYPE_CHECKING:
    from broker.controller.zk.kazoo_session import KazooSession

log = logging.getLogger("broker.server")

OPERATOR_ERRORS = (
    ConfigError,
    SettingError,
    ListenerError,
    ListenError,
    WrongDirectory,
    DirectoryLocked,
    QuorumStateError,
    StartError,
    MetadataLogDamaged,
    MetadataLogMissing,
    MetadataSnapshotDamaged,
    QuorumAddressError,
    AlreadyFormatted,
    DiskError,
)
"""What an operator must fix; everything else that ends a start is a bug and shows its trace."""

CLEANER_MODULE = "broker.log.cleaner.child"
"""What the process that cleans runs; not imported here, nor is numpy, which it needs."""

GC_THRESHOLDS = (50_000, 50, 100)
"""Collections seldom find anything here (no cycles on the hot path), and each one is a pause."""

MALLOC_OPTIONS = ((-3, 4 << 20), (-1, 16 << 20))
"""glibc's M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: buffers of fetches (a MiB per partition) come from
the heap, and up to 16 MiB of freed memory stay there. By default such memory is returned to the
system and mapped again, cleared page by page: that was 40 % of the processor time of a hot
fetch."""


def prepare(properties: Mapping[str, str], data_dir: str | PurePath) -> Broker:
    """A broker of these properties, with its logs in `data_dir` unless they name another place."""
    config, settings = configured(properties, data_dir)
    return Broker(
        config, RealClock(), RealDisk(), RealNetwork(), settings,
        cleaner_process=RealCleanerProcess(CLEANER_MODULE), tls=RealTls(),
        https=RealHttps(),
    )  # fmt: skip


def configured(
    properties: Mapping[str, str], data_dir: str | PurePath
) -> tuple[BrokerConfig, ProcessSettings]:
    """Kafka's configuration and our settings, with `data_dir` for the logs by default."""
    kafka, settings = split(properties)
    if "log.dirs" not in kafka and "log.dir" not in kafka:
        kafka["log.dirs"] = str(data_dir)
    return BrokerConfig.from_mapping(kafka), settings


def format_directories(
    properties: Mapping[str, str],
    data_dir: str | PurePath,
    cluster_id: str,
    *,
    standalone: bool = False,
    initial_controllers: str = "",
    ignore_formatted: bool = False,
    scram_users: Sequence[str] = (),
) -> int:
    """Format a node's log directories. 0, or 1 with one sentence about what must be fixed."""
    try:
        config, _ = configured({**properties, CLUSTER_ID_KEY: cluster_id}, data_dir)
        done = format_storage(
            config,
            RealDisk(),
            RealClock(),
            cluster_id,
            standalone=standalone,
            initial_controllers=initial_controllers,
            ignore_formatted=ignore_formatted,
            scram_users=scram_users,
        )
    except OPERATOR_ERRORS as error:
        print(error, file=sys.stderr)
        return 1
    for directory in done.written:
        print(f"formatted {directory} for node {config.node_id} of cluster {cluster_id}")
    print(f"metadata directory id {done.directory_id}")
    return 0


def migrate_controller(
    properties: Mapping[str, str], data_dir: str | PurePath, zookeeper: str
) -> int:
    """Migrate a stopped cluster's znodes to this KRaft controller. 0, or 1 with one sentence about
    what must be fixed."""
    from broker.server.tools.migrate import migrate

    try:
        config, _ = configured(properties, data_dir)
        session = _ensemble_session(config, zookeeper)
        done = asyncio.run(migrate(config, RealDisk(), RealClock(), session))
    except OPERATOR_ERRORS as error:
        print(error, file=sys.stderr)
        return 1
    print(
        f"carried over {done.topics} topics with {done.partitions} partitions of cluster "
        f"{done.cluster_id}: {done.path}"
    )
    return 0


def secure_zookeeper(
    properties: Mapping[str, str], data_dir: str | PurePath, *, is_secure: bool
) -> int:
    """Give the cluster's znodes to the login of the brokers, or open them. 0, or 1 with one
    sentence about what must be fixed."""
    from broker.server.tools.zookeeper_acls import set_tree_acls

    try:
        config, _ = configured(properties, data_dir)
        if not config["zookeeper.connect"]:
            raise ConfigError("zookeeper.connect", "zookeeper.connect names no ensemble")
        session = _ensemble_session(config, config["zookeeper.connect"])
        done = asyncio.run(set_tree_acls(config, RealClock(), session, is_secure=is_secure))
    except OPERATOR_ERRORS as error:
        print(error, file=sys.stderr)
        return 1
    whose = "the brokers' login" if is_secure else "everybody"
    print(f"{done} nodes of {config['zookeeper.connect']} are open to {whose} for changes")
    return 0


def _ensemble_session(config: BrokerConfig, address: str) -> KazooSession:
    """As a broker of these keys has it."""
    from broker.controller.zk.kazoo_session import KazooSession
    from broker.server.zk.ensemble_settings import ensemble_access

    timeout_ms = int(config["zookeeper.session.timeout.ms"])
    return KazooSession(address, timeout_ms, ensemble_access(config, RealTls()))


async def serve(
    properties: Mapping[str, str],
    *,
    data_dir: str | PurePath,
    ready: Callable[[Broker], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then stop cleanly."""
    broker = prepare(properties, data_dir)
    logs = open_logs(log_directory(broker))
    try:
        await _serve(broker, ready or announce)
    finally:
        close_logs(logs)


def log_directory(broker: Broker) -> Path:
    """Where this process writes its logs: not into a log directory, where every name is Kafka's."""
    chosen = broker.settings.process_log_dir
    return Path(chosen) if chosen else Path(f"{broker.config.log_dirs[0]}-log")


async def _serve(broker: Broker, ready: Callable[[Broker], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, broker.request_stop)

    def on_ready(served: Broker) -> None:
        _tune_gc()
        ready(served)

    await run_until_stopped(broker, on_ready)


async def run_until_stopped(broker: Broker, ready: Callable[[Broker], None]) -> None:
    """Start, serve until `request_stop`, stop. Raises what ended the start, or `broker.failure`."""
    try:
        if await _started(broker):
            ready(broker)
            await broker.wait_for_stop_request()
    except Exception:
        await broker.stop()
        raise
    # Neither a failed check nor the cancellation after a failed task arrives here: such a process
    # leaves its logs as a killed one does, and recovers them at its next start.
    await broker.stop()
    if broker.failure is not None:
        raise broker.failure


async def _started(broker: Broker) -> bool:
    """Start, unless a stop is requested while the broker still waits for its controllers."""
    starting = asyncio.ensure_future(broker.start())  # awaited below: it may raise OPERATOR_ERRORS
    stopping = asyncio.ensure_future(broker.wait_for_stop_request())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
        return False
    starting.result()
    return True


def run(properties: Mapping[str, str], *, data_dir: str | PurePath) -> int:
    """`serve` on uvloop. 0 after a clean stop, 1 with one sentence about what an operator must fix;
    raises SystemExit with another status after a failure of its own (`bus.runtime.tasks`).

    uvloop is used for its vectored writes, not for its speed with small frames (it gains little
    there): the standard loop of Python 3.11 joins, and so copies, fetched data.
    """
    _tune_malloc()
    try:
        tasks.run(serve(properties, data_dir=data_dir), loop_factory=uvloop.new_event_loop)
    except OPERATOR_ERRORS as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _tune_malloc() -> None:
    """A C library other than glibc has no such options, and needs none."""
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in MALLOC_OPTIONS:
            mallopt(option, value)


def announce(broker: Broker) -> None:
    """The one line that says where the broker is."""
    served = broker.addresses or broker.controller_addresses
    where = ",".join(f"{one.host}:{one.port}" for one in served)
    print(
        f"broker {broker.components.node_id} ready on {where} metrics {broker.metrics_port} "
        f"cluster {broker.components.cluster_id}",
        flush=True,
    )


def _tune_gc() -> None:
    """Objects created at start-up live for ever: exclude them from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
