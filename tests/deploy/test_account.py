"""The account's arithmetic: it balances to the record or says what does not add up."""

import random

import msgspec
import pytest

from deploy.account import AlarmBooks, FlowBooks, balance

GOOD = FlowBooks(
    kind="vehicle",
    on_topic=103,
    edge_rejected=2,
    in_flight=0,
    counted_sent=102,
    truth_sent=102,
    stored=98,
    duplicates=3,
    rejected={"not-json": 2, "all-unreadable": 2},
)


def changed(**what: object) -> FlowBooks:
    return msgspec.structs.replace(GOOD, **what)


def test_books_that_agree_balance():
    """105 arrived = 101 valid + 4 rejected; 101 valid = 98 stored + 3 duplicates."""
    account = balance([GOOD], AlarmBooks())
    assert account.balanced
    (line,) = account.flows
    assert (line.sent, line.arrived, line.valid, line.stored, line.duplicates) == (
        102,
        105,
        101,
        98,
        3,
    )


@pytest.mark.parametrize(
    "book", ["on_topic", "edge_rejected", "stored", "duplicates", "truth_sent", "counted_sent"]
)
@pytest.mark.parametrize("step", [-1, 1])
def test_one_record_more_or_less_in_any_book_is_a_fault(book: str, step: int):
    """No tolerance anywhere."""
    assert not balance([changed(**{book: getattr(GOOD, book) + step})], AlarmBooks()).balanced


def test_a_record_in_flight_is_a_fault_of_its_own():
    """After the drain there must be none, even where the sums agree."""
    account = balance([changed(on_topic=104, in_flight=1)], AlarmBooks())
    assert account.faults == ["vehicle: 1 records are still in flight"]


def test_a_kind_that_no_city_sent_is_held_to_the_other_equations_only():
    """Films, replays and real cameras have no truth."""
    assert balance([changed(truth_sent=None)], AlarmBooks()).balanced
    assert not balance([changed(truth_sent=None, stored=97)], AlarmBooks()).balanced


def test_missing_records_are_named_and_their_number_told():
    """Five of them in the sentence, all in the JSON."""
    account = balance([changed(missing_ids=[f"id-{n}" for n in range(7)])], AlarmBooks())
    (fault,) = account.faults
    assert "7 records" in fault
    assert "id-4 and 2 more" in fault


def test_alarms_missing_unexpected_and_doubled_are_three_faults():
    """Rules of operators may raise what they like."""
    account = balance(
        [],
        AlarmBooks(
            expected={"stolen:1", "stolen:2"},
            raised=["stolen:1", "stolen:1", "stolen:9", "operator-rule:5"],
            city_rules={"stolen"},
        ),
    )
    assert account.alarms_missing == ["stolen:2"]
    assert account.alarms_unexpected == ["stolen:9"]
    assert account.alarms_of_operators == 1
    assert len(account.faults) == 3


def test_a_random_history_balances_and_any_lost_or_doubled_record_does_not(dice: random.Random):
    """Property: the equations hold for every history and for none that was tampered with."""
    for _ in range(300):
        stored, duplicates, here, edge = (dice.randrange(1, 1000) for _ in range(4))
        books = FlowBooks(
            kind="face",
            on_topic=stored + duplicates + here,
            edge_rejected=edge,
            in_flight=0,
            counted_sent=stored + here + edge,
            truth_sent=stored + here + edge,
            stored=stored,
            duplicates=duplicates,
            rejected={"no-time": here, "not-json": edge},
        )
        assert balance([books], AlarmBooks()).balanced
        victim = dice.choice(["on_topic", "edge_rejected", "stored", "duplicates"])
        lost = msgspec.structs.replace(
            books, **{victim: getattr(books, victim) + dice.choice([-1, 1])}
        )
        assert not balance([lost], AlarmBooks()).balanced
