"""Reasons why a command was refused that its sender acts by; those of a rule's text are
`bus.domain.rule_check`'s."""

from __future__ import annotations

STALE = "stale"
"""Somebody has changed it since the sender read it."""
NO_SUCH_RULE = "no_such_rule"
NOT_A_REQUEST = "not_a_request"
NOT_PRIMARY = "not_primary"
"""The site's data are another one's."""
NO_PROPOSAL = "no_proposal"
"""Nothing waits for an approval under this id."""
OTHER_TEXT = "other_text"
"""What waits is not what its reader saw."""
OWN_PROPOSAL = "own_proposal"
"""Nobody approves what he has proposed."""
NOT_OWN_PROPOSAL = "not_own_proposal"
PROPOSAL_WAITS = "proposal_waits"
"""Somebody else's proposal for the rule has to be settled first."""
TOO_MANY_PROPOSALS = "too_many_proposals"
NO_ACCOUNT = "no_account"
NO_REASON = "no_reason"
NO_CASE = "no_case"
EMERGENCY_IN_FORCE = "emergency_in_force"
"""A rule in force is changed by a proposal; an emergency is a rule of its own."""
EMERGENCY_HOURS = "emergency_hours"
EMERGENCY_RENEWED = "emergency_renewed"
"""The same target had one within the last days: it needs an approval now."""
NO_SUCH_LIST = "no_such_list"
CHUNK_MISSING = "chunk_missing"
"""The lines of a list are not on its topic, or stand there so long that they may go any time."""
MANY_REMOVED = "many_removed"
"""Of lines: somebody has to say that it is meant."""

# Of an alarm.
ALREADY_TAKEN = "already_taken"
"""Somebody else has it in hand."""
NOT_TAKEN = "not_taken"
NOT_JUDGED = "not_judged"
IS_CLOSED = "is_closed"
NOT_CLOSED = "not_closed"
NO_SUCH_ALARM = "no_such_alarm"

OTHER_STAGE = frozenset({ALREADY_TAKEN, NOT_TAKEN, NOT_JUDGED, IS_CLOSED, NOT_CLOSED})
"""The alarm is at another point of its life."""
BY_SOMEBODY = frozenset({STALE, ALREADY_TAKEN, IS_CLOSED})
"""Refusals that say who has decided before, and when."""
