"""CreatePartitions (37).

Behaviour: raises the number of partitions of topics; each topic succeeds or fails for itself.

Versions: 0-3. From 3 on a client over its quota is refused.
"""

from __future__ import annotations

from broker.controller.decisions.create_partitions import NewPartitions, create_partitions
from broker.controller.decisions.topics import TopicResult
from broker.handlers.context import RequestContext
from broker.handlers.mutation_charge import MutationCharge
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

FIRST_STRICT_VERSION = 3


def handle(request: CreatePartitionsRequest, context: RequestContext) -> None:
    """Ask the controller."""
    services = context.services
    refused = [
        CreatePartitionsTopicResult(
            name=topic.name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
        for topic in request.topics
        if not context.is_authorized(Operation.ALTER, Resource.TOPIC, topic.name)
    ]
    growths = [
        _growth(topic)
        for topic in request.topics
        if context.is_authorized(Operation.ALTER, Resource.TOPIC, topic.name)
    ]
    start = services.clock.random.randrange(0, max(len(services.metadata.image.brokers), 1))

    charge = MutationCharge(context, FIRST_STRICT_VERSION)

    def done(results: tuple[TopicResult, ...]) -> None:
        charge.finish()
        grown = [
            CreatePartitionsTopicResult(
                name=result.name or "", error_code=result.error, error_message=result.message
            )
            for result in results
        ]
        context.reply(CreatePartitionsResponse(results=grown + refused))

    services.control_plane.controller.write(
        lambda image: create_partitions(
            image, growths, services.topic_creation.defaults(), start, request.validate_only,
            charge,
        ),
        done,
        lambda error: context.reply_error(ApiKey.CREATE_PARTITIONS, request, error),
    )


def _growth(topic: CreatePartitionsTopic) -> NewPartitions:
    given = topic.assignments
    assignments = None if given is None else tuple(tuple(one.broker_ids) for one in given)
    return NewPartitions(topic.name, topic.count, assignments)
