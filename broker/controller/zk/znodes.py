"""The znodes of Kafka 3.9: their paths and contents.

Pure. Values to bytes and back; malformed content raises `ZnodeError`. Written fields and their
order are those of a recorded Kafka 3.9.1; the contents of older versions and manual changes are
read too (missing fields have the defaults of their version).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from broker.metadata.image import Endpoint
from broker.security.security_protocol import SecurityProtocol

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"
PRODUCER_IDS = "/latest_producer_id_block"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = f"{LOG_DIR_EVENTS}/log_dir_event_"
ISR_CHANGES = "/isr_change_notification"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
MIGRATION = "/migration"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = f"{CONFIG_CHANGES}/config_change_"

CONFIG_TOPICS = "/config/topics"
CONFIG_BROKERS = "/config/brokers"
CONFIG_USERS = "/config/users"
CONFIG_CLIENTS = "/config/clients"
CONFIG_IPS = "/config/ips"
DEFAULT_ENTITY = "<default>"

PERSISTENT = (
    "/admin", DELETE_TOPICS, "/brokers", BROKER_IDS, "/brokers/seqid", TOPICS, "/cluster",
    "/config", CONFIG_BROKERS, CONFIG_CHANGES, CONFIG_CLIENTS, CONFIG_IPS, CONFIG_TOPICS,
    CONFIG_USERS, "/consumers", ISR_CHANGES, PRODUCER_IDS, LOG_DIR_EVENTS,
)  # fmt: skip
"""What every broker ensures at its start, parents first (G-33)."""

NO_KRAFT_EPOCH = -1
FEATURES_ENABLED = 1
BLOCK_SIZE = 1000


class ZnodeError(ValueError):
    """Malformed content; the text names the path."""


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """A node under `/config` as it was last read or written. `other_keys`: content that is not in
    the image's values (credentials beside quotas); a write keeps it."""

    version: int
    other_keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """`/brokers/ids/<id>`. `is_unverified`: the logs may lack what this broker had acknowledged (a
    lost page cache, a new disk), and no controller has taken that into account yet.
    `incarnation_id`: of the process, which may register again under the next session; zeros where
    the broker says none."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    is_unverified: bool = False
    incarnation_id: bytes = bytes(16)


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """`/brokers/topics/<t>`. `topic_id` is None where an old tool wrote it."""

    partitions: Mapping[int, tuple[int, ...]]
    topic_id: bytes | None = None
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionStateNode:
    """`…/partitions/<p>/state`."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


def topic_path(topic: str) -> str:
    """Where a topic's assignment stands."""
    return f"{TOPICS}/{topic}"


def partition_path(topic: str, index: int) -> str:
    """The node above a partition's state."""
    return f"{TOPICS}/{topic}/partitions/{index}"


def state_path(topic: str, index: int) -> str:
    """Where a partition's leader and ISR stand."""
    return f"{TOPICS}/{topic}/partitions/{index}/state"


# -- JSON ---------------------------------------------------------------------------------


def dump(value: object) -> bytes:
    """JSON without blanks, as Kafka writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def load(path: str, data: bytes) -> dict[str, Any]:
    """A JSON object. Raises `ZnodeError`."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise ZnodeError(f"{path} holds no JSON: {data[:80]!r}") from error
    if not isinstance(value, dict):
        raise ZnodeError(f"{path} holds no JSON object: {data[:80]!r}")
    return value


def sanitized(name: str) -> str:
    """As Java's URLEncoder and Kafka's Sanitizer write it: a blank is %20."""
    return quote(name, safe="").replace("~", "%7E")


def malformed(path: str, data: bytes, error: Exception) -> ZnodeError:
    """The error for malformed content."""
    return ZnodeError(f"{path} cannot be understood ({error}): {data[:200]!r}")


def text_of_id(value: bytes) -> str:
    """A topic id as Kafka writes it (URL-safe base64 without padding)."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def id_of_text(text: str) -> bytes:
    """The sixteen bytes of such a text."""
    value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(value) != 16:
        raise ValueError(f"{text!r} is no topic id")
    return value


# -- brokers and controller -----------------------------------------------------------------


def encode_broker(info: BrokerInfo, now_ms: int) -> bytes:
    """Version 5 (KIP-584): with features; host and port of the first plaintext listener for old
    readers."""
    plain = next((end for end in info.endpoints if end.security_protocol == 0), None)
    value: dict[str, object] = {
        "features": {},
        "listener_security_protocol_map": {
            end.name: SecurityProtocol(end.security_protocol).name for end in info.endpoints
        },
        "endpoints": [f"{end.name}://{_host(end.host)}:{end.port}" for end in info.endpoints],
    }
    if info.rack is not None:
        value["rack"] = info.rack
    value |= {
        "jmx_port": -1,
        "port": -1 if plain is None else plain.port,
        "host": None if plain is None else plain.host,
        "version": 5,
        "timestamp": str(now_ms),
    }
    if info.is_unverified:
        value["unsound_logs"] = True  # ours; Kafka's own readers skip what they do not know
    if any(info.incarnation_id):
        value["incarnation"] = text_of_id(info.incarnation_id)  # ours, too
    return dump(value)


def decode_broker(broker_id: int, data: bytes) -> BrokerInfo:
    """Versions 1 to 5. Version 1 knows one plaintext address only."""
    path = f"{BROKER_IDS}/{broker_id}"
    value = load(path, data)
    try:
        protocols = value.get("listener_security_protocol_map") or {}
        endpoints = [
            _endpoint(text, protocols) for text in value.get("endpoints") or ()
        ] or [Endpoint("PLAINTEXT", value["host"], int(value["port"]))]
        incarnation = value.get("incarnation")
        return BrokerInfo(
            broker_id, tuple(endpoints), value.get("rack"), bool(value.get("unsound_logs")),
            bytes(16) if incarnation is None else id_of_text(incarnation),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise malformed(path, data, error) from error


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    protocol = protocols.get(name, name)
    return Endpoint(name, host.strip("[]"), int(port), SecurityProtocol[protocol].value)


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    """Version 2: with the epoch of a KRaft controller, which a cluster of brokers never has."""
    return dump({
        "version": 2, "brokerid": broker_id, "timestamp": str(now_ms),
        "kraftControllerEpoch": NO_KRAFT_EPOCH,
    })  # fmt: skip


def decode_controller(data: bytes) -> int:
    """The id of the elected broker."""
    try:
        return int(load(CONTROLLER, data)["brokerid"])
    except (KeyError, TypeError, ValueError) as error:
        raise malformed(CONTROLLER, data, error) from error


def encode_cluster_id(cluster_id: str) -> bytes:
    """`/cluster/id`; its version is a text."""
    return dump({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """The cluster's id."""
    found = load(CLUSTER_ID, data).get("id")
    if not isinstance(found, str) or not found:
        raise ZnodeError(f"{CLUSTER_ID} names no cluster: {data[:80]!r}")
    return found


def encode_features(features: Mapping[str, int]) -> bytes:
    """`/feature`, version 2."""
    return dump({"features": dict(features), "version": 2, "status": FEATURES_ENABLED})


def encode_producer_block(broker_id: int, next_producer_id: int) -> bytes:
    """The block of ids that ends before `next_producer_id`."""
    return dump({
        "version": 1, "broker": broker_id,
        "block_start": str(next_producer_id - BLOCK_SIZE), "block_end": str(next_producer_id - 1),
    })  # fmt: skip


def decode_producer_block(data: bytes) -> int:
    """The first free producer id. An empty node is a cluster without producers."""
    if not data:
        return 0
    try:
        return int(load(PRODUCER_IDS, data)["block_end"]) + 1
    except (KeyError, TypeError, ValueError) as error:
        raise malformed(PRODUCER_IDS, data, error) from error


# -- topics ---------------------------------------------------------------------------------


def encode_topic(info: TopicAssignment) -> bytes:
    """Version 3: with topic id and the replicas that come and go."""
    return dump({
        "partitions": _assignment(info.partitions),
        "topic_id": text_of_id(info.topic_id or bytes(16)),
        "adding_replicas": _assignment({i: r for i, r in info.adding.items() if r}),
        "removing_replicas": _assignment({i: r for i, r in info.removing.items() if r}),
        "version": 3,
    })  # fmt: skip


def decode_topic(topic: str, data: bytes) -> TopicAssignment:
    """Versions 1 to 3."""
    path = topic_path(topic)
    value = load(path, data)
    try:
        topic_id = value.get("topic_id")
        partitions = _replicas(value["partitions"])
        if sorted(partitions) != list(range(len(partitions))):
            raise ValueError("partitions are not numbered from 0 on without a gap")
        if not all(partitions.values()):
            raise ValueError("a partition has no replicas")
        return TopicAssignment(
            partitions=partitions,
            topic_id=None if topic_id is None else id_of_text(topic_id),
            adding=_replicas(value.get("adding_replicas") or {}),
            removing=_replicas(value.get("removing_replicas") or {}),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise malformed(path, data, error) from error


def _assignment(partitions: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(index): list(partitions[index]) for index in sorted(partitions)}


def _replicas(value: Mapping[str, Iterable[int]]) -> dict[int, tuple[int, ...]]:
    return {int(index): tuple(int(one) for one in replicas) for index, replicas in value.items()}


def encode_state(info: PartitionStateNode) -> bytes:
    """Version 1."""
    return dump({
        "controller_epoch": info.controller_epoch, "leader": info.leader, "version": 1,
        "leader_epoch": info.leader_epoch, "isr": list(info.isr),
    })  # fmt: skip


def decode_state(path: str, data: bytes) -> PartitionStateNode:
    """Version 1."""
    value = load(path, data)
    try:
        return PartitionStateNode(
            leader=int(value["leader"]),
            leader_epoch=int(value["leader_epoch"]),
            isr=tuple(int(one) for one in value["isr"]),
            controller_epoch=int(value["controller_epoch"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise malformed(path, data, error) from error


# -- configurations ---------------------------------------------------------------------------


def encode_config(values: Mapping[str, str]) -> bytes:
    """`/config/<kind>/<name>`."""
    return dump({"version": 1, "config": dict(values)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """What is set; an empty node sets nothing."""
    if not data:
        return {}
    config = load(path, data).get("config", {})
    if not isinstance(config, dict):
        raise ZnodeError(f"{path} has no configuration: {data[:80]!r}")
    return {str(name): str(value) for name, value in config.items()}


def encode_change(entity_path: str) -> bytes:
    """A notification under `/config/changes`: `topics/<t>`, `brokers/<id>`, `users/<u>`…"""
    return dump({"version": 2, "entity_path": entity_path})


def decode_change(path: str, data: bytes) -> str | None:
    """The entity a notification names, versions 1 and 2. None for 0.8's bare topic name."""
    value = load(path, data)
    if "entity_path" in value:
        return str(value["entity_path"])
    if "entity_type" in value and "entity_name" in value:
        return f"{value['entity_type']}/{value['entity_name']}"
    return None
