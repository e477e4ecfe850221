"""The multipart form: any content of its parts is read byte for byte or refused by name."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.contracts.keys import INLINE_PICTURES
from ingest.edge.request import RECORD_PART, ForeignForm, Form, form_of
from ingest.normalise.foreign import HIKVISION
from ingest.normalise.multipart import MAX_PARTS, BadForm, parts_of
from ingest.normalise.multipart import contents as contents_of
from tests.ingest.edge.camera_form import ALERT, CAMERA_FORM

BOUNDARY = "----edge7f3a"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"
FEW = settings(max_examples=80)


def read(body: bytes, content_type: str = TYPE) -> Form:
    """As the route reads it."""
    return form_of(body, content_type)


def part(name: str, data: bytes, filename: str | None, kind: str | None) -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"'
    head += f'; filename="{filename}"' if filename is not None else ""
    head += f"\r\nContent-Type: {kind}" if kind else ""
    return f"--{BOUNDARY}\r\n{head}\r\n\r\n".encode() + data + b"\r\n"


# What would end a part too early is no content that a sender with this boundary may send.
contents = st.binary(max_size=300).filter(lambda data: BOUNDARY.encode() not in data)
filenames = st.text(
    st.characters(blacklist_characters='"\\\r\n', codec="utf-8"), min_size=1, max_size=20
)
kinds = st.sampled_from([None, "image/jpeg", "application/json", "text/plain; charset=utf-8"])


@st.composite
def forms(draw: Any) -> tuple[bytes, Form]:
    """A body as some client writes it, and what it means."""
    pictures = draw(st.dictionaries(st.sampled_from(sorted(INLINE_PICTURES)), contents, max_size=5))
    is_file = draw(st.booleans())
    record = draw(contents)
    parts = [part(RECORD_PART, record, draw(filenames) if is_file else None, None)]
    for name, data in pictures.items():
        parts.append(part(name, data, draw(filenames), draw(kinds)))
    order = draw(st.permutations(parts))
    return b"".join(order) + f"--{BOUNDARY}--\r\n".encode(), Form(record, pictures)


@FEW
@given(forms())
def test_every_part_is_read_byte_for_byte_in_any_order(made: tuple[bytes, Form]) -> None:
    """Pictures with line ends, zero bytes and half boundaries in them; names in Chinese."""
    body, meant = made
    assert read(body) == meant


@FEW
@given(forms(), st.data())
def test_a_damaged_form_is_read_or_refused_by_name_and_nothing_else(
    made: tuple[bytes, Form], data: st.DataObject
) -> None:
    """Cut anywhere, bytes changed anywhere: `BadForm` or a form, no other exception."""
    body = bytearray(made[0])
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    for damaged in (bytes(body), made[0][:cut], bytes(body[cut:])):
        with contextlib.suppress(BadForm):
            assert read(damaged).pictures.keys() <= INLINE_PICTURES.keys()


@FEW
@given(
    st.one_of(
        st.text(max_size=60),
        st.text(max_size=40).map("multipart/form-data; boundary=".__add__),
        st.text(max_size=20).map((TYPE + "; charset=").__add__),
    ),
    st.binary(max_size=200),
)
def test_no_content_type_and_no_bytes_bring_it_down(kind: str, body: bytes) -> None:
    """Both are a stranger's."""
    with contextlib.suppress(BadForm):
        read(body, kind)


@pytest.mark.parametrize("charset", ["", "; charset=gb18030", "; charset=utf-16", "; charset=no"])
def test_a_record_in_another_encoding_stays_what_it_is(charset: str) -> None:
    """Before, one in GB18030 came out as letters of another alphabet, as valid UTF-8: no one could
    say what was wrong with it, and its bytes were lost."""
    record = '{"卡口编号": "c"}'.encode("gb18030")
    body = part("record", record, None, None) + part("车辆图片", b"x", "a.jpg", None)
    form = read(body + f"--{BOUNDARY}--\r\n".encode(), TYPE + charset)
    assert form == Form(record, {"车辆图片": b"x"})


def test_a_form_without_its_record_or_with_a_strange_part_is_refused() -> None:
    """And the answer names what is known."""
    end = f"--{BOUNDARY}--\r\n".encode()
    with pytest.raises(BadForm, match="'record' with the JSON record is missing"):
        read(part("车辆图片", b"x", "a.jpg", None) + end)
    with pytest.raises(BadForm, match="part 'photo' is not known; known are record, "):
        read(part("record", b"{}", None, None) + part("photo", b"x", "a.jpg", None) + end)


@pytest.mark.parametrize("name", ["record", "车辆图片"])
def test_a_part_that_stands_there_twice_is_refused(name: str) -> None:
    """Before, the first one was lost and the answer was a plain 200."""
    parts = [part("record", b"{}", None, None), part("车辆图片", b"x", "a.jpg", None)]
    twice = part(name, b"y", None if name == "record" else "b.jpg", None)
    with pytest.raises(BadForm, match="stands there twice") as refused:
        read(b"".join([*parts, twice]) + f"--{BOUNDARY}--\r\n".encode())
    assert "两次" in refused.value.text_zh


@FEW
@given(forms(), st.data())
def test_a_form_that_is_cut_off_is_never_taken(
    made: tuple[bytes, Form], data: st.DataObject
) -> None:
    """Before, a last part without its end was left out, and the rest accepted without a word."""
    body = made[0]
    end = len(body) - len("--\r\n")
    with pytest.raises(BadForm):
        read(body[: data.draw(st.integers(0, end))])


PICTURE = b"\xff\xd8\xff\xe0abcd"
OWN = '{"卡口编号": "c", "抓拍时间": "2026-11-28 08:00:00"}'.encode()
NAMES = st.sampled_from(["record", "anpr.xml", "json", "车辆图片", "picture", "", "event_log"])
CONTENTS = st.sampled_from(
    [ALERT, OWN, PICTURE, b"", b"TEST01", b"<a/>", b"\x00\xff" * 50, b'{"eventType": "ANPR"}',
     CAMERA_FORM]
)  # fmt: skip
PARTS = st.lists(
    st.tuples(NAMES, CONTENTS, st.sampled_from([None, "f.bin"]),
              st.sampled_from([None, "text/xml", "image/jpeg", "multipart/mixed; boundary=b"])),
    max_size=40,
)  # fmt: skip


@FEW
@given(
    PARTS,
    st.sampled_from([BOUNDARY, f'"{BOUNDARY}"', f"{BOUNDARY}; charset=utf-8", "other", ""]),
    st.integers(0, 30),
)
def test_any_form_is_read_or_answered_with_what_is_true_of_it(
    made: list[tuple[str, bytes, str | None, str | None]], named: str, cut: int
) -> None:
    """Parts of every kind, under every name, in any order and number; boundaries written oddly; cut
    off. The maker is named exactly where the form has no record of ours and somebody's message."""
    body = b"".join(part(name, data, file, kind) for name, data, file, kind in made)
    body = (body + f"--{BOUNDARY}--\r\n".encode())[: -cut or None]
    names = [name for name, *_ in made]
    is_foreign = "record" not in names and any(
        ALERT in data or b"ANPR" in data for _, data, *_ in made[:30]
    )
    is_odd = BOUNDARY not in named or cut > 2 or len(made) > MAX_PARTS
    outcome = _outcome(body, f"multipart/form-data; boundary={named}")
    if isinstance(outcome, ForeignForm):
        assert (outcome.maker, "record" in names) == (HIKVISION, False)
    elif isinstance(outcome, BadForm):
        assert not is_foreign or is_odd
        _assert_true(str(outcome), names, is_odd)
    else:
        assert not is_odd
        assert sorted(names) == sorted([RECORD_PART, *outcome.pictures])


def _outcome(body: bytes, kind: str) -> Form | ForeignForm | BadForm:
    try:
        return read(body, kind)
    except (ForeignForm, BadForm) as error:
        return error


def _assert_true(text: str, names: list[str], is_odd: bool) -> None:
    """What the answer blames is there."""
    if "boundary" in text or "cut off" in text or "more than" in text or "multipart" in text:
        assert is_odd or not names
    elif "twice" in text:
        assert len(names) > len(set(names))
    elif "missing" in text:
        assert RECORD_PART not in names
    else:
        assert "part" in text
        assert set(names) - {RECORD_PART, *INLINE_PICTURES}


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [("json", OWN, "is JSON; the record's part is named 'record'"), ("x", b"<a/>", "is XML"),
     ("p", PICTURE, "is a picture"), ("", b"?", "a part without a name is not known")],
)  # fmt: skip
def test_an_unknown_part_is_told_by_what_it_holds(name: str, data: bytes, told: str) -> None:
    """And what it should be named."""
    with pytest.raises(BadForm) as refused:
        read(part(name, data, "f", None) + f"--{BOUNDARY}--\r\n".encode())
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        (b"--a\r\n\r\nx\r\n--a--", "multipart/form-data; boundary=b", "names the boundary 'b', the"
         " body uses 'a'"),
        (b"--a\n\nx\n--a--", "multipart/form-data; boundary=a", "end with LF alone"),
        (b"hello\r\n--a\r\n\r\nx\r\n--a--\r\n", "multipart/form-data; boundary=a", "stands before"),
        (b"{}", "multipart/form-data; boundary=a", "no multipart form"),
        (b"--a\r\n", "multipart/form-data", "names no boundary"),
        (b"--a\r\n", "multipart/form-data; boundary=" + "a" * 71, "longer than 70"),
        (b"--a\r\n\r\nx", "multipart/form-data; boundary=a", "cut off"),
    ],
)  # fmt: skip
def test_a_boundary_that_is_wrong_is_told_as_that(body: bytes, kind: str, told: str) -> None:
    """Before, each of them was an end that is missing."""
    with pytest.raises(BadForm, match=told):
        read(body, kind)


@FEW
@given(st.binary(max_size=400), st.binary(min_size=1, max_size=70))
def test_the_parser_raises_its_own_exception_only(body: bytes, boundary: bytes) -> None:
    """Any bytes with any boundary; and what only looks for contents raises nothing."""
    for tried in (body, b"--" + boundary + b"\r\n" + body + b"\r\n--" + boundary + b"--"):
        contents_of(tried)
        with contextlib.suppress(BadForm):
            parts_of(tried, boundary)
