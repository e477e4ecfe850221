"""The state of a compacted topic against a plain dict."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bus.client.compacted_state import Change, KeyedValues, WholeState, struct_change
from bus.client.model import ConsumedRecord

ANEW, END = "made anew", "end reached"


class Fact(msgspec.Struct, frozen=True):
    number: int


def record(key: str, value: bytes | None) -> ConsumedRecord:
    return ConsumedRecord("facts", 0, 0, 1, key.encode(), value, ())


def facts() -> KeyedValues[Fact]:
    return KeyedValues(struct_change(Fact))


RECORDS = st.tuples(
    st.sampled_from("abc"), st.none() | st.integers(-9, 9) | st.sampled_from([b"", b"{", b"7"])
)
EVENTS = st.lists(RECORDS | st.sampled_from([ANEW, END]), max_size=40)


def value_of(said: int | bytes | None) -> bytes | None:
    return msgspec.json.encode(Fact(said)) if isinstance(said, int) else said


@given(EVENTS)
def test_it_is_what_a_dict_says_as_of_the_newest_end_of_one_topic(events: list[object]) -> None:
    """Whatever comes in whatever order; while a topic made anew is read, the former one holds."""
    whole = WholeState(facts)
    shown: dict[str, Fact] = {}
    reading: dict[str, Fact] = shown
    topics, topics_shown, is_whole = 0, 0, False
    for event in events:
        match event:
            case "made anew":
                whole.on_recreated()
                reading, topics = {}, topics + 1
            case "end reached":
                whole.on_end()
                shown, topics_shown, is_whole = reading, topics, True
            case (str(key), said):
                whole.apply(record(key, value_of(said)))
                if said is None:
                    reading.pop(key, None)
                elif isinstance(said, int):
                    reading[key] = Fact(said)
        assert whole.state.values == shown
        assert whole.is_whole is is_whole
        assert (whole.generation > 0) is (topics_shown > 0)


@given(st.lists(RECORDS, max_size=40))
def test_the_calls_say_all_that_changes(said: list[tuple[str, int | bytes | None]]) -> None:
    """Who only listens ends with the same values."""
    heard: dict[str, Fact] = {}

    def listen(change: Change[Fact]) -> None:
        if change.value is None:
            heard.pop(change.key, None)
        else:
            heard[change.key] = change.value

    state = KeyedValues(struct_change(Fact), listen)
    for key, value in said:
        state.apply(record(key, value_of(value)))
        assert heard == state.values


@given(st.binary(max_size=30))
def test_no_value_that_somebody_else_has_put_there_is_an_error(value: bytes) -> None:
    state = facts()
    state.apply(record("a", value))
    assert all(isinstance(one, Fact) for one in state.values.values())
