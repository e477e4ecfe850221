"""A browser that leaves before its answer leaves no traceback; every other failure stays one."""

from __future__ import annotations

import pytest
from starlette.types import Message, Receive, Scope, Send

from bus.contracts.register import Register
from monitor.api.app import NO_ANSWER, LeftRequests
from monitor.api.views import place


async def asked(message: Message, error: str) -> None:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        raise RuntimeError(error)

    async def receive() -> Message:
        return message

    async def send(_: Message) -> None:
        raise AssertionError("there is nobody to answer to")

    await LeftRequests(application)({"type": "http"}, receive, send)


async def test_who_has_left_gets_no_answer_and_nobody_a_traceback() -> None:
    """21 of them in half an hour hid what was wrong."""
    await asked({"type": "http.disconnect"}, NO_ANSWER)


@pytest.mark.parametrize(
    ("kind", "error"), [("http.request", NO_ANSWER), ("http.disconnect", "another fault")]
)
async def test_a_fault_of_ours_is_still_one(kind: str, error: str) -> None:
    """Whoever stays and gets no answer has met a fault, and so has any other error."""
    with pytest.raises(RuntimeError, match=error):
        await asked({"type": kind}, error)


def test_a_checkpoint_that_the_register_does_not_know_is_said_to_be_so() -> None:
    """A bare number looked like a name."""
    row = place("330100#9", Register())
    assert (row["checkpoint"], row["checkpoint_en"]) == ("未登记 330100#9", "unknown 330100#9")
    assert place("", Register())["checkpoint"] == ""
