"""Requests of a client that may do nothing, or everything: what each API really asks for, and that a
refusal is heeded.

Requests of every API name a topic and a group that exist; what else is in them is drawn. The nodes'
own requests come from other addresses and are allowed.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import suppress
from typing import Any

import pytest

from broker.controller.decisions.delegation_tokens import TokenLimits, WantedToken, create_token
from broker.handlers.registry import SERVED, is_served, version_range
from broker.metadata.image import MetadataImage
from broker.security.authorizer import Operation, Resource
from broker.security.principal import Principal
from broker.security.resource_operations import ResourceOperation
from broker.security.security_protocol import SecurityProtocol
from broker.security.session import Session
from broker.server.broker import Broker
from bus.errors import BusError, CloseConnection
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.frames import encode_request
from bus.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from tests.bus.protocol.conftest import Codec, Maker, all_codecs
from tests.simulation.cluster import SimCluster
from tests.simulation.test_random_requests import AbortedConnection
from tests.simulation.world import SimWorld

TOPIC, GROUP = "kept", "watchers"
ATTEMPTS = 60
"""Until an API has been asked with at least one topic, group or resource."""

FOREVER_MS = 1 << 62
TOPIC_FIELDS = ("name", "topic", "topic_name", "topics_names")
GROUP_FIELDS = ("group_id", "group", "groups", "groups_names")


class AskedAuthorizer:
    """Remembers what the handlers of each API ask for a client of `10.1.…`, whose last two bytes are
    the key of the API."""

    def __init__(self, is_allowed: bool) -> None:
        self._is_allowed = is_allowed
        self.asked: dict[int, set[ResourceOperation]] = defaultdict(set)

    def attach(self, broker: Broker) -> None:
        """All copies of the broker's services hold this one authorizer."""
        dispatcher: Any = next(iter(broker.components.dispatchers.values()))
        authorizer: Any = dispatcher._services.authorizer
        authorizer.authorize = self.authorize
        authorizer.authorize_by_resource_type = self.authorize_by_resource_type
        authorizer.allowed_operations = lambda *_: 0  # describes permissions, and asks for none

    def authorize(
        self, principal: Principal, host: str, operation: Operation, resource: Resource, name: str,
        *, is_reported: bool = True,
    ) -> bool:  # fmt: skip
        return self.authorize_by_resource_type(principal, host, operation, resource)

    def authorize_by_resource_type(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool:
        if not host.startswith("10.1."):
            return True
        high, low = map(int, host.split(".")[2:])
        self.asked[high * 256 + low].add(ResourceOperation(operation, resource))
        return self._is_allowed


def name_what_exists(asked: object, dice: random.Random) -> None:
    """Topic and group of the cluster, in every version's fields, and partition 0."""
    for name in getattr(asked, "__struct_fields__", ()):
        held = getattr(asked, name)
        if name in TOPIC_FIELDS and isinstance(held, str):
            setattr(asked, name, TOPIC)
        elif name in GROUP_FIELDS and isinstance(held, str):
            setattr(asked, name, GROUP)
        elif name in ("partition", "partition_index", "index") and isinstance(held, int):
            setattr(asked, name, 0)
        elif name in ("resource_type", "key_type", "endpoint_type"):
            setattr(asked, name, dice.choice((0, 1, 2, 4, 32)))
        elif name == "replica_id":
            setattr(asked, name, dice.choice((-1, 1)))
        elif isinstance(held, list):
            if name in GROUP_FIELDS and held and isinstance(held[0], str):
                held[:] = [GROUP]
            for one in held:
                name_what_exists(one, dice)
        else:
            name_what_exists(held, dice)


def logged_in(host: str) -> Session:
    """Without a login nobody may ask for tokens, whatever the ACLs say."""
    session = Session(host, protocol=SecurityProtocol.SASL_PLAINTEXT)
    session.on_mechanism_chosen()
    session.on_authenticated(Principal("User", "stranger"))
    return session


class Stranger:
    """Sends requests from an address that no node has."""

    def __init__(self, broker: Broker, dice: random.Random, requests: dict[str, Codec]) -> None:
        self._broker, self._dice, self._requests = broker, dice, requests
        self.stumbled: list[str] = []

    def send(self, key: int) -> None:
        version = self._dice.randint(*version_range(key))
        request = Maker(self._dice, small=True).message(
            self._requests[f"{APIS[key].name}Request"], version
        )
        name_what_exists(request, self._dice)
        try:
            frame = b"".join(encode_request(key, version, 1, "x", request))[4:]
        except (ValueError, TypeError):
            return  # a mixture that no client can encode
        session = logged_in(f"10.1.{key // 256}.{key % 256}")
        connection = AbortedConnection(session, lambda: self.stumbled.append(APIS[key].name))
        for side in self._broker.roles.listener_types:
            if is_served(key, side):
                with suppress(CloseConnection, BusError):
                    self._broker.components.dispatchers[side].dispatch(
                        memoryview(frame), connection, lambda _: None
                    )


async def create_token_of_another(broker: Broker) -> None:
    """Its owner is no user of this test; whether a stranger sees it is asked."""
    owner = Principal("User", "another")
    made: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    asked = WantedToken(owner, owner, (), -1)
    broker.components.controller.write(
        lambda _: create_token(asked, "an-id", TokenLimits(FOREVER_MS, FOREVER_MS), 0),
        made.set_result,
    )
    await made


async def create_topic(broker: Broker) -> None:
    side = broker.roles.controller_listener_type
    asked = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
    answer = broker.components.dispatchers[side].call(
        ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[asked])
    )
    assert (await answer).topics[0].error_code == 0


def state_of(broker: Broker) -> tuple[object, ...]:
    """What a request could change: metadata but for what the cluster itself appends, logs,
    committed offsets."""
    image: MetadataImage = broker.components.metadata.image
    coordinators = broker.components.coordinators
    return (
        dict(image.topics), dict(image.configs), dict(image.features), dict(image.client_quotas),
        dict(image.acls), image.next_producer_id, sorted(image.brokers),
        {one.key: (one.log.log_start_offset, one.log.end_offset)
         for one in broker.components.replicas.partitions()},
        coordinators.groups.offsets_of(GROUP), [one.group_id for one in coordinators.groups.groups()],
    )  # fmt: skip


@pytest.mark.parametrize("is_allowed", [False, True], ids=["denied", "allowed"])
@pytest.mark.parametrize("controller", ["alone", "kraft", "zookeeper"])
def test_each_api_asks_for_what_its_row_says_and_a_denied_client_changes_nothing(
    controller: str, is_allowed: bool, dice: random.Random, seed: int
) -> None:
    """Denied, every API that is served here has asked for something, and nothing has happened."""
    requests = {codec.message.name: codec for codec in all_codecs()}
    world = SimWorld(seed)
    properties = {"mirror.listener.name": "MIRROR", "delegation.token.secret.key": "key"}
    cluster = SimCluster(world, 1 if controller == "alone" else 3, controller, properties)
    authorizer = AskedAuthorizer(is_allowed)
    stumbled: list[str] = []
    served: set[int] = set()

    async def story() -> None:
        cluster.start()
        count = len(cluster.machines)
        assert await world.until(lambda: len(cluster.serving()) == count, 60)
        brokers = [broker for _, broker in cluster.serving()]
        active = next(one for one in brokers if one.components.controller.is_active)
        await create_topic(active)
        await create_token_of_another(active)
        await asyncio.sleep(5)
        before = [state_of(one) for one in brokers]
        for one in brokers:
            authorizer.attach(one)
        stranger = Stranger(active, dice, requests)
        for key in SERVED:
            if not any(is_served(key, side) for side in active.roles.listener_types):
                continue
            served.add(key)
            for attempt in range(ATTEMPTS):
                if attempt and (is_allowed or authorizer.asked[key]):
                    break
                stranger.send(key)
                await asyncio.sleep(0.01)
        await asyncio.sleep(5)
        stumbled.extend(stranger.stumbled)
        if not is_allowed:
            assert [state_of(one) for one in brokers] == before

    world.run(story())
    world.end()
    assert stumbled == [], f"seed {seed}"
    for key in served:
        asked, row = authorizer.asked[key], set(SERVED[key].asks)
        assert asked <= row, APIS[key].name
        assert is_allowed or bool(asked) == bool(row), APIS[key].name
