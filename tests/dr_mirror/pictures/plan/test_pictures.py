"""Which pictures are copied, and when one is tried and compared again."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.pictures import is_safe_name
from bus.contracts.topics import DATA_TOPICS, DATA_VEHICLE, EVENT_ALARM
from dr_mirror.pictures.plan.pictures import (
    GIVE_UP_MS,
    LAST_RETRY_MS,
    MAX_PICTURES,
    CopyOutcome,
    RetainedPicture,
    WaitingPicture,
    next_comparison_ms,
    next_try_ms,
    picture_names,
)
from dr_mirror.policy.picture_policy import PicturePolicy
from dr_mirror.policy.proof_pace import ProofPace

NAME = "20261010/c/r-vehicle.jpg"
ADDRESS = f"http://10.1.0.7:8650/pictures/{NAME}"


def test_a_record_names_its_pictures_and_an_alarm_those_of_its_record():
    """Whatever host their addresses have; others' pictures have no name here."""
    record = json.dumps({
        "车辆图片地址": ADDRESS, "车牌图片地址": "http://elsewhere/a.jpg", "车牌号码": f"x{ADDRESS}",
    })  # fmt: skip
    assert picture_names(DATA_VEHICLE, record.encode()) == [NAME]
    alarm = json.dumps({"alarm_id": "a", "picture_url": f"/pictures/{NAME}", "record": record})
    assert picture_names(EVENT_ALARM, alarm.encode()) == [NAME]
    assert picture_names(EVENT_ALARM, None) == []


def test_the_policy_says_which_topics_are_read():
    assert PicturePolicy("none").topics == ()
    assert PicturePolicy("hits").topics == (EVENT_ALARM,)
    assert set(PicturePolicy("all").topics) == {*DATA_TOPICS, EVENT_ALARM}


@given(st.sampled_from([DATA_VEHICLE, EVENT_ALARM]), st.binary(max_size=300))
def test_any_bytes_of_a_record_give_safe_names_or_none(topic: str, value: bytes):
    assert all(is_safe_name(name) for name in picture_names(topic, value))


@given(
    st.dictionaries(
        st.sampled_from(["a图片地址", "图片地址", "picture_url", "record"]),
        st.one_of(st.text(max_size=40), st.integers(), st.none(), st.just(ADDRESS)),
        max_size=4,
    )
)
def test_any_record_gives_few_safe_names(fields: dict[str, object]):
    value = json.dumps(fields).encode()
    for topic in (DATA_VEHICLE, EVENT_ALARM):
        found = picture_names(topic, value)
        assert len(found) <= MAX_PICTURES
        assert all(is_safe_name(name) for name in found)


@given(st.integers(0, 10_000), st.sampled_from(CopyOutcome), st.integers(0, 2 * GIVE_UP_MS))
def test_a_picture_is_tried_again_ever_later_and_only_one_that_cannot_come_is_given_up(
    attempts: int, outcome: CopyOutcome, age_ms: int
):
    now_ms = 1_790_000_000_000
    again_ms = next_try_ms(WaitingPicture(NAME, now_ms - age_ms, attempts), outcome, now_ms)
    if outcome in (CopyOutcome.OTHER, CopyOutcome.REFUSED) or (outcome is CopyOutcome.ABSENT and age_ms >= GIVE_UP_MS):
        assert again_ms is None
    else:
        assert again_ms is not None
        assert 0 < again_ms - now_ms <= LAST_RETRY_MS


def test_what_was_copied_of_late_is_compared_more_often():
    pace = ProofPace(3_600_000, 60_000, 86_400_000)
    kept = RetainedPicture(NAME, b"", 1_000)
    assert next_comparison_ms(kept, pace, 2_000) == 62_000
    assert next_comparison_ms(kept, pace, 3_700_000) == 3_700_000 + 86_400_000
