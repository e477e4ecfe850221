"""The account's arithmetic: it balances to the record or says what does not add up."""

import random
from pathlib import Path

import msgspec
import pytest

from deploy.errors import OperatorError
from deploy.reconcile.accepted import accept, read_accepted
from deploy.reconcile.balance import (
    AlarmTotals,
    Difference,
    FlowTotals,
    GroundTruth,
    PassageTotals,
    balance,
)
from deploy.reconcile.report import print_reconciliation

GOOD = FlowTotals(
    kind="vehicle", on_topic=104, edge_rejected=2, in_flight=0, counted=103, uncounted=0,
    truth=GroundTruth(tried=103, arrived=102, rejected={"not-json": 2, "all-unreadable": 2}),
    stored=98, duplicates=3, rejected={"not-json": 2, "all-unreadable": 2}, rejected_again=1,
)  # fmt: skip


def changed(**what: object) -> FlowTotals:
    return msgspec.structs.replace(GOOD, **what)


def test_books_that_agree_balance():
    """106 arrived = 101 valid + 4 rejected + 1 again; one record never left the city."""
    account = balance([GOOD], AlarmTotals())
    assert account.faults == []
    assert account.balanced
    (line,) = account.flows
    assert (line.sent, line.arrived, line.valid, line.stored) == (103, 106, 101, 98)
    assert line.duplicates == 4


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize(
    "book", ["on_topic", "edge_rejected", "stored", "duplicates", "rejected_again", "counted"]
)
def test_one_record_more_or_less_in_any_book_is_a_fault(book: str, step: int):
    """No tolerance anywhere."""
    assert not balance([changed(**{book: getattr(GOOD, book) + step})], AlarmTotals()).balanced


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize("book", ["tried", "arrived"])
def test_one_record_more_or_less_in_the_truth_is_a_fault(book: str, step: int):
    """The city's own totals are checked like the others."""
    truth = msgspec.structs.replace(GOOD.truth, **{book: getattr(GOOD.truth, book) + step})
    assert not balance([changed(truth=truth)], AlarmTotals()).balanced


def test_what_no_edge_handed_over_was_written_directly():
    """By the topics' ends, whoever wrote it."""
    (line,) = balance([changed(by_edges=80)], AlarmTotals()).flows
    assert (line.arrived, line.directly) == (106, 26)
    assert balance([changed(by_edges=106)], AlarmTotals()).balanced


def test_what_edges_may_still_tell_is_shown_as_a_bound(capsys: pytest.CaptureFixture[str]):
    """A number that may fall by itself is none; no record at all cannot become fewer."""
    some, none = changed(by_edges=80, edges_reported=False), changed(by_edges=106, edges_reported=False)
    print_reconciliation(balance([some], AlarmTotals()), as_json=False)
    said = capsys.readouterr().out
    assert "≤ 26" in said
    assert "at its next start" in said
    print_reconciliation(balance([none], AlarmTotals()), as_json=False)
    assert "≤ 0" not in capsys.readouterr().out
    print_reconciliation(balance([changed(by_edges=80)], AlarmTotals()), as_json=False)
    assert "≤" not in capsys.readouterr().out


def test_an_edge_that_handed_over_more_than_the_topics_held_is_a_fault():
    """The brokers had acknowledged it, and it is gone."""
    account = balance([changed(by_edges=107)], AlarmTotals())
    assert account.faults == [
        "vehicle: edges have handed over 107 records, the topics have held 106"
    ]


def test_a_false_counter_names_device_minute_and_sender():
    """Regression: `-21` for ever, and nobody knew whose."""
    wrong = Difference(camera_ip="10.0.0.1", minute_ms=1_795_878_180_000, sent=46, kept=25,
                       senders=["film"])  # fmt: skip
    account = balance([changed(counted=GOOD.counted + 21, differences=[wrong])], AlarmTotals())
    (fault,) = account.faults
    assert "-21" in fault
    assert "device 10.0.0.1, 2026-11-28 15:03 UTC: 46 counted by film, 25 kept" in fault


def test_a_difference_that_a_person_accepts_is_no_fault_and_is_shown_for_ever(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Only for who asks with the file: a demo balances without it."""
    wrong = changed(counted=GOOD.counted + 21)
    account = balance([wrong], AlarmTotals())
    accept(tmp_path, account, "vehicle:-21", "Li Ming", "a test wrote a counter by hand")
    known = read_accepted(tmp_path)
    taken = changed(counted=GOOD.counted + 21, accepted=known[0].difference)
    again = balance([taken], AlarmTotals(), known)
    assert again.balanced
    assert not balance([wrong], AlarmTotals()).balanced
    print_reconciliation(again, as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "accepted by Li Ming" in shown
    assert "vehicle -21, a test wrote a counter by hand" in shown
    more = msgspec.structs.replace(taken, counted=taken.counted + 1)
    assert not balance([more], AlarmTotals(), known).balanced, "no more than that"


@pytest.mark.parametrize(
    ("stated", "by", "reason"),
    [("vehicle:-20", "me", "why"), ("vehicle:21", "me", "why"), ("face:-21", "me", "why"),
     ("vehicle", "me", "why"), ("", "me", "why"), ("face:None", "me", "why"), ("vehicle:-21", " ", "why"),
     ("vehicle:-21", "me", ""), ("vehicle:-21", "me", "x" * 501)],
)  # fmt: skip
def test_nothing_is_accepted_but_the_stated_difference_with_a_name_and_a_reason(
    stated: str, by: str, reason: str, tmp_path: Path
):
    account = balance([changed(counted=GOOD.counted + 21)], AlarmTotals())
    with pytest.raises(OperatorError):
        accept(tmp_path, account, stated, by, reason)
    assert read_accepted(tmp_path) == []


def test_a_record_in_flight_is_a_fault_of_its_own():
    """After the drain there must be none, even if the sums agree."""
    account = balance([changed(on_topic=105, in_flight=1)], AlarmTotals())
    assert account.faults == ["vehicle: 1 records are still in flight"]


def test_while_records_come_only_bus_and_store_are_judged():
    """Before, an account of a living bus said FAIL: its totals were of different moments. What bus
    and store say of one moment must agree all the same."""
    ahead = changed(is_alive=True, counted=90, in_flight=7, on_topic=111)
    account = balance([ahead], AlarmTotals())
    assert (account.balanced, account.is_alive) == (True, True)
    lost = msgspec.structs.replace(ahead, stored=97)
    assert balance([lost], AlarmTotals()).faults[0].endswith("1 off")


def test_a_record_rejected_for_another_reason_than_the_city_knows_is_a_fault():
    """The sums agree, the reasons do not."""
    account = balance([changed(rejected={"not-json": 1, "all-unreadable": 3})], AlarmTotals())
    assert account.faults == ["vehicle: rejected 3 all-unreadable and not 2, 1 not-json and not 2"]


def test_films_and_replays_beside_the_city_are_held_to_what_they_counted():
    """Ten more counted, ten more stored; nine would be a loss."""
    assert balance([changed(counted=113, stored=108, on_topic=114)], AlarmTotals()).balanced
    account = balance([changed(counted=113, stored=107, on_topic=113)], AlarmTotals())
    assert account.faults == ["vehicle: stored and rejected are 111 records, 112 are due; -1"]


def test_devices_that_do_not_count_themselves_are_no_fault():
    """A camera of a user: five records, no counters."""
    assert balance([changed(uncounted=5, stored=103, on_topic=109)], AlarmTotals()).balanced


def test_alarms_missing_unexpected_and_doubled_are_three_faults():
    """Rules of operators may raise what they like."""
    account = balance(
        [],
        AlarmTotals(
            expected={"stolen:1", "stolen:2"},
            raised=["stolen:1", "stolen:1", "stolen:9", "operator-rule:5"],
            city_rules={"stolen"},
        ),
    )
    assert account.alarms_missing == ["stolen:2"]
    assert account.alarms_unexpected == ["stolen:9"]
    assert account.alarms_of_operators == 1
    assert len(account.faults) == 3


def test_an_alarm_of_a_record_that_left_while_the_account_was_made_is_no_fault():
    """Regression: the truth was read first and the alarms last; under load an alarm came between."""
    alarms = AlarmTotals(
        expected={"stolen:1"},
        sent_meanwhile={"stolen:1", "stolen:2"},
        raised=["stolen:1", "stolen:2", "stolen:9"],
        city_rules={"stolen"},
    )
    assert balance([], alarms).alarms_unexpected == ["stolen:9"]


def test_a_random_history_balances_and_any_lost_or_doubled_record_does_not(dice: random.Random):
    """Property: the equations hold for every history and for none that was tampered with."""
    for _ in range(300):
        stored, duplicates, here, edge = (dice.randrange(1, 1000) for _ in range(4))
        rejected = {"no-time": here, "not-json": edge}
        sent = stored + here + edge
        books = FlowTotals(
            kind="face", on_topic=stored + duplicates + here, edge_rejected=edge, in_flight=0,
            counted=sent, uncounted=0, truth=GroundTruth(tried=sent, arrived=sent, rejected=rejected),
            stored=stored, duplicates=duplicates, rejected=rejected,
        )  # fmt: skip
        assert balance([books], AlarmTotals()).balanced
        victim = dice.choice(["on_topic", "edge_rejected", "stored", "duplicates", "counted"])
        off = getattr(books, victim) + dice.choice([-1, 1])
        assert not balance([msgspec.structs.replace(books, **{victim: off})], AlarmTotals()).balanced


def test_people_read_why_records_were_rejected(capsys: pytest.CaptureFixture[str]):
    """Each flow's reasons with their counts, the most frequent first."""
    rejected = {"not-json": 2, "all-unreadable": 3}
    account = balance([changed(rejected=rejected)], AlarmTotals())
    print_reconciliation(account, as_json=False)
    assert "rejected of vehicle: 3 all-unreadable, 2 not-json" in capsys.readouterr().out


def test_what_fell_into_a_quiet_time_is_expected_and_no_alarm_of_its_own() -> None:
    """Each expected record is an alarm, or one stands for it; both are figures of the account."""
    passages = PassageTotals(suppressed={"r:2": "r:1"})
    account = balance([GOOD], AlarmTotals(
        expected={"r:1", "r:2"}, raised=["r:1"], city_rules={"r"}, passages=passages,
    ))  # fmt: skip
    assert account.balanced
    assert (account.alarms_raised, account.alarms_suppressed) == (1, 1)


@pytest.mark.parametrize(("passages", "says"), [
    (PassageTotals(suppressed={"r:1": "r:9"}), "raised and suppressed as well"),
    (PassageTotals(suppressed={"r:2": "r:9"}), "suppressed for an alarm that was not raised"),
    (PassageTotals(suppressed={"r:2": "r:1"}, too_far=["r:2"]), "outside of the quiet time"),
    (PassageTotals(suppressed={"r:2": "r:1"}, too_near=["r:1"]), "within the quiet time"),
    (PassageTotals(suppressed={"r:2": "r:1", "r:3": "r:1"}), "raised and not expected"),
    (PassageTotals(), "expected and not raised"),
])  # fmt: skip
def test_a_passage_that_was_suppressed_wrongly_is_a_fault(passages: PassageTotals, says: str) -> None:
    """Whatever is wrong with it is a sentence."""
    account = balance([GOOD], AlarmTotals(
        expected={"r:1", "r:2"}, raised=["r:1"], city_rules={"r"}, passages=passages,
    ))  # fmt: skip
    assert any(says in fault for fault in account.faults)
