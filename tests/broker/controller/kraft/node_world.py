"""RaftNodes in virtual time: real logs on a real disk, every message encoded by Kafka's protocol.

Only the sockets are missing: a request is encoded in its newest version, decoded and passed to
the other node's API. Addresses are `node:ID`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.config.views import BrokerConfig
from broker.controller.decisions.decision import Decision
from broker.controller.kraft.api import QuorumApi
from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.transport.connections import QuorumConnections
from broker.disk.port import Buffer, DiskError, DiskFull
from broker.disk.real import RealDisk, RealFile
from broker.handlers import k80_add_raft_voter, k81_remove_raft_voter, k82_update_raft_voter
from broker.metadata.delta import Changes
from broker.network.real import RealNetwork
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.generated.metadata_records import ConfigRecord
from tests.simulation.clock import SimClock
from tests.simulation.loop import ProcessLife, VirtualLoop

HOP_S = 0.001
HANDLERS: dict[int, Callable[[Any, Any], Any]] = {
    ApiKey.ADD_RAFT_VOTER: k80_add_raft_voter.handle,
    ApiKey.REMOVE_RAFT_VOTER: k81_remove_raft_voter.handle,
    ApiKey.UPDATE_RAFT_VOTER: k82_update_raft_voter.handle,
}
CLUSTER = "cluster-of-tests"


def directory_id(node_id: int) -> bytes:
    """The metadata directory of a node."""
    return bytes([node_id]) * 16


def through_the_wire(key: int, message: Any, kind: str) -> Any:
    """Encodes and decodes the message in its newest version, as the receiver would read it."""
    version = APIS[key].latest
    chunks: list[bytes] = []
    if kind == "request":
        APIS[key].request_encoder(version)(message, chunks.append)
        return APIS[key].request_decoder(version)(b"".join(chunks), 0)[0]
    APIS[key].response_encoder(version)(message, chunks.append)
    return APIS[key].response_decoder(version)(b"".join(chunks), 0)[0]


class HopConnections(QuorumConnections):
    """Connections without sockets."""

    world: NodeWorld
    source: int

    def send(
        self,
        to: int,
        purpose: str,
        key: int,
        body: Any,
        timeout_ms: int,
        done: Callable[[Any], None],
        failed: Callable[[bool], None],
    ) -> None:
        """Sends to the other node with the delay of one hop."""
        place = self.address_of(to)
        sender = self.world.nodes[self.source]

        def finish(call: Callable[[], None]) -> None:
            if self.world.nodes.get(self.source) is sender:
                call()

        def arrive() -> None:
            target = None if place is None else self.world.listening_at(place.port)
            if target is None:
                finish(lambda: failed(True))
                return
            if frozenset((self.source, target)) in self.world.cut:
                return
            request = through_the_wire(key, body, "request")
            self.world.serve(target, key, request, answered)

        def answered(response: Any) -> None:
            target = None if place is None else self.world.listening_at(place.port)
            if target is None or frozenset((self.source, target)) in self.world.cut:
                return
            back = through_the_wire(key, response, "response")
            self.world.later(HOP_S, lambda: expire.cancel() or finish(lambda: done(back)))

        expire = self.world.later(timeout_ms / 1000, lambda: finish(lambda: failed(False)))
        self.world.later(HOP_S, arrive)

    def channel(self, to: int, purpose: str) -> Any:
        """A channel for callers that await the answer themselves."""

        async def request(key: int, body: Any, *, timeout_ms: int) -> Any:
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

            def failed(refused: bool) -> None:
                if not answer.done():
                    kind = PeerErrorKind.REFUSED if refused else PeerErrorKind.TIMED_OUT
                    answer.set_exception(PeerError(kind, "no answer"))

            def done(response: Any) -> None:
                if not answer.done():
                    answer.set_result(response)

            self.send(to, purpose, key, body, timeout_ms, done, failed)
            return await answer

        return SimpleNamespace(request=request)


class RefusingDisk(RealDisk):
    """A disk that refuses durable writes while `refuses` is set, and appends to files while
    `is_full` is set."""

    refuses = False
    is_full = False
    is_broken = False
    """Whether a flush of a file fails (EIO)."""
    flush_s = 0.0
    """How long a call on a worker waits for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.flushes: list[str] = []
        """Files that were to be flushed."""
        self._last: dict[str, asyncio.Future[None]] = {}

    async def run(self, function: Callable[..., Any], *arguments: Any, worker: str = "") -> Any:
        """Runs calls in order as a worker thread would; virtual time has no threads."""
        before, done = self._last.get(worker), asyncio.get_running_loop().create_future()
        self._last[worker] = done
        try:
            if before is not None:
                await before
            await asyncio.sleep(self.flush_s)
            return function(*arguments)
        finally:
            done.set_result(None)

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """Opens the real file."""
        return RefusingFile(super().open(path, create=create), self)

    def replace_text_durably(self, path: str, text: str) -> None:
        """As the real one, or not at all."""
        if self.refuses:
            raise DiskFull(f"{path}: no space left")
        super().replace_text_durably(path, text)


class RefusingFile(RealFile):
    """A file on a RefusingDisk."""

    def __init__(self, real: RealFile, disk: RefusingDisk) -> None:
        super().__init__(real.path, real._fd, real._guard)
        self.disk = disk

    def flush(self) -> None:
        """As the real one, or not at all."""
        self.disk.flushes.append(self.path)
        if self.disk.is_broken:
            raise DiskError(f"{self.path}: Input/output error", 5)
        super().flush()

    def append(self, data: Buffer) -> None:
        """As the real one, or not at all."""
        if self.disk.is_full:
            raise DiskFull(f"{self.path}: no space left")
        super().append(data)


class NodeWorld:
    """Some nodes; `nodes` holds the running ones."""

    def __init__(self, root: Path, properties: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.properties = dict(properties or {})
        self.loop = VirtualLoop()
        self.life = ProcessLife("nodes")
        self.nodes: dict[int, RaftNode] = {}
        self.heard: dict[int, list[Changes]] = {}
        self.cut: set[frozenset[int]] = set()
        self.disks: dict[int, RefusingDisk] = {}

    def later(self, delay_s: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        """Schedules a call."""
        return self.loop.call_later(delay_s, action)

    def listening_at(self, port: int) -> int | None:
        """The key in `nodes` of the node that listens there."""
        found = (
            at for at, node in self.nodes.items() if node.endpoint and node.endpoint.port == port
        )
        return next(found, None)

    def start(self, node_id: int, *, at: int = 0, port: int = 0, **properties: str) -> RaftNode:
        """Starts a node from the content of its disk. `at` is its key in `nodes` and names its
        directory, `port` is where it listens; both default to its id."""
        at = at or node_id
        names = {name.replace("_", "."): value for name, value in properties.items()}
        config = BrokerConfig.from_mapping(
            {"node.id": str(node_id), "process.roles": "controller", **self.properties, **names}
        )
        clock = SimClock(self.loop, self.life, random.Random(node_id))
        heard = self.heard[at] = []
        disk = self.disks.setdefault(at, RefusingDisk())
        node = RaftNode(
            config, clock, disk, RealNetwork(), str(self.root / str(at)), CLUSTER,
            node_id, directory_id(at), heard.append,
        )  # fmt: skip
        node.open()
        self.nodes[at] = node
        node.connections.__class__ = HopConnections
        node.connections.world, node.connections.source = self, at  # type: ignore[attr-defined]
        node.start(("node", port or at))
        return node

    async def alone(self, node_id: int = 1) -> RaftNode:
        """Starts a node that is the only voter and waits until it leads."""
        node = self.start(node_id)
        await self.until(lambda: node.is_active, "it leads")
        return node

    def kill(self, node_id: int) -> None:
        """Kills a node without a shutdown; its connections are reset."""
        node = self.nodes.pop(node_id)
        node.event_loop.stop()
        node.flushes.stop()
        node.maintenance.stop()
        node.fetches.clear()
        for other in self.nodes.values():
            other.event_loop.on_connection_lost(node_id)

    def serve(self, target: int, key: int, request: Any, answered: Callable[[Any], None]) -> None:
        """Passes a request on as the handlers do."""
        node = self.nodes[target]
        with suppress(BusError):  # the connection is closed, and the request times out
            if key in HANDLERS:
                services = SimpleNamespace(
                    control_plane=SimpleNamespace(quorum=node, has_quorum=True)
                )
                context = SimpleNamespace(
                    services=services, is_authorized=lambda *_: True, reply=answered, api_version=0
                )
                response = HANDLERS[key](request, context)
                if response is not None:
                    answered(response)
                return
            self._serve(node.api, key, request, answered)

    def _serve(
        self, service: QuorumApi, key: int, request: Any, answered: Callable[[Any], None]
    ) -> None:
        match key:
            case ApiKey.VOTE:
                service.vote(request, answered)
            case ApiKey.BEGIN_QUORUM_EPOCH:
                service.begin_epoch(request, answered)
            case ApiKey.END_QUORUM_EPOCH:
                service.end_epoch(request, answered)
            case ApiKey.FETCH_SNAPSHOT:
                service.fetch_snapshot(request, answered)
            case ApiKey.FETCH:
                service.fetch(request, answered)

    # -- time -------------------------------------------------------------------------------

    def run(self, story: Coroutine[Any, Any, Any]) -> Any:
        """Runs a story to its end, then kills all nodes and cancels all tasks."""
        try:
            return self.loop.run_until_complete(story)
        finally:
            for node_id in list(self.nodes):
                self.kill(node_id)
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            with suppress(BaseException):
                self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()

    async def until(self, test: Callable[[], Any], what: str, within_s: float = 30.0) -> Any:
        """Waits until `test` returns a true value, and returns that."""
        ends = self.loop.time() + within_s
        while not (found := test()):
            assert self.loop.time() < ends, f"it never came about that {what}"
            await asyncio.sleep(0.01)
        return found

    async def leader(self) -> RaftNode:
        """The active controller of the newest epoch."""

        def active() -> RaftNode | None:
            found = [node for node in self.nodes.values() if node.is_active]
            newest = max(found, key=lambda node: node.epoch, default=None)
            known = max((node.epoch for node in self.nodes.values()), default=0)
            return newest if newest is not None and newest.epoch == known else None

        return await self.until(active, "somebody leads")


async def keep(world: NodeWorld, node: RaftNode, name: str, value: str = "1") -> None:
    """Does what `write` does and waits until it is committed."""
    results = write(node, name, value)
    await world.until(lambda: results, f"{name} is committed")
    assert results == [name]


def settings(node: RaftNode) -> dict[str, str]:
    """The committed configuration of topic `t` at this node."""
    return dict(node.committed.topic_config("t"))


def write(node: RaftNode, name: str, value: str = "1") -> list[object]:
    """Sets a configuration of topic `t`; the returned list receives the result later."""
    results: list[object] = []
    record = ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)
    node.write(lambda _: Decision((record,), name), results.append, results.append)
    return results


def voters(ids: Iterable[int]) -> str:
    """The value of controller.quorum.voters for these nodes."""
    return ",".join(f"{one}@node:{one}" for one in ids)


NOT_CONTROLLER = ErrorCode.NOT_CONTROLLER
