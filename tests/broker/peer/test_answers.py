"""An answer that makes no sense is no answer; it harms nobody but whoever asked."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from broker.clock.real import RealClock
from broker.controller.kraft.places import PlaceError, configured
from broker.handlers.auto_topics import AutoTopics, NewTopic
from broker.peer.errors import PeerError, PeerErrorKind, making_sense_of
from bus.errors import BusError, CheckFailed, ErrorCode, check


@pytest.mark.parametrize("error", [IndexError, ValueError, AttributeError])
def test_what_an_answer_makes_its_reader_stumble_over_is_the_peers_error(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """With the trace in the log, for it may be ours after all."""
    with (
        caplog.at_level(logging.ERROR, "broker.peer"),
        pytest.raises(PeerError, match="node 7"),
        making_sense_of("node 7"),
    ):
        raise error("planted")
    assert "Traceback" in caplog.text


def test_typed_errors_and_failed_checks_pass() -> None:
    """The first have a meaning of their own, the second end the process."""
    with pytest.raises(BusError), making_sense_of("node 7"):
        raise BusError(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(PeerError, match="refused"), making_sense_of("node 7"):
        raise PeerError(PeerErrorKind.REFUSED, "refused")
    with pytest.raises(CheckFailed), making_sense_of("node 7"):
        check(False, "planted")


class Link:
    """A controller that answers something else than what it was asked."""

    async def request(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(topics=[])


async def test_a_controller_that_names_no_topic_does_not_end_the_task_that_asked() -> None:
    """The next client that wants the topic asks again."""
    topics = AutoTopics(RealClock(), Link())  # type: ignore[arg-type]
    for _ in range(2):
        assert topics.ask(NewTopic("t", 1, 1)) is ErrorCode.LEADER_NOT_AVAILABLE
        (task,) = topics._tasks.values()
        await task
        assert not topics._tasks


def test_a_voter_that_is_configured_twice_is_the_operators_error() -> None:
    """One sentence at the start, not a trace."""
    with pytest.raises(PlaceError, match="names 1 more than once"):
        configured(("1@a:9093", "2@b:9093", "1@c:9093"), (), "CONTROLLER")
