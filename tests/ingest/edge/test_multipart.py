"""The multipart form: any content of its parts is read byte for byte or refused by name."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from bus.contracts.keys import INLINE_PICTURES
from ingest.edge.request import RECORD_PART, BadForm, Form, read_form

BOUNDARY = "----edge7f3a"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"
FEW = settings(max_examples=80)


def request(content_type: str) -> Request:
    headers = [(b"content-type", content_type.encode("latin-1", "replace"))]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers})


def read(body: bytes, content_type: str = TYPE) -> Form:
    """Runs the coroutine to its end: with a whole body there is nothing to wait for."""
    coroutine = read_form(request(content_type), body)
    try:
        coroutine.send(None)
    except StopIteration as end:
        form: Form = end.value
        return form
    raise AssertionError("it waited for something")


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
    with pytest.raises(BadForm, match="unknown part 'photo'; known are record, "):
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
