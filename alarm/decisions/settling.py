"""Who may propose over what waits for an approval, and who may settle it: of rules and lists alike.

In: a request, who has proposed what waits, the hash of its text. Out: `CommandError`. Pure. Never:
who has which role: console and command line, which take requests from people, know that.
"""

from __future__ import annotations

from typing import Literal, Protocol

from bus.contracts.command_codes import (
    NO_ACCOUNT,
    NO_REASON,
    NOT_OWN_PROPOSAL,
    OTHER_TEXT,
    OWN_PROPOSAL,
    PROPOSAL_WAITS,
)
from bus.domain.command_error import CommandError

ASKS_REASON = "this site asks for a reason: say why"
OUTCOMES: dict[str, Literal["approved", "rejected", "withdrawn"]] = {
    "approve": "approved", "reject": "rejected", "withdraw": "withdrawn",
}  # fmt: skip
"""Of what waited; whatever else is decided supersedes it."""


class ProposalCommand(Protocol):
    """What a request for a rule and one for a list have for this."""

    @property
    def account(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def text_sha256(self) -> str: ...
    @property
    def asked_by(self) -> str: ...


def is_same_person(one: str, other: str) -> bool:
    """However they write their name."""
    return one.strip().casefold() == other.strip().casefold()


def check_own_proposal(field: str, proposed_by: str, asked_by: str) -> None:
    """Whether the asker may propose instead of what waits. Raises `CommandError`."""
    if not is_same_person(proposed_by, asked_by):
        raise CommandError(
            field, f"a proposal of {proposed_by} waits under this id: it is approved, rejected or"
            " withdrawn first", PROPOSAL_WAITS,
        )  # fmt: skip


def check_settling(
    command: ProposalCommand, action: str, proposed_by: str, sha256: str, other_text: str,
    *, asks_reason: bool = False,
) -> None:  # fmt: skip
    """Whether the asker may approve, reject or withdraw just this. `other_text`: what to say where
    the text that waits is not the one that is named; `asks_reason`: of an approval. Raises
    `CommandError`."""
    is_own = is_same_person(command.asked_by, proposed_by)
    if action == "withdraw" and not is_own:
        raise CommandError(
            "account", f"{proposed_by} has proposed it; reject it instead", NOT_OWN_PROPOSAL
        )
    if action != "withdraw" and not command.account.strip():
        raise CommandError("account", "who approves or rejects says as whom", NO_ACCOUNT)
    if action == "approve" and is_own:
        raise CommandError("account", "nobody approves what he has proposed himself", OWN_PROPOSAL)
    if action == "approve" and asks_reason and not command.reason.strip():
        raise CommandError("reason", ASKS_REASON, NO_REASON)
    if action == "reject" and not command.reason.strip():
        raise CommandError("reason", "say why it is rejected: its author reads it", NO_REASON)
    is_named = action == "approve" or command.text_sha256
    if is_named and command.text_sha256.lower() != sha256:
        raise CommandError(
            "text_sha256", f"{other_text}: read it again and name its SHA-256", OTHER_TEXT
        )
