"""DeleteGroups (42).

Behaviour: removes groups without members, with everything they committed.

Versions: 0-3. 3 has a message per group, which is null here: every error of ours says all of it.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.handlers.context import RequestContext
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse | None:
    """Delete each group; respond when all tombstones are stored."""
    names = list(dict.fromkeys(request.groups_names))
    results = [DeletableGroupResult(group_id=name) for name in names]
    left = len(results)
    if not left:
        return DeleteGroupsResponse()

    def done_with(result: DeletableGroupResult) -> Callable[[ErrorCode], None]:
        def done(error: ErrorCode) -> None:
            nonlocal left
            result.error_code = error
            left -= 1
            if not left:
                context.reply(DeleteGroupsResponse(results=results))

        return done

    for result in results:
        done = done_with(result)
        if context.is_authorized(Operation.DELETE, Resource.GROUP, result.group_id):
            context.services.coordinators.groups.delete(result.group_id, done)
        else:
            done(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return None
