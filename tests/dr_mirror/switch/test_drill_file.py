"""The file of drills as the mirror reads it: the newest whole protocol, whatever is behind it."""

from __future__ import annotations

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dr_mirror.service.role import with_drill
from dr_mirror.switch.drill import DrillProtocol, LastDrill, last_protocol
from tests.dr_mirror.switch.plan.test_switch import status


def protocol(number: int, there_ms: int = 900, back_ms: int = 1_200) -> DrillProtocol:
    return DrillProtocol(
        at_ms=1_790_000_000_000 + number, there=number, back=number + 1, there_ms=there_ms,
        turned_ms=5_000, back_ms=back_ms, partitions=3, notes=(),
    )  # fmt: skip


@given(st.binary())
def test_bytes_of_any_kind_are_no_protocol_and_harm_nothing(found: bytes) -> None:
    assert last_protocol(found) is None or b"there_ms" in found


@given(st.integers(1, 4), st.data())
def test_a_torn_end_leaves_the_protocol_before_it(count: int, data: st.DataObject) -> None:
    lines = [msgspec.json.encode(protocol(number)) + b"\n" for number in range(count + 1)]
    torn = data.draw(st.integers(0, len(lines[-1]) - 2))
    found = last_protocol(b"".join(lines[:-1]) + lines[-1][:torn])
    assert found == protocol(count - 1)


def test_a_drill_of_another_process_is_seen_and_the_longer_way_counts(tmp_path: Path) -> None:
    path = tmp_path / "drills.jsonl"
    drills = LastDrill(path)
    assert drills.read() is None
    for number in (1, 2):
        with path.open("ab") as file:
            file.write(msgspec.json.encode(protocol(number, there_ms=1_000 * number)) + b"\n")
        assert drills.read() == protocol(number, there_ms=1_000 * number)
    shown = with_drill(status(), drills.read())
    assert (shown.rto_s, shown.drilled_ms) == (2.0, protocol(2).at_ms)
    assert with_drill(status(), None).rto_s == -1
