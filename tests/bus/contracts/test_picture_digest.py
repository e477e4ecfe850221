"""The digest header of pictures: what was written is read, and nothing else."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.picture_digest import digest_header, digest_in, digest_of


@given(st.binary(max_size=200))
def test_a_header_that_was_written_is_read_also_beside_other_algorithms(data: bytes):
    header = digest_header(digest_of(data))
    for said in (header, f"md5=:AAAA:, {header}", f"{header} , sha-512=:AAAA:"):
        assert digest_in(said) == hashlib.sha256(data).digest()


@given(st.text(max_size=120))
def test_any_text_is_a_digest_or_none(text: str):
    found = digest_in(text)
    assert found is None or len(found) == 32


@given(st.text(alphabet="sha-256=:AB+/, ", max_size=80))
def test_text_like_a_header_is_a_digest_or_none(text: str):
    for said in (text, f"sha-256=:{text}:"):
        found = digest_in(said)
        assert found is None or len(found) == 32
