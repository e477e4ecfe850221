"""ACLs of copied topics and groups, compared and created at the target beside the records.

In: both clusters. Out: ACLs at the target, an `AclStatus`. Cores: `AclSchedule`, `plan_acls`.
Never: a copy of records that waits for it, or a deletion.
"""

from __future__ import annotations

import asyncio
import logging

from bus.client.admin.cluster_admin import ClusterAdmin
from bus.contracts.mirror_status import AclStatus
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.runtime.wall_clock import now_ms
from dr_mirror.acls.plan.acl_schedule import POLL_S, AclSchedule
from dr_mirror.acls.plan.acls import COPIED, MAX_LISTED, AclPlan, AclRules, plan_acls
from dr_mirror.copy.context import CopyContext
from dr_mirror.groups.plan.groups import GroupSelection

log = logging.getLogger(__name__)

CLIENT_ID = "databus-mirror-acls"


class AclCopier:
    """`run` until cancelled. Invariant: `status` is that of the last comparison."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        settings = context.settings
        self._groups = GroupSelection(settings.group_white_list, settings.group_black_list)
        self._source = ClusterAdmin(settings.source_bus, CLIENT_ID)
        self._target = ClusterAdmin(settings.target_bus, CLIENT_ID)
        self._schedule = AclSchedule()
        self.status = AclStatus()

    async def run(self) -> None:
        """Compare again and again."""
        clock = self._context.clock
        while True:
            await clock.sleep(POLL_S)
            copied = self._context.copied.names
            if not self._schedule.is_due(copied, clock.monotonic()):
                continue
            self._schedule.begin(copied, clock.monotonic())
            try:
                self.status = await asyncio.to_thread(self._compare, copied)
            except BusError as error:
                self._on_error(error)

    def close(self) -> None:
        """Close the connections."""
        self._source.close()
        self._target.close()

    def _compare(self, copied: frozenset[str]) -> AclStatus:
        """Raises BusError."""
        both = (self._source, self._target)
        if not all(admin.supports(ApiKey.CREATE_ACLS) for admin in both):
            return AclStatus()
        rules = AclRules(
            copied, self._groups.selects, self._context.names,
            others_write=self._context.settings.target_api == "mirror_append",
        )  # fmt: skip
        plan = plan_acls(self._source.acls(COPIED), self._target.acls(COPIED), rules)
        if plan.create:
            self._target.create_acls(plan.create)
            log.info("mirror: %d ACLs were created at the target", len(plan.create))
        return _status(plan)

    def _on_error(self, error: BusError) -> None:
        if error.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE:
            return  # the next comparison tells
        if error.code is ErrorCode.SECURITY_DISABLED and "authorizer" in error.detail.lower():
            self.status = AclStatus()  # one side allows everything to everybody
            return
        if str(error) != self.status.problem:
            log.warning("mirror: ACLs are not carried: %s", error)
        self.status = AclStatus(
            carried=self.status.carried, by_hand=self.status.by_hand,
            only_at_target=self.status.only_at_target, problem=str(error), at_ms=self.status.at_ms,
        )  # fmt: skip


def _status(plan: AclPlan) -> AclStatus:
    return AclStatus(
        carried=plan.replicated,
        by_hand=tuple(each.text for each in plan.by_hand[:MAX_LISTED]),
        only_at_target=tuple(each.text for each in plan.only_at_target[:MAX_LISTED]),
        at_ms=now_ms(),
    )
