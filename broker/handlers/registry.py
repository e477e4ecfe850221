"""The table of the APIs this broker serves. The ApiVersions response is computed from it.

A handler and its codec are imported at the first request of their API, so that a broker holds only
what its clients use.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.handlers.context import RequestContext
from broker.handlers.listener_type import ListenerType
from broker.handlers.services import Plane
from bus.protocol.apis import APIS

Handle = Callable[[Any, RequestContext], object | None]


@dataclass(frozen=True, slots=True)
class Served:
    """One API: its handler's module and the planes it needs; `advertised_min` where that is not the
    real minimum.

    `listeners` is set where the API is served on other listeners than in Kafka's tables. A
    `forwarded` API is the controller's: a broker that is not the active controller sends it there
    (Envelope).
    """

    module: str
    needs: Plane
    advertised_min: int | None = None
    listeners: ListenerType | None = None
    forwarded: bool = False
    decides_forwarding: bool = False
    """The handler itself decides which of its requests are forwarded."""


_KRAFT_BROKER_OR_CONTROLLER = ListenerType.BROKER | ListenerType.CONTROLLER
"""APIs that no broker under ZooKeeper ever served; its clients fall back by themselves, as on
3.9."""

_ANY_BROKER = ListenerType.BROKER | ListenerType.ZOOKEEPER_BROKER

_CONTROLLER_OR_ZOOKEEPER = ListenerType.CONTROLLER | ListenerType.ZOOKEEPER_BROKER

DATA, COORDINATORS, CONTROL, NO_PLANE = (
    Plane.DATA, Plane.COORDINATORS, Plane.CONTROL, Plane(0),
)  # fmt: skip
"""What a handler gets beside metadata and configuration."""

SERVED: Mapping[int, Served] = {
    # KAFKA-18659: librdkafka up to 2.10 stops compressing unless the minimum says 0.
    0: Served("k00_produce", DATA, advertised_min=0),
    1: Served("k01_fetch", DATA | CONTROL),
    2: Served("k02_list_offsets", DATA),
    3: Served("k03_metadata", CONTROL),
    4: Served("k04_leader_and_isr", CONTROL),
    5: Served("k05_stop_replica", CONTROL),
    6: Served("k06_update_metadata", CONTROL),
    7: Served("k07_controlled_shutdown", CONTROL, listeners=ListenerType.ZOOKEEPER_BROKER),
    8: Served("k08_offset_commit", COORDINATORS),
    9: Served("k09_offset_fetch", COORDINATORS),
    10: Served("k10_find_coordinator", COORDINATORS | CONTROL),
    11: Served("k11_join_group", COORDINATORS),
    12: Served("k12_heartbeat", COORDINATORS),
    13: Served("k13_leave_group", COORDINATORS),
    14: Served("k14_sync_group", COORDINATORS),
    15: Served("k15_describe_groups", COORDINATORS),
    16: Served("k16_list_groups", COORDINATORS),
    18: Served("k18_api_versions", CONTROL),
    19: Served("k19_create_topics", CONTROL, forwarded=True),
    20: Served("k20_delete_topics", CONTROL, forwarded=True),
    21: Served("k21_delete_records", DATA),
    22: Served("k22_init_producer_id", DATA),
    23: Served("k23_offset_for_leader_epoch", DATA),
    29: Served("k29_describe_acls", NO_PLANE),
    30: Served("k30_create_acls", CONTROL, forwarded=True),
    31: Served("k31_delete_acls", CONTROL, forwarded=True),
    32: Served("k32_describe_configs", NO_PLANE),
    33: Served("k33_alter_configs", CONTROL, forwarded=True, decides_forwarding=True),
    34: Served("k34_alter_replica_log_dirs", DATA),
    35: Served("k35_describe_log_dirs", DATA),
    37: Served("k37_create_partitions", CONTROL, forwarded=True),
    42: Served("k42_delete_groups", COORDINATORS),
    43: Served("k43_elect_leaders", CONTROL, forwarded=True),
    44: Served("k44_incremental_alter_configs", CONTROL, forwarded=True, decides_forwarding=True),
    45: Served("k45_alter_partition_reassignments", CONTROL, forwarded=True),
    46: Served("k46_list_partition_reassignments", CONTROL, forwarded=True),
    47: Served("k47_offset_delete", COORDINATORS),
    48: Served("k48_describe_client_quotas", NO_PLANE),
    49: Served("k49_alter_client_quotas", CONTROL, forwarded=True),
    50: Served("k50_describe_user_scram_credentials", NO_PLANE, listeners=_ANY_BROKER),
    52: Served("k52_vote", CONTROL),
    53: Served("k53_begin_quorum_epoch", CONTROL),
    54: Served("k54_end_quorum_epoch", CONTROL),
    55: Served(
        "k55_describe_quorum", CONTROL, listeners=_KRAFT_BROKER_OR_CONTROLLER, forwarded=True,
    ),
    56: Served("k56_alter_partition", CONTROL, listeners=_CONTROLLER_OR_ZOOKEEPER),
    57: Served("k57_update_features", CONTROL, forwarded=True),
    58: Served("k58_envelope", CONTROL, listeners=_CONTROLLER_OR_ZOOKEEPER),
    59: Served("k59_fetch_snapshot", CONTROL),
    60: Served("k60_describe_cluster", CONTROL),
    61: Served("k61_describe_producers", DATA),
    62: Served("k62_broker_registration", CONTROL),
    63: Served("k63_broker_heartbeat", CONTROL),
    64: Served(
        "k64_unregister_broker", CONTROL, listeners=_KRAFT_BROKER_OR_CONTROLLER, forwarded=True,
    ),
    67: Served("k67_allocate_producer_ids", CONTROL, listeners=_CONTROLLER_OR_ZOOKEEPER),
    70: Served("k70_controller_registration", CONTROL),
    73: Served("k73_assign_replicas_to_dirs", CONTROL),
    74: Served("k74_list_config_resources", NO_PLANE),
    75: Served("k75_describe_topic_partitions", NO_PLANE, listeners=ListenerType.BROKER),
    80: Served(
        "k80_add_raft_voter", CONTROL, listeners=_KRAFT_BROKER_OR_CONTROLLER, forwarded=True,
    ),
    81: Served(
        "k81_remove_raft_voter", CONTROL, listeners=_KRAFT_BROKER_OR_CONTROLLER, forwarded=True,
    ),
    82: Served("k82_update_raft_voter", CONTROL),
    94: Served(
        "k94_unregister_controller", CONTROL, listeners=_KRAFT_BROKER_OR_CONTROLLER, forwarded=True,
    ),
    # Ours, not Kafka's: ADR 0058.
    10001: Served("k10001_mirror_append", DATA),
    10002: Served("k10002_mirror_digest", DATA),
    10003: Served("k10003_mirror_truncate", DATA),
}


def version_range(key: int) -> tuple[int, int]:
    """The versions that are really served, both ends inclusive; unstable ones are not."""
    info = APIS[key]
    return info.first_version, info.latest


def is_served(key: int, listener_type: ListenerType) -> bool:
    """Whether a listener of this type serves the API."""
    served = SERVED.get(key)
    return served is not None and bool(
        listener_type & (served.listeners or _kafka_listener_types(key))
    )


def advertised_ranges(
    listener_type: ListenerType = ListenerType.BROKER,
) -> dict[int, tuple[int, int]]:
    """The version ranges in ApiVersions on a listener of this type, by key."""
    ranges = {}
    for key, served in sorted(SERVED.items()):
        if is_served(key, listener_type):
            low, high = version_range(key)
            ranges[key] = (low if served.advertised_min is None else served.advertised_min, high)
    return ranges


def load_handler(key: int) -> Handle:
    """The handler of a served API."""
    module = importlib.import_module(f"broker.handlers.{SERVED[key].module}")
    handle: Handle = module.handle
    return handle


_LISTENER_TYPES = {
    "broker": ListenerType.BROKER | ListenerType.ZOOKEEPER_BROKER,
    "controller": ListenerType.CONTROLLER,
    "zkBroker": ListenerType.ZOOKEEPER_BROKER,
    "mirror": ListenerType.MIRROR,
}


def _kafka_listener_types(key: int) -> ListenerType:
    sides = ListenerType(0)
    for name in APIS[key].listeners:
        sides |= _LISTENER_TYPES[name]
    return sides
