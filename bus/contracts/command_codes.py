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
