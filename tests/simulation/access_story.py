"""A cluster whose ACLs change while strangers ask: what each is told, beside a plain list of the ACLs.

In: a seed, the kind of controller. Out: what was answered otherwise than the list says. Every broker
is asked the same questions again and again, so that it has decided each before; a second after the
answer to a change they must have the new answers. Never: the broker's own index, or its messages
about permissions.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from broker.config.keys_controller import STANDARD_AUTHORIZER, ZOOKEEPER_AUTHORIZER
from broker.handlers.connection_control import NoConnection
from broker.security.principal import ANONYMOUS, Principal
from broker.security.session import Session
from broker.server.broker import Broker
from bus.errors import ErrorCode
from bus.protocol.acls import (
    CLUSTER_NAME,
    AclBinding,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.frames import decode_response, encode_request
from bus.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityDataInRequest,
    EntryDataInRequest,
)
from bus.protocol.generated.create_acls import AclCreation, CreateAclsRequest
from bus.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from bus.protocol.generated.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from bus.protocol.generated.delete_groups import DeleteGroupsRequest
from bus.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from bus.protocol.generated.describe_acls import DescribeAclsRequest
from bus.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from bus.protocol.generated.heartbeat import HeartbeatRequest
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.security.speakers import Speaker
from tests.simulation.cluster import SimCluster
from tests.simulation.world import SimWorld

CHANGES = 12
KNOWN_WITHIN_S = 1.0
ANSWER_S = 30.0
TOPIC, GROUP = "kept", "watchers"
REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
_IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
Permitted = tuple[Operation, Resource, str]


class Question(NamedTuple):
    """A request, where its answer has the error, and permissions of which one does."""

    key: int
    version: int
    request: Any
    error: Callable[[Any], int]
    needs: tuple[Permitted, ...]


STRANGERS = [Speaker(f"User:{name}", host) for name in ("alice", "bob") for host in ("10.1.0.1", "10.1.0.2")]
NAMES = {Resource.TOPIC: (TOPIC, "ke", "*"), Resource.GROUP: (GROUP, "*"), Resource.CLUSTER: (CLUSTER_NAME,)}
WORDS = {
    Resource.TOPIC: ("ALL", "DESCRIBE", "READ", "DELETE", "CREATE"),
    Resource.GROUP: ("ALL", "READ", "DELETE"),
    Resource.CLUSTER: ("ALL", "DESCRIBE", "CREATE", "ALTER_CONFIGS"),
}


def questions() -> Iterator[Question]:
    """Answered where they are asked, and forwarded to the controller."""
    topic, group, cluster = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER
    yield Question(
        ApiKey.METADATA, 12,
        MetadataRequest([MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False),
        lambda answer: answer.topics[0].error_code, ((Operation.DESCRIBE, topic, TOPIC),),
    )
    yield Question(
        ApiKey.FETCH, 12, FetchRequest(session_epoch=-1, max_wait_ms=0, topics=[
            FetchTopic(topic=TOPIC, partitions=[FetchPartition(0, partition_max_bytes=1000)])]),
        lambda answer: answer.responses[0].partitions[0].error_code,
        ((Operation.READ, topic, TOPIC),),
    )
    yield Question(
        ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(timeout_ms=1000, topics=[
            DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 0)])]),
        lambda answer: answer.topics[0].partitions[0].error_code,
        ((Operation.DELETE, topic, TOPIC),),
    )
    yield Question(
        ApiKey.HEARTBEAT, 4, HeartbeatRequest(GROUP, 1, "nobody"),
        lambda answer: answer.error_code, ((Operation.READ, group, GROUP),),
    )
    yield Question(
        ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([GROUP]),
        lambda answer: answer.results[0].error_code, ((Operation.DELETE, group, GROUP),),
    )
    yield Question(
        ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(2, None, 1, None, None, 1, 1),
        lambda answer: answer.error_code, ((Operation.DESCRIBE, cluster, CLUSTER_NAME),),
    )
    yield Question(
        ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(validate_only=True, topics=[
            CreatableTopic(name="kept-2", num_partitions=1, replication_factor=1)]),
        lambda answer: answer.topics[0].error_code,
        ((Operation.CREATE, cluster, CLUSTER_NAME), (Operation.CREATE, topic, "kept-2")),
    )
    yield Question(
        ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest(validate_only=True, entries=[
            EntryDataInRequest(entity=[EntityDataInRequest("user", "u")], ops=[])]),
        lambda answer: answer.entries[0].error_code,
        ((Operation.ALTER_CONFIGS, cluster, CLUSTER_NAME),),
    )  # fmt: skip


QUESTIONS = list(questions())


def is_allowed(
    acls: set[AclBinding], who: Speaker, permission: Permitted, by_default: bool
) -> bool:
    """What Kafka's documentation says of a list of ACLs, one after the other."""
    operation, kind, name = permission
    about = [
        one for one in acls
        if one.resource == kind and (
            name.startswith(one.name) if one.pattern == Pattern.PREFIXED
            else one.name in (name, "*")
        )
    ]  # fmt: skip
    of_client = [
        one for one in about
        if one.principal in (who.principal, "User:*") and one.host in (who.address, "*")
    ]  # fmt: skip
    exactly = {Operation.ALL, operation}
    if any(one.permission == Permission.DENY and one.operation in exactly for one in of_client):
        return False
    enough = exactly | _IMPLIED.get(operation, set())
    if any(one.permission == Permission.ALLOW and one.operation in enough for one in of_client):
        return True
    return not about and by_default


def run_access_story(seed: int, controller: str) -> list[str]:
    """What was wrong."""
    world = SimWorld(seed)
    dice = world.dice_of("access")
    by_default = dice.random() < 0.5
    cluster = SimCluster(world, 3, controller, {
        "authorizer.class.name": ZOOKEEPER_AUTHORIZER if controller == "zookeeper" else STANDARD_AUTHORIZER,
        "super.users": str(ANONYMOUS),
        "allow.everyone.if.no.acl.found": str(by_default).lower(),
    })  # fmt: skip
    story = _Story(world, cluster, dice, by_default)
    world.run(story.run())
    world.end()
    return [*story.wrong, *map(str, world.complaints)]


class _Story:
    """Invariant: `_acls` are those that the cluster has acknowledged, and no others."""

    def __init__(
        self, world: SimWorld, cluster: SimCluster, dice: random.Random, by_default: bool
    ) -> None:
        self._world, self._cluster, self._dice = world, cluster, dice
        self._by_default = by_default
        self._acls: set[AclBinding] = set()
        self.wrong: list[str] = []

    async def run(self) -> None:
        self._cluster.start()
        assert await self._world.until(lambda: len(self._cluster.serving()) == 3, 60)
        asked = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=3)
        made = await self._admin(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([asked]))
        assert made.topics[0].error_code == 0
        await asyncio.sleep(5)
        for _ in range(CHANGES):
            await self._change()
            await asyncio.sleep(KNOWN_WITHIN_S)
            await self._ask_all()

    async def _change(self) -> None:
        """Some ACLs more, or some less; the broker that is asked is drawn."""
        if self._acls and self._dice.random() < 0.4:
            gone = self._dice.sample(sorted(self._acls), min(len(self._acls), 3))
            filters = [DeleteAclsFilter(*one) for one in gone]
            answer = await self._admin(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest(filters))
            assert [len(one.matching_acls) for one in answer.filter_results] == [1] * len(gone)
            self._acls -= set(gone)
            return
        new = [self._drawn() for _ in range(self._dice.randint(1, 4))]
        request = CreateAclsRequest([AclCreation(*one) for one in new])
        answer = await self._admin(ApiKey.CREATE_ACLS, 3, request)
        assert {one.error_code for one in answer.results} == {0}
        self._acls |= set(new)

    def _drawn(self) -> AclBinding:
        dice = self._dice
        kind = dice.choice(list(NAMES))
        name = dice.choice(NAMES[kind])
        pattern = Pattern.PREFIXED if name == "ke" else Pattern.LITERAL
        principal = dice.choice(("User:alice", "User:bob", "User:*"))
        host = dice.choice(("*", "10.1.0.1"))
        permission = Permission.DENY if dice.random() < 0.35 else Permission.ALLOW
        operation = Operation[dice.choice(WORDS[kind])]
        return AclBinding(kind, name, pattern, principal, host, operation, permission)

    async def _ask_all(self) -> None:
        for machine, broker in self._cluster.serving():
            for who in STRANGERS:
                session = Session(who.address, principal=Principal("User", who.principal.removeprefix("User:")))
                for question in QUESTIONS:
                    answer = await _ask(broker, session, question.key, question.version, question.request)
                    error = ErrorCode.of(question.error(answer))
                    expected = any(
                        is_allowed(self._acls, who, one, self._by_default) for one in question.needs
                    )
                    if (error not in REFUSALS) != expected:
                        self.wrong.append(
                            f"{machine.name}: {APIS[question.key].name} of {who} is answered "
                            f"{error.name}; allowed by the list: {expected}"
                        )

    async def _admin(self, key: int, version: int, request: Any) -> Any:
        _, broker = self._dice.choice(self._cluster.serving())
        return await _ask(broker, Session("10.9.0.1"), key, version, request)


async def _ask(broker: Broker, session: Session, key: int, version: int, request: Any) -> Any:
    """The answer at the broker's listener for clients."""
    answered = asyncio.get_running_loop().create_future()
    frame = b"".join(encode_request(key, version, 1, "x", request))[4:]
    side = broker.roles.client_listener_type
    broker.components.dispatchers[side].dispatch(
        memoryview(frame), NoConnection(session), answered.set_result
    )
    chunks = await asyncio.wait_for(answered, ANSWER_S)
    return decode_response(key, version, b"".join(chunks)[4:])[1]
