"""The normal form of plates: what is no letter, digit or mark changes nothing, wherever it stands."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alarm.rules.ruleset import compile_rules
from bus.contracts.commands import WatchCommand
from bus.domain import plates
from bus.domain.identity import key_of
from bus.domain.ignorable import is_ignorable
from bus.domain.plate_search import asks_as_written, fits, patterns, whole_plate
from bus.domain.plates import (
    MARKS,
    PROVINCES,
    folded,
    is_doubtful,
    is_whole,
    left_out,
    plate_form,
    plate_key,
    readings,
    vehicles_of,
)
from bus.domain.rule_values import attributes_of

# As Unicode's DerivedCoreProperties.txt has it, of categories L and N.
FILLERS = "\u115f\u1160\u3164\uffa0"
WHOLE = ["浙A12345", "浙AD12345", "WJ浙1234X", "使014578", "AB102CD", "粤ZA123港", "МА123К77", "가12나3456"]
MASKED = ["浙B1*345", "浙B?12349", "浙A#1234", "浙A×1234", "浙A_1234", "浙A-1234"]


# Every character that Unicode knows, and the ends of what it does not.
EVERY = [one for one in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(one) not in ("Cn", "Co", "Cs")]
EVERY += ["\ud800", "\udfff", "\ue000", "\u0378", "\uffff", "\U000e0080", "\U0010ffff"]


def is_kept(character: str) -> bool:
    """By the definition, apart from the code that is tested."""
    wide = unicodedata.normalize("NFKC", character).upper()
    return any(one in MARKS or (unicodedata.category(one)[0] in "LN" and one not in FILLERS) for one in wide)


OTHERS = st.characters().filter(lambda one: not is_kept(one))


@given(st.sampled_from([*WHOLE, *MASKED]), OTHERS, st.integers(0, 9))
@example("浙A10002", "\0", 7)
@example("浙A10003", "\u200b", 3)
@example("AB102CD", "\u0301", 1)
@example("浙A12345", "\ud800", 2)
def test_what_is_no_letter_digit_or_mark_changes_no_key_no_rule_and_no_search(plate: str, odd: str, at: int):
    """Regression: a NUL or a zero-width space inside a stolen car's plate hid it."""
    written = plate[:at] + odd + plate[at:]
    assert plate_form(written) == plate_form(plate) != ""
    assert plate_key(written) == plate_key(plate)
    assert key_of("vehicle", plate_number=written) == key_of("vehicle", plate_number=plate)
    assert patterns(written) == patterns(plate)
    assert fits(plate, plate_form(written))
    assert fits(written, plate_form(plate))
    for rule, record in ((plate, written), (written, plate)):
        command = WatchCommand(rule_id="r", op="put", version=1, match={"plate_number": [rule]})
        found = compile_rules([command]).match("vehicle", attributes_of("vehicle", {"车牌号码": record}))
        assert bool(found) is bool(plate_key(plate))


def test_every_character_that_is_none_stays_out_and_all_others_stay_the_same_when_read_again():
    """All of Unicode, once."""
    for one in EVERY:
        form = folded(one)
        assert folded(form) == form, ascii(one)
        if not is_kept(one):
            assert form == "", ascii(one)
            assert folded(f"浙A{one}1") == "浙A1", ascii(one)


def test_the_letters_that_readers_do_not_show_are_those_of_unicode():
    """Default_Ignorable_Code_Point of category L or N; all others are no letters anyway."""
    # Format characters but those that are shown: U+FFF9…, prepended marks, Egyptian controls.
    shown = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0xFFF9, 0xFFFC),
             *range(0x13430, 0x13440)}  # fmt: skip
    letters = ""
    for one in EVERY:
        category = unicodedata.category(one)
        if category[0] in "LN" and is_ignorable(one):
            letters += one
        if category == "Cf":
            assert is_ignorable(one) is (ord(one) not in shown), ascii(one)
        if category == "Mn" and "VARIATION SELECTOR" in unicodedata.name(one):
            assert is_ignorable(one), ascii(one)
    assert letters == FILLERS


def test_what_went_is_named_but_for_spaces_and_printed_dots():
    """The warning of the edge and of `check-message`."""
    assert left_out("浙A1\u200b0\u200b003\0") == ("U+200B ZERO WIDTH SPACE", "U+0000")
    assert left_out(" 浙Ａ·1234 5\t") == ()
    assert left_out("AB-102-CD*") == ()


@given(st.text(max_size=20) | st.text(PROVINCES + "AB01-*?#_× \0", max_size=10))
def test_a_partly_read_plate_never_becomes_a_whole_one(written: str):
    """A mark of an unread character stays one, whatever stands around it."""
    marks = set(folded(written)) & set(MARKS) - {"-"}
    form = plate_form(written)
    if marks:
        assert plate_key(written) == ""
        assert vehicles_of(form) == ()
    assert plate_key(plate_form(written)) in ("", form)
    assert is_whole(form) is (form in ("", plate_key(written)))


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("AB-102-CD", "AB102CD"), ("浙A-1234", "浙A?1234"), ("浙A-12345", "浙A-12345"), ("浙-A-12345", "浙A12345"),
        ("浙A--1234", "浙A??1234"), ("浙A*-2345", "浙A?-2345"), ("使-014578", "使014578"), ("----", ""), ("***", ""), ("-", ""),
        ("浙Ａ－12345", "浙A-12345"), ("浙B1*345", "浙B1?345"), ("无-车牌", ""),
    ],
)  # fmt: skip
def test_a_hyphen_is_a_mark_only_where_a_plate_of_a_province_may_be(written: str, form: str):
    """Province's character first, and a length of 7 or 8 with it; doubtful where 7 remain of 8."""
    assert plate_form(written) == form
    assert plate_form(form) == form


def test_a_doubtful_plate_is_met_by_a_rule_for_either_reading_and_has_no_key():
    """As 7 characters with a separator, as 8 of which one was not read."""
    form = plate_form("浙A-12345")
    assert is_doubtful(form)
    assert readings(form) == ("浙A12345", "浙A?12345")
    assert key_of("vehicle", plate_number="浙A-12345") is None
    attributes = attributes_of("vehicle", {"车牌号码": "浙A-12345"})
    for plate, is_found in (("浙A12345", True), ("浙AD12345", True), ("浙A-12345", True), ("浙A12346", False),
                            ("浙AD12346", False)):  # fmt: skip
        command = WatchCommand(rule_id="r", op="put", version=1, match={"plate_number": [plate]})
        assert bool(compile_rules([command]).match("vehicle", attributes)) is is_found, plate


@pytest.mark.parametrize(
    ("asked", "form", "is_found"),
    [
        ("浙B12345", "浙B1?345", True), ("浙B12346", "浙B1?345", False), ("浙B?2345", "浙B12345", True), ("浙B?2345", "浙B2345", False),
        ("浙B*", "浙B?12349", True), ("浙B#12349", "浙BD12349", True), ("浙A-12345", "浙A12345", True), ("浙A-12345", "浙AD12345", True),
        ("浙AD12345", "浙A-12345", True), ("浙A12345", "浙A-12345", True), ("浙A-*", "浙A12345", True), ("浙A1234", "浙A-12345", False),
        ("*345", "浙B1??45", True), ("", "浙A12345", False), ("AB-1*", "AB102CD", True), ("???????", "浙B12345", True),
    ],
)  # fmt: skip
def test_a_character_that_was_not_read_fits_every_one(asked: str, form: str, is_found: bool):
    """And `?` in a question is exactly one, `*` any run."""
    assert fits(asked, form) is is_found


def test_what_is_no_plate_is_asked_for_as_it_was_written():
    """Words for a missing plate, and what is too long for one."""
    assert [asks_as_written(text) for text in ("无车牌", "null", "-", "x" * 17, "浙A12345", "浙B*", "浙A?1234")] == [
        True, True, True, True, False, False, False]  # fmt: skip
    assert [whole_plate(text) for text in ("浙a 12345", "浙A-12345", "浙A?2345", "浙A*")] == ["浙A12345", "", "", ""]


@given(
    st.from_regex(rf"[{PROVINCES}挂A-C-][A-Z0-9?-]{{5,8}}", fullmatch=True)
    | st.text(st.sampled_from(PROVINCES + "AZ09a０-?· 无牌"), max_size=9)
)
@example("京A12345")
@example("京AD12345")
@example("京a12345")
@example("京A12345\n")
def test_a_usual_plate_is_seen_without_a_memory_and_is_what_the_rules_make_of_it(plate: str):
    assert plate_form(plate) == plates._plate_form.__wrapped__(plate)
    assert left_out(plate) == plates._left_out.__wrapped__(plate)


def test_a_city_of_plates_fills_no_memory() -> None:
    """What broke: two memories of 65,536 plates, 27 MB, in each process that reads records."""
    for number in range(20_000):
        plate_form(f"京A{number:05d}")
        left_out(f"京A·{number:05d}")
    for cache in (plates._plate_form, plates._left_out):
        assert cache.cache_info().currsize <= 4_096
