"""The metadata of a KRaft cluster as a tree to look at (pure): records folded into named nodes.

In: metadata records by offset. Out: nested dicts of names and values, ready for JSON, and the
newest records as rows. Never: a change to a cluster; and no rule of Kafka beyond which record
replaces which. What a later Kafka adds is kept under its record's own name.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from bus.client.model import StoredRecord
from bus.protocol.generated.metadata_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)

NEWEST = 200
"""Records shown one by one; who wants more reads the log itself with `kafka-dump-log`."""

HEARTBEAT = "NoOpRecord"
"""Written twice a second by an idle controller; two hundred of them would say nothing."""

MAX_VALUE_CHARACTERS = 400
"""Of one record in the list."""

ID_BYTES = 16

Tree = dict[str, Any]
_RESOURCES = {2: "topic", 4: "broker", 8: "logger", 16: "client-metrics", 32: "group"}


class MetadataTree:
    """The state and the newest records. Invariant: `_topic_names` has every topic of the tree."""

    def __init__(self) -> None:
        self.newest: deque[dict[str, Any]] = deque(maxlen=NEWEST)
        self.root: Tree = {}
        self._topic_names: dict[bytes, str] = {}
        self.records = 0

    def reset(self) -> None:
        """A whole snapshot follows."""
        self.root.clear()
        self._topic_names.clear()

    def apply(self, records: Iterable[StoredRecord]) -> None:
        """Fold the next records in."""
        for one in records:
            self.records += 1
            fold = _FOLDS.get(one.kind)
            if fold is not None:
                fold(self, one.record)
            if one.kind != HEARTBEAT:
                self.newest.append(self._row(one))

    def _row(self, one: StoredRecord) -> dict[str, Any]:
        """What the record says: fields that it leaves alone are left out."""
        fields = {name: value for name, value in plain(one.record).items() if value is not None}
        topic = self._topic_names.get(getattr(one.record, "topic_id", b""))
        if topic is not None:
            del fields["topic_id"]
            fields = {"topic": topic, **fields}
        text = msgspec.json.encode(fields).decode()
        return {
            "id": one.offset,
            "offset": one.offset,
            "epoch": one.epoch,
            "at_ms": one.timestamp_ms,
            "kind": one.kind.removesuffix("Record"),
            "value": text if len(text) <= MAX_VALUE_CHARACTERS else
            text[:MAX_VALUE_CHARACTERS] + " …",
        }  # fmt: skip

    def _branch(self, *names: str) -> Tree:
        node = self.root
        for name in names:
            node = node.setdefault(name, {})
        return node

    # -- one method per family of records ---------------------------------------------

    def _topic(self, record: TopicRecord) -> None:
        self._topic_names[record.topic_id] = record.name
        topic = self._branch("topics", record.name)
        topic["id"] = id_text(record.topic_id)
        topic["partitions"] = {}

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._topic_names.pop(record.topic_id, None)
        if name is not None:
            self._branch("topics").pop(name, None)
            self._branch("configs").pop(f"topic {name}", None)

    def _partition(self, record: PartitionRecord) -> None:
        name = self._topic_names.get(record.topic_id, id_text(record.topic_id))
        fields = plain(record)
        index = str(fields.pop("partition_id"))
        fields.pop("topic_id")
        self._branch("topics", name).setdefault("partitions", {})[index] = fields

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        name = self._topic_names.get(record.topic_id, id_text(record.topic_id))
        held = self._branch("topics", name).setdefault("partitions", {})
        partition = held.setdefault(str(record.partition_id), {})
        changes = {
            key: value
            for key, value in plain(record).items()
            if key not in ("partition_id", "topic_id") and value is not None
        }
        if changes.get("leader") == -2:  # Kafka's word for: not changed
            del changes["leader"]
        else:
            partition["leader_epoch"] = partition.get("leader_epoch", -1) + 1
        if changes.get("leader_recovery_state") == -1:
            del changes["leader_recovery_state"]
        partition["partition_epoch"] = partition.get("partition_epoch", -1) + 1
        partition.update(changes)

    def _broker(self, record: RegisterBrokerRecord) -> None:
        fields = plain(record)
        self._branch("brokers")[str(fields.pop("broker_id"))] = fields

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._branch("brokers").get(str(record.broker_id))
        if broker is None:
            return
        if record.fenced:
            broker["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            broker["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            broker["log_dirs"] = [id_text(one) for one in record.log_dirs]

    def _remove_broker(self, record: UnregisterBrokerRecord) -> None:
        self._branch("brokers").pop(str(record.broker_id), None)

    def _fence(self, record: FenceBrokerRecord) -> None:
        self._branch("brokers", str(record.id))["fenced"] = True

    def _unfence(self, record: UnfenceBrokerRecord) -> None:
        self._branch("brokers", str(record.id))["fenced"] = False

    def _controller(self, record: RegisterControllerRecord) -> None:
        fields = plain(record)
        self._branch("controllers")[str(fields.pop("controller_id"))] = fields

    def _remove_controller(self, record: UnregisterControllerRecord) -> None:
        self._branch("controllers").pop(str(record.controller_id), None)

    def _config(self, record: ConfigRecord) -> None:
        kind = _RESOURCES.get(record.resource_type, str(record.resource_type))
        name = f"{kind} {record.resource_name}" if record.resource_name else f"all {kind}s"
        held = self._branch("configs", name)
        if record.value is None:
            held.pop(record.name, None)
        else:
            held[record.name] = record.value
        if not held:
            del self.root["configs"][name]

    def _feature(self, record: FeatureLevelRecord) -> None:
        self._branch("features")[record.name] = record.feature_level

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.root["producer ids"] = plain(record)

    def _quota(self, record: ClientQuotaRecord) -> None:
        name = ", ".join(f"{e.entity_type} {e.entity_name or '(default)'}" for e in record.entity)
        held = self._branch("quotas", name)
        if record.remove:
            held.pop(record.key, None)
        else:
            held[record.key] = record.value

    def _acl(self, record: AccessControlEntryRecord) -> None:
        fields = plain(record)
        self._branch("acls")[str(fields.pop("id"))] = fields

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self._branch("acls").pop(id_text(record.id), None)


_FOLDS: dict[str, Callable[[MetadataTree, Any], None]] = {
    "TopicRecord": MetadataTree._topic,
    "RemoveTopicRecord": MetadataTree._remove_topic,
    "PartitionRecord": MetadataTree._partition,
    "PartitionChangeRecord": MetadataTree._change_partition,
    "RegisterBrokerRecord": MetadataTree._broker,
    "BrokerRegistrationChangeRecord": MetadataTree._change_broker,
    "UnregisterBrokerRecord": MetadataTree._remove_broker,
    "FenceBrokerRecord": MetadataTree._fence,
    "UnfenceBrokerRecord": MetadataTree._unfence,
    "RegisterControllerRecord": MetadataTree._controller,
    "UnregisterControllerRecord": MetadataTree._remove_controller,
    "ConfigRecord": MetadataTree._config,
    "FeatureLevelRecord": MetadataTree._feature,
    "ProducerIdsRecord": MetadataTree._producer_ids,
    "ClientQuotaRecord": MetadataTree._quota,
    "AccessControlEntryRecord": MetadataTree._acl,
    "RemoveAccessControlEntryRecord": MetadataTree._remove_acl,
}


def plain(record: Any) -> Tree:
    """A record's fields as JSON knows them; ids as Kafka writes them, secrets not at all."""
    if not isinstance(record, msgspec.Struct):
        return {"": str(record)}
    return {
        name: "(secret)" if name in _SECRETS else _plain(getattr(record, name))
        for name in record.__struct_fields__
    }


_SECRETS = frozenset({"salt", "stored_key", "server_key"})


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return id_text(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return plain(value) if isinstance(value, msgspec.Struct) else value


def id_text(value: bytes) -> str:
    """An id of sixteen bytes as Kafka's tools write it."""
    if len(value) != ID_BYTES:
        return value.hex()
    return base64.urlsafe_b64encode(value).decode().rstrip("=")
