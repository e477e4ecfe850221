"""CreateTopics (19).

Behaviour: each topic succeeds or fails for itself; answered when the records are committed. From
version 5 on the answer shows the new topic's configuration.

Versions: 2-7. 4 allows -1 for the cluster's defaults, 5 shows configurations, from 6 on a client
over its quota is refused, 7 has topic ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from broker.controller.decisions.topics import NewTopic, TopicResult
from broker.handlers.configs import DescribedConfig, topic_entries
from broker.handlers.context import RequestContext
from broker.handlers.mutation_charge import MutationCharge
from broker.handlers.preconditions import may_create
from broker.handlers.topics import create
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

FIRST_STRICT_VERSION = 6


def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse | None:
    """Ask the controller."""
    allowed, refused = [], []
    for topic in request.topics:
        if may_create(context, topic.name):
            allowed.append(_asked(topic))
        else:
            refused.append(_refused(topic.name))
    given = {topic.name: topic.configs for topic in allowed}
    charge = MutationCharge(context, FIRST_STRICT_VERSION)

    def done(results: tuple[TopicResult, ...]) -> None:
        charge.finish()
        made = [_result(result, given, context) for result in results]
        context.reply(CreateTopicsResponse(topics=made + refused))

    create(
        context.services,
        allowed,
        done,
        request.validate_only,
        lambda error: context.reply_error(ApiKey.CREATE_TOPICS, request, error),
        charge,
    )
    return None


def _asked(topic: CreatableTopic) -> NewTopic:
    counted = Counter(given.partition_index for given in topic.assignments)
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={given.partition_index: tuple(given.broker_ids) for given in topic.assignments},
        configs={config.name: config.value for config in topic.configs},
        assigned_twice=next((index for index, count in counted.items() if count > 1), None),
    )


def _refused(name: str) -> CreatableTopicResult:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return CreatableTopicResult(name=name, error_code=error, error_message=error.text)


def _result(
    result: TopicResult, given: dict[str, Mapping[str, str | None]], context: RequestContext
) -> CreatableTopicResult:
    name = result.name or ""
    if result.error:
        return CreatableTopicResult(
            name=name, error_code=result.error, error_message=result.message
        )
    if not context.is_authorized(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, name):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return CreatableTopicResult(
            name=name, topic_id=result.topic_id, error_message=None, topic_config_error_code=error
        )
    overrides = given[name]
    return CreatableTopicResult(
        name=name,
        topic_id=result.topic_id,
        error_message=None,
        num_partitions=result.partitions,
        replication_factor=result.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.key.name,
                value=entry.client_value,
                read_only=entry.read_only,
                config_source=entry.source.value,
                is_sensitive=entry.key.sensitive,
            )
            for entry in _sorted(topic_entries(context.services.metadata.config, overrides))
        ],
    )


def _sorted(entries: Iterable[DescribedConfig]) -> list[DescribedConfig]:
    """As Kafka shows a new topic's configuration: by name."""
    return sorted(entries, key=lambda entry: entry.key.name)
