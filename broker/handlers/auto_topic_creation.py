"""Creates topics on their first use.

Sends at most one request to the active controller per topic at a time. Handlers do not wait for it;
their clients get LEADER_NOT_AVAILABLE and retry.
"""

from __future__ import annotations

import logging

from broker.clock.port import Clock, TaskHandle
from broker.controller.decisions.topics import NewTopic
from broker.peer.controller_channel import ControllerChannel
from bus.client.wire.errors import PeerError, decoding_response
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey

log = logging.getLogger("broker.handlers")

MAX_WAITING = 100
"""Topics being created at a time: a client that names a thousand topics gets them in several
rounds."""

TIMEOUT_MS = 10_000
"""For one creation, including an election of the controller."""

REMEMBER_REFUSALS_S = 5.0
"""A client retries every 100 ms; the controller need not refuse it each time."""


class AutoTopicCreation:
    """Topic creations of this broker that are under way.

    Invariant: a name is in `_tasks` while its request is under way.
    """

    def __init__(self, clock: Clock, link: ControllerChannel) -> None:
        self._clock = clock
        self._link = link
        self._tasks: dict[str, TaskHandle] = {}
        self._refused: dict[str, tuple[float, ErrorCode]] = {}

    def request(self, topic: NewTopic) -> ErrorCode:
        """Request the creation unless it is under way; the error for the client meanwhile."""
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
            with decoding_response("the controller"):
                self._on_response(topic.name, ErrorCode.of(answer.topics[0].error_code))
        except PeerError as error:
            log.info("topic %s was not created: %s", topic.name, error)
        finally:
            self._tasks.pop(topic.name, None)

    def _on_response(self, name: str, error: ErrorCode) -> None:
        now = self._clock.monotonic()
        self._refused = {held: entry for held, entry in self._refused.items() if entry[0] > now}
        if error and error is not ErrorCode.TOPIC_ALREADY_EXISTS and not error.retriable:
            log.info("topic %s was not created: %s", name, error.name)
            self._refused[name] = (now + REMEMBER_REFUSALS_S, error)


def _request(topic: NewTopic) -> object:
    # Imported at the first use: a broker that is alone sends no requests.
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
