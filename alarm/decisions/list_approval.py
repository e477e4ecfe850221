"""What the site's policy asks of a request for a list: an approval, and reasons. Pure.

In: a request, the policy, what is known. Out: which action it is; `CommandError`. Never: who has
which role: console and command line, which take requests from people, know that.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from alarm.decisions.known_lists import KnownLists
from alarm.decisions.requests import CommandRequest
from bus.client.model import KeyedValue
from bus.contracts.command_codes import (
    NO_ACCOUNT,
    NO_REASON,
    NOT_OWN_PROPOSAL,
    OTHER_TEXT,
    OWN_PROPOSAL,
    PROPOSAL_WAITS,
    TOO_MANY_PROPOSALS,
)
from bus.contracts.list_proposals import (
    BesideLists,
    ListProposal,
    SettledListProposal,
    list_proposal_key,
)
from bus.contracts.plate_lists import ListCommand
from bus.domain.command_error import CommandError
from bus.domain.list_check import MAX_LINES
from bus.domain.list_text import list_text_sha256
from bus.domain.policy import PolicySettings

MAX_WAITING_LISTS = 100
MAX_WAITING_LINES = MAX_LINES
"""Of all that waits: it stands on the topic with its lines."""
_PROPOSALS = {"put": "propose", "change": "propose change"}
_OUTCOMES: dict[str, Literal["approved", "rejected", "withdrawn"]] = {
    "approve": "approved", "reject": "rejected", "withdraw": "withdrawn",
}  # fmt: skip


def list_action_of(command: ListCommand, policy: PolicySettings) -> str:
    """What it is in the table of states. The account that is registered as a list's source needs no
    approval."""
    source = policy.list_sources.get(command.list_id, "")
    is_of_source = bool(source) and _person(command.account) == _person(source)
    if policy.requires_approval and not is_of_source:
        return _PROPOSALS.get(command.op, command.op)
    return command.op


def check_list_proposal(
    command: ListCommand, known: KnownLists, policy: PolicySettings, now_ms: int
) -> None:
    """Whether it may wait. Raises `CommandError`."""
    if policy.requires_reason and not command.reason.strip():
        raise CommandError("reason", "this site asks for a reason: say why", NO_REASON)
    waiting = known.waiting_for(command.list_id, now_ms)
    if waiting is not None and _person(waiting.proposed_by) != _person(command.asked_by):
        raise CommandError(
            "list_id", f"a proposal of {waiting.proposed_by} waits under this id: it is approved,"
            " rejected or withdrawn first", PROPOSAL_WAITS,
        )  # fmt: skip
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
    is_own = _person(command.asked_by) == _person(waiting.proposed_by)
    if command.op == "withdraw" and not is_own:
        raise CommandError(
            "account", f"{waiting.proposed_by} has proposed it; reject it instead", NOT_OWN_PROPOSAL
        )
    if command.op != "withdraw" and not command.account.strip():
        raise CommandError("account", "who approves or rejects says as whom", NO_ACCOUNT)
    if command.op == "approve" and is_own:
        raise CommandError("account", "nobody approves what he has proposed himself", OWN_PROPOSAL)
    if command.op == "approve" and policy.requires_reason and not command.reason.strip():
        raise CommandError("reason", "this site asks for a reason: say why", NO_REASON)
    if command.op == "reject" and not command.reason.strip():
        raise CommandError("reason", "say why it is rejected: its author reads it", NO_REASON)
    is_named = command.op == "approve" or command.text_sha256
    if is_named and command.text_sha256.lower() != list_text_sha256(waiting.text):
        raise CommandError(
            "text_sha256", "what waits is not what you name: read it again and name its SHA-256",
            OTHER_TEXT,
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
        outcome=_OUTCOMES.get(command.op, "superseded"),
        proposal=waiting.version,
        decided_at_ms=now_ms,
        command_id=request.command_id,
        decided_by=command.asked_by,
        reason=command.reason,
    )]  # fmt: skip


def recorded_beside(value: BesideLists) -> KeyedValue:
    """As it stands on `state.lists`."""
    return KeyedValue(list_proposal_key(value.list_id).encode(), msgspec.json.encode(value))


def _person(name: str) -> str:
    return name.strip().casefold()
