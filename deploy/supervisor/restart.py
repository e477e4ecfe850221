"""When a dead process is started again: with back-off, and not for ever.

In: the times of earlier deaths and now, as values. Out: a delay, or None for giving up.
Never: a clock, a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Double the wait per death within the window, up to a limit; give up past the bound.

    The window forgets: a process that lives for `window_s` starts again with the first delay.
    """

    first_delay_s: float = 0.5
    longest_delay_s: float = 10.0
    window_s: float = 120.0
    deaths_allowed: int = 12  # a role that dies every ten seconds for two minutes will not heal

    def recent(self, deaths_s: Sequence[float], now_s: float) -> int:
        """How many deaths count at this moment."""
        return sum(1 for death_s in deaths_s if now_s - death_s < self.window_s)

    def delay_s(self, deaths_s: Sequence[float], now_s: float) -> float | None:
        """Seconds to wait before the next start, given all deaths including the one just now."""
        recent = self.recent(deaths_s, now_s)
        if recent > self.deaths_allowed:
            return None
        return float(min(self.longest_delay_s, self.first_delay_s * 2 ** max(0, recent - 1)))
