"""What the site asks of people who put rules and ask questions: `databus.toml` [policy]."""

from __future__ import annotations

from typing import Annotated

import msgspec

MOST_EMERGENCY_HOURS = 72
MAX_REASON_CHARACTERS = 500
MAX_CASE_CHARACTERS = 200


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On unless it is turned off. The decider judges by what it was started with."""

    requires_approval: bool = True  # a rule is in force when another account has approved it
    requires_reason: bool = True  # and a case, of what names a plate, a face or a photo
    emergency_hours: Annotated[int, msgspec.Meta(ge=1, le=MOST_EMERGENCY_HOURS)] = 24
    list_sources: dict[str, str] = {}
    """By the id of a list: the account that is its registered source; what that one imports needs
    no approval."""
    questions_days: Annotated[int, msgspec.Meta(ge=1)] = 400  # how long people's questions are kept


NO_POLICY = PolicySettings(requires_approval=False, requires_reason=False)
"""As a demonstration has it: every question is answered."""
