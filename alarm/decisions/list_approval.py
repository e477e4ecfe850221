"""What the site's policy asks of a request for a list: an approval, and reasons. Pure.

In: a request, the policy, what is known. Out: which action it is; `CommandError`. Never: who has
which role: console and command line, which take requests from people, know that.
"""

from __future__ import annotations

import msgspec

from alarm.decisions.known_lists import KnownLists
from alarm.decisions.requests import CommandRequest
from alarm.decisions.settling import (
    ASKS_REASON,
    OUTCOMES,
    check_own_proposal,
    check_settling,
    is_same_person,
)
from bus.client.model import KeyedValue
from bus.contracts.command_codes import NO_REASON, TOO_MANY_PROPOSALS
from bus.contracts.list_proposals import (
    BesideLists,
    ListProposal,
    SettledListProposal,
)
from bus.contracts.plate_lists import ListCommand
from bus.contracts.proposals import proposal_key
from bus.domain.command_error import CommandError
from bus.domain.list_check import MAX_LINES
from bus.domain.list_text import list_text_sha256
from bus.domain.policy import PolicySettings

MAX_WAITING_LISTS = 100
MAX_WAITING_LINES = MAX_LINES
"""Of all that waits: it stands on the topic with its lines."""
_PROPOSALS = {"put": "propose", "change": "propose change"}


def list_action_of(command: ListCommand, policy: PolicySettings) -> str:
    """What it is in the table of states. The account that is registered as a list's source needs no
    approval."""
    source = policy.list_sources.get(command.list_id, "")
    is_of_source = bool(source) and is_same_person(command.account, source)
    if policy.requires_approval and not is_of_source:
        return _PROPOSALS.get(command.op, command.op)
    return command.op


def check_list_proposal(
    command: ListCommand, known: KnownLists, policy: PolicySettings, now_ms: int
) -> None:
    """Whether it may wait. Raises `CommandError`."""
    if policy.requires_reason and not command.reason.strip():
        raise CommandError("reason", ASKS_REASON, NO_REASON)
    waiting = known.waiting_for(command.list_id, now_ms)
    if waiting is not None:
        check_own_proposal("list_id", waiting.proposed_by, command.asked_by)
    others = [one for one in known.waiting(now_ms) if one.list_id != command.list_id]
    lines = sum(one.text.base_lines for one in others) + command.base_lines
    if len(others) >= MAX_WAITING_LISTS or lines > MAX_WAITING_LINES:
        raise CommandError(
            "", f"{len(others)} proposals wait already, with this {lines} lines: approve or reject"
            " some first", TOO_MANY_PROPOSALS,
        )  # fmt: skip


def check_list_settling(
    command: ListCommand, waiting: ListProposal, policy: PolicySettings
) -> None:
    """Whether the asker may approve, reject or withdraw just this. Raises `CommandError`."""
    check_settling(
        command, command.op, waiting.proposed_by, list_text_sha256(waiting.text),
        "what waits is not what you name", asks_reason=policy.requires_reason,
    )  # fmt: skip


def proposed_list(
    request: CommandRequest[ListCommand], known: KnownLists, now_ms: int
) -> ListProposal:
    """What waits from now on."""
    command = request.command
    return ListProposal(
        list_id=command.list_id,
        version=known.proposals.next_version(command.list_id, now_ms),
        text=msgspec.structs.replace(command, session="", signature="", text_sha256=""),
        decided_at_ms=now_ms,
        command_id=request.command_id,
    )


def settled_list(
    request: CommandRequest[ListCommand], known: KnownLists, now_ms: int
) -> list[SettledListProposal]:
    """The end of what waits under the list's id, if anything does."""
    command, waiting = request.command, known.waiting_for(request.command.list_id, now_ms)
    if waiting is None:
        return []
    return [SettledListProposal(
        list_id=command.list_id,
        version=known.proposals.next_version(command.list_id, now_ms),
        outcome=OUTCOMES.get(command.op, "superseded"),
        proposal=waiting.version,
        decided_at_ms=now_ms,
        command_id=request.command_id,
        decided_by=command.asked_by,
        reason=command.reason,
    )]  # fmt: skip


def recorded_beside(value: BesideLists) -> KeyedValue:
    """As it stands on `state.lists`."""
    return KeyedValue(proposal_key(value.list_id).encode(), msgspec.json.encode(value))
