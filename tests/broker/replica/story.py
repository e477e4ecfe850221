"""A cluster of replica managers without sockets: real logs, real handlers, the wire's own codec.

The controller of these stories does what a story tells it, and AlterPartition by itself, with
Kafka's rules on epochs. Every request goes through encoder and decoder. Time is virtual: a story
whose brokers wait for each other costs nothing.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.port import Disk, DiskError
from broker.disk.real import RealDisk
from broker.handlers import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k21_delete_records,
    k10001_mirror_append,
    k10003_mirror_truncate,
)
from broker.handlers.connection_control import NoConnection
from broker.handlers.context import RequestContext
from broker.handlers.listener_type import ListenerType
from broker.log.errors import LogError
from broker.log.manager import LogManager
from broker.metadata.image import (
    BrokerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
    frozen,
)
from broker.metrics.registry import Metrics
from broker.purgatory.timer import Timer
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from broker.replica.port import ClusterAccess
from broker.security.authorizer import Authorizer
from broker.security.session import Session
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.errors import ErrorCode
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.frames import encode_request, encode_response, request_header
from bus.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataInResponse,
    TopicDataInResponse,
)
from bus.protocol.generated.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from bus.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from bus.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from bus.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from bus.records.batch import NO_PRODUCER_ID
from bus.records.build import build_batch
from bus.records.record import Record
from tests.simulation.clock import SimClock
from tests.simulation.loop import ProcessLife, VirtualLoop

TOPIC, TOPIC_ID = "t", bytes(range(16))
NOW_MS = 1_760_000_000_000
DEADLINE_S = 60
HANDLERS: dict[int, Any] = {
    0: k00_produce,
    1: k01_fetch,
    2: k02_list_offsets,
    21: k21_delete_records,
    10001: k10001_mirror_append,
    10003: k10003_mirror_truncate,
}


@dataclass
class ReplicaNode:
    """One broker's storage side. ``gets_metadata``: not cut off from it; ``reachable``: by followers."""

    number: int
    replicas: ReplicaManager
    logs: LogManager
    clock: SimClock
    services: Any = None
    gets_metadata: bool = True
    reachable: bool = True
    requests: list[Any] = field(default_factory=list)

    @property
    def disk(self) -> BreakableDisk:
        assert isinstance(self.logs.disk, BreakableDisk)
        return self.logs.disk

    channels: list[LocalChannel] = field(default_factory=list)

    @property
    def partition(self) -> Partition:
        return self.replicas.get(TOPIC, 0)

    def put(self, text: str, count: int = 1, acks: int = 1) -> int:
        """Append straight to the leader; the last offset."""
        return self.partition.append_as_leader(
            batch(text, count), required_acks=acks, now_ms=NOW_MS
        ).last_offset


class BreakableFile:
    """A file whose disk may fail under it."""

    def __init__(self, file: Any, disk: BreakableDisk) -> None:
        self._file, self._disk = file, disk

    def append(self, data: Any) -> None:
        if self._disk.error is not None:
            raise self._disk.error
        self._file.append(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class BreakableDisk(RealDisk):
    """The real disk, until ``error`` says what it answers to every write."""

    error: DiskError | None = None

    def open(self, path: str, *, create: bool = False) -> Any:
        return BreakableFile(super().open(path, create=create), self)

    async def run(self, function: Callable[..., Any], *arguments: Any, worker: str = "") -> Any:
        """Later, as on a worker thread; virtual time knows none."""
        await asyncio.sleep(0)
        return function(*arguments)


class LocalChannel:
    """What a PeerChannel is, without a socket: codec, order, and a line that may be cut."""

    def __init__(self, story: ReplicaStory, source: int, target: int) -> None:
        self._story, self._source, self._target = story, source, target
        self._waiting: asyncio.Future[Any] | None = None
        self.closed = False

    async def request(self, api_key: int, body: object, *, timeout_ms: int) -> Any:
        if self.closed or not self._story.is_connected(self._source, self._target):
            await asyncio.sleep(0.02)
            raise PeerError(PeerErrorKind.REFUSED, "no broker there")
        self._waiting = asyncio.get_running_loop().create_future()
        waiting = self._waiting

        def fill(response: Any) -> None:
            if not waiting.done():
                waiting.set_result(response)

        self._story.nodes[self._target].requests.append(body)
        call(self._story.nodes[self._target], api_key, body, fill)
        return await asyncio.wait_for(waiting, timeout_ms / 1000)

    def disconnect(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(PeerError(PeerErrorKind.DISCONNECTED, "hung up"))

    def close(self) -> None:
        self.closed = True
        self.disconnect()


def call(node: ReplicaNode, api_key: int, body: object, fill: Callable[[Any], None]) -> None:
    """One request through encoder, handler and decoder."""
    info = APIS[api_key]
    version = info.latest
    frame = b"".join(bytes(chunk) for chunk in encode_request(api_key, version, 7, "story", body))
    _, offset = request_header(frame[4:])
    request, _ = info.request_decoder(version)(memoryview(frame)[4:], offset)

    def send(chunks: Any) -> None:
        raw = b"".join(bytes(chunk) for chunk in chunks)
        if raw:
            begin = 9 if info.is_flexible(version) else 8
            fill(info.response_decoder(version)(memoryview(raw), begin)[0])

    context = RequestContext(
        node.services, NoConnection(Session("local")), ListenerType.BROKER, version, 7, "story",
        lambda number, response: encode_response(api_key, version, number, response), send,
    )  # fmt: skip
    response = HANDLERS[api_key].handle(request, context)
    if response is not None:
        context.reply(response)


class StoryController:
    """The story's controller: the image, and AlterPartition."""

    def __init__(self, story: ReplicaStory) -> None:
        self._story = story
        self.image = MetadataImage()
        self.mute = False
        self.asked: list[AlterPartitionRequest] = []
        self.answers: list[ErrorCode] = []
        self.assigned: list[Any] = []

    async def request(self, api_key: int, body: Any, *, timeout_ms: int) -> Any:
        if api_key == ApiKey.ASSIGN_REPLICAS_TO_DIRS:
            self.assigned.append(body)
            return AssignReplicasToDirsResponse()
        assert api_key == ApiKey.ALTER_PARTITION
        await asyncio.sleep(0)
        if self.mute:
            await asyncio.sleep(0.05)
            raise PeerError(PeerErrorKind.TIMED_OUT, "no controller")
        self.asked.append(body)
        (topic,) = body.topics
        (ask,) = topic.partitions
        held = self.partition
        error = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if not error and ask.leader_epoch != held.leader_epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        if not error and ask.partition_epoch != held.partition_epoch:
            error = ErrorCode.INVALID_UPDATE_VERSION
        if not error:
            held = self.change(isr=tuple(ask.new_isr))
        return AlterPartitionResponse(
            topics=[
                TopicDataInResponse(
                    topic_id=topic.topic_id,
                    partitions=[
                        PartitionDataInResponse(
                            partition_index=0, error_code=error, leader_id=held.leader,
                            leader_epoch=held.leader_epoch, isr=list(held.isr),
                            partition_epoch=held.partition_epoch,
                        )
                    ],
                )
            ]
        )  # fmt: skip

    @property
    def partition(self) -> PartitionImage:
        return self.image.topics[TOPIC].partitions[0]

    def create(self, replicas: tuple[int, ...], directories: tuple[bytes, ...] = ()) -> None:
        self._publish(PartitionImage(0, replicas, replicas, replicas[0], 0, 0, directories))

    def change(self, **changes: Any) -> PartitionImage:
        """A new state of the partition; a named leader begins a new epoch."""
        held = self.partition
        epoch = held.leader_epoch + (1 if "leader" in changes else 0)
        new = replace(held, partition_epoch=held.partition_epoch + 1, leader_epoch=epoch, **changes)
        self._publish(new)
        return new

    def _publish(self, partition: PartitionImage) -> None:
        topic = TopicImage(TOPIC, TOPIC_ID, (partition,))
        self.image = replace(
            self.image,
            topics=frozen({TOPIC: topic}),
            topic_names=frozen({TOPIC_ID: TOPIC}),
            brokers=self._story.brokers(),
        )
        for node in self._story.nodes.values():
            if node.gets_metadata:
                self._story.send_metadata(node)


class ReplicaStory:
    """Some brokers and their partition ``t-0``."""

    def __init__(
        self, directory: str, count: int = 3, directories: int = 1, **broker_config: str
    ) -> None:
        self._directory = directory
        self._directories = directories
        self._broker_config = broker_config
        self.topic_config = TopicConfig()
        self.cut: set[frozenset[int]] = set()
        self.fenced: set[int] = set()
        self.nodes: dict[int, ReplicaNode] = {}
        self.controller = StoryController(self)
        for number in range(1, count + 1):
            self.nodes[number] = self._start(number)

    def __getitem__(self, number: int) -> ReplicaNode:
        return self.nodes[number]

    def _start(self, number: int) -> ReplicaNode:
        texts = {"replica.fetch.wait.max.ms": "200"} | {
            name.replace("_", "."): value for name, value in self._broker_config.items()
        }
        config = BrokerConfig.from_mapping(
            {
                "log.dirs": ",".join(
                    f"{self._directory}/{number}/{at}" for at in range(self._directories)
                ),
                "node.id": str(number),
            }
            | texts
        )
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = SimClock(loop, ProcessLife(f"broker-{number}"), random.Random(number))
        logs = LogManager(config=config, disk=self._disk(number), clock=clock)
        logs.prepare("story")
        logs.load(lambda topic: self.topic_config)
        replicas = ReplicaManager(
            broker_id=number, log_manager=logs, clock=clock, timer=Timer(clock), metrics=Metrics()
        )
        replicas.attach_cluster(
            ClusterAccess(
                channel=lambda target, name: self._channel(number, target),
                controllers=self.controller,
                broker_epoch=lambda: 100 + number,
                image=lambda: self.controller.image,
            )
        )
        node = ReplicaNode(number, replicas, logs, clock)
        node.services = SimpleNamespace(
            data_plane=SimpleNamespace(replicas=replicas, logs=logs), clock=clock,
            client_quotas=SimpleNamespace(limits_fetch=False),
            metadata=SimpleNamespace(config=config, image=self.controller.image),
            authorizer=Authorizer(), node_id=number,
        )  # fmt: skip
        replicas.start()
        return node

    def _disk(self, number: int) -> Disk:
        return BreakableDisk()

    def _channel(self, source: int, target: int) -> LocalChannel:
        channel = LocalChannel(self, source, target)
        self.nodes[source].channels.append(channel)
        return channel

    def is_connected(self, one: int, other: int) -> bool:
        return frozenset((one, other)) not in self.cut and self.nodes[other].reachable

    def isolate(self, number: int) -> None:
        """Cut a broker off from all others and from the metadata."""
        self.nodes[number].gets_metadata = False
        for other in self.nodes:
            if other != number:
                self.cut.add(frozenset((number, other)))
        for node in self.nodes.values():
            for channel in node.channels:
                channel.disconnect()

    def heal(self) -> None:
        """All brokers reach each other and get the newest metadata."""
        self.cut.clear()
        for node in self.nodes.values():
            node.gets_metadata = True
            self.send_metadata(node)

    def brokers(self) -> Any:
        return frozen(
            {
                number: BrokerImage(
                    number, 100 + number, bytes(16), (Endpoint("PLAINTEXT", "host", number),),
                    rack=f"rack-{number}", fenced=number in self.fenced,
                )
                for number in self.nodes
            }
        )  # fmt: skip

    def send_metadata(self, node: ReplicaNode) -> None:
        """Give a broker the newest metadata."""
        held = self.controller.partition
        node.services.metadata.image = self.controller.image
        if node.number not in held.replicas:
            if node.replicas.find(TOPIC, 0) is not None:
                node.replicas.delete_partition(TOPIC, 0)
            return
        with suppress(LogError):  # a replica on a failed disk stays away
            node.replicas.create_partition(
                TOPIC, TOPIC_ID, 0, leader_id=held.leader, leader_epoch=held.leader_epoch,
                partition_epoch=held.partition_epoch, replicas=held.replicas, isr=held.isr,
                adding=held.adding_replicas, removing=held.removing_replicas,
                directories=held.directories, config=self.topic_config,
            )  # fmt: skip

    async def restart(self, number: int) -> None:
        """Stop a broker cleanly and start it on its directory; it gets the metadata."""
        await self.stop_node(number)
        self.nodes[number] = self._start(number)
        self.send_metadata(self.nodes[number])

    async def stop_node(self, number: int) -> None:
        node = self.nodes[number]
        await node.replicas.stop()
        await node.logs.stop()

    async def stop(self) -> None:
        for number in self.nodes:
            await self.stop_node(number)

    async def produce(self, number: int, records: bytes, *, timeout_ms: int = 60_000) -> Any:
        """Produce with acks=all as a client does; the partition's answer."""
        future: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()
        body = ProduceRequest(
            acks=-1,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=TOPIC, topic_id=TOPIC_ID,
                    partition_data=[PartitionProduceData(index=0, records=records)],
                )
            ],
        )  # fmt: skip
        call(self.nodes[number], ApiKey.PRODUCE, body, future.set_result)
        response = await asyncio.wait_for(future, DEADLINE_S)
        return response.responses[0].partition_responses[0], response

    async def fetch(self, number: int, *, rack: str = "", offset: int = 0) -> Any:
        """Fetch as a consumer does; the partition's answer."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        ask = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        body = FetchRequest(
            max_wait_ms=1, min_bytes=1, rack_id=rack,
            topics=[FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[ask])],
        )  # fmt: skip
        call(self.nodes[number], ApiKey.FETCH, body, future.set_result)
        return (await asyncio.wait_for(future, DEADLINE_S)).responses[0].partitions[0]

    async def delete_records(self, number: int, *, before: int) -> Any:
        """DeleteRecords as an operator does; the partition's answer."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        ask = DeleteRecordsPartition(partition_index=0, offset=before)
        body = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=TOPIC, partitions=[ask])], timeout_ms=60_000
        )
        call(self.nodes[number], ApiKey.DELETE_RECORDS, body, future.set_result)
        return (await asyncio.wait_for(future, DEADLINE_S)).topics[0].partitions[0]

    def content(self, number: int) -> bytes:
        """The bytes of one replica's log."""
        log = self.nodes[number].partition.log
        found, offset = b"", log.log_start_offset
        while offset < log.end_offset:
            data = bytes(log.read(offset, 1 << 20).data)
            found += data
            offset = log.end_offset if not data else _end_of(data)
        return found


def _end_of(data: bytes) -> int:
    from bus.records.batch import iter_batches

    return [header.end_offset for _, header in iter_batches(data)][-1]


def batch(text: str, count: int = 1, producer: int = NO_PRODUCER_ID, sequence: int = -1) -> bytes:
    """A batch of ``count`` records."""
    records = [Record(b"k", f"{text}-{i}".encode(), timestamp_ms=NOW_MS) for i in range(count)]
    if producer == NO_PRODUCER_ID:
        return bytes(build_batch(records))
    return bytes(
        build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence)
    )


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that must come."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_S
    while True:
        try:
            if condition():
                return
        except LogError:
            pass
        assert loop.time() < deadline, what
        await asyncio.sleep(0.005)


def run(
    play: Callable[[ReplicaStory], Awaitable[None]], count: int = 3, directories: int = 1, **config: str
) -> None:
    """Runs a story on fresh directories."""

    async def all_of_it() -> None:
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        with tempfile.TemporaryDirectory(prefix="databus-story-", dir=base) as directory:
            story = ReplicaStory(directory, count, directories, **config)
            try:
                await play(story)
            finally:
                await story.stop()

    loop = VirtualLoop()
    try:
        loop.run_until_complete(all_of_it())
    finally:
        loop.close()
