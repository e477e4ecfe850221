"""The dispatcher's verdicts over messages as they are on the topics."""

from __future__ import annotations

import pytest

from alarm.dispatch.decide import decide, raised
from alarm.rules import RuleSet
from bus.client.model import ConsumedRecord
from bus.contracts.topics import EVENT_ALARM, EVENT_CANDIDATE, EVENT_INCIDENT

POISON = [b"", b"no json", b'{"rule_id": "\xff"}', b'{"kind": "\xff"}', b'{"x": ' + b"[" * 20_000]


@pytest.mark.parametrize("topic", [EVENT_CANDIDATE, EVENT_ALARM, EVENT_INCIDENT])
@pytest.mark.parametrize("number", range(len(POISON)))
def test_a_message_that_is_not_ours_is_passed_over(topic: str, number: int) -> None:
    """It comes again after every restart: a text that is no UTF-8 ended the dispatcher for good."""
    message = ConsumedRecord(topic, 0, 3, 5, b"", POISON[number], ())
    candidates = topic == EVENT_CANDIDATE
    outcome = decide([message], RuleSet(), now_ms=5) if candidates else raised([message])
    assert (outcome.alarms, outcome.incidents) == ([], [])
    (reason,) = outcome.unreadable
    assert f"{topic}-0@3" in reason
