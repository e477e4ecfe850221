"""Delays topic-change responses until every live broker has acknowledged the change, at most
PROPAGATION_S."""

from __future__ import annotations

from collections.abc import Callable

from broker.clock.port import Clock
from broker.controller.zk.controller_context import ControllerContext

PROPAGATION_S = 1.0
"""How long the response waits: a client that asks another broker for its new topic finds it. Kafka
waits for one broker only."""


def when_propagated(clock: Clock, context: ControllerContext, answer: Callable[[], None]) -> None:
    """Calls `answer` when all brokers have confirmed, or after PROPAGATION_S."""
    answers = [answer]

    def now() -> None:
        if answers:
            timer.cancel()
            answers.pop()()

    async def wait() -> None:
        await context.request_queues.confirmed()
        now()

    task = clock.spawn(wait(), name="propagation")

    def late() -> None:
        task.cancel()
        now()

    timer = clock.call_later(PROPAGATION_S, late)
