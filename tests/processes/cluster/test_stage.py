"""Parts of the stage: its parsing of Java's lines and brokers' files, and its choice of stories."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path

import pytest

from deploy.servers.process import free_port
from tests.checker import rules
from tests.checker.history import Ack, Poll, SendEvent
from tests.processes.cluster import java_client, test_stories
from tests.processes.cluster.history_client import OPS
from tests.processes.cluster.replicas import batches
from tests.processes.cluster.slow_link import HOST, SlowLink
from tests.processes.cluster.stories import KINDS, STORIES


def test_java_s_lines_become_a_history_that_can_break_a_rule(tmp_path: Path) -> None:
    """A lost record is found; half a line at the end is ignored."""
    out = tmp_path / "java.out"
    sent = [
        {"name": "producer_send_success", "value": f"5.{number}", "offset": number,
         "topic": "t", "partition": 0}
        for number in (0, 1)
    ]  # fmt: skip
    out.write_text("".join(json.dumps(line) + "\n" for line in sent) + '{"name": "prod')
    told = list(java_client.events(out, 5, 7))
    assert [type(event) for event in told] == [SendEvent, Ack, SendEvent, Ack]
    assert [event.op for event in told if isinstance(event, Ack)] == [5 * OPS, 5 * OPS + 1]
    read = Poll(
        at_ms=9, consumer="r", assignment="a", topic="t", partition=0, position=0, next=2,
        records=[(1, "5.1")], from_beginning=True,
    )  # fmt: skip
    assert any("lost write" in str(violation) for violation in rules.check([*told, read]))


def test_java_s_consumer_is_read_assignment_by_assignment(tmp_path: Path) -> None:
    """Records read again after a rebalance belong to another assignment."""
    out = tmp_path / "java.out"
    record = {"name": "record_data", "topic": "t", "partition": 0, "value": "x"}
    lines = [
        {"name": "partitions_assigned"}, record | {"offset": 0}, record | {"offset": 1},
        {"name": "partitions_revoked"}, {"name": "partitions_assigned"}, record | {"offset": 1},
    ]  # fmt: skip
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    polls = list(java_client.events(out, 6, 7))
    assert [(poll.position, poll.next) for poll in polls] == [(0, 2), (1, 2)]  # type: ignore[union-attr]
    assert len({poll.assignment for poll in polls}) == 2  # type: ignore[union-attr]


def test_copies_that_differ_in_a_byte_differ(tmp_path: Path) -> None:
    """A torn batch at the end is ignored; a changed byte changes the digest."""
    batch = struct.pack(">qiibIhi", 5, 49, 3, 2, 0, 0, 2) + bytes(34)
    for name, data in (("a", batch), ("b", batch[:-1] + b"x"), ("c", batch + batch[:20])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000005.log").write_bytes(data)
    first, second, torn = (list(batches(tmp_path / name)) for name in "abc")
    assert first[0][:3] == (5, 7, 3)
    assert first[0][3] != second[0][3]
    assert torn == first


async def test_a_stalled_link_holds_bytes_and_loses_none() -> None:
    """They pass once the link is opened."""
    link, port, far = SlowLink(), free_port(), free_port()
    near_server = await asyncio.start_server(link.accept, HOST, port)
    far_server = await asyncio.start_server(_echo, HOST, far)
    link.obey(f"to {far}")
    link.obey("stall")
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(b"hello")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(5), 0.1)
    link.obey("pass")
    assert await asyncio.wait_for(reader.readexactly(5), 30) == b"hello"
    writer.close()
    near_server.close()
    far_server.close()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()


def test_a_commit_chooses_stories_of_every_kind_and_ten_commits_choose_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same for the same commit, one with Java clients among them."""
    monkeypatch.delenv("DATABUS_EVERY_MEMBER", raising=False)
    names: list[set[str]] = []
    for commit in range(1000, 1030):
        monkeypatch.setenv("DATABUS_TURN", str(commit))
        chosen = test_stories.chosen()
        assert chosen == test_stories.chosen()
        names.append({member.name for member in chosen})
        assert len(names[-1]) == len(chosen)
        assert {member.kind for member in chosen} == set(KINDS)
        assert any(member.java for member in chosen)
    for first in range(len(names) - 10):
        assert set().union(*names[first : first + 10]) == {member.name for member in STORIES}
    monkeypatch.setenv("DATABUS_EVERY_MEMBER", "all")
    assert len(test_stories.chosen()) >= len(STORIES) == len({member.name for member in STORIES})
