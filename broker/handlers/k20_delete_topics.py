"""DeleteTopics (20).

Behaviour: removes topics by name, from version 6 on also by id; a topic made again under the same
name has another id. Refused altogether where `delete.topic.enable` is false.

Versions: 1-6. 5 has error messages, 6 topic ids.
"""

from __future__ import annotations

from broker.controller.decisions.topics import TopicResult, delete_topics
from broker.handlers.context import RequestContext
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

FIRST_STATE_VERSION = 6


def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse | None:
    """Ask the controller."""
    names, ids = _asked(request, context)
    image = context.services.controller.image
    if not context.services.config["delete.topic.enable"]:
        return _all_failed(names, ids, ErrorCode.TOPIC_DELETION_DISABLED)
    named = {topic_id: image.topic_by_id(topic_id) for topic_id in ids}
    allowed = [name for name in names if context.may(Operation.DELETE, Resource.TOPIC, name)]
    allowed_ids = [
        topic_id
        for topic_id, topic in named.items()
        if topic is None or context.may(Operation.DELETE, Resource.TOPIC, topic.name)
    ]
    refused = _all_failed(
        [name for name in names if name not in allowed],
        [topic_id for topic_id in ids if topic_id not in allowed_ids],
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ).responses

    def done(results: tuple[TopicResult, ...]) -> None:
        deleted = [_result(result) for result in results]
        context.reply(DeleteTopicsResponse(responses=deleted + refused))

    context.services.controller.write(
        lambda newest: delete_topics(newest, allowed, allowed_ids),
        done,
        lambda error: context.refuse(ApiKey.DELETE_TOPICS, request, error),
    )
    return None


def _asked(
    request: DeleteTopicsRequest, context: RequestContext
) -> tuple[list[str], list[bytes]]:
    if context.api_version < FIRST_STATE_VERSION:
        return list(dict.fromkeys(request.topic_names)), []
    names = [state.name for state in request.topics if state.name is not None]
    ids = [state.topic_id for state in request.topics if state.name is None]
    return list(dict.fromkeys(names)), list(dict.fromkeys(ids))


def _result(result: TopicResult) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_code=result.error,
        error_message=result.message,
    )


def _all_failed(
    names: list[str], ids: list[bytes], error: ErrorCode
) -> DeleteTopicsResponse:
    by_name = [
        DeletableTopicResult(name=name, error_code=error, error_message=error.text)
        for name in names
    ]
    by_id = [
        DeletableTopicResult(
            name=None, topic_id=topic_id, error_code=error, error_message=error.text
        )
        for topic_id in ids
    ]
    return DeleteTopicsResponse(responses=by_name + by_id)
