"""One API whose requests count against quotas of bytes produced or of the loop's time.

Stands around the decoder and the handler only while the metadata have such a quota, so that without
one no request pays for it. Never: what a quota is, or how long a client waits.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.handlers.context import RequestContext
from broker.handlers.registry import Handle
from broker.quotas.client_quotas import QuotaKind
from bus.protocol.apis import ApiKey

Decode = Callable[[memoryview, int], tuple[object, int]]

PERCENT_PER_S = 100
"""Of a second of the loop: a quota of 100 is the whole of it."""

THROTTLED_KINDS = frozenset({QuotaKind.PRODUCE, QuotaKind.REQUEST})


class TimedContext(RequestContext):
    """The context of a request whose time counts: until its handler answers it, or returns because
    the answer has to wait for something else."""

    __slots__ = ("_began", "_is_charged", "_now_s")

    def __init__(self, of: RequestContext, began: float, now_s: Callable[[], float]) -> None:
        for name in RequestContext.__slots__:
            setattr(self, name, getattr(of, name))
        self._began, self._now_s = began, now_s
        self._is_charged = False

    def charge_time(self) -> None:
        """Once."""
        if not self._is_charged:
            self._is_charged = True
            used_s = self._now_s() - self._began
            self.charge(QuotaKind.REQUEST, used_s * PERCENT_PER_S)

    def reply(self, response: object) -> None:
        self.charge_time()
        super().reply(response)


class ThrottledApi:
    """Invariant: `handle` gets the request that `decode` has returned just before."""

    def __init__(
        self, key: int, decode: Decode, handle: Handle, limited: frozenset[QuotaKind],
        now_s: Callable[[], float],
    ) -> None:
        self._decode, self._handle = decode, handle
        self._counts_bytes = key == ApiKey.PRODUCE and QuotaKind.PRODUCE in limited
        self._counts_time = QuotaKind.REQUEST in limited
        self._now_s = now_s
        self._began = 0.0
        self._size_bytes = 0

    def decode(self, frame: memoryview, offset: int) -> tuple[object, int]:
        """As the API's decoder."""
        self._began, self._size_bytes = self._now_s(), len(frame)
        return self._decode(frame, offset)

    def handle(self, request: object, context: RequestContext) -> None:
        """As the API's handler. A client over its quota is served and then has to wait."""
        if self._counts_time and not is_from_replica(request):
            timed = TimedContext(context, self._began, self._now_s)
            self._serve(request, timed)
            timed.charge_time()
        else:
            self._serve(request, context)

    def _serve(self, request: object, context: RequestContext) -> None:
        if self._counts_bytes:
            context.charge(QuotaKind.PRODUCE, self._size_bytes)
        response = self._handle(request, context)
        if response is not None:
            context.reply(response)


def is_from_replica(request: object) -> bool:
    """Whether a broker sends it for one of its replicas (Fetch, ListOffsets,
    OffsetForLeaderEpoch)."""
    state = getattr(request, "replica_state", None)
    return max(getattr(request, "replica_id", -1), getattr(state, "replica_id", -1)) >= 0
