"""Error responses to whole requests: of each API that the controller serves, and where a refusal
names items.

The response has the error for every item of the request; partial responses are the handlers' own.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey, api

BuildError = Callable[[object, object, ErrorCode], object]


def error_response(key: int, request: object, error: ErrorCode) -> object:
    """The response to `request` with `error`; in an API without items, at its top level."""
    module = import_module(f"bus.protocol.generated.{api(key).module_name}")
    return _BY_ITEM.get(key, _at_the_top)(module, request, error)


def _at_the_top(module: object, request: object, error: ErrorCode) -> object:
    response_type = next(
        found
        for name, found in vars(module).items()
        if name.endswith("Response") and name.lower() == _response_name(module)
    )
    response = response_type(error_code=error)
    if hasattr(response, "error_message"):
        response.error_message = error.text
    return response


def _response_name(module: Any) -> str:
    return str(module.__name__).rpartition(".")[2].replace("_", "") + "response"


def _create_topics(module: Any, request: Any, error: ErrorCode) -> object:
    return module.CreateTopicsResponse(
        topics=[
            module.CreatableTopicResult(name=topic.name, error_code=error, error_message=error.text)
            for topic in request.topics
        ]
    )


def _delete_topics(module: Any, request: Any, error: ErrorCode) -> object:
    named = [(topic.name, topic.topic_id) for topic in request.topics]
    named += [(name, bytes(16)) for name in request.topic_names]
    return module.DeleteTopicsResponse(
        responses=[
            module.DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=error, error_message=error.text
            )
            for name, topic_id in named
        ]
    )


def _create_partitions(module: Any, request: Any, error: ErrorCode) -> object:
    return module.CreatePartitionsResponse(
        results=[
            module.CreatePartitionsTopicResult(
                name=topic.name, error_code=error, error_message=error.text
            )
            for topic in request.topics
        ]
    )


def _configs(response_name: str) -> BuildError:
    def build(module: Any, request: Any, error: ErrorCode) -> object:
        return getattr(module, response_name)(
            responses=[
                module.AlterConfigsResourceResponse(
                    error_code=error,
                    error_message=error.text,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in request.resources
            ]
        )

    return build


def _client_quotas(module: Any, request: Any, error: ErrorCode) -> object:
    return module.AlterClientQuotasResponse(
        entries=[
            module.EntryDataInResponse(
                error_code=error,
                error_message=error.text,
                entity=[
                    module.EntityDataInResponse(
                        entity_type=one.entity_type, entity_name=one.entity_name
                    )
                    for one in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def _create_acls(module: Any, request: Any, error: ErrorCode) -> object:
    result = module.AclCreationResult(error_code=error, error_message=error.text)
    return module.CreateAclsResponse(results=[result] * len(request.creations))


def _delete_acls(module: Any, request: Any, error: ErrorCode) -> object:
    result = module.DeleteAclsFilterResult(error_code=error, error_message=error.text)
    return module.DeleteAclsResponse(filter_results=[result] * len(request.filters))


def _elections(module: Any, request: Any, error: ErrorCode) -> object:
    """With the error of the whole, which version 0 cannot say."""
    return module.ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            module.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    module.PartitionResult(
                        partition_id=index, error_code=error, error_message=error.text
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _reassignments(module: Any, request: Any, error: ErrorCode) -> object:
    return module.AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=error.text,
        responses=[
            module.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    module.ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=error,
                        error_message=error.text,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _scram_credentials(module: Any, request: Any, error: ErrorCode) -> object:
    """One result for each user, none of them named, as Kafka does."""
    result = module.DescribeUserScramCredentialsResult(error_code=error, error_message=error.text)
    return module.DescribeUserScramCredentialsResponse(
        error_code=error,
        error_message=error.text,
        results=[result] * len(request.users or ()),
    )


def _altered_credentials(module: Any, request: Any, error: ErrorCode) -> object:
    users = dict.fromkeys(one.name for one in (*request.deletions, *request.upsertions))
    return module.AlterUserScramCredentialsResponse(
        results=[module.AlterUserScramCredentialsResult(user, error, error.text) for user in users]
    )


_BY_ITEM: dict[int, BuildError] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_CONFIGS: _configs("AlterConfigsResponse"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs("IncrementalAlterConfigsResponse"),
    ApiKey.ALTER_CLIENT_QUOTAS: _client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _altered_credentials,
    ApiKey.ELECT_LEADERS: _elections,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassignments,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _scram_credentials,
}
