"""Kafka's metric names in Prometheus' form, translated the usual way.

The translation is that of
the sample configuration for Kafka that comes with Prometheus' JMX exporter, so that dashboards made
for Kafka find what they look for:

- everything is lower case: ``kafka_<domain>_<type>_<name>``;
- a meter ``...PerSec`` becomes a counter: ``PerSec`` is cut off and ``_total`` added, for example
  ``kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec`` becomes
  ``kafka_server_brokertopicmetrics_messagesin_total``;
- a histogram becomes a summary: ``..._count``, ``..._sum`` and quantiles in the label ``quantile``;
- other properties of the MBean (topic, partition, request, listener) become labels.

A type that is not in the table below is an error, because its domain would be guessed.
"""

from __future__ import annotations

import re

DOMAINS = {
    "BrokerTopicMetrics": "server",
    "BrokerTopicPartitionMetrics": "server",
    "DelayedOperationPurgatory": "server",
    "FetchSessionCache": "server",
    "KafkaRequestHandlerPool": "server",
    "KafkaServer": "server",
    "ReplicaManager": "server",
    "ReplicaFetcherManager": "server",
    "DelayedFetchMetrics": "server",
    "SessionExpireListener": "server",
    "app-info": "server",
    "authorizer-metrics": "server",
    "broker-metadata-metrics": "server",
    "quota": "server",
    "raft-metrics": "server",
    "group-coordinator-metrics": "server",
    "socket-server-metrics": "server",
    "Acceptor": "network",
    "Processor": "network",
    "RequestChannel": "network",
    "RequestMetrics": "network",
    "SocketServer": "network",
    "Partition": "cluster",
    "ControllerStats": "controller",
    "KafkaController": "controller",
    "ControllerEventManager": "controller",
    "Log": "log",
    "LogCleaner": "log",
    "LogCleanerManager": "log",
    "LogFlushStats": "log",
    "LogManager": "log",
    "GroupMetadataManager": "coordinator_group",
    "GroupMetadata": "coordinator_group",
    "TransactionMetadata": "coordinator_transaction",
    "Process": "process",
}

_ODD = re.compile(r"[^a-z0-9_]+")
_PER_SECOND = re.compile(r"persec\w*$")


def base_name(kind: str, name: str) -> str:
    """``kafka_<domain>_<type>_<name>`` without what a meter or histogram adds."""
    raw = f"kafka_{DOMAINS[kind]}_{kind}_{name}".lower()
    return _PER_SECOND.sub("", _ODD.sub("_", raw)).strip("_")
