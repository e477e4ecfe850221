"""A client with a name of its own, and quotas for it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bus.protocol.apis import APIS, ApiKey
from bus.protocol.frames import encode_request
from bus.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.build import build_batch
from bus.records.record import Record
from tests.broker.handlers.test_every_version import FrameSocket

CLIENT_ID, USER, IP = "client-id", "user", "ip"
PRODUCE_VERSION, FETCH_VERSION = 9, 12
DEADLINE_S = 60.0


class QuotaClient(FrameSocket):
    """One connection; quotas are set for its client id."""

    def __init__(self, bootstrap: str, client_id: str, source: str = "") -> None:
        super().__init__(bootstrap, source)
        self.client_id = client_id

    def send(self, key: int, version: int, request: object, correlation_id: int = 7) -> None:
        frame = encode_request(key, version, correlation_id, self.client_id, request)
        self.socket.sendall(b"".join(frame))

    def call(self, key: int, version: int, fields: Any) -> Any:
        """The response to a request of these fields."""
        fields = msgspec.convert(fields, getattr(APIS[key].module, f"{APIS[key].name}Request"))
        return self.ask(key, version, fields)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        made = self.call(ApiKey.CREATE_TOPICS, 7, {"timeout_ms": 30_000, "topics": [
            {"name": name, "num_partitions": partitions, "replication_factor": 1}]})  # fmt: skip
        assert [one.error_code for one in made.topics] == [0]

    def alter_quotas(self, *entries: tuple[Sequence[tuple[str, str | None]], Mapping[str, float | None]]) -> list[int]:
        """Entities with their new values, None takes one back; the error codes."""
        answer = self.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [
            {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
             "ops": [{"key": key, "value": value or 0.0, "remove": value is None}
                     for key, value in values.items()]}
            for entity, values in entries]})  # fmt: skip
        return [one.error_code for one in answer.entries]

    def set_quota(self, client_id: str | None, key: str, value: float | None) -> None:
        """Of a client id, None for the default one."""
        assert self.alter_quotas(([(CLIENT_ID, client_id)], {key: value})) == [0]

    def described_quotas(self) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
        """By entity."""
        fields: dict[str, Any] = {"components": [], "strict": False}
        answer = self.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, fields)
        return {
            tuple((part.entity_type, part.entity_name) for part in one.entity): {
                value.key: value.value for value in one.values
            }
            for one in answer.entries
        }

    def produce(self, topic: str, size_bytes: int, acks: int = 1) -> Any:
        """A batch of one record of so many bytes."""
        return self.ask(ApiKey.PRODUCE, PRODUCE_VERSION, produce_request(topic, size_bytes, acks))

    def fetch(self, topic: str, offset: int = 0, replica_id: int = -1) -> Any:
        """What is there from an offset on, without waiting."""
        return self.ask(ApiKey.FETCH, FETCH_VERSION, FetchRequest(
            replica_id=replica_id, max_wait_ms=0, min_bytes=1, max_bytes=50_000_000, session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[
                FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=50_000_000)])],
        ))  # fmt: skip


def produce_request(topic: str, size_bytes: int, acks: int = 1) -> ProduceRequest:
    batch = build_batch([Record(None, bytes(size_bytes), timestamp_ms=0)])
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    ])  # fmt: skip


def produced_bytes(client_id: str, topic: str, size_bytes: int) -> int:
    """How large that request is, as quotas count it: without the length before it."""
    request = produce_request(topic, size_bytes)
    return len(b"".join(encode_request(0, PRODUCE_VERSION, 7, client_id, request))) - 4


def first_wait_ms(amount: float, limit: float, windows_s: int = 10) -> int:
    """How long a client waits that uses so much at once, and nothing in the eleven seconds before."""
    return max(round((amount / windows_s - limit) / limit * windows_s * 1000), 0)


def until(what: str, holds: Any) -> None:
    """Within the deadline."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, f"not within {DEADLINE_S:.0f} s: {what}"
        time.sleep(0.01)
