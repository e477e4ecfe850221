"""What is to be copied outlives the mirror: nothing is forgotten, nothing is copied twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.client.model import TopicPartition
from dr_mirror.pictures.picture_file import PictureFile, PictureFileError
from dr_mirror.pictures.plan.pictures import CopyOutcome, PictureCheck, TriedPicture
from dr_mirror.policy.proof_pace import ProofPace

PACE = ProofPace(3_600_000, 60_000, 86_400_000)
PLACE = TopicPartition("data.vehicle", 1)
NOW_MS = 1_790_000_000_000
DIGEST = bytes(32)


def copied(file: PictureFile, *names: str, outcome: CopyOutcome = CopyOutcome.COPIED) -> None:
    due = {one.name: one for one in file.due(NOW_MS, 100)}
    tried = [(due[name], TriedPicture(name, outcome, DIGEST, 10, "why")) for name in names]
    file.settle(tried, PACE, NOW_MS)


def test_names_and_positions_are_there_after_a_restart_and_those_of_another_cluster_are_not(
    tmp_path: Path,
):
    file = PictureFile(tmp_path / "pictures.db")
    file.add(["a", "b", "a"], NOW_MS, "B", {PLACE: 7})
    file.close()
    file = PictureFile(tmp_path / "pictures.db")
    assert [one.name for one in file.due(NOW_MS, 10)] == ["a", "b"]
    assert file.positions("B") == {PLACE: 7}
    assert file.positions("another") == {}
    assert file.waiting() == (2, NOW_MS)
    file.close()


def test_positions_of_a_topic_that_was_made_anew_are_void_and_those_of_others_stand(tmp_path: Path):
    """Over a restart; a file that has never heard of ids keeps its positions."""
    file = PictureFile(tmp_path / "pictures.db")
    other = TopicPartition("data.face", 0)
    file.add([], NOW_MS, "B", {PLACE: 7, other: 3})
    file.add([], NOW_MS, "C", {PLACE: 9})
    file.stand_on("B", {"data.vehicle": "one", "data.face": "two"})
    assert file.positions("B") == {PLACE: 7, other: 3}
    file.close()
    file = PictureFile(tmp_path / "pictures.db")
    file.stand_on("B", {"data.vehicle": "one"})
    assert file.positions("B") == {PLACE: 7, other: 3}
    file.stand_on("B", {"data.vehicle": "three", "data.face": "two"})
    assert (file.positions("B"), file.positions("C")) == ({other: 3}, {PLACE: 9})
    file.close()


def test_a_picture_that_was_copied_or_given_up_is_not_copied_again(tmp_path: Path):
    """Its record may be read again, and an alarm has the same picture."""
    file = PictureFile(tmp_path / "pictures.db")
    file.add(["a", "b", "c"], NOW_MS)
    copied(file, "a")
    copied(file, "b", outcome=CopyOutcome.OTHER)
    file.add(["a", "b", "c"], NOW_MS + 1)
    assert [one.name for one in file.due(NOW_MS + 1, 10)] == ["c"]
    assert file.totals() == {"copied": (1, 10), "other": (1, 0)}
    assert file.given_up([CopyOutcome.OTHER]) == [("b", "why")]
    file.close()


def test_an_edge_that_is_away_costs_a_picture_nothing_and_one_that_is_absent_waits(tmp_path: Path):
    file = PictureFile(tmp_path / "pictures.db")
    file.add(["a", "b"], NOW_MS)
    copied(file, "a", outcome=CopyOutcome.AWAY)
    copied(file, "b", outcome=CopyOutcome.ABSENT)
    assert [one.name for one in file.due(NOW_MS, 10)] == ["a"]
    (again,) = [one for one in file.due(NOW_MS + 10_000, 10) if one.name == "b"]
    assert (again.first_ms, again.attempts) == (NOW_MS, 1)
    file.close()


def test_one_that_differs_stays_named_until_it_is_equal_and_one_that_is_gone_is_forgotten(
    tmp_path: Path,
):
    file = PictureFile(tmp_path / "pictures.db")
    file.add(["a", "b"], NOW_MS)
    copied(file, "a", "b")
    assert file.to_compare(NOW_MS, 10) == []
    later_ms = NOW_MS + PACE.interval_ms
    a, b = file.to_compare(later_ms, 10)
    file.compared([(a, PictureCheck.DIFFERS), (b, PictureCheck.GONE)], PACE, later_ms)
    assert (file.differing(), file.retained()) == (["a"], (1, later_ms))
    file.compared([(a, PictureCheck.AWAY)], PACE, later_ms)
    assert file.differing() == ["a"]
    file.compared([(a, PictureCheck.EQUAL)], PACE, later_ms)
    assert file.differing() == []
    file.close()


def test_the_oldest_are_forgotten_beyond_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("dr_mirror.pictures.picture_file.MAX_RETAINED", 3)
    file = PictureFile(tmp_path / "pictures.db")
    for number in range(5):
        file.add([f"p{number}"], NOW_MS + number)
        due = file.due(NOW_MS + number, 10)
        tried = [(one, TriedPicture(one.name, CopyOutcome.COPIED, DIGEST, 1)) for one in due]
        file.settle(tried, PACE, NOW_MS + number)
    kept = [one.name for one in file.to_compare(NOW_MS + PACE.scrub_ms, 10)]
    assert kept == ["p2", "p3", "p4"]
    file.close()


def test_topics_are_read_no_further_while_too_many_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("dr_mirror.pictures.picture_file.MAX_WAITING", 2)
    file = PictureFile(tmp_path / "pictures.db")
    assert file.has_room()
    file.add(["a", "b"], NOW_MS)
    assert not file.has_room()
    copied(file, "a")
    assert file.has_room()
    file.close()


def test_a_second_mirror_is_told_who_has_the_file(tmp_path: Path):
    file = PictureFile(tmp_path / "pictures.db")
    with pytest.raises(PictureFileError, match="another mirror"):
        PictureFile(tmp_path / "pictures.db")
    file.close()
    PictureFile(tmp_path / "pictures.db").close()
