"""The logs and replicas of one broker, on a real disk: without a network, a controller or handlers.

In: a directory, a clock. Out: both managers, ready to create partitions.
"""

from __future__ import annotations

from broker.clock.port import Clock
from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.real import RealDisk
from broker.log.manager import LogManager
from broker.metrics.registry import Metrics
from broker.purgatory.timer import Timer
from broker.replica.manager import ReplicaManager

BROKER_ID = 1


def opened_logs(directory: str, clock: Clock, config: TopicConfig | None = None) -> LogManager:
    """``config``: of every topic that is found there."""
    settings = {"log.dirs": directory, "node.id": str(BROKER_ID)}
    logs = LogManager(config=BrokerConfig.from_mapping(settings), disk=RealDisk(), clock=clock)
    logs.prepare()
    logs.load(lambda topic: config or TopicConfig())
    return logs


def replicas_of(
    logs: LogManager, clock: Clock, timer: Timer | None = None, metrics: Metrics | None = None
) -> ReplicaManager:
    """``timer``, ``metrics``: those that others share; else their own."""
    return ReplicaManager(
        broker_id=BROKER_ID, log_manager=logs, clock=clock, timer=timer or Timer(clock),
        metrics=metrics or Metrics(),
    )  # fmt: skip
