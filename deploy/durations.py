"""Durations as an operator types them.

In: `90s`, `5m`, `1.5h`, `250ms`, `30d`. Out: seconds. Never: a guess of the unit.
"""

from __future__ import annotations

import re

from deploy.errors import OperatorError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")


def parse_seconds(text: str) -> float:
    """Seconds of `90s`, `5m`, `1.5h`, `250ms` or bare seconds; else an OperatorError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise OperatorError(f"'{text}' is no duration; write 90s, 5m or 1h")
    return float(found.group(1)) * _UNITS_S[found.group(2) or ""]
