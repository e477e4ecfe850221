"""Where the keys of tokens come from, and when they are fetched. Pure.

In: settings of a listener, the time. Out: when the next fetch is due. Never: a fetch, or more of
them than the settings and `LEAST_BETWEEN_WANTED_S` allow, whatever tokens clients send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bus.security.oauth_bearer import TokenRules

LEAST_BETWEEN_WANTED_S = 10.0
"""Between two fetches because of a token whose key is not known."""
_MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Of the tokens of one listener."""

    rules: TokenRules
    url: str
    """`https://…`, or a path."""
    refresh_s: float = 3600.0
    backoff_s: float = 0.1
    longest_backoff_s: float = 10.0
    trust_store: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The keys `ssl.truststore.…` for the endpoint; without them the system's authorities count."""

    @property
    def is_remote(self) -> bool:
        """Whether the keys are fetched."""
        return self.url.startswith("https://")


class FetchSchedule:
    """Times are monotonic seconds.

    Invariant: `due_at` is when the next fetch begins; after failures it is not brought forward.
    """

    def __init__(self, settings: TokenSettings) -> None:
        """The first one is due at once."""
        self._settings = settings
        self._failures = 0
        self._wanted_at = float("-inf")
        self.due_at = float("-inf")

    def on_fetched(self, now: float) -> None:
        """New keys are there."""
        self._failures = 0
        self.due_at = now + self._settings.refresh_s

    def on_failed(self, now: float) -> None:
        """The keys in force stay."""
        doublings = min(self._failures, _MOST_DOUBLINGS)
        wait_s = self._settings.backoff_s * (1 << doublings)
        self._failures += 1
        self.due_at = now + min(wait_s, self._settings.longest_backoff_s)

    def on_unknown_key(self, now: float) -> None:
        """A client has shown a token whose key is not among those in force."""
        if self._failures or self.due_at <= now:
            return
        if now - self._wanted_at >= LEAST_BETWEEN_WANTED_S:
            self._wanted_at = now
            self.due_at = now
