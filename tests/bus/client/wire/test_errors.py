"""An answer that makes no sense is no answer; it harms only the caller."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from broker.clock.real import RealClock
from broker.controller.kraft.transport.connections import QuorumAddressError, parse_quorum_addresses
from broker.handlers.auto_topic_creation import AutoTopicCreation, NewTopic
from bus.client.wire.errors import PeerError, PeerErrorKind, decoding_response
from bus.errors import BusError, CheckFailed, ErrorCode, check


@pytest.mark.parametrize("error", [IndexError, ValueError, AttributeError])
def test_what_an_answer_makes_its_reader_stumble_over_is_the_peers_error(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """With the trace in the log, for it may be ours after all."""
    with (
        caplog.at_level(logging.ERROR, "broker.peer"),
        pytest.raises(PeerError, match="node 7"),
        decoding_response("node 7"),
    ):
        raise error("planted")
    assert "Traceback" in caplog.text


def test_typed_errors_and_failed_checks_pass() -> None:
    """The first have a meaning of their own, the second end the process."""
    with pytest.raises(BusError), decoding_response("node 7"):
        raise BusError(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(PeerError, match="refused"), decoding_response("node 7"):
        raise PeerError(PeerErrorKind.REFUSED, "refused")
    with pytest.raises(CheckFailed), decoding_response("node 7"):
        check(False, "planted")


class GarbageChannel:
    """A controller that answers something other than the request."""

    async def request(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(topics=[])


async def test_a_controller_that_names_no_topic_does_not_end_the_task_that_asked() -> None:
    """The next client that wants the topic asks again."""
    topics = AutoTopicCreation(RealClock(), GarbageChannel())  # type: ignore[arg-type]
    for _ in range(2):
        assert topics.request(NewTopic("t", 1, 1)) is ErrorCode.LEADER_NOT_AVAILABLE
        (task,) = topics._tasks.values()
        await task
        assert not topics._tasks


def test_a_voter_that_is_configured_twice_is_the_operators_error() -> None:
    """One sentence at the start, not a trace."""
    with pytest.raises(QuorumAddressError, match="names 1 more than once"):
        parse_quorum_addresses(("1@a:9093", "2@b:9093", "1@c:9093"), (), "CONTROLLER")
