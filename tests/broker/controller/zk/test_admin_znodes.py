"""Requests that tools and brokers write into znodes for the controller."""

from __future__ import annotations

import pytest

from broker.controller.zk import admin_znodes, znodes


def test_requests_of_the_tools_are_read() -> None:
    """Reads the specification's reassignment; numbers of an election may be strings (E-33)."""
    moves = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3]}]}'
    assert admin_znodes.decode_reassignment(moves) == {("t", 0): (2, 3)}
    assert admin_znodes.encode_reassignment({("t", 0): (2, 3)}) == moves
    election = b'{"version":1,"partitions":[{"topic":"t","partition":"0"}]}'
    assert admin_znodes.decode_preferred_election(election) == [("t", 0)]
    with pytest.raises(znodes.ZnodeError):
        admin_znodes.decode_preferred_election(b'{"partitions":[{}]}')


def test_a_failed_directory_is_noted_as_kafka_notes_it() -> None:
    """It is a child of /log_dir_event_notification, from which the broker is read back."""
    data = admin_znodes.encode_failed_directory(2)
    assert data == b'{"version":1,"broker":2,"event":1}'
    assert admin_znodes.decode_failed_directory("n", data) == 2
    with pytest.raises(znodes.ZnodeError):
        admin_znodes.decode_failed_directory("n", b"{}")
