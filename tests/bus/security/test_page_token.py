"""Who may read the pages of a process."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bus.security.page_token import (
    bearer_headers,
    check_page_token,
    is_one_of,
    may_read_pages,
)

TOKEN = "2fQ0.x_y~+/-a1=="
ANY_TEXT = st.text(max_size=200)


@given(ANY_TEXT)
@example("")
@example("Bearer")
@example("Bearer ")
@example(f"Basic {TOKEN}")
@example(f"Bearer {TOKEN}x")
@example(f"Bearer {TOKEN.lower()}")
@example("Bearer 令牌")
@example("Bearer \udcff")
@example("Bearer " + TOKEN * 1000)
def test_no_other_header_lets_anybody_in(header: str) -> None:
    assert not may_read_pages(header, TOKEN)


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f" BEARER   {TOKEN} "])
def test_the_token_lets_in_however_its_scheme_is_written(header: str) -> None:
    assert may_read_pages(header, TOKEN)
    assert may_read_pages(bearer_headers(TOKEN)["Authorization"], TOKEN)


@given(ANY_TEXT)
def test_where_no_token_is_set_everybody_may_and_nobody_sends_one(header: str) -> None:
    assert may_read_pages(header, "")
    assert bearer_headers("") == {}


@given(ANY_TEXT, st.lists(ANY_TEXT, max_size=4))
def test_a_token_is_known_or_it_is_not_and_an_empty_one_is_never(given_: str, known: list[str]) -> None:
    assert is_one_of(given_, known) == (given_ != "" and given_ in known)


@pytest.mark.parametrize("token", ["", TOKEN, "a" * 300, "A1-._~+/", "x=", "a,b:c"])
def test_what_a_header_carries_may_be_a_token(token: str) -> None:
    check_page_token(token)


@pytest.mark.parametrize("token", ["two words", "令牌", "a\r\nb", " xq", "xq\n", "\x7f", "é"])
def test_what_no_header_carries_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(ValueError, match="openssl rand") as refused:
        check_page_token(token)
    assert token not in str(refused.value)
