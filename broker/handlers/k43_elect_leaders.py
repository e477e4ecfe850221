"""ElectLeaders (43).

Behaviour: elects preferred replicas, or, with the unclean type, any replica of a partition without
a leader. Without a list all partitions are considered, and the response names only those that
needed an election. Answered when the elections are committed.

Versions: 0-2. 1 has the election type and an error for all.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.controller.decisions.elections import ElectionResult, elect_leaders
from broker.controller.decisions.partition_change import Election
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse | None:
    """Ask the controller."""
    if not context.is_authorized(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        context.reply_error(ApiKey.ELECT_LEADERS, request, refused)
        return None
    wanted = None
    if request.topic_partitions is not None:
        wanted = [
            (topic.topic, index) for topic in request.topic_partitions for index in topic.partitions
        ]
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        error, message = ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
        response = _response([ElectionResult(*one, error, message) for one in wanted or ()])
        response.error_code = error
        return response
    rules = PartitionPolicy.of(context.services.metadata.config)
    context.services.control_plane.controller.write(
        lambda image: elect_leaders(image, rules, election, wanted),
        lambda results: context.reply(_response(results)),
        lambda error: context.reply_error(ApiKey.ELECT_LEADERS, request, error),
    )
    return None


def _response(results: Sequence[ElectionResult]) -> ElectLeadersResponse:
    topics: dict[str, list[PartitionResult]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(
            PartitionResult(
                partition_id=result.index,
                error_code=result.error,
                error_message=result.message or (result.error.text if result.error else None),
            )
        )
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=name, partition_result=partitions)
            for name, partitions in topics.items()
        ]
    )
