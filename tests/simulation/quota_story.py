"""A cluster whose quotas change while clients produce: how long each is told to wait, beside a plain
list of what it has used.

In: a seed, the kind of controller. Out: waits that are not those of the list. A second after the answer
to a change every broker must go by it, whichever was asked. Never: the broker's own windows or levels.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from broker.handlers.connection_control import NoConnection
from broker.security.principal import Principal
from broker.security.session import Session
from broker.server.broker import Broker
from bus.protocol.apis import ApiKey
from bus.protocol.frames import decode_response, encode_request
from bus.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityDataInRequest,
    EntryDataInRequest,
    OpData,
)
from bus.protocol.generated.produce import ProduceRequest
from tests.simulation.cluster import SimCluster
from tests.simulation.world import SimWorld

CHANGES, USES = 10, 25
KNOWN_WITHIN_S = 1.0
ANSWER_S = 30.0
USERS, CLIENTS = ("alice", "bob"), ("camera", "edge")
KEY = "producer_byte_rate"
DEFAULT, ABSENT = None, "-"
Entity = tuple[str | None, str | None]
"""User and client id of a quota."""


def counts_for(quotas: dict[Entity, int], user: str, client: str) -> tuple[int, str, str] | None:
    """The limit and those who share it, by the list in Kafka's documentation."""
    for entity in (
        (user, client), (user, DEFAULT), (user, ABSENT), (DEFAULT, client), (DEFAULT, DEFAULT),
        (DEFAULT, ABSENT), (ABSENT, client), (ABSENT, DEFAULT),
    ):  # fmt: skip
        if entity in quotas:
            return (
                quotas[entity], "" if entity[0] == ABSENT else user,
                "" if entity[1] == ABSENT else client,
            )  # fmt: skip
    return None


def wait_of(samples: list[list[tuple[int, int]]], limit: int, now_ms: int) -> int:
    """Each sample is a list of (time, bytes) of one second from its first use on."""
    counted = [sample for sample in samples if now_ms - sample[-1][0] < 11_000]
    since_ms = now_ms - counted[0][0][0]
    over_ms = since_ms if since_ms >= 10_000 else 10_000 + since_ms % 1000
    rate = sum(used for sample in counted for _, used in sample) * 1000 / over_ms
    return max(int((rate - limit) / limit * over_ms + 0.5), 0)


def run_quota_story(seed: int, controller: str) -> list[str]:
    """What was wrong."""
    world = SimWorld(seed)
    cluster = SimCluster(world, 3, controller)
    story = _QuotaStory(world, cluster, world.dice_of("quotas"))
    world.run(story.run())
    world.end()
    return [*story.wrong, *map(str, world.complaints)]


class _QuotaStory:
    """Invariant: `_quotas` are those that the cluster has acknowledged, and no others."""

    def __init__(self, world: SimWorld, cluster: SimCluster, dice: random.Random) -> None:
        self._world, self._cluster, self._dice = world, cluster, dice
        self._quotas: dict[Entity, int] = {}
        self._used: dict[tuple[str, str, str], list[list[tuple[int, int]]]] = {}
        self.wrong: list[str] = []

    async def run(self) -> None:
        self._cluster.start()
        assert await self._world.until(lambda: len(self._cluster.serving()) == 3, 60)
        await asyncio.sleep(5)
        for _ in range(CHANGES):
            await self._change()
            await asyncio.sleep(KNOWN_WITHIN_S)
            for _ in range(USES):
                await self._use()
                await asyncio.sleep(self._dice.choice((0, 0.2, 0.9, 3)))

    async def _change(self) -> None:
        """A quota more, another limit, or one less; the broker that is asked is drawn."""
        dice = self._dice
        if self._quotas and dice.random() < 0.4:
            entity = dice.choice(sorted(self._quotas, key=str))
            del self._quotas[entity]
        else:
            entity = dice.choice([
                (user, client) for user in (DEFAULT, ABSENT, *USERS)
                for client in (DEFAULT, ABSENT, *CLIENTS) if (user, client) != (ABSENT, ABSENT)
            ])  # fmt: skip
            self._quotas[entity] = dice.choice((100, 1000, 5000))
        if not self._quotas:
            self._used.clear()
        _, broker = dice.choice(self._cluster.serving())
        answer = await _ask(broker, Session("10.9.0.1"), "admin", ApiKey.ALTER_CLIENT_QUOTAS, 1, _request(
            entity, self._quotas.get(entity)))  # fmt: skip
        assert [one.error_code for one in answer.entries] == [0]

    async def _use(self) -> None:
        machine, broker = self._dice.choice(self._cluster.serving())
        user, client = self._dice.choice(USERS), self._dice.choice(CLIENTS)
        size_bytes = self._dice.choice((200, 3000, 20_000))
        session = Session("10.1.0.1", principal=Principal("User", user))
        now_ms = int(broker.clock.monotonic() * 1000)
        answer = await _ask(
            broker, session, client, ApiKey.PRODUCE, 9, ProduceRequest(acks=1), size_bytes
        )
        expected = self._expected(machine.name, user, client, size_bytes, now_ms)
        if answer.throttle_time_ms != expected:
            self.wrong.append(
                f"{machine.name} tells {user}/{client} to wait {answer.throttle_time_ms} ms; by the "
                f"list {expected} ms"
            )

    def _expected(self, machine: str, user: str, client: str, size_bytes: int, now_ms: int) -> int:
        found = counts_for(self._quotas, user, client)
        if found is None:
            return 0
        limit, *sharers = found
        samples = self._used.setdefault((machine, *sharers), [])
        if not samples or now_ms - samples[-1][0][0] >= 1000:
            samples.append([])
        samples[-1].append((now_ms, size_bytes))
        return wait_of(samples, limit, now_ms)


def _request(entity: Entity, limit: int | None) -> AlterClientQuotasRequest:
    named = [
        EntityDataInRequest(entity_type=kind, entity_name=name)
        for kind, name in (("user", entity[0]), ("client-id", entity[1]))
        if name != ABSENT
    ]
    change = OpData(key=KEY, value=float(limit or 0), remove=limit is None)
    return AlterClientQuotasRequest(entries=[EntryDataInRequest(entity=named, ops=[change])])


async def _ask(
    broker: Broker, session: Session, client_id: str, key: int, version: int, request: Any,
    size_bytes: int = 0,
) -> Any:  # fmt: skip
    """The answer at the broker's listener for clients, to a frame of at least this size."""
    answered = asyncio.get_running_loop().create_future()
    frame = b"".join(encode_request(key, version, 1, client_id, request))[4:]
    frame += bytes(max(size_bytes - len(frame), 0))
    side = broker.roles.client_listener_type
    broker.components.dispatchers[side].dispatch(
        memoryview(frame), NoConnection(session), answered.set_result
    )
    chunks = await asyncio.wait_for(answered, ANSWER_S)
    return decode_response(key, version, b"".join(chunks)[4:])[1]
