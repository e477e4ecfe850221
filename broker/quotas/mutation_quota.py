"""The controller's quota as one request uses it (KIP-599). Pure.

In: partitions that the request makes or removes, topic by topic. Out: whether each may be, and how
long the client waits afterwards.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.quotas.quota_rate import TokenBucket


class ControllerMutationQuota:
    """What a client may still change, for one request of it.

    Strict: while tokens are owed, nothing is done, and the client waits. Permissive, for older
    clients, which do not know the refusal: everything is done, and the client waits until nothing
    is owed.
    """

    def __init__(
        self,
        bucket: TokenBucket,
        limit: float,
        throttled: Callable[[int], None],
        *,
        is_strict: bool,
    ) -> None:
        """`throttled(milliseconds)`: the client has to wait."""
        self._bucket, self._limit, self._is_strict = bucket, limit, is_strict
        self._throttled = throttled
        self.wait_ms = 0

    def allows(self, partitions: int, now_ms: int) -> bool:
        """Take a token for each partition, unless they are refused."""
        if self._is_strict:
            self._note_wait(now_ms)
            if self.wait_ms:
                return False
        self._bucket.record(partitions, self._limit, now_ms)
        if not self._is_strict:
            self._note_wait(now_ms)
        return True

    def finish(self) -> int:
        """The request is decided: for how long its client waits, in milliseconds."""
        if self.wait_ms:
            self._throttled(self.wait_ms)
        return self.wait_ms

    def _note_wait(self, now_ms: int) -> None:
        self.wait_ms = self._bucket.wait_ms(self._limit, now_ms)
