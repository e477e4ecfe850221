"""Plates: one normal form and one vocabulary, for rules, search, store and partition key alike.

In: a plate as a device or an operator wrote it. Out: its form, its key (empty when it names no
vehicle), what was left out of it. Never: guessing unread characters; reading anything into the mark
of one. How plates are searched: `plate_search`. ADR 0076. Source: Q-0 (spaces, full-width letters,
case), GA/T 1400 (`-` = unread).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from bus.contracts.keys import NO_PLATE, UNREADABLE
from bus.domain.ignorable import is_ignorable

# What devices write where a vehicle has no plate or none was read, in the form of `folded`.
NO_PLATE_WORDS = frozenset(
    {NO_PLATE, UNREADABLE, "", "无牌", "无牌车", "未识别", "未知", "UNKNOWN", "NULL", "NONE"}
)
HYPHEN, UNREAD, ANY_RUN = "-", "?", "*"
"""What may separate or stand for an unread character; an unread character; in a search, any run."""
MARKS = ANY_RUN + UNREAD + HYPHEN + "#_×"
"""Characters that stand for an unread or hidden one (after NFKC)."""
MAX_PLATE_CHARACTERS = 16  # GA/T 1400 allows 15; longer text is no plate
PROVINCES = "京津冀晋蒙辽吉黑沪苏浙皖闽赣鲁豫鄂湘粤桂琼渝川贵云藏陕甘青宁新"  # GA 36
PROVINCE_LENGTHS = (7, 8)  # 8: of cars with electric drive
# People print a dot between the district letter and the number, or a space.
_USUAL_SEPARATORS = frozenset("·•・.‧∙ \u3000\t\r\n\u00a0")
_OF_SERIAL = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"  # behind the province, in a plate of 8
_TO_UNREAD = str.maketrans("#_×", UNREAD * 3)
_is_usual = re.compile(f"[{PROVINCES}][A-Z0-9]{{6,7}}").fullmatch
"""Whether a plate stands there as the normal form has it, as nearly all do: to see that takes less
time and memory than to remember it."""
_OTHERS = 4_096  # texts remembered that are none of these: a batch repeats words like "no plate"


def folded(plate: str) -> str:
    """The normal form: half-width capitals and digits, and the marks of unread characters. Each
    character is judged by itself, so that one that stays out never changes its neighbours."""
    return unicodedata.normalize("NFC", plate.translate(_FOLDED))


def with_single_runs(text: str) -> str:
    """A folded text in which `*` stands for any run: several in a row are one."""
    return re.sub(r"\*+", ANY_RUN, text)


class FoldedCharacters(dict[int, str]):
    """What `str.translate` puts for each character; those of a plate are kept as they are met."""

    def __missing__(self, code: int) -> str:
        wide = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", chr(code)).upper())
        found = "".join(one for one in wide if one in MARKS or _is_letter_or_digit(one))
        if code <= _LAST_KEPT:
            self[code] = found
        return found


_LAST_KEPT = 0xFFFF  # a bound of memory: the characters of real plates lie below
_FOLDED = FoldedCharacters()


def _is_letter_or_digit(character: str) -> bool:
    return unicodedata.category(character)[0] in "LN" and not is_ignorable(character)


def left_out(plate: str) -> tuple[str, ...]:
    """What the normal form leaves out beyond spaces and printed separators, once each, by name:
    `U+200B ZERO WIDTH SPACE`."""
    return () if _is_usual(plate) else _left_out(plate)


@lru_cache(maxsize=_OTHERS)
def _left_out(plate: str) -> tuple[str, ...]:
    if folded(plate) == plate:
        return ()
    gone = (one for one in dict.fromkeys(plate) if not one.translate(_FOLDED))
    return tuple(_named(one) for one in gone if one not in _USUAL_SEPARATORS)


def _named(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".strip()


def means_no_plate(plate: str) -> bool:
    """Whether the text is an answer ("there is none", "not read") and no plate."""
    return folded(plate).replace(HYPHEN, "") in NO_PLATE_WORDS


def plate_form(plate: str) -> str:
    """What is known of the plate, in one spelling: `?` for each unread character, a hyphen where it
    may stand for one or separate; empty when nothing was read or it is no plate at all."""
    return plate if _is_usual(plate) else _plate_form(plate)


@lru_cache(maxsize=_OTHERS)
def _plate_form(plate: str) -> str:
    form = folded(plate)
    if not form.isalnum():
        form = with_read_marks(form.replace(ANY_RUN, UNREAD))
    is_plate = form.strip(UNREAD + HYPHEN) and form not in NO_PLATE_WORDS
    return form if is_plate and len(form) <= MAX_PLATE_CHARACTERS else ""


def plate_text(written: str) -> str:
    """The one form in which people are shown a plate; as it was written where that names none."""
    return plate_form(written) or written


def with_read_marks(text: str) -> str:
    """A folded text with `?` for each mark, and a hyphen only where it is not known what it is.

    A hyphen is a mark only where the plate begins with a province's character and has, with it, a
    length that exists there; elsewhere it separates."""
    text = text.translate(_TO_UNREAD)
    whole = text.replace(HYPHEN, "")
    if text[:1] not in PROVINCES or len(text) not in PROVINCE_LENGTHS:
        return whole
    return text if len(whole) in PROVINCE_LENGTHS else text.replace(HYPHEN, UNREAD)


def plate_key(plate: str) -> str:
    """The plate in its one spelling; empty when unread, masked, doubtful, absent or none at all."""
    form = plate_form(plate)
    return form if is_whole(form) else ""


def partly_read_form(plate: str) -> str:
    """The form of a plate of which something was not read or is doubtful; empty for any other."""
    form = plate_form(plate)
    return "" if is_whole(form) else form


def is_whole(form: str) -> bool:
    """Whether all of a plate was read, so that it names one vehicle."""
    return UNREAD not in form and HYPHEN not in form


def is_doubtful(form: str) -> bool:
    """Whether a hyphen in it may separate or stand for a character that was not read."""
    return HYPHEN in form


def readings(form: str) -> tuple[str, ...]:
    """What a form may mean: its hyphens separate, or stand for characters that were not read."""
    if not is_doubtful(form):
        return (form,)
    return form.replace(HYPHEN, ""), form.replace(HYPHEN, UNREAD)


def wanted_vehicle(plate: str) -> str:
    """The plate a rule looks for; a hyphen in it separates. Empty where it names no vehicle."""
    found = readings(plate_form(plate))[0]
    return found if is_whole(found) else ""


def vehicles_of(form: str) -> tuple[str, ...]:
    """The plates that a rule may know the vehicle by: one, none if masked, and of a doubtful
    reading each that it may be."""
    if not is_doubtful(form):
        return (form,) if form and is_whole(form) else ()
    whole, masked = readings(form)
    if not is_whole(whole):
        return ()
    return (whole, *(masked.replace(UNREAD, sign) for sign in _OF_SERIAL))
