"""Login settings in Java's syntax: what is written is read, and what makes no sense is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.security.jaas import JaasError, LoginModule, parse_jaas, parse_jaas_file
from bus.security.java_config import java_config

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
NAMES = st.from_regex(r"[a-z_$][a-zA-Z0-9_$.\-]{0,20}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}


def quoted(text: str) -> str:
    """As a careful operator writes it."""
    return '"' + "".join(ESCAPES.get(one, one) for one in text) + '"'


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.sampled_from([" ", "\n", " /* c */ ", "\t"]))
def test_every_option_is_read_as_it_was_written(options: dict[str, str], gap: str) -> None:
    words = [PLAIN, "required", *(f"{name}={quoted(value)}" for name, value in options.items())]
    assert parse_jaas(gap.join(words) + gap + ";") == LoginModule(PLAIN, options)


@given(VALUES, VALUES)
def test_what_we_write_for_javas_clients_is_read_back(user: str, password: str) -> None:
    """The other end of the same syntax."""
    keys = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password}
    text = java_config(keys, {}, lambda path: "")["sasl.jaas.config"]
    assert parse_jaas(text).options == {"username": user, "password": password}


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else is raised, and nothing runs for ever."""
    with suppress(JaasError):
        parse_jaas(text)


@given(
    st.dictionaries(NAMES, st.lists(st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=3), max_size=4),
    st.sampled_from(["\n", " ", " // c\n", "\t/* c */"]),
)
def test_every_section_of_a_file_is_read_as_it_was_written(
    sections: dict[str, list[dict[str, str]]], gap: str
) -> None:
    words: list[str] = []
    for name, modules in sections.items():
        words += [name, "{"]
        for options in modules:
            words += [PLAIN, "required", *(f"{key}={quoted(value)}" for key, value in options.items()), ";"]
        words += ["}", ";"]
    expected = {
        name: tuple(LoginModule(PLAIN, options) for options in modules)
        for name, modules in sections.items()
    }
    assert parse_jaas_file(gap.join(words)) == expected


@given(st.one_of(st.text(max_size=60), st.text("aA{};= \"'\n/*", max_size=60)))
def test_any_file_is_read_or_refused(text: str) -> None:
    with suppress(JaasError):
        parse_jaas_file(text)


@pytest.mark.parametrize(
    "text",
    [
        "Client", "Client {", "Client { };", "{ a required; };",
        "Client { a required; }", "Client { a required };", "Client { a needed; };",
        "Client { a required; }; Client { b required; };",
    ],
)  # fmt: skip
def test_what_is_no_file_of_sections_is_refused_without_its_content(text: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas_file(text.replace(" a ", " secret-mark "))
    assert "secret-mark" not in str(refused.value)


def test_users_are_the_options_that_begin_so() -> None:
    text = f"{PLAIN} required username='me' password=me user_bob=\"b\" user_o-k='k' ; // the end"
    assert parse_jaas(text).users == {"bob": "b", "o-k": "k"}


@pytest.mark.parametrize(
    ("escaped", "meant"), [(r"\"", '"'), (r"\\", "\\"), (r"\101", "A"), (r"\t", "\t"), (r"\q", "q")]
)
def test_escapes_are_javas(escaped: str, meant: str) -> None:
    assert parse_jaas(f'{PLAIN} required a="{escaped}";').options["a"] == meant


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no login module"),
        ("; required", "must begin with"),
        (PLAIN, "must stand one of required"),
        (f"{PLAIN} perhaps;", "must stand one of required"),
        (f"{PLAIN} required a=1;", "an option has no value"),
        (f"{PLAIN} required a;", "an option has no value"),
        (f"{PLAIN} required a=\"b\"", "must end with ;"),
        (f"{PLAIN} required = b;", "where an option's name"),
        (f"{PLAIN} required; {PLAIN} required;", "one login module only"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_write(text: str, named: str) -> None:
    with pytest.raises(JaasError, match=named):
        parse_jaas(text)


def test_a_refusal_shows_no_password() -> None:
    """It goes to the log."""
    with pytest.raises(JaasError) as refused:
        parse_jaas(f'{PLAIN} required user_bob="planted-secret"')
    assert "planted-secret" not in str(refused.value)
    assert "planted-secret" not in repr(parse_jaas(f'{PLAIN} required user_a="planted-secret";'))
