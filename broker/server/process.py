"""One broker as a process: settings in, a serving broker until SIGTERM or Ctrl-C.

Prints one line when it serves, `broker N ready on HOST:PORT ...`, and stops cleanly when asked.
Never: a second broker in the same process; the collector is tuned for one.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Mapping

import uvloop

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig
from broker.disk.real import RealDisk
from broker.network.real import RealNetwork
from broker.server.broker import Broker
from broker.settings import split

log = logging.getLogger("broker.server")

GC_THRESHOLDS = (50_000, 50, 100)
"""Collections seldom find anything here (no cycles on the hot path), and each one is a pause."""


def prepare(properties: Mapping[str, str], data_dir: str) -> Broker:
    """A broker of these properties whose logs lie in `data_dir` unless they say otherwise."""
    kafka, settings = split(properties)
    if "log.dirs" not in kafka and "log.dir" not in kafka:
        kafka["log.dirs"] = data_dir
    config = BrokerConfig.from_mapping(kafka)
    return Broker(config, RealClock(), RealDisk(), RealNetwork(), settings)


async def serve(
    properties: Mapping[str, str],
    *,
    data_dir: str,
    ready: Callable[[Broker], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then stop cleanly."""
    broker = prepare(properties, data_dir)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, broker.request_stop)
    await broker.start()
    _settle_collector()
    (ready or announce)(broker)
    try:
        await broker.wait_for_stop_request()
    finally:
        await broker.stop()


def run(properties: Mapping[str, str], *, data_dir: str) -> None:
    """`serve` on uvloop; what `databus run broker` calls."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(properties, data_dir=data_dir))


def announce(broker: Broker) -> None:
    """The one line that says where the broker is."""
    where = ",".join(f"{one.host}:{one.port}" for one in broker.addresses)
    print(
        f"broker {broker.rooms.node_id} ready on {where} metrics {broker.metrics_port} "
        f"cluster {broker.rooms.cluster_id}",
        flush=True,
    )


def _settle_collector() -> None:
    """What start-up made lives for ever: the collector need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
