"""Reasons why a command was refused that its sender acts by; those of a rule's text are
`bus.domain.rule_check`'s."""

from __future__ import annotations

STALE = "stale"
"""Somebody has changed it since the sender read it."""
NO_SUCH_RULE = "no_such_rule"
NOT_A_REQUEST = "not_a_request"
NOT_PRIMARY = "not_primary"
"""The site's data are another one's."""
