"""The table of the APIs this broker serves. The ApiVersions response is computed from it.

A handler and its codec are imported at the first request of their API, so that a broker holds only
what its clients use.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker.handlers.context import RequestContext
from broker.handlers.listener_type import ListenerType
from broker.handlers.services import Plane
from broker.security.resource_operations import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOKENS,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOKEN,
    DESCRIBE_TOKENS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    ResourceOperation,
)
from bus.protocol.apis import APIS

Handle = Callable[[object, RequestContext], object | None]


@dataclass(frozen=True, slots=True)
class Served:
    """One API: its handler's module, the planes it needs and the permissions it asks for;
    `advertised_min` where that is not the real minimum.

    `listeners` is set where the API is served on other listeners than in Kafka's tables. A
    `forwarded` API is the controller's: a broker that is not the active controller sends it there
    (Envelope).
    """

    module: str
    needs: Plane
    asks: tuple[ResourceOperation, ...]
    """What it asks the authorizer for. Where a row has several, the handler says which of them are
    needed, as Kafka does."""
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

_ANY_LISTENER = _ANY_BROKER | ListenerType.CONTROLLER

DATA, COORDINATORS, CONTROL, NO_PLANE = (
    Plane.DATA, Plane.COORDINATORS, Plane.CONTROL, Plane(0),
)  # fmt: skip
"""What a handler gets beside metadata and configuration."""

SERVED: Mapping[int, Served] = {
    # KAFKA-18659: librdkafka up to 2.10 stops compressing unless the minimum says 0.
    0: Served("k00_produce", DATA, (WRITE_TOPIC,), advertised_min=0),
    1: Served("k01_fetch", DATA | CONTROL, (READ_TOPIC, CLUSTER_ACTION)),
    2: Served("k02_list_offsets", DATA, (DESCRIBE_TOPIC,)),
    3: Served(
        "k03_metadata", CONTROL, (DESCRIBE_TOPIC, CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER),
    ),
    4: Served("k04_leader_and_isr", CONTROL, (CLUSTER_ACTION,)),
    5: Served("k05_stop_replica", CONTROL, (CLUSTER_ACTION,)),
    6: Served("k06_update_metadata", CONTROL, (CLUSTER_ACTION,)),
    7: Served(
        "k07_controlled_shutdown", CONTROL, (CLUSTER_ACTION,),
        listeners=ListenerType.ZOOKEEPER_BROKER,
    ),
    8: Served("k08_offset_commit", COORDINATORS, (READ_GROUP, READ_TOPIC)),
    9: Served("k09_offset_fetch", COORDINATORS, (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    10: Served("k10_find_coordinator", COORDINATORS | CONTROL, (DESCRIBE_GROUP,)),
    11: Served("k11_join_group", COORDINATORS, (READ_GROUP,)),
    12: Served("k12_heartbeat", COORDINATORS, (READ_GROUP,)),
    13: Served("k13_leave_group", COORDINATORS, (READ_GROUP,)),
    14: Served("k14_sync_group", COORDINATORS, (READ_GROUP,)),
    15: Served("k15_describe_groups", COORDINATORS, (DESCRIBE_GROUP,)),
    16: Served("k16_list_groups", COORDINATORS, (DESCRIBE_CLUSTER, DESCRIBE_GROUP)),
    17: Served("k17_sasl_handshake", NO_PLANE, (), listeners=_ANY_LISTENER),
    18: Served("k18_api_versions", CONTROL, ()),
    19: Served(
        "k19_create_topics", CONTROL, (CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS),
        forwarded=True,
    ),
    20: Served(
        "k20_delete_topics", CONTROL, (DELETE_CLUSTER, DESCRIBE_TOPIC, DELETE_TOPIC),
        forwarded=True,
    ),
    21: Served("k21_delete_records", DATA, (DELETE_TOPIC,)),
    22: Served("k22_init_producer_id", DATA, (IDEMPOTENT_WRITE, WRITE_TOPIC)),
    23: Served("k23_offset_for_leader_epoch", DATA, (CLUSTER_ACTION, DESCRIBE_TOPIC)),
    29: Served("k29_describe_acls", NO_PLANE, (DESCRIBE_CLUSTER,)),
    30: Served("k30_create_acls", CONTROL, (ALTER_CLUSTER,), forwarded=True),
    31: Served("k31_delete_acls", CONTROL, (ALTER_CLUSTER,), forwarded=True),
    32: Served(
        "k32_describe_configs", NO_PLANE,
        (DESCRIBE_TOPIC_CONFIGS, DESCRIBE_GROUP_CONFIGS, DESCRIBE_CLUSTER_CONFIGS),
    ),
    33: Served(
        "k33_alter_configs", CONTROL,
        (ALTER_TOPIC, ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_CLUSTER_CONFIGS),
        forwarded=True, decides_forwarding=True,
    ),
    34: Served("k34_alter_replica_log_dirs", DATA, (ALTER_CLUSTER,)),
    35: Served("k35_describe_log_dirs", DATA, (DESCRIBE_CLUSTER,)),
    36: Served("k36_sasl_authenticate", NO_PLANE, (), listeners=_ANY_LISTENER),
    37: Served("k37_create_partitions", CONTROL, (ALTER_TOPIC,), forwarded=True),
    38: Served(
        "k38_create_delegation_token", CONTROL, (CREATE_TOKENS,),
        forwarded=True, decides_forwarding=True,
    ),
    39: Served(
        "k39_renew_delegation_token", CONTROL, (), forwarded=True, decides_forwarding=True
    ),
    40: Served(
        "k40_expire_delegation_token", CONTROL, (), forwarded=True, decides_forwarding=True
    ),
    41: Served("k41_describe_delegation_token", NO_PLANE, (DESCRIBE_TOKEN, DESCRIBE_TOKENS)),
    42: Served("k42_delete_groups", COORDINATORS, (DELETE_GROUP,)),
    43: Served("k43_elect_leaders", CONTROL, (ALTER_CLUSTER,), forwarded=True),
    44: Served(
        "k44_incremental_alter_configs", CONTROL,
        (ALTER_TOPIC, ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_CLUSTER_CONFIGS),
        forwarded=True, decides_forwarding=True,
    ),
    45: Served("k45_alter_partition_reassignments", CONTROL, (ALTER_CLUSTER,), forwarded=True),
    46: Served("k46_list_partition_reassignments", CONTROL, (DESCRIBE_CLUSTER,), forwarded=True),
    47: Served("k47_offset_delete", COORDINATORS, (DELETE_GROUP, READ_TOPIC)),
    48: Served("k48_describe_client_quotas", NO_PLANE, (DESCRIBE_CLUSTER_CONFIGS,)),
    49: Served("k49_alter_client_quotas", CONTROL, (ALTER_CLUSTER_CONFIGS,), forwarded=True),
    50: Served(
        "k50_describe_user_scram_credentials", NO_PLANE, (DESCRIBE_CLUSTER,),
        listeners=_ANY_BROKER,
    ),
    51: Served(
        "k51_alter_user_scram_credentials", CONTROL, (ALTER_CLUSTER,),
        listeners=_ANY_LISTENER, forwarded=True,
    ),
    52: Served("k52_vote", CONTROL, (CLUSTER_ACTION,)),
    53: Served("k53_begin_quorum_epoch", CONTROL, (CLUSTER_ACTION,)),
    54: Served("k54_end_quorum_epoch", CONTROL, (CLUSTER_ACTION,)),
    55: Served(
        "k55_describe_quorum", CONTROL, (DESCRIBE_CLUSTER,),
        listeners=_KRAFT_BROKER_OR_CONTROLLER, forwarded=True,
    ),
    56: Served(
        "k56_alter_partition", CONTROL, (CLUSTER_ACTION,),
        listeners=_CONTROLLER_OR_ZOOKEEPER,
    ),
    57: Served("k57_update_features", CONTROL, (ALTER_CLUSTER,), forwarded=True),
    58: Served("k58_envelope", CONTROL, (CLUSTER_ACTION,), listeners=_CONTROLLER_OR_ZOOKEEPER),
    59: Served("k59_fetch_snapshot", CONTROL, (CLUSTER_ACTION,)),
    60: Served("k60_describe_cluster", CONTROL, (ALTER_CLUSTER, DESCRIBE_CLUSTER)),
    61: Served("k61_describe_producers", DATA, (READ_TOPIC,)),
    62: Served("k62_broker_registration", CONTROL, (CLUSTER_ACTION,)),
    63: Served("k63_broker_heartbeat", CONTROL, (CLUSTER_ACTION,)),
    64: Served(
        "k64_unregister_broker", CONTROL, (ALTER_CLUSTER,),
        listeners=_KRAFT_BROKER_OR_CONTROLLER, forwarded=True,
    ),
    67: Served(
        "k67_allocate_producer_ids", CONTROL, (CLUSTER_ACTION,),
        listeners=_CONTROLLER_OR_ZOOKEEPER,
    ),
    70: Served("k70_controller_registration", CONTROL, (CLUSTER_ACTION,)),
    73: Served("k73_assign_replicas_to_dirs", CONTROL, (CLUSTER_ACTION,)),
    74: Served("k74_list_config_resources", NO_PLANE, (DESCRIBE_CLUSTER_CONFIGS,)),
    75: Served(
        "k75_describe_topic_partitions", NO_PLANE, (DESCRIBE_TOPIC,),
        listeners=ListenerType.BROKER,
    ),
    80: Served(
        "k80_add_raft_voter", CONTROL, (ALTER_CLUSTER,),
        listeners=_KRAFT_BROKER_OR_CONTROLLER, forwarded=True,
    ),
    81: Served(
        "k81_remove_raft_voter", CONTROL, (ALTER_CLUSTER,),
        listeners=_KRAFT_BROKER_OR_CONTROLLER, forwarded=True,
    ),
    82: Served("k82_update_raft_voter", CONTROL, (CLUSTER_ACTION,)),
    94: Served(
        "k94_unregister_controller", CONTROL, (ALTER_CLUSTER,),
        listeners=_KRAFT_BROKER_OR_CONTROLLER, forwarded=True,
    ),
    # Ours, not Kafka's: ADR 0058.
    10001: Served("k10001_mirror_append", DATA, (CLUSTER_ACTION,)),
    10002: Served("k10002_mirror_digest", DATA, (CLUSTER_ACTION,)),
    10003: Served("k10003_mirror_truncate", DATA, (CLUSTER_ACTION,)),
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
    listener_types = ListenerType(0)
    for name in APIS[key].listeners:
        listener_types |= _LISTENER_TYPES[name]
    return listener_types
