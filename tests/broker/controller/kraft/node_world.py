"""RaftNodes on virtual time: real logs on a real disk, every message through Kafka's codec.

Only the sockets are missing: a request goes through its newest version's bytes into the other
node's service. Addresses are `node:ID`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from broker.config.views import BrokerConfig
from broker.controller.decisions.decision import Decision
from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.places import Links
from broker.controller.kraft.service import QuorumService
from broker.disk.port import DiskFull
from broker.disk.real import RealDisk
from broker.metadata.delta import Changes
from broker.network.real import RealNetwork
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.generated.metadata_records import ConfigRecord
from tests.simulation.clock import SimClock
from tests.simulation.loop import Life, VirtualLoop

HOP_S = 0.001
CLUSTER = "cluster-of-tests"


def directory_id(node_id: int) -> bytes:
    """The metadata directory of a node."""
    return bytes([node_id]) * 16


def through_the_wire(key: int, message: Any, kind: str) -> Any:
    """The message as the other side reads it, in the newest version."""
    version = APIS[key].latest
    chunks: list[bytes] = []
    if kind == "request":
        APIS[key].request_encoder(version)(message, chunks.append)
        return APIS[key].request_decoder(version)(b"".join(chunks), 0)[0]
    APIS[key].response_encoder(version)(message, chunks.append)
    return APIS[key].response_decoder(version)(b"".join(chunks), 0)[0]


class Hops(Links):
    """Links without sockets."""

    world: Nodes
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
        """To the other node, a hop away."""
        place = self.place_of(to)
        sender = self.world.nodes[self.source]

        def finish(call: Callable[[], None]) -> None:
            if self.world.nodes.get(self.source) is sender:
                call()

        def arrive() -> None:
            target = None if place is None else place.port
            if target is None or target not in self.world.nodes:
                finish(lambda: failed(True))
                return
            if frozenset((self.source, target)) in self.world.cut:
                return
            request = through_the_wire(key, body, "request")
            self.world.serve(target, key, request, answered)

        def answered(response: Any) -> None:
            if frozenset((self.source, place.port if place else -1)) in self.world.cut:
                return
            back = through_the_wire(key, response, "response")
            self.world.later(HOP_S, lambda: expire.cancel() or finish(lambda: done(back)))

        expire = self.world.later(timeout_ms / 1000, lambda: finish(lambda: failed(False)))
        self.world.later(HOP_S, arrive)


class RefusingDisk(RealDisk):
    """A disk that is full for what must be stored durably while `refuses` is set."""

    refuses = False

    def replace_text_durably(self, path: str, text: str) -> None:
        """As the real one, or not at all."""
        if self.refuses:
            raise DiskFull(f"{path}: no space left")
        super().replace_text_durably(path, text)


class Nodes:
    """Some nodes; `nodes` are those that live."""

    def __init__(self, root: Path, properties: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.properties = dict(properties or {})
        self.loop = VirtualLoop()
        self.life = Life("nodes")
        self.nodes: dict[int, RaftNode] = {}
        self.heard: dict[int, list[Changes]] = {}
        self.cut: set[frozenset[int]] = set()
        self.disks: dict[int, RefusingDisk] = {}

    def later(self, delay_s: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        """A timer."""
        return self.loop.call_later(delay_s, action)

    def start(self, node_id: int, **properties: str) -> RaftNode:
        """Start a node from what its disk holds."""
        names = {name.replace("_", "."): value for name, value in properties.items()}
        config = BrokerConfig.from_mapping(
            {"node.id": str(node_id), "process.roles": "controller", **self.properties, **names}
        )
        clock = SimClock(self.loop, self.life, random.Random(node_id))
        heard = self.heard[node_id] = []
        disk = self.disks.setdefault(node_id, RefusingDisk())
        node = RaftNode(
            config, clock, disk, RealNetwork(), str(self.root / str(node_id)), CLUSTER,
            node_id, directory_id(node_id), heard.append,
        )  # fmt: skip
        node.load()
        self.nodes[node_id] = node
        node.links.__class__ = Hops
        node.links.world, node.links.source = self, node_id  # type: ignore[attr-defined]
        node.start(("node", node_id))
        return node

    def kill(self, node_id: int) -> None:
        """It is gone without a word; its connections are reset."""
        node = self.nodes.pop(node_id)
        node.driver.stop()
        node.housekeeping.stop()
        node.parked.drop()
        for other in self.nodes.values():
            other.driver.connection_lost(node_id)

    def serve(self, target: int, key: int, request: Any, answered: Callable[[Any], None]) -> None:
        """What the handlers do."""
        service = self.nodes[target].service
        with suppress(BusError):  # the connection is closed, and the request times out
            self._serve(service, key, request, answered)

    def _serve(
        self, service: QuorumService, key: int, request: Any, answered: Callable[[Any], None]
    ) -> None:
        match key:
            case ApiKey.VOTE:
                answered(service.vote(request))
            case ApiKey.BEGIN_QUORUM_EPOCH:
                answered(service.begin_epoch(request))
            case ApiKey.END_QUORUM_EPOCH:
                answered(service.end_epoch(request))
            case ApiKey.FETCH_SNAPSHOT:
                answered(service.fetch_snapshot(request))
            case ApiKey.FETCH:
                service.fetch(request, answered)

    # -- time -------------------------------------------------------------------------------

    def run(self, story: Coroutine[Any, Any, Any]) -> Any:
        """Run a story to its end; nothing of it lives on."""
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
        """Wait until something is so."""
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


def settings(node: RaftNode) -> dict[str, str]:
    """The configuration of topic `t` as the node has it committed."""
    return dict(node.committed.topic_config("t"))


def write(node: RaftNode, name: str, value: str = "1") -> list[object]:
    """Set a configuration of topic `t`; what became of it is added to the list later."""
    told: list[object] = []
    record = ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)
    node.write(lambda _: Decision((record,), name), told.append, told.append)
    return told


def voters(ids: Iterable[int]) -> str:
    """controller.quorum.voters of these nodes."""
    return ",".join(f"{one}@node:{one}" for one in ids)


NOT_CONTROLLER = ErrorCode.NOT_CONTROLLER
