"""Which lists of plates and galleries of faces may be asked for: one answer for decider,
console, API and command line. Pure.

In: a request. Out: `CommandError`, or nothing. Never: what stands on the topics: that is the
decider's (`alarm.decisions.list_machine`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import date

from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import FaceLine, ListCommand, ListLine, NamedChunk
from bus.contracts.version_floor import FLOOR_KEY
from bus.domain.command_error import CommandError, check_length
from bus.domain.feature_models import Models, is_feature, known_model, with_threshold
from bus.domain.list_chunks import CHUNK_LINES
from bus.domain.plates import PROVINCE_LENGTHS, PROVINCES, plate_key
from bus.domain.rule_check import MAX_NAME_CHARACTERS

MAX_LISTS = 100  # in force
MAX_LINES = 5_000_000  # of all lists in force together
MAX_CHUNKS = 1_000  # of a base; those of long notes have fewer lines
MAX_CHANGED_AT_ONCE = 1_000  # lines of one change: it is decided and matched at once
MAX_CHANGES = 1_000  # since a base: each record of the list names them all
MAX_CHANGED_LINES = 50_000  # since a base: they are held in memory beside it
MANY_CHANGED_LINES = 10_000  # from here on people are told that a new base is due
MAX_FACES = 100_000  # of all galleries in force together: 512 floats of each are 205 MB
MAX_FACES_AT_ONCE = 100  # of one change: a request is a message of at most a mebibyte
MAX_CHANGED_FACES = 2_000  # since a base: each process holds their features beside it
MAX_ENTRY_CHARACTERS = 64
MAX_NOTE_CHARACTERS = 200
MAX_TEXT_CHARACTERS = 200
MAX_RENEWAL_DAYS = 3_660
LARGEST_REMOVED_SHARE = 0.2  # a file that lacks more is often half of one

_LEAST_CHARACTERS = 5
_is_list_id = re.compile(r"[A-Za-z0-9\u4e00-\u9fff][A-Za-z0-9\u4e00-\u9fff._-]{0,63}").fullmatch
_is_base = re.compile(r"[0-9a-f]{32}").fullmatch
_is_sha256 = re.compile(r"[0-9a-f]{64}").fullmatch
_is_tail_of_province = re.compile(r"[A-Z][A-Z0-9港澳学警挂领试超]+").fullmatch
_TEXTS = ("owner", "source", "legal_ground")


def check_list_id(list_id: str) -> None:
    """Raises `CommandError`."""
    if _is_list_id(list_id) is None or list_id == FLOOR_KEY:
        raise CommandError(
            "list_id", "write 1 to 64 letters, digits, dots, hyphens or underlines", "list_id"
        )


def check_text(command: ListCommand) -> None:
    """What is said of a list, without its lines. Raises `CommandError`."""
    check_list_id(command.list_id)
    if not 0 < len(command.name) <= MAX_NAME_CHARACTERS:
        raise CommandError("name", f"1 to {MAX_NAME_CHARACTERS} characters", "name_length")
    for field in _TEXTS:
        check_length(field, getattr(command, field), MAX_TEXT_CHARACTERS)
    _check_date("date", command.date)
    if not 0 <= command.renewal_days <= MAX_RENEWAL_DAYS:
        raise CommandError("renewal_days", f"0 (never) to {MAX_RENEWAL_DAYS} days", "renewal_days")


def check_base(command: ListCommand) -> None:
    """How a request names the chunks of its base. Raises `CommandError`."""
    if _is_base(command.base) is None:
        raise CommandError("base", "a base is named by 32 hexadecimal digits", "base")
    if not 0 < len(command.chunks) <= MAX_CHUNKS:
        raise CommandError("chunks", f"a base has 1 to {MAX_CHUNKS} chunks", "chunks")
    for number, chunk in enumerate(command.chunks):
        if chunk.number != number or not _is_named(chunk):
            raise CommandError(
                "chunks", f"chunk {number} needs its number, SHA-256 and 1 to {CHUNK_LINES} lines",
                "chunks",
            )  # fmt: skip


def _is_named(chunk: NamedChunk) -> bool:
    return 0 < chunk.lines <= CHUNK_LINES and _is_sha256(chunk.sha256) is not None


def check_change(lines: Sequence[ListLine], removed: Sequence[str]) -> None:
    """The lines of a change. Raises `CommandError`."""
    if not 0 < len(lines) + len(removed) <= MAX_CHANGED_AT_ONCE:
        raise CommandError(
            "put_lines", f"1 to {MAX_CHANGED_AT_ONCE} lines at once; more are an import",
            "line_count",
        )  # fmt: skip
    plates = [line.plate for line in lines] + list(removed)
    if len(set(plates)) < len(plates):
        twice = next(plate for plate in plates if plates.count(plate) > 1)
        raise CommandError("put_lines", f"{twice[:20]!r} stands twice", "plate_twice")
    for plate in plates:
        if plate_key(plate) != plate or not is_list_plate(plate):
            raise CommandError("put_lines", f"{plate[:20]!r} is no plate as lists write one",
                               "plate")  # fmt: skip
    for line in lines:
        _check_texts("put_lines", line)


def _check_texts(field: str, line: ListLine | FaceLine) -> None:
    """What people read of it."""
    if len(line.note) > MAX_NOTE_CHARACTERS:
        raise CommandError(
            field, f"a note has at most {MAX_NOTE_CHARACTERS} characters", "note_length"
        )
    _check_date(field, line.date)


def checked_model(command: ListCommand, models: Models) -> FeatureModel | None:
    """The model of a gallery as this site has it, with the threshold that was asked for; None of a
    list of plates. Raises `CommandError`."""
    asked = command.model
    if not command.is_gallery:
        if asked is not None:
            raise CommandError("model", "a list of plates has no model", "model")
        return None
    if asked is None:
        raise CommandError("model", "a gallery of faces has a model", "unknown_model")
    own = known_model(models, asked.name)
    if (asked.dimensions, asked.measure) != (own.dimensions, own.measure):
        raise CommandError("model", f"here {own.name} has {own.dimensions} dimensions and is"
                           f" compared by {own.measure}", "other_model")  # fmt: skip
    return with_threshold(own, asked.threshold)


def check_face_change(
    model: FeatureModel, lines: Sequence[FaceLine], removed: Sequence[str]
) -> None:
    """The lines of a change of a gallery. Raises `CommandError`."""
    if not 0 < len(lines) + len(removed) <= MAX_FACES_AT_ONCE:
        raise CommandError("put_faces", f"1 to {MAX_FACES_AT_ONCE} faces at once; more are an"
                           " import", "line_count")  # fmt: skip
    entries = [line.entry for line in lines] + list(removed)
    if len(set(entries)) < len(entries):
        raise CommandError("put_faces", "an entry stands twice", "entry_twice")
    for entry in entries:
        if not is_entry(entry):
            raise CommandError("put_faces", f"{entry[:20]!r}: an entry has 1 to"
                               f" {MAX_ENTRY_CHARACTERS} visible characters", "entry")  # fmt: skip
    for line in lines:
        _check_texts("put_faces", line)
        if not is_feature(line.feature, model):
            raise CommandError("put_faces", f"{line.entry}: this is no feature of {model.name}",
                               "feature")  # fmt: skip


def is_entry(text: str) -> bool:
    """Whether a face may be called so."""
    return 0 < len(text) <= MAX_ENTRY_CHARACTERS and text == text.strip() and not any(
        unicodedata.category(sign) in ("Cc", "Cs") for sign in text
    )


def _check_date(field: str, text: str) -> None:
    if text and not is_date(text):
        raise CommandError(field, f"{text[:20]!r} is no date; write YYYY-MM-DD", "date")


def is_list_plate(key: str) -> bool:
    """Whether a plate in its one spelling may stand on a list: short numbers, telephone numbers and
    words have such a spelling, too."""
    if key[:1] in PROVINCES and key:
        return len(key) in PROVINCE_LENGTHS and _is_tail_of_province(key[1:]) is not None
    has_digit = any(one.isdigit() for one in key)
    return len(key) >= _LEAST_CHARACTERS and has_digit and not key.isdigit()


def is_date(text: str) -> bool:
    """Whether it is a day as lists write one."""
    try:
        return len(text) == len("2026-01-31") and date.fromisoformat(text) is not None
    except ValueError:
        return False


def removes_many(removed: int, in_force: int) -> bool:
    """Whether so many lines go that somebody has to say that this is meant."""
    return removed > LARGEST_REMOVED_SHARE * in_force
