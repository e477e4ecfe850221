"""Topics that come into being because somebody asked for them.

In: a topic's description. Out: at most one request to the active controller per topic at a time.
Never: a handler that waits; its client is told LEADER_NOT_AVAILABLE and asks again.
"""

from __future__ import annotations

import logging

from broker.clock.port import Clock, TaskHandle
from broker.controller.decisions.topics import NewTopic
from broker.peer.controller_link import ControllerLink
from broker.peer.errors import PeerError, making_sense_of
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey

log = logging.getLogger("broker.handlers")

MAX_WAITING = 100
"""Topics being created at a time: a client that asks for a thousand names gets them in turns."""

TIMEOUT_MS = 10_000
"""For one creation, an election of the controller included."""

REMEMBER_REFUSALS_S = 5.0
"""A client asks again every 100 ms; the controller need not refuse it each time."""


class AutoTopics:
    """Creations under way, from this broker.

    Invariant: a name is in `_tasks` while its request is under way.
    """

    def __init__(self, clock: Clock, link: ControllerLink) -> None:
        self._clock = clock
        self._link = link
        self._tasks: dict[str, TaskHandle] = {}
        self._refused: dict[str, tuple[float, ErrorCode]] = {}

    def ask(self, topic: NewTopic) -> ErrorCode:
        """See that it is created; what to tell the client meanwhile."""
        until, error = self._refused.get(topic.name, (0.0, ErrorCode.NONE))
        if until > self._clock.monotonic():
            return error
        if topic.name not in self._tasks and len(self._tasks) < MAX_WAITING:
            self._tasks[topic.name] = self._clock.spawn(self._create(topic), name="topic creation")
        return ErrorCode.LEADER_NOT_AVAILABLE

    async def _create(self, topic: NewTopic) -> None:
        try:
            answer = await self._link.request(
                ApiKey.CREATE_TOPICS, _request(topic), timeout_ms=TIMEOUT_MS
            )
            with making_sense_of("the controller"):
                self._took(topic.name, ErrorCode.of(answer.topics[0].error_code))
        except PeerError as error:
            log.info("topic %s was not created: %s", topic.name, error)
        finally:
            self._tasks.pop(topic.name, None)

    def _took(self, name: str, error: ErrorCode) -> None:
        now = self._clock.monotonic()
        self._refused = {held: entry for held, entry in self._refused.items() if entry[0] > now}
        if error and error is not ErrorCode.TOPIC_ALREADY_EXISTS and not error.retriable:
            log.info("topic %s was not created: %s", name, error.name)
            self._refused[name] = (now + REMEMBER_REFUSALS_S, error)


def _request(topic: NewTopic) -> object:
    # Imported at the first use: a broker that is alone asks nobody.
    from bus.protocol.generated.create_topics import (
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=[
                    CreatableTopicConfig(name=name, value=value)
                    for name, value in topic.configs.items()
                ],
            )
        ],
        timeout_ms=TIMEOUT_MS,
    )
