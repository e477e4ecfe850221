"""Reasons why a command was refused that its sender acts by; those of a rule's text are
`bus.domain.rule_check`'s."""

from __future__ import annotations

STALE = "stale"
"""Somebody has changed it since the sender read it."""
NO_SUCH_RULE = "no_such_rule"
NOT_A_REQUEST = "not_a_request"
NOT_PRIMARY = "not_primary"
"""The site's data are another one's."""
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
