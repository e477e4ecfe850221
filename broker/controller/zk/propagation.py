"""When the answer to a change of topics goes out: once all brokers have heard of it.

In: a term, an answer. Out: the answer, once. Never: an answer kept back longer than PROPAGATION_S.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.clock.port import Clock
from broker.controller.zk.term import Term

PROPAGATION_S = 1.0
"""How long the answer waits: a client that asks the next broker for its new topic finds it. Kafka
waits for one broker only."""


def once_known(clock: Clock, term: Term, answer: Callable[[], None]) -> None:
    """Call `answer` when all brokers have confirmed, or after PROPAGATION_S."""
    answers = [answer]

    def now() -> None:
        if answers:
            timer.cancel()
            answers.pop()()

    async def wait() -> None:
        await term.lines.confirmed()
        now()

    task = clock.spawn(wait(), name="propagation")

    def late() -> None:
        task.cancel()
        now()

    timer = clock.call_later(PROPAGATION_S, late)
