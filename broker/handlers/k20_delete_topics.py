"""DeleteTopics (20).

Behaviour: removes topics by name, from version 6 on also by id; a topic created again under the
same name has another id. Name and id together are refused: a client that deletes by id would
otherwise lose a newer topic of that name. Refused altogether where `delete.topic.enable` is false.

Versions: 1-6. 5 has error messages, and a client over its quota is refused from it on, 6 has topic
ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from broker.controller.decisions.topics import TopicResult, delete_topics
from broker.handlers.context import RequestContext
from broker.handlers.mutation_charge import MutationCharge
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from bus.protocol.wire import NO_UUID

FIRST_STRICT_VERSION = 5
FIRST_STATE_VERSION = 6


def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse | None:
    """Ask the controller."""
    states = _states(request, context)
    faults = [fault for fault in map(_fault, states) if fault is not None] + _repeated(states)
    names, ids = _once(states)
    image = context.services.control_plane.controller.image
    if not context.services.metadata.config["delete.topic.enable"]:
        disabled = _all_failed(names, ids, ErrorCode.TOPIC_DELETION_DISABLED)
        return DeleteTopicsResponse(responses=disabled + faults)
    named = {topic_id: image.topic_by_id(topic_id) for topic_id in ids}
    allowed = [name for name in names if _may_delete(name, context)]
    allowed_ids = [
        topic_id
        for topic_id, topic in named.items()
        if topic is None or _may_delete(topic.name, context)
    ]
    refused = _all_failed(
        [name for name in names if name not in allowed], [], ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ) + [
        _refused_by_id(topic.name, topic_id, context)
        for topic_id, topic in named.items()
        if topic is not None and topic_id not in allowed_ids
    ]

    charge = MutationCharge(context, FIRST_STRICT_VERSION)

    def done(results: tuple[TopicResult, ...]) -> None:
        charge.finish()
        deleted = [_result(result) for result in results]
        context.reply(DeleteTopicsResponse(responses=deleted + refused + faults))

    context.services.control_plane.controller.write(
        lambda newest: delete_topics(newest, allowed, allowed_ids, charge),
        done,
        lambda error: context.reply_error(ApiKey.DELETE_TOPICS, request, error),
    )
    return None


def _may_delete(name: str, context: RequestContext) -> bool:
    """All topics of the cluster, or this one, which the client may also see."""
    if context.is_authorized(
        Operation.DELETE, Resource.CLUSTER, CLUSTER_NAME, is_reported=False
    ):
        return True
    return context.is_authorized(
        Operation.DESCRIBE, Resource.TOPIC, name
    ) and context.is_authorized(Operation.DELETE, Resource.TOPIC, name)


def _refused_by_id(name: str, topic_id: bytes, context: RequestContext) -> DeletableTopicResult:
    """With its name for a client that may see the topic."""
    is_seen = context.is_authorized(Operation.DESCRIBE, Resource.TOPIC, name, is_reported=False)
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DeletableTopicResult(
        name=name if is_seen else None,
        topic_id=topic_id,
        error_code=error,
        error_message=error.text,
    )


def _states(request: DeleteTopicsRequest, context: RequestContext) -> list[DeleteTopicState]:
    if context.api_version < FIRST_STATE_VERSION:
        return [DeleteTopicState(name=name) for name in request.topic_names]
    return request.topics


def _fault(state: DeleteTopicState) -> DeletableTopicResult | None:
    """The error of one entry on its own."""
    if state.name is not None and state.topic_id != NO_UUID:
        message = "You may not specify both topic name and topic id."
    elif state.name is None and state.topic_id == NO_UUID:
        message = "Neither topic name nor id were specified."
    else:
        return None
    return _invalid(state.name, state.topic_id, message)


def _repeated(states: Sequence[DeleteTopicState]) -> list[DeletableTopicResult]:
    """One result for each name or id that is given more than once."""
    counted = Counter(_key(state) for state in states if _fault(state) is None)
    return [
        _invalid(None, key, "Duplicate topic id.")
        if isinstance(key, bytes)
        else _invalid(key, NO_UUID, "Duplicate topic name.")
        for key, count in counted.items()
        if count > 1
    ]


def _once(states: Sequence[DeleteTopicState]) -> tuple[list[str], list[bytes]]:
    """Names and ids that are given exactly once."""
    counted = Counter(_key(state) for state in states if _fault(state) is None)
    once = [key for key, count in counted.items() if count == 1]
    return (
        [key for key in once if isinstance(key, str)],
        [key for key in once if isinstance(key, bytes)],
    )


def _key(state: DeleteTopicState) -> str | bytes:
    return state.topic_id if state.name is None else state.name


def _invalid(name: str | None, topic_id: bytes, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=message,
    )


def _result(result: TopicResult) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_code=result.error,
        error_message=result.message,
    )


def _all_failed(names: list[str], ids: list[bytes], error: ErrorCode) -> list[DeletableTopicResult]:
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
    return by_name + by_id
