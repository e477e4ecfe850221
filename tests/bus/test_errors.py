"""The table of error codes against the copy in `kio`, the oracle that needs no Java."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from bus.errors import BusError, CheckFailed, ErrorCode, check


def test_codes_and_retriability_are_those_of_kio() -> None:
    """kio 0.6.5 ends at Kafka 4.1's codes; what it knows must agree."""
    for theirs in KioErrorCode:
        ours = ErrorCode(int(theirs))
        assert ours.name.lower() == theirs.name
        assert ours.retriable == theirs.retriable


def test_the_table_has_no_hole() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))


def test_an_unknown_code_of_a_peer_becomes_unknown_server_error() -> None:
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_says_its_name_and_its_reason() -> None:
    error = BusError(ErrorCode.NOT_ENOUGH_REPLICAS, "1 of 2")
    assert str(error) == "NOT_ENOUGH_REPLICAS: 1 of 2"
    assert error.retriable


def test_a_broken_invariant_stops() -> None:
    check(True, "never")
    with pytest.raises(CheckFailed, match="offsets go back"):
        check(False, "offsets go back")
